//! Tests that run in a guest, and artefacts that the processes of one test run share.
//!
//! A test of any crate that has this one among its dev-dependencies begins with
//!
//! ```ignore
//! use regatta_test_support::guest::{Clock, in_guest};
//!
//! #[test]
//! fn sctp_has_streams() {
//!     if !in_guest("sctp_has_streams", Clock::Real) {
//!         return;
//!     }
//!     // … as root, on a kernel with SCTP, netem and every congestion control
//! }
//! ```
//!
//! The same test program is started again in a guest, with this one test; its failure there is
//! this test's failure, with its output. A boot takes one to two seconds, so the tests of a module
//! share a guest with [`in_shared_guest`]: each is still a test of its own, with its own verdict
//! and output.

use std::{
    env,
    ffi::{c_char, c_int},
    fmt::Write as _,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    thread,
    time::{Duration, Instant},
};

use regatta_bed::guest::{
    self, DAEMON_COMMAND, Guest, GuestMessage, INIT_COMMAND, Order, find, is_virtual, send_message,
    wait_for_timers,
};
pub use regatta_bed::guest::{Clock, is_guest};
use serde::{Deserialize, Serialize};

use crate::{
    cases::{cases_below, output_file, run_case, verdict_file},
    test_run::{TEST_RUN_DIR, Temporary, once_per_test_run, test_run_directory},
};

/// First argument of the process that runs cases in a guest, before their names.
const CASES_COMMAND: &str = "guest-cases";

/// Longest time that one case may take in a guest, with the boot before it.
const LONGEST_CASE: Duration = Duration::from_secs(180);

/// Number of cases from which on another guest is booted for them: a boot costs as much as some cases.
const CASES_PER_GUEST: usize = 6;

/// Returns whether this process runs in a guest, so that the test is to be run here. Otherwise runs
/// the test in a new guest and returns `false` when it has succeeded.
///
/// `case` is the test's whole name with its modules.
///
/// # Panics
/// If there is no kernel for a guest, if the guest does not start, or if the test fails in it: with
/// its output and all messages of the guest.
#[must_use]
pub fn in_guest(case: &str, clock: Clock) -> bool {
    if is_guest() {
        return true;
    }
    alone(case, clock);
    false
}

/// Returns whether this process runs in a guest, so that the test is to be run here. Otherwise runs
/// the test in a guest that it shares with the other tests of its module, and returns `false` when
/// this test has succeeded.
///
/// `module` is the module's path in its test program, `case` the name of the test below it, and
/// `clock` the same in all of the module's tests. The first process of a test run that needs the
/// guest boots it and runs the module's tests in it, each in a process of its own; the others wait
/// for that and find their verdict and output there. As many guests share the module's tests as
/// this machine has cores, but at most one for every six tests: test *i* of the module is run by guest *i* modulo
/// their number. Without a directory of the test run ([`TEST_RUN_DIR`]) a guest is booted for this test alone.
///
/// # Panics
/// As [`in_guest`], and if there is no such test below `module`.
#[must_use]
pub fn in_shared_guest(module: &str, case: &str, clock: Clock) -> bool {
    if is_guest() {
        return true;
    }
    let name = format!("{module}::{case}");
    if test_run_directory().is_none() {
        alone(&name, clock);
        return false;
    }
    let executable = env::current_exe().expect("this program's file");
    let cases = cases_below(module);
    let index = cases.iter().position(|other| *other == name);
    let index = index.unwrap_or_else(|| panic!("there is no test `{name}`"));
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let guests = cores.min(cases.len().div_ceil(CASES_PER_GUEST));
    let share = index % guests;
    let program = executable.file_name().expect("a file's name");
    let program = program.to_string_lossy();
    let key = format!("{program}-{}-{share}", module.replace("::", "."));
    let share: Vec<_> = cases.into_iter().skip(share).step_by(guests).collect();
    once_per_test_run(
        &key,
        |directory| run_in_guest(directory, &share, clock),
        |directory| judge(directory, &name),
    );
    false
}

/// Limits the loopback device of a guest to 100 Mbit/s and 50 µs. In virtual time computing takes none, so that a
/// transfer over a device without a rate would never reach its deadline.
///
/// # Panics
/// If `tc` fails.
pub fn limit_loopback() {
    let limit = "qdisc replace dev lo root netem delay 50us rate 100mbit limit 100000";
    let tc = Command::new("tc").args(limit.split(' ')).status();
    assert!(tc.is_ok_and(|status| status.success()), "tc {limit}");
}

/// Runs one test in a guest of its own.
fn alone(case: &str, clock: Clock) {
    let directory = Temporary::new().expect("a temporary directory");
    run_in_guest(&directory.0, &[case.to_owned()], clock).unwrap_or_else(|error| panic!("{error}"));
    judge(&directory.0, case);
}

/// Message of the process that runs cases in a guest.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Progress {
    /// A line of the case's standard output or error.
    Line { case: String, line: String },
    /// The case has ended.
    Ended { case: String, passed: bool },
}

/// Returns the path of the file with all messages of the guest itself; its last line is the guest's
/// end.
fn log_file(directory: &Path) -> PathBuf {
    directory.join("guest.log")
}

/// Text before the release of the guest's kernel, in the lines that were received from the guest.
const GUEST: &str = "guest with Linux ";

/// Runs cases in a new guest and writes their verdicts and outputs to a directory.
///
/// # Errors
/// Error message if no guest can be started. A guest that ends later leaves cases without a
/// verdict.
fn run_in_guest(directory: &Path, cases: &[String], clock: Clock) -> Result<(), String> {
    let mut guest = start_guest(cases, clock)?;
    let written = |error: io::Error| format!("cannot write to {}: {error}", directory.display());
    let mut received = String::new();
    let mut until = Instant::now() + LONGEST_CASE;
    let end = loop {
        let remaining = until.saturating_duration_since(Instant::now());
        match guest.receive(remaining) {
            Some(GuestMessage::Started { release }) => {
                let _ = writeln!(received, "{GUEST}{release}");
            }
            Some(GuestMessage::Heartbeat) => {}
            Some(GuestMessage::Console { line }) => {
                let _ = writeln!(received, "console: {line}");
            }
            Some(GuestMessage::Output { line }) => {
                let _ = writeln!(received, "{line}");
            }
            Some(GuestMessage::Message { text }) => match serde_json::from_str(&text) {
                Ok(Progress::Line { case, line }) => {
                    let mut options = File::options();
                    let file = options.create(true).append(true);
                    let mut file = file.open(output_file(directory, &case)).map_err(written)?;
                    writeln!(file, "{line}").map_err(written)?;
                }
                Ok(Progress::Ended { case, passed }) => {
                    File::create(verdict_file(directory, &case, passed)).map_err(written)?;
                    until = Instant::now() + LONGEST_CASE;
                }
                Err(_) => {
                    let _ = writeln!(received, "{text}");
                }
            },
            Some(GuestMessage::Ended { code }) => {
                break format!("the guest's program ended with {code}");
            }
            Some(GuestMessage::Failed(problem)) => {
                let (reasons, hint) = (problem.in_one_line(), problem.hint);
                break format!("the guest failed: {reasons}; {hint}");
            }
            None => break format!("no case ended within {LONGEST_CASE:?}"),
        }
    };
    let _ = writeln!(received, "{end}");
    fs::write(log_file(directory), received).map_err(written)
}

/// Starts a guest in which this program runs cases.
fn start_guest(cases: &[String], clock: Clock) -> Result<Guest, String> {
    // Whatever refers to it keeps the linker from leaving it out.
    std::hint::black_box(DIVERT);
    let kernel = find(None, clock).map_err(|error| format!("{error}; {}", error.hint()))?;
    let executable = env::current_exe().map_err(|error| error.to_string())?;
    let directory = env::current_dir().map_err(|error| error.to_string())?;
    let mut environment: Vec<(String, String)> = env::vars()
        .filter(|(name, _)| name == "PATH" || name == "HOME" || name.starts_with("REGATTA_"))
        .filter(|(name, _)| name != TEST_RUN_DIR)
        .collect();
    environment.push(("PWD".to_owned(), directory.display().to_string()));
    environment.push(("RUST_BACKTRACE".to_owned(), "1".to_owned()));
    // The user's cache cannot be written there; this is the guest's temporary directory.
    environment.push(("XDG_CACHE_HOME".to_owned(), "/run/tmp".to_owned()));
    let mut arguments = vec![CASES_COMMAND.to_owned()];
    arguments.extend_from_slice(cases);
    let order = Order {
        kernel: kernel.path,
        clock,
        seed: 1,
        memory_mib: Order::DEFAULT_MEMORY_MIB,
        arguments,
        environment,
        files: None,
        payload: String::new(),
    };
    Guest::start(&executable, &order).map_err(|error| format!("cannot start a guest: {error}"))
}

/// Prints the output of a case that was run in a guest.
///
/// # Panics
/// If it failed, or has no verdict: then with all messages of the guest.
fn judge(directory: &Path, case: &str) {
    let read = |path: PathBuf| fs::read_to_string(path).unwrap_or_default();
    let received = read(log_file(directory));
    if let Some(guest) = received.lines().find(|line| line.starts_with(GUEST)) {
        println!("in a {guest}");
    }
    print!("{}", read(output_file(directory, case)));
    if verdict_file(directory, case, true).exists() {
        return;
    }
    assert!(
        verdict_file(directory, case, false).exists(),
        "`{case}` did not end in its guest, whose messages were:\n{received}"
    );
    panic!("`{case}` failed in its guest; its output is above");
}

/// Runs the cases that the arguments name, in a guest, each in a process of its own. Their verdicts
/// are messages; the process itself succeeds.
fn cases_main() -> ExitCode {
    if !is_guest() {
        eprintln!("error: this is not a guest");
        return ExitCode::FAILURE;
    }
    let is_virtual = is_virtual();
    for case in env::args().skip(2) {
        // So that a case finds the same timers whatever cases came before it.
        if is_virtual {
            wait_for_timers();
        }
        let name = case.clone();
        let passed = run_case(&case, &[], move |line| send_line(&name, line));
        send(&Progress::Ended { case, passed });
    }
    ExitCode::SUCCESS
}

fn send(progress: &Progress) {
    let text = serde_json::to_string(progress).expect("messages can be written as JSON");
    // Without it the case has no verdict, which its test reports.
    let _ = send_message(&text);
}

fn send_line(case: &str, line: String) {
    let case = case.to_owned();
    send(&Progress::Line { case, line });
}

/// Function that runs before `main`, as a test program has a `main` that is not ours: it makes the
/// program a guest's daemon or first process, or runs cases in a guest, where it was started for
/// that.
#[used]
#[unsafe(link_section = ".init_array")]
static DIVERT: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = divert;

extern "C" fn divert(
    count: c_int,
    arguments: *const *const c_char,
    _environment: *const *const c_char,
) {
    if count < 2 || arguments.is_null() {
        return;
    }
    // SAFETY: the C library gives as many arguments as it says, each a C string.
    let first = unsafe { std::ffi::CStr::from_ptr(*arguments.add(1)) };
    let code = match first.to_str() {
        Ok(DAEMON_COMMAND) => guest::daemon_main(),
        Ok(INIT_COMMAND) => guest::init_main(),
        Ok(CASES_COMMAND) => cases_main(),
        _ => return,
    };
    std::process::exit(i32::from(code != ExitCode::SUCCESS));
}
