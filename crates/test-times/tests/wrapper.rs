//! The wrapper ends as its test does, counts the CPU time of all descendants, and keeps no process from ending; the
//! table is checked against budgets.

use std::{
    fs,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill, killpg},
    time::{ClockId, clock_gettime},
    unistd::Pid,
};

/// Environment variable with the CPU time that [`burn`] takes, in milliseconds.
const BURN_MS: &str = "REGATTA_TEST_BURN_MS";
/// Longest wait for a process of these tests.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Test run with one directory and one wrapped shell script.
struct Run {
    directory: tempfile::TempDir,
    command: Command,
}

impl Run {
    fn new(script: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let mut command = Command::new(env!("CARGO_BIN_EXE_regatta-test-times"));
        command
            .args([
                "run", "--group", "unit", "--budget", "70", "--nice", "0", "--", "sh", "-c", script,
            ])
            .env("REGATTA_TEST_RUN_DIR", directory.path())
            .env("NEXTEST_BINARY_ID", "a-crate::a-binary")
            .env("NEXTEST_TEST_NAME", "a::test")
            .env("DIR", directory.path())
            .env("BURN", burner());
        Self { directory, command }
    }

    fn status(&mut self) -> ExitStatus {
        self.command.status().expect("the wrapper starts")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn fields(&self) -> Vec<String> {
        let text = fs::read_to_string(self.file("times.tsv")).expect("the times");
        assert_eq!(text.lines().count(), 1, "{text}");
        text.trim_end().split('\t').map(str::to_owned).collect()
    }

    fn cpu_s(&self) -> f64 {
        self.fields()[5].parse().expect("seconds")
    }
}

/// Returns a shell command that runs [`burn`] in this test program.
fn burner() -> String {
    let own = std::env::current_exe().expect("this program's file");
    format!("{} --exact burn --include-ignored", own.display())
}

/// Takes CPU time until this process has used as much as [`BURN_MS`] asks for.
#[test]
#[ignore = "a program that other tests start"]
fn burn() {
    let ms = std::env::var(BURN_MS).map_or(0, |ms| ms.parse().expect("milliseconds"));
    let used = || Duration::from(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("a time"));
    while used() < Duration::from_millis(ms) {}
}

#[test]
fn exit_codes_pass_through() {
    for code in [0, 3, 101] {
        let mut run = Run::new(&format!("exit {code}"));
        assert_eq!(run.status().code(), Some(code));
        let fields = run.fields();
        assert_eq!(&fields[..4], ["unit", "70", "a-crate::a-binary", "a::test"]);
        assert_eq!(fields[7], code.to_string());
    }
}

#[test]
fn signals_that_end_a_test_pass_through() {
    for signal in [
        Signal::SIGKILL,
        Signal::SIGTERM,
        Signal::SIGABRT,
        Signal::SIGSEGV,
    ] {
        let mut run = Run::new(&format!("ulimit -c 0; kill -{} $$", signal as i32));
        assert_eq!(run.status().signal(), Some(signal as i32));
        assert_eq!(run.fields()[7], (-(signal as i32)).to_string());
    }
}

#[test]
fn a_program_that_does_not_exist_is_an_error() {
    let wrapper = env!("CARGO_BIN_EXE_regatta-test-times");
    let directory = tempfile::tempdir().expect("a directory");
    for test_run in [directory.path().as_os_str(), "".as_ref()] {
        let output = Command::new(wrapper)
            .args([
                "run",
                "--group",
                "unit",
                "--budget",
                "70",
                "--",
                "/does/not/exist",
            ])
            .env("REGATTA_TEST_RUN_DIR", test_run)
            .output()
            .expect("the wrapper starts");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && error.contains("`/does/not/exist`"),
            "{error}"
        );
    }
}

/// nextest signals the group: the test gets the signal once, and the wrapper records its answer.
#[test]
fn a_signal_to_the_group_ends_the_test_and_not_the_wrapper() {
    for signal in [
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
        Signal::SIGQUIT,
    ] {
        let script = format!(
            "trap 'echo got >>$DIR/got; exit 5' {}; touch $DIR/ready; while :; do sleep 0.01; done",
            signal as i32
        );
        let mut run = Run::new(&script);
        let mut child = run
            .command
            .process_group(0)
            .spawn()
            .expect("the wrapper starts");
        wait_for(&run.file("ready"));
        killpg(Pid::from_raw(child.id().cast_signed()), signal).expect("a signal");
        assert_eq!(child.wait().expect("an end").code(), Some(5));
        assert_eq!(run.fields()[7], "5");
        assert_eq!(
            fs::read_to_string(run.file("got")).expect("a file"),
            "got\n"
        );
    }
}

#[test]
fn the_cpu_time_of_a_child_is_counted() {
    let mut run = Run::new("$BURN >/dev/null");
    assert!(
        run.command
            .env(BURN_MS, "200")
            .status()
            .expect("it starts")
            .success()
    );
    let cpu_s = run.cpu_s();
    assert!((0.2..0.5).contains(&cpu_s), "{cpu_s}");
}

/// The script sees its orphan vanish, which it would not if the orphan stayed a zombie.
#[test]
fn an_orphan_is_reaped_as_it_ends_and_counted() {
    let script = "(exec $BURN >/dev/null & echo $! >$DIR/orphan)
        while kill -0 $(cat $DIR/orphan); do sleep 0.01; done 2>/dev/null";
    let mut run = Run::new(script);
    assert!(
        run.command
            .env(BURN_MS, "200")
            .status()
            .expect("it starts")
            .success()
    );
    let cpu_s = run.cpu_s();
    assert!((0.2..2.0).contains(&cpu_s), "{cpu_s}");
}

#[test]
fn an_orphan_that_still_runs_is_counted_and_left_alone() {
    let script = "($BURN >/dev/null; touch $DIR/burnt; exec sleep 100) >/dev/null 2>&1 &
        echo $! >$DIR/orphan; until [ -e $DIR/burnt ]; do sleep 0.01; done";
    let mut run = Run::new(script);
    run.command.env(BURN_MS, "200");
    let begun = Instant::now();
    assert!(run.status().success());
    assert!(
        begun.elapsed() < Duration::from_secs(90),
        "it waits for the orphan"
    );
    let orphan = fs::read_to_string(run.file("orphan")).expect("a number");
    let orphan = Pid::from_raw(orphan.trim().parse().expect("a number"));
    kill(orphan, Signal::SIGKILL).expect("the orphan runs");
    let cpu_s = run.cpu_s();
    assert!((0.18..2.0).contains(&cpu_s), "{cpu_s}");
}

/// Nobody waits for a process that the kernel kills with its PID namespace. Needs root and control groups of version 2;
/// without them the time of such a process is not known.
#[test]
fn a_process_that_is_killed_with_its_namespace_is_counted() {
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    if !nix::unistd::geteuid().is_root() || !mounts.contains(" - cgroup2 ") {
        return;
    }
    let script = "unshare --pid --fork --kill-child sh -c \
          '($BURN >/dev/null; touch $DIR/burnt; exec sleep 100) & exec sleep 100' &
        until [ -e $DIR/burnt ]; do sleep 0.01; done; kill -KILL $!; wait";
    let mut run = Run::new(script);
    run.command.env(BURN_MS, "200").status().expect("it starts");
    let cpu_s = run.cpu_s();
    assert!((0.2..2.0).contains(&cpu_s), "{cpu_s}");
}

/// A test that still has processes as it ends, and one that has a test run of its own, leave no control groups.
#[test]
fn no_control_group_is_left() {
    let mut run = Run::new(
        "sleep 0.3 >/dev/null 2>&1 & echo $PPID >$DIR/wrapper; cat /proc/self/cgroup >$DIR/groups",
    );
    assert!(run.status().success());
    let wrapper = fs::read_to_string(run.file("wrapper")).expect("a number");
    let groups = fs::read_to_string(run.file("groups")).expect("groups");
    let name = format!("regatta-test-{}", wrapper.trim());
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    let Some(mount) = mounts.lines().find(|line| line.contains(" - cgroup2 ")) else {
        return;
    };
    let point = mount.split(' ').nth(4).expect("a directory");
    let group = groups
        .lines()
        .find_map(|line| line.strip_prefix("0::/"))
        .expect("a group");
    let directory = Path::new(point).join(group);
    assert!(
        !group.ends_with(&name) || !directory.exists(),
        "{}",
        directory.display()
    );
}

#[test]
fn the_nice_value_is_added_and_output_passes_through() {
    let nice = |wrapped: &[&str]| {
        let mut command = Command::new(wrapped[0]);
        // The directory of the test run that this test is in.
        command
            .args(&wrapped[1..])
            .env_remove("REGATTA_TEST_RUN_DIR");
        let output = command.output().expect("it starts");
        text(&output).trim().parse::<i32>().expect("a number")
    };
    let wrapper = env!("CARGO_BIN_EXE_regatta-test-times");
    let own = nice(&["nice"]);
    let wrapped = nice(&[
        wrapper, "run", "--group", "unit", "--budget", "1", "--nice", "4", "--", "nice",
    ]);
    assert_eq!(wrapped, (own + 4).min(19));
}

/// Without a directory of the test run, as in `cargo nextest run` by hand.
#[test]
fn without_a_directory_the_test_takes_the_place_of_the_wrapper() {
    let mut run = Run::new("echo $$; exit 7");
    let command = run
        .command
        .env("REGATTA_TEST_RUN_DIR", "")
        .stdout(Stdio::piped());
    let child = command.spawn().expect("the wrapper starts");
    let process = child.id();
    let output = child.wait_with_output().expect("an end");
    assert_eq!(text(&output).trim(), process.to_string());
    assert_eq!(output.status.code(), Some(7));
    assert!(!run.file("times.tsv").exists());
}

#[test]
fn the_table_fails_only_where_it_is_asked_to_check() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("times.tsv");
    let lines = "unit\t10\tregatta-model\ta\t1.0\t0.1\t0.001\t0\n\
                 guests\t10\tregatta-cli::e2e\tb\t20.0\t1550.0\t0.001\t0\n";
    fs::write(&file, lines).expect("a file");
    let table = |options: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_regatta-test-times"));
        command
            .arg("table")
            .args(options)
            .arg(&file)
            .output()
            .expect("it starts")
    };
    let whole = table(&[]);
    assert_eq!(whole.status.code(), Some(0));
    assert!(text(&whole).contains("budget"), "{}", text(&whole));
    let partial = table(&["--partial"]);
    assert_eq!(partial.status.code(), Some(0));
    assert!(!text(&partial).contains("budget"), "{}", text(&partial));
    let checked = table(&["--check"]);
    assert_eq!(checked.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&checked.stderr);
    assert!(
        errors.contains("`guests`") && !errors.contains("`unit`"),
        "{errors}"
    );
    fs::write(&file, "unit\t10\n").expect("a file");
    assert_eq!(table(&[]).status.code(), Some(2));
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn wait_for(file: &Path) {
    let begun = Instant::now();
    while !file.exists() {
        assert!(begun.elapsed() < TIMEOUT, "no {}", file.display());
        thread::sleep(Duration::from_millis(2));
    }
}
