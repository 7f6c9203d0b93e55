//! `regatta bundle`: a run as one archive, as artefact committees ask for.

mod archive;
mod markdown;
mod readme;
mod rerun;

use std::{
    convert::identity,
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
};

use regatta_model::shell::quoted;
use regatta_report::{RunData, Summary, html, pdf::Form};
use regatta_results::{
    FILE_NAME, RunLock,
    exports::{TRIALS_FILE_NAME, trials_csv},
    replace,
};
use serde_json::json;

use self::archive::{Archive, Content};
use crate::{
    args::BundleArgs,
    directory,
    exit::{Code, Failure, OrFailure as _, Result},
    output,
};

/// Directory of the files of the trials in that of a run.
const TRIAL_FILES: &str = "files";

/// Reports as papers, which a run need not have.
const PDF: &str = Form::Full.file_name();
const BRIEF: &str = Form::Brief.file_name();

/// File of the archive.
struct Member {
    /// Path within the archive's directory.
    name: String,
    content: Content,
}

impl Member {
    fn text(name: &str, text: impl Into<Vec<u8>>) -> Self {
        Self {
            name: name.to_owned(),
            content: Content::Text(text.into()),
        }
    }

    fn file(name: impl Into<String>, path: PathBuf) -> Self {
        Self {
            name: name.into(),
            content: Content::File(path),
        }
    }

    /// Returns the description for the page.
    fn description(&self) -> &'static str {
        match &*self.name {
            "README.md" => "this page",
            "study.toml" => "the study, as it was written",
            "environment.json" => "hosts, builds and stacks: what was read from them",
            FILE_NAME => "everything that was asked for, found and measured (SQLite)",
            "summary.json" => "the analysis, made of the results file",
            "report.html" => "the report, made of the results file; opens without a network",
            TRIALS_FILE_NAME => "one row for each trial, made of the results file",
            PDF => "the report as a paper, as it was in the directory of the run",
            BRIEF => "the report on two pages, as it was in the directory of the run",
            _ => "capture or log of a trial",
        }
    }
}

/// File or directory of the run that is not in the archive.
struct LeftOut {
    name: String,
    reason: String,
}

/// Runs `regatta bundle`.
///
/// # Errors
/// Results that are damaged or being written, and an archive that cannot be written.
pub fn bundle(args: &BundleArgs) -> Result<Code> {
    let dir = directory::of_run(&args.dir);
    // A log of a run that ended is merged first; then no process writes until the archive is complete.
    let data = regatta_report::load(dir).bad()?;
    let claim = RunLock::new(dir).bad()?;
    if !claim.reader().is_single_file().bad()? {
        let (dir, shown) = (dir.display(), quoted(dir));
        return Err(Failure::input(
            format!("the run in `{dir}` was killed, or another program reads it"),
            format!("run `regatta resume {shown}` first, or end that program"),
        ));
    }
    let summary = regatta_report::summarise(&data);
    let (mut members, left_out) = members(dir, &data, &summary, &claim, args.captures)?;
    let again = rerun::command(&data.header);
    let page = readme::page(&data, &summary, &members, &left_out, &again);
    members.insert(0, Member::text("README.md", page));

    let out = args.out.clone().unwrap_or_else(|| default_name(dir));
    let name = [&data.header.study.name, &data.header.run_id].map(|name| plain(name));
    let name = name.join("-");
    let seconds = u64::try_from(data.header.started_unix_ns / 1_000_000_000).unwrap_or(0);
    let written = replace(&out, identity, |file| {
        let mut archive = Archive::new(file, &name, seconds);
        for member in &members {
            archive.add(&member.name, &member.content)?;
        }
        archive.finish()
    });
    written
        .cannot("write", &out)
        .hint("choose another file with `--out`")?;
    let mut text = format!("{} ({} files)\n", out.display(), members.len() + 1);
    for it in &left_out {
        text.push_str(&format!("left out: {}: {}\n", it.name, it.reason));
    }
    if let Err(reason) = &again.checked {
        text.push_str(&format!("not the same study: `{}`: {reason}\n", again.line));
    }
    output::show(&text)
}

/// Returns the name of the archive of a directory.
fn default_name(dir: &Path) -> PathBuf {
    let canonical = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    let mut name = canonical
        .file_name()
        .unwrap_or(OsStr::new("run"))
        .to_owned();
    name.push(".tar.gz");
    name.into()
}

/// Returns a name of the user's as a part of a path.
fn plain(name: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name = name.replace(|c| !allowed(c), "-");
    name.trim_start_matches(['.', '-']).to_owned()
}

/// Returns the files of the archive, and what of the run is not in it.
fn members(
    dir: &Path,
    data: &RunData,
    summary: &Summary,
    claim: &RunLock,
    captures: bool,
) -> Result<(Vec<Member>, Vec<LeftOut>)> {
    let mut trials = Vec::new();
    trials_csv(claim.reader(), &mut trials)?;
    let header = &data.header;
    let environment = output::pretty(&json!({
        "run_id": header.run_id,
        "regatta_version": header.regatta_version,
        "started_unix_ns": header.started_unix_ns,
        "bed": header.bed.as_str(),
        "hosts": header.hosts,
        "builds": summary.builds,
        "stacks": summary.stacks,
    }))?;
    let summary_json = output::pretty(&serde_json::to_value(summary)?)?;
    let mut members = vec![
        Member::text("study.toml", header.study_text.as_str()),
        Member::text("environment.json", environment),
        Member::file(FILE_NAME, dir.join(FILE_NAME)),
        Member::text("summary.json", summary_json),
        Member::text("report.html", html::render(data, summary)?),
        Member::text(TRIALS_FILE_NAME, trials),
    ];
    let mut left_out = Vec::new();
    for entry in sorted(dir)? {
        let name = entry.file_name().unwrap_or_default().to_string_lossy();
        let name = name.into_owned();
        let reason = match name.as_str() {
            PDF | BRIEF => {
                members.push(Member::file(name, entry));
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
        left_out.push(LeftOut { name, reason });
    }
    Ok((members, left_out))
}

/// Adds every file below a directory. Links are left out, since they may lead anywhere.
fn add_trial_files(
    dir: &Path,
    name: &str,
    members: &mut Vec<Member>,
    left_out: &mut Vec<LeftOut>,
) -> Result<()> {
    for entry in sorted(dir)? {
        let below = entry.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("{name}/{below}");
        let kind = readable(&entry, entry.symlink_metadata())?.file_type();
        if kind.is_dir() {
            add_trial_files(&entry, &name, members, left_out)?;
        } else if kind.is_file() {
            members.push(Member::file(name, entry));
        } else {
            let reason = "it is a link or a device".to_owned();
            left_out.push(LeftOut { name, reason });
        }
    }
    Ok(())
}

/// Returns the number and the bytes of the files below a directory.
fn size_of(path: &Path) -> Result<(u64, u64)> {
    let metadata = readable(path, path.symlink_metadata())?;
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
fn sorted(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let mut paths: Vec<PathBuf> = (readable(dir, entries)?.iter())
        .map(fs::DirEntry::path)
        .collect();
    paths.sort();
    Ok(paths)
}

fn readable<T>(path: &Path, read: io::Result<T>) -> Result<T> {
    read.cannot("read", path)
        .hint("make sure that this user may read it")
}
