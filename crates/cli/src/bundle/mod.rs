//! `regatta bundle`: a run as one archive, as artefact committees ask for.

mod again;
mod archive;
mod readme;

use std::{
    convert::identity,
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
};

use regatta_model::shell::quoted;
use regatta_report::{RunData, Summary, html};
use regatta_results::{
    Claim, FILE_NAME,
    exports::{TRIALS_FILE_NAME, trials_csv},
    replace,
};
use serde_json::json;

use self::archive::{Archive, Content};
use crate::{
    args::BundleArgs,
    directory,
    exit::{Code, Failure},
    output,
};

/// Directory of the files of the trials in that of a run.
const TRIAL_FILES: &str = "files";

/// File of the archive.
struct Member {
    /// Path within the archive's directory.
    name: String,
    /// Description for the page.
    what: &'static str,
    content: Content,
}

impl Member {
    fn text(name: &str, what: &'static str, text: impl Into<Vec<u8>>) -> Self {
        Self {
            name: name.to_owned(),
            what,
            content: Content::Text(text.into()),
        }
    }

    fn file(name: String, what: &'static str, path: PathBuf) -> Self {
        Self {
            name,
            what,
            content: Content::File(path),
        }
    }
}

/// File or directory of the run that is not in the archive.
struct LeftOut {
    name: String,
    why: String,
}

/// Runs `regatta bundle`.
///
/// # Errors
/// Results that are damaged or being written, and an archive that cannot be written.
pub fn bundle(args: &BundleArgs) -> Result<Code, Failure> {
    let dir = directory::of_run(&args.dir);
    // A log of a run that ended is merged first; then nobody writes until the archive is whole.
    let data = regatta_report::load(dir).map_err(Failure::bad)?;
    let claim = Claim::new(dir).map_err(Failure::bad)?;
    if !claim.reader().is_plain().map_err(Failure::bad)? {
        return Err(Failure::input(
            format!(
                "the run in `{}` was killed, or another program reads it",
                dir.display()
            ),
            format!(
                "run `regatta resume {}` first, or end that program",
                quoted(dir)
            ),
        ));
    }
    let summary = regatta_report::summarise(&data);
    let (mut members, left_out) = members(dir, &data, &summary, &claim, args.captures)?;
    let again = again::command(&data.header);
    let page = readme::page(&data, &summary, &members, &left_out, &again);
    members.insert(0, Member::text("README.md", "this page", page));

    let out = args.out.clone().unwrap_or_else(|| default_name(dir));
    let name = format!(
        "{}-{}",
        plain(&data.header.study.name),
        plain(&data.header.run_id)
    );
    let seconds = u64::try_from(data.header.started_unix_ns / 1_000_000_000).unwrap_or(0);
    let written = replace(&out, identity, |file| {
        let mut archive = Archive::new(file, &name, seconds);
        for member in &members {
            archive.add(&member.name, &member.content)?;
        }
        archive.finish()
    });
    written.map_err(|source| {
        Failure::failed(source)
            .context(format!("cannot write `{}`", out.display()))
            .hint("choose another file with `--out`")
    })?;
    let mut text = format!("{} ({} files)\n", out.display(), members.len() + 1);
    for it in &left_out {
        text.push_str(&format!("left out: {}: {}\n", it.name, it.why));
    }
    if let Err(why) = &again.checked {
        text.push_str(&format!("not the same study: `{}`: {why}\n", again.line));
    }
    output::out(&text).map_err(Failure::failed)?;
    Ok(Code::Measured)
}

/// Returns the name of the archive of a directory.
fn default_name(dir: &Path) -> PathBuf {
    let whole = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    let mut name = whole.file_name().unwrap_or(OsStr::new("run")).to_owned();
    name.push(".tar.gz");
    name.into()
}

/// Returns a name of the user's as a part of a path.
fn plain(name: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name: String = name
        .chars()
        .map(|c| if allowed(c) { c } else { '-' })
        .collect();
    name.trim_start_matches(['.', '-']).to_owned()
}

/// Returns the files of the archive, and what of the run is not in it.
fn members(
    dir: &Path,
    data: &RunData,
    summary: &Summary,
    claim: &Claim,
    captures: bool,
) -> Result<(Vec<Member>, Vec<LeftOut>), Failure> {
    let mut trials = Vec::new();
    trials_csv(claim.reader(), &mut trials).map_err(Failure::failed)?;
    let json = |value: &serde_json::Value| -> Result<String, Failure> {
        Ok(serde_json::to_string_pretty(value).map_err(Failure::failed)? + "\n")
    };
    let header = &data.header;
    let environment = json(&json!({
        "run_id": header.run_id,
        "regatta_version": header.regatta_version,
        "started_unix_ns": header.started_unix_ns,
        "bed": header.bed,
        "hosts": header.hosts,
        "builds": summary.builds,
        "stacks": summary.stacks,
    }))?;
    let summary_json = json(&serde_json::to_value(summary).map_err(Failure::failed)?)?;
    let page = html::render(data, summary).map_err(Failure::failed)?;
    let mut members = vec![
        Member::text(
            "study.toml",
            "the study, as it was written",
            header.study_text.as_str(),
        ),
        Member::text(
            "environment.json",
            "hosts, builds and stacks: what was read from them",
            environment,
        ),
        Member::file(
            FILE_NAME.to_owned(),
            "everything that was asked for, found and measured (SQLite)",
            dir.join(FILE_NAME),
        ),
        Member::text(
            "summary.json",
            "the analysis, made of the results file",
            summary_json,
        ),
        Member::text(
            "report.html",
            "the report, made of the results file; opens without a network",
            page,
        ),
        Member::text(
            TRIALS_FILE_NAME,
            "one row for each trial, made of the results file",
            trials,
        ),
    ];
    let mut left_out = Vec::new();
    for entry in sorted(dir)? {
        let name = entry
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let why = match name.as_str() {
            "report.pdf" => {
                members.push(Member::file(
                    name,
                    "the report as a paper, as it was in the directory of the run",
                    entry,
                ));
                continue;
            }
            TRIAL_FILES if captures => {
                add_trial_files(&entry, TRIAL_FILES, &mut members, &mut left_out)?;
                continue;
            }
            _ if members.iter().any(|member| member.name == name) => continue,
            TRIAL_FILES => {
                let (files, bytes) = size_of(&entry)?;
                format!(
                    "{files} files of the trials, {:.1} MB: captures and logs, which may hold keys and payload; add `--captures`",
                    bytes as f64 / 1e6
                )
            }
            "series.csv" | "hosts.csv" => {
                "`regatta report` makes it of the results file".to_owned()
            }
            _ => "it is not of the run".to_owned(),
        };
        left_out.push(LeftOut { name, why });
    }
    Ok((members, left_out))
}

/// Adds every file below a directory. Links are left out, since they may lead anywhere.
fn add_trial_files(
    dir: &Path,
    name: &str,
    members: &mut Vec<Member>,
    left_out: &mut Vec<LeftOut>,
) -> Result<(), Failure> {
    for entry in sorted(dir)? {
        let below = entry.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("{name}/{below}");
        let kind = entry
            .symlink_metadata()
            .map_err(|e| unreadable(&entry, e))?
            .file_type();
        if kind.is_dir() {
            add_trial_files(&entry, &name, members, left_out)?;
        } else if kind.is_file() {
            members.push(Member::file(name, "capture or log of a trial", entry));
        } else {
            let why = "it is a link or a device".to_owned();
            left_out.push(LeftOut { name, why });
        }
    }
    Ok(())
}

/// Returns the number and the bytes of the files below a directory.
fn size_of(path: &Path) -> Result<(u64, u64), Failure> {
    let metadata = path.symlink_metadata().map_err(|e| unreadable(path, e))?;
    if !metadata.is_dir() {
        return Ok((1, metadata.len()));
    }
    let mut sum = (0, 0);
    for entry in sorted(path)? {
        let (files, bytes) = size_of(&entry)?;
        sum = (sum.0 + files, sum.1 + bytes);
    }
    Ok(sum)
}

/// Returns the entries of a directory by name, so that the archive does not depend on their order on the disk.
fn sorted(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = fs::read_dir(dir).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let entries = entries.map_err(|e| unreadable(dir, e))?;
    let mut paths: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).collect();
    paths.sort();
    Ok(paths)
}

fn unreadable(path: &Path, error: io::Error) -> Failure {
    Failure::failed(error)
        .context(format!("cannot read `{}`", path.display()))
        .hint("make sure that this user may read it")
}
