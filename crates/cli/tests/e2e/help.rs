//! Starting the binary and looking at what it leaves.

use std::{
    io::{BufRead, BufReader, Read},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use nix::sys::signal as signals;
use regatta_model::{Outcome, TrialRecord};
use regatta_results::Reader;
use serde_json::Value;
use tempfile::TempDir;

static MACHINE: Mutex<()> = Mutex::new(());

/// The machine for one test, a directory of its own, and a mark on every process it starts.
pub struct Bench {
    dir: TempDir,
    mark: String,
    _machine: MutexGuard<'static, ()>,
}

/// A study small enough for a test: about a third of a second a trial.
pub const SMALL: &str = r#"
name = "small"
rounds = 2
deadline = "5s"

[[transport]]
driver = "tcp"

[[transport]]
driver = "udp"
rate = "40Mbit/s"

[[condition]]
name = "near"
rtt = "10ms"
rate = "50Mbit/s"

[[workload]]
name = "bulk"
kind = "bulk"
size = "1MB"
message = "10kB"
"#;

/// A study whose trials take more than a second each, so that there is time to break something.
pub const SLOW: &str = r#"
name = "slow"
rounds = 2
deadline = "10s"

[[transport]]
driver = "tcp"

[[transport]]
driver = "quic-quinn"

[[condition]]
name = "slow"
rtt = "10ms"
rate = "8Mbit/s"

[[workload]]
name = "bulk"
kind = "bulk"
size = "1500kB"
message = "10kB"
"#;

impl Bench {
    pub fn new() -> Self {
        let machine = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = tempfile::Builder::new()
            .prefix("regatta-e2e-")
            .tempdir()
            .expect("a temporary directory");
        let mark = format!("mark-{}", dir.path().display());
        Self {
            dir,
            mark,
            _machine: machine,
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).expect("the file is written");
        path
    }

    /// Any command in this bench's directory, with its mark.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.dir.path())
            .env("REGATTA_TEST_MARK", &self.mark)
            .env_remove("NO_COLOR")
            .env_remove("REGATTA_LOG")
            .stdin(Stdio::null());
        // Under `nohup`, or behind a shell's `&`, the tests inherit that these are ignored, and would
        // pass it on.
        let heard = || {
            use signals::{SigHandler, Signal};
            for heard in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT] {
                // SAFETY: the default disposition is no handler.
                unsafe { signals::signal(heard, SigHandler::SigDfl) }?;
            }
            Ok(())
        };
        // SAFETY: between fork and exec, `heard` makes system calls and allocates nothing.
        unsafe { command.pre_exec(heard) };
        command
    }

    /// `regatta` with these arguments.
    pub fn regatta(&self, args: &[&str]) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_regatta"));
        command.args(args);
        command
    }

    /// Runs to the end.
    pub fn run(&self, args: &[&str]) -> Done {
        Done::from(self.regatta(args).output().expect("the binary starts"))
    }

    /// Processes that carry this bench's mark.
    pub fn processes(&self) -> Vec<i32> {
        let mark = format!("REGATTA_TEST_MARK={}", self.mark);
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
            let Some(pid) = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
            else {
                continue;
            };
            let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            let status = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            // What is after the name, which may hold anything but its last bracket.
            let zombie = status
                .rsplit(')')
                .next()
                .is_some_and(|rest| rest.trim_start().starts_with('Z'));
            if !zombie && environment.split(|b| *b == 0).any(|v| v == mark.as_bytes()) {
                found.push(pid);
            }
        }
        found
    }

    /// Of these, the ones that run a subcommand.
    pub fn running(&self, subcommand: &str) -> Vec<i32> {
        let mut pids = self.processes();
        pids.retain(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|b| *b == 0).nth(1) == Some(subcommand.as_bytes())
        });
        pids
    }

    /// Waits until the trial that was just announced transfers data, so that what happens next
    /// happens to the trial, and not before its start.
    pub fn until_transferring(&self) {
        let agent = self.running("agent")[0];
        // Received and sent bytes of every interface of its host.
        let carried = || -> u64 {
            let text = std::fs::read_to_string(format!("/proc/{agent}/net/dev")).expect("counters");
            let of = |line: &str| -> Option<u64> {
                let fields: Vec<&str> = line.split_once(':')?.1.split_whitespace().collect();
                Some(fields.first()?.parse::<u64>().ok()? + fields.get(8)?.parse::<u64>().ok()?)
            };
            text.lines().filter_map(of).sum()
        };
        let before = carried();
        let until = Instant::now() + Duration::from_secs(10);
        while carried() < before + 100_000 {
            assert!(Instant::now() < until, "no transfer has begun");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Nothing that was started is left, or will be in a moment; with the last process in them
    /// the namespaces go too.
    pub fn assert_nothing_left(&self) {
        let until = Instant::now() + Duration::from_secs(5);
        loop {
            let left = self.processes();
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < until, "still running: {left:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A process that has ended.
#[derive(Debug)]
pub struct Done {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Done {
    fn from(output: Output) -> Self {
        Self {
            status: output.status,
            stdout: String::from_utf8(output.stdout).expect("UTF-8 on stdout"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8 on stderr"),
        }
    }
}

impl Done {
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or(-1)
    }

    #[track_caller]
    pub fn assert_code(&self, code: i32) {
        assert_eq!(self.code(), code, "{self:#?}");
    }

    #[track_caller]
    pub fn assert_says(&self, text: &str) {
        assert!(self.stderr.contains(text), "no `{text}` in {self:#?}");
    }

    /// The events of `--json`.
    #[track_caller]
    pub fn events(&self) -> Vec<Value> {
        self.stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
            .collect()
    }
}

/// A run with `--json` that is watched while it goes on.
pub struct Watched {
    pub child: Child,
    lines: BufReader<ChildStdout>,
}

impl Watched {
    pub fn start(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, lines }
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a pid")
    }

    /// Reads events up to one that fits.
    #[track_caller]
    pub fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        let mut line = String::new();
        loop {
            line.clear();
            let n = self.lines.read_line(&mut line).expect("a line");
            if n == 0 {
                let mut errors = String::new();
                if let Some(mut stderr) = self.child.stderr.take() {
                    let _ = stderr.read_to_string(&mut errors);
                }
                panic!("the run ended before what was waited for: {errors}");
            }
            let event = serde_json::from_str(&line).expect("JSON");
            if fits(&event) {
                return event;
            }
        }
    }

    /// Reads the rest and waits for the end.
    pub fn finish(mut self) -> Done {
        let mut stdout = String::new();
        self.lines.read_to_string(&mut stdout).expect("UTF-8");
        let mut stderr = String::new();
        if let Some(mut pipe) = self.child.stderr.take() {
            pipe.read_to_string(&mut stderr).expect("UTF-8");
        }
        Done {
            status: self.child.wait().expect("the process ends"),
            stdout,
            stderr,
        }
    }
}

/// Whether an event has this name.
pub fn is(event: &Value, name: &str) -> bool {
    event["event"] == name
}

/// Sends a signal to a process that this test started.
pub fn signal(pid: i32, signal: nix::sys::signal::Signal) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).expect("the process is there");
}

/// The trials of a result directory.
#[track_caller]
pub fn trials(dir: &Path) -> Vec<TrialRecord> {
    Reader::open(dir)
        .and_then(|reader| reader.trials())
        .expect("the results are readable")
}

/// Both ends finished the trial. A busy machine may not give the emulator its time; then the trial
/// is invalid, and says so, which is what it should do.
#[track_caller]
pub fn assert_ran(trial: &TrialRecord) {
    let off = trial.outcome == Outcome::Invalid
        && trial
            .reasons
            .concat()
            .contains("the path was far outside its tolerance");
    assert!(trial.outcome == Outcome::Measured || off, "{trial:#?}");
}

pub fn root() -> bool {
    nix::unistd::geteuid().is_root()
}
