//! Tests of a module that share what one of them has made: a guest, or machines that it started.
//!
//! The first process of a test run that needs it runs all of the module's tests, the cases, each in a process of its own.
//! The other tests read their verdict and output.

use std::{
    env,
    fs::{self, File},
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

/// Longest time that processes of a case may outlive it.
const LONGEST_LEAK: Duration = Duration::from_secs(5);

/// Returns the names of the tests below a module, in the order of this test program's list.
///
/// # Panics
/// If this program cannot be run.
#[must_use]
pub fn cases_below(module: &str) -> Vec<String> {
    let output = Command::new(env::current_exe().expect("this program's file"))
        .args(["--list", "--format", "terse"])
        .stderr(Stdio::inherit())
        .output()
        .expect("this program runs");
    assert!(output.status.success(), "the list of this program's tests");
    let prefix = format!("{module}::");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .filter(|name| name.starts_with(&prefix))
        .map(str::to_owned)
        .collect()
}

/// Returns the path of the file with a case's output, in the directory of the verdicts.
pub(crate) fn output_file(directory: &Path, case: &str) -> PathBuf {
    directory.join(format!("{}.output", case.replace("::", ".")))
}

/// Returns the path of the file that exists if a case has passed, or failed.
pub(crate) fn verdict_file(directory: &Path, case: &str, passed: bool) -> PathBuf {
    let verdict = if passed { "passed" } else { "failed" };
    directory.join(format!("{}.{verdict}", case.replace("::", ".")))
}

/// Runs a case in a process of its own, with these environment variables. Writes its output and verdict to `directory`
/// and returns whether it passed.
///
/// # Errors
/// If a file cannot be written.
pub fn record_case(directory: &Path, case: &str, environment: &[(&str, &str)]) -> io::Result<bool> {
    let output = Arc::new(File::create(output_file(directory, case))?);
    let passed = run_case(case, environment, move |line| {
        // A case whose output is not complete still has its verdict.
        let _ = writeln!(&*output, "{line}");
    });
    File::create(verdict_file(directory, case, passed))?;
    Ok(passed)
}

/// Prints the output of a case that [`record_case`] ran.
///
/// # Panics
/// If it failed, or was not run.
pub fn judge_case(directory: &Path, case: &str) {
    let output = fs::read_to_string(output_file(directory, case));
    print!("{}", output.unwrap_or_default());
    let passed = verdict_file(directory, case, true).exists();
    assert!(passed, "`{case}` failed; its output is above");
}

/// Runs a case in a process of its own and returns whether it passed. `on_line` takes the lines of its output.
pub(crate) fn run_case(
    case: &str,
    environment: &[(&str, &str)],
    on_line: impl Fn(String) + Clone + Send + 'static,
) -> bool {
    let passed = try_run_case(case, environment, on_line.clone());
    passed.unwrap_or_else(|error| {
        on_line(format!("cannot run `{case}`: {error}"));
        false
    })
}

fn try_run_case(
    case: &str,
    environment: &[(&str, &str)],
    on_line: impl Fn(String) + Clone + Send + 'static,
) -> io::Result<bool> {
    let (reader, writer) = io::pipe()?;
    let mut child = Command::new(env::current_exe()?)
        .args([case, "--exact", "--include-ignored", "--nocapture"])
        .arg("--test-threads=1")
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .spawn()?;
    let (sender, finished) = mpsc::channel();
    let on_output = on_line.clone();
    let forward_output = move || {
        // A name that no test has would succeed, too.
        let mut ran = false;
        for line in BufReader::new(reader).split(b'\n') {
            let Ok(line) = line else { break };
            let line = String::from_utf8_lossy(&line).into_owned();
            ran |= line.starts_with("test result: ok. 1 passed;");
            on_output(line);
        }
        // Nobody waits any more for what comes too late.
        let _ = sender.send(ran);
    };
    thread::Builder::new()
        .name("output of a case".into())
        .spawn(forward_output)?;
    let status = child.wait()?;
    let Ok(ran) = finished.recv_timeout(LONGEST_LEAK) else {
        on_line(format!(
            "a process that it started outlives it by {LONGEST_LEAK:?}"
        ));
        return Ok(false);
    };
    if !status.success() {
        on_line(format!("it ended with {status}"));
    } else if !ran {
        on_line(format!("no test ran: is `{case}` its whole name?"));
    }
    Ok(ran && status.success())
}
