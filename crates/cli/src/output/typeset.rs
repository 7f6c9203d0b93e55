//! Typesetting of a report as PDF, and of figures, with the Python package `typst`.

use std::{
    env,
    io::Write as _,
    path::{Path, PathBuf},
    process::Stdio,
};

use regatta_model::{directories, shell::quoted};
use regatta_process::StopRequest;
use regatta_report::{
    RunData, Summary,
    pdf::{self, Form, Paper, Typesetter},
};

use crate::exit::{Failure, Result};

/// Environment variable with the directory in which the packages of the typesetter are installed.
pub const VARIABLE: &str = "REGATTA_PDF";

/// Returns the typesetter, if its packages are installed: in the directory that the user names; beside this program,
/// as a wheel or the package `regatta-pdf` installs them; in the cache, where `make pdf` does.
pub fn typesetter() -> Option<Typesetter> {
    if let Some(named) = env::var_os(VARIABLE) {
        return Typesetter::installed_in(Path::new(&named));
    }
    let own = env::current_exe().ok();
    let own = own.as_deref().and_then(Path::parent);
    let prefix = own.filter(|own| own.ends_with("bin"));
    let prefix = prefix.and_then(Path::parent);
    let installed = prefix.map(|prefix| prefix.join("lib/regatta-pdf"));
    let made = directories::cache().map(|cache| cache.join("pdf"));
    [prefix.map(PathBuf::from), installed, made]
        .into_iter()
        .flatten()
        .find_map(|directory| Typesetter::installed_in(&directory))
}

/// Returns one line for a run without `brief.pdf`: why it has none, and what to type.
pub fn missing_note(dir: &Path) -> String {
    format!(
        "no `{}`: the Python package `typst` is not there; `make pdf` in Regatta's clone or the package \
         `regatta-pdf` installs it, then `regatta report {} --pdf=brief`",
        Form::Brief.file_name(),
        quoted(dir)
    )
}

/// Writes the PDF of a run in a form. An earlier one is replaced when the new one is whole.
///
/// # Errors
/// The typesetter is missing or fails, `stop` was requested, or the file cannot be written.
pub fn write_pdf(
    data: &RunData,
    summary: &Summary,
    paper: Paper,
    form: Form,
    dir: &Path,
    stop: &StopRequest,
) -> Result<()> {
    let typesetter = required()?;
    let job = pdf::job(data, summary, paper, form)?;
    let output = run(&typesetter, &job, &format!("`{}`", form.file_name()), stop)?;
    for pdf in files(&output)? {
        regatta_report::write_pdf(pdf, form, dir)?;
    }
    Ok(())
}

/// Returns the typesetter.
///
/// # Errors
/// Its packages are not installed.
pub fn required() -> Result<Typesetter> {
    typesetter().ok_or_else(|| {
        let message = match env::var_os(VARIABLE) {
            Some(named) => format!(
                "there is no Python package `typst`, which makes PDF and PNG, in `{}`, which {VARIABLE} names",
                Path::new(&named).display()
            ),
            None => "the Python package `typst`, which makes PDF and PNG, is not installed".to_owned(),
        };
        Failure::message(message).hint(format!(
            "run `make pdf` in Regatta's clone, or install the package `regatta-pdf`, or Regatta's wheel with its extra \
             `pdf`, or set {VARIABLE} to the directory in which the package is; the page `report.html` needs nothing"
        ))
    })
}

/// Runs the typesetter with a job that makes `what`, and returns its output.
///
/// # Errors
/// The typesetter cannot be started, fails, or was stopped.
pub fn run(typesetter: &Typesetter, job: &str, what: &str, stop: &StopRequest) -> Result<Vec<u8>> {
    let shown = typesetter.python().display();
    let failed = |error| Failure::message(format!("cannot run `{shown}`: {error}"));
    let mut child = typesetter
        .command()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| {
            failed(error).hint("install Python 3.9 or newer; the page `report.html` needs nothing")
        })?;
    stop.kills(child.id());
    // It reads everything before it writes anything. If it ends before, its message has more than a broken pipe.
    let input = child.stdin.take();
    let sent = input.map(|mut input| input.write_all(job.as_bytes()));
    let output = child.wait_with_output().map_err(failed)?;
    if stop.is_requested() {
        return Err(Failure::message(format!(
            "stopped before {what} was made; an earlier one is as it was"
        )));
    }
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let (status, stderr) = (output.status, stderr.trim());
        return Err(Failure::message(format!("no {what}: {status}: {stderr}")));
    }
    sent.transpose().map_err(failed)?;
    Ok(output.stdout)
}

/// Splits the output of the typesetter into files.
///
/// # Errors
/// The output is cut off.
pub fn files(output: &[u8]) -> Result<Vec<&[u8]>> {
    pdf::files(output).ok_or_else(|| Failure::message("the output of the typesetter is cut off"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_a_typesetter_says_what_to_type_in_one_line() {
        let note = missing_note(Path::new("my run"));
        assert!(!note.contains('\n'), "{note}");
        assert!(
            note.starts_with("no `brief.pdf`: the Python package `typst` is not there"),
            "{note}"
        );
        assert!(
            note.contains("`make pdf`") && note.ends_with("`regatta report 'my run' --pdf=brief`"),
            "{note}"
        );
    }
}
