//! Helpers that start the binary and inspect its results.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use nix::sys::signal as signals;
use regatta_model::{Outcome, TrialRecord};
use regatta_process::marked;
use regatta_results::Reader;
use regatta_test_support::machine::MachineLoad;
use regatta_test_support::processes::is_running;
use regatta_test_support::test_run::once_per_test_run;
use serde_json::Value;
use tempfile::TempDir;

/// Directory for one test, a mark on every process that it starts, and the load of the machine
/// meanwhile, which is printed when the test fails.
pub struct Bench {
    dir: TempDir,
    mark: String,
    _load: MachineLoad,
}

/// Study small enough for a test: about a third of a second per trial.
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

/// Study whose trials take more than a second each, so that there is time to break something.
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
        let dir = tempfile::Builder::new()
            .prefix("regatta-e2e-")
            .tempdir()
            .expect("a temporary directory");
        let mark = format!("mark-{}", dir.path().display());
        Self {
            dir,
            mark,
            _load: MachineLoad::watch(),
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

    /// Returns a command in this bench's directory, with its mark.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.dir.path())
            .env("REGATTA_TEST_MARK", &self.mark)
            .env_remove("NO_COLOR")
            .env_remove("REGATTA_LOG")
            // A run makes no PDF, which would take a second of each test.
            .env("REGATTA_PDF", "/nonexistent")
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::null());
        // Under `nohup`, or behind a shell's `&`, the tests inherit that these are ignored, and would
        // pass it on.
        let reset_signals = || {
            use signals::{SigHandler, Signal};
            for signal in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT] {
                // SAFETY: the default disposition is no handler.
                unsafe { signals::signal(signal, SigHandler::SigDfl) }?;
            }
            Ok(())
        };
        // SAFETY: between fork and exec, `heard` makes system calls and allocates nothing.
        unsafe { command.pre_exec(reset_signals) };
        command
    }

    /// Returns a `regatta` command with these arguments.
    pub fn regatta(&self, args: &[&str]) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_regatta"));
        command.args(args);
        command
    }

    /// Runs `regatta` with these arguments to the end.
    pub fn run(&self, args: &[&str]) -> Done {
        Done::from(self.regatta(args).output().expect("the binary starts"))
    }

    /// Returns the processes that carry this bench's mark.
    pub fn processes(&self) -> Vec<i32> {
        let mut found = marked("REGATTA_TEST_MARK", &self.mark);
        found.retain(|pid| is_running(*pid));
        found
    }

    /// Returns those of the processes that run this subcommand.
    pub fn running(&self, subcommand: &str) -> Vec<i32> {
        let mut pids = self.processes();
        pids.retain(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|b| *b == 0).nth(1) == Some(subcommand.as_bytes())
        });
        pids
    }

    /// Waits until the trial that was just announced transfers data, so that the next action
    /// affects the trial, and not its start.
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
        let until = Instant::now() + Duration::from_secs(60);
        while carried() < before + 100_000 {
            let more = carried() - before;
            assert!(Instant::now() < until, "{more} bytes in 60 s");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until the check of the path has sent a packet: a datagram of a host, before any trial.
    pub fn until_checking(&self) {
        let agents = self.running("agent");
        let sent = |agent: &i32| -> u64 {
            let text = std::fs::read_to_string(format!("/proc/{agent}/net/snmp"));
            let text = text.expect("counters");
            let numbers = text
                .lines()
                .filter_map(|line| line.strip_prefix("Udp: "))
                .nth(1);
            let sent = numbers.and_then(|it| it.split(' ').nth(3)?.parse().ok());
            sent.expect("a number of datagrams")
        };
        let until = Instant::now() + Duration::from_secs(60);
        while agents.iter().map(sent).sum::<u64>() == 0 {
            assert!(Instant::now() < until, "no check of {agents:?} in 60 s");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Asserts that no process of this bench is left, or will be in a moment; the namespaces end
    /// with the last process in them.
    pub fn assert_nothing_left(&self) {
        let until = Instant::now() + Duration::from_secs(15);
        loop {
            let is_last = Instant::now() >= until;
            let remaining = self.processes();
            if remaining.is_empty() {
                return;
            }
            assert!(!is_last, "still running after 15 s: {remaining:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Process that has ended, with its output.
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
    pub fn assert_stderr_contains(&self, text: &str) {
        assert!(self.stderr.contains(text), "no `{text}` in {self:#?}");
    }

    /// Returns the events of `--json`.
    #[track_caller]
    pub fn events(&self) -> Vec<Value> {
        self.stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
            .collect()
    }
}

/// Run with `--json` that is watched while it goes on.
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

    /// Reads events up to one for which `fits` returns true.
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

    /// Reads the rest of the events and waits for the end.
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

/// Returns the trials of a result directory, each with its last attempt: those before it are
/// invalid.
#[track_caller]
pub fn trials(dir: &Path) -> Vec<TrialRecord> {
    let all = Reader::open(dir)
        .and_then(|reader| reader.trials())
        .expect("the results are readable");
    let cell = |trial: &TrialRecord| {
        let TrialRecord {
            round,
            transport,
            condition,
            workload,
            ..
        } = trial.clone();
        (round, transport, condition, workload)
    };
    let last: BTreeMap<_, _> = all.iter().map(|trial| (cell(trial), trial.index)).collect();
    let counts = |trial: &TrialRecord| last[&cell(trial)] == trial.index;
    let mut trials: Vec<_> = all.iter().filter(|trial| counts(trial)).cloned().collect();
    trials.sort_by_key(|trial| trial.index - (trial.attempt - 1) * planned(&all));
    trials
}

/// Returns the number of trials in the plan, by which the index of a repeated attempt is above that
/// of the one before.
fn planned(all: &[TrialRecord]) -> u32 {
    let first = all.iter().filter(|trial| trial.attempt == 1);
    first.map(|trial| trial.index + 1).max().unwrap_or(0)
}

/// Returns the trials of `study`, which the tests of a test run share: the first that asks for
/// `key` runs it.
///
/// `key` begins with `cli-`. Without a directory of the test run each caller runs the study.
#[track_caller]
pub fn shared_trials(key: &str, study: &str) -> Vec<TrialRecord> {
    let _load = MachineLoad::watch();
    once_per_test_run(
        key,
        |dir| run_study(dir, study),
        |dir| trials(&dir.join("out")),
    )
}

/// Runs `study` with its results in `dir/out` and its standard error in `dir/stderr`.
///
/// # Errors
/// The output of the run, if it left no results or ended with another exit code than 0 or 1.
pub fn run_study(dir: &Path, study: &str) -> Result<(), String> {
    let bench = Bench::new();
    bench.write("study.toml", study);
    let out = dir.join("out");
    let out_text = out.to_str().expect("UTF-8");
    let done = bench.run(&["run", "study.toml", "--out", out_text]);
    bench.assert_nothing_left();
    std::fs::write(dir.join("stderr"), &done.stderr).map_err(|error| error.to_string())?;
    // A trial that failed is judged by the test that reads it.
    let ended = matches!(done.code(), 0 | 1) && out.join("results.sqlite").exists();
    if ended {
        Ok(())
    } else {
        Err(format!("{done:#?}"))
    }
}

/// Returns the only trial of this transport, workload and condition.
#[track_caller]
pub fn cell<'a>(
    trials: &'a [TrialRecord],
    transport: &str,
    workload: &str,
    condition: &str,
) -> &'a TrialRecord {
    let mut found = trials.iter().filter(|trial| {
        trial.transport == transport && trial.workload == workload && trial.condition == condition
    });
    let (first, second) = (found.next(), found.next());
    assert!(second.is_none(), "more than one trial of `{transport}`");
    first.unwrap_or_else(|| panic!("no trial of `{transport}`, `{workload}`, `{condition}`"))
}

/// Random numbers of a test.
///
/// The seed is that of `REGATTA_TEST_SEED`, or another one each time; it is printed when this is
/// dropped by a panic.
pub struct Random {
    seed: u64,
    state: u64,
}

impl Random {
    pub fn new() -> Self {
        let given = std::env::var("REGATTA_TEST_SEED").map(|text| text.parse().expect("a seed"));
        let seed = given.unwrap_or_else(|_| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            now.expect("a clock after 1970").as_secs()
        });
        Self { seed, state: seed }
    }

    /// Returns a number below another one.
    pub fn below(&mut self, limit: u64) -> u64 {
        // SplitMix64.
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }

    /// Returns random times, one in each of `count` equal parts of `0..longest`, in a random order, so that they do not
    /// follow the load of the machine.
    pub fn moments(&mut self, count: u64, longest: Duration) -> Vec<Duration> {
        let part = u64::try_from(longest.as_nanos()).expect("a short time") / count;
        let mut all: Vec<Duration> = (0..count)
            .map(|index| Duration::from_nanos(index * part + self.below(part)))
            .collect();
        for last in (1..all.len()).rev() {
            let other = self.below(last as u64 + 1);
            all.swap(last, usize::try_from(other).expect("a place"));
        }
        all
    }
}

impl Drop for Random {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "the random numbers of this test: REGATTA_TEST_SEED={}",
                self.seed
            );
        }
    }
}

/// Asserts that both ends finished the trial. On a busy machine the emulator may be late; then the
/// trial must be invalid, and say so.
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
