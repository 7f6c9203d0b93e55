//! The program `regatta-typeset`, which makes PDF of a report.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use regatta_process::StopRequest;
use regatta_report::{RunData, Summary, pdf::Paper};

use crate::exit::{Failure, Result};

/// Environment variable with the path of the typesetter, if it is not in the directory of this program.
const VARIABLE: &str = "REGATTA_TYPESET";

/// Setting of the typesetter's allocator: it keeps what it has until it ends, after a second. Giving memory back to the
/// kernel and getting it again took a third of that.
const KEEP_MEMORY: [(&str, &str); 1] = [("MIMALLOC_PURGE_DELAY", "-1")];

/// Name of the report in the directory of a run.
pub const FILE_NAME: &str = "report.pdf";

/// Returns the path of the typesetter, if it is there.
pub fn program() -> Option<PathBuf> {
    let own = || std::env::current_exe().ok();
    let beside = || Some(own()?.with_file_name("regatta-typeset"));
    let named = std::env::var_os(VARIABLE).map(PathBuf::from);
    named.or_else(beside).filter(|path| path.is_file())
}

/// Writes `report.pdf` of a run. An earlier one is replaced when the new one is whole.
///
/// # Errors
/// The typesetter is missing or fails, `stop` was requested, or the file cannot be written.
pub fn write_pdf(
    data: &RunData,
    summary: &Summary,
    paper: Paper,
    dir: &Path,
    stop: &StopRequest,
) -> Result<()> {
    let program = required_program()?;
    let job = regatta_report::pdf::job(data, summary, paper)?;
    let pdf = run(&program, &[], &job, FILE_NAME, stop)?;
    regatta_report::write_pdf(&pdf, dir)?;
    Ok(())
}

/// Returns the path of the typesetter.
///
/// # Errors
/// The typesetter is missing.
pub fn required_program() -> Result<PathBuf> {
    program().ok_or_else(|| {
        Failure::message(
            "there is no program `regatta-typeset`, which makes PDF and PNG, beside this one",
        )
        .hint(format!(
            "run `make build` in Regatta's clone, or set {VARIABLE} to its path; the page `report.html` needs nothing"
        ))
    })
}

/// Runs the typesetter with the job of the file `name` and returns what it writes.
///
/// # Errors
/// The typesetter cannot be started, fails, or was stopped.
pub fn run(
    program: &Path,
    arguments: &[&str],
    job: &str,
    name: &str,
    stop: &StopRequest,
) -> Result<Vec<u8>> {
    let shown = program.display();
    let failed = |error| Failure::message(format!("cannot run `{shown}`: {error}"));
    let mut child = Command::new(program)
        .args(arguments)
        .envs(KEEP_MEMORY)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    stop.kills(child.id());
    // It reads everything before it writes anything. If it ends before, its message has more than a broken pipe.
    let input = child.stdin.take();
    let sent = input.map(|mut input| input.write_all(job.as_bytes()));
    let output = child.wait_with_output().map_err(failed)?;
    if stop.is_requested() {
        return Err(Failure::message(format!(
            "stopped before `{name}` was made; an earlier one is as it was"
        )));
    }
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let (status, stderr) = (output.status, stderr.trim());
        return Err(Failure::message(format!("no `{name}`: {status}: {stderr}")));
    }
    sent.transpose().map_err(failed)?;
    Ok(output.stdout)
}
