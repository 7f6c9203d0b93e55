//! Tests of `regatta path`: a program behind an emulated path.

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use regatta_test_support::machine::repetitions;

use crate::help::{Bench, Done, Random, root, signal};

/// Server that answers each line with itself, and client that times one answer.
const ECHO: &str = r#"
import socket, os
listener = socket.create_server((os.environ["REGATTA_SERVER"], 7000))
print("up", flush=True)
while True:
    flow, _ = listener.accept()
    flow.sendall(flow.recv(100))
"#;
const ASK: &str = r#"
import socket, os, sys, time
flow = socket.create_connection((os.environ["REGATTA_SERVER"], 7000))
assert flow.getsockname()[0] == os.environ["REGATTA_CLIENT"]
flow.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
begun = time.monotonic()
flow.sendall(b"x")
flow.recv(100)
print(time.monotonic() - begun)
"#;

#[test]
fn program_reaches_its_server_over_the_path() {
    let bench = Bench::new();
    let server = bench.write("echo.py", ECHO);
    let client = bench.write("ask.py", ASK);
    let server = format!("exec python3 {}", server.display());
    let client = client.display().to_string();
    let done = bench.run(&[
        "path", "--rtt", "80ms", "--seed", "1", "--server", &server, "--", "python3", &client,
    ]);
    done.assert_code(0);
    let seconds: f64 = done.stdout.trim().parse().expect("a time");
    // A busy machine may be late, and nothing makes a packet early.
    assert!((0.08..2.0).contains(&seconds), "{seconds}");
    done.assert_stderr_contains("server: up\n");
    done.assert_stderr_contains("round-trip delay 80 ms");
    done.assert_stderr_contains("path, client to server: ");
    bench.assert_nothing_left();
}

#[test]
fn losses_are_reported_by_cause_and_equal_for_one_seed() {
    let bench = Bench::new();
    let send = r#"
import socket, os, time
def taken():
    """Packets that the path has read from this host's device."""
    lines = open("/proc/net/dev").read().splitlines()[2:]
    fields = [line.split(":")[1].split() for line in lines if not line.split(":")[0].strip() == "lo"]
    return sum(int(field[9]) for field in fields)
before = taken()
to = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(300):
    to.sendto(bytes(100), (os.environ["REGATTA_SERVER"], 9))
until = time.monotonic() + 60
while taken() < before + 300:
    assert time.monotonic() < until, "the path does not take them in"
    time.sleep(0.01)
# The path has counted them by then, too.
time.sleep(1)
"#;
    let sent = |seed: &str| {
        let args = [
            "path", "--loss", "10%", "--seed", seed, "--", "python3", "-c", send,
        ];
        let done = bench.run(&args);
        done.assert_code(0);
        let line = done
            .stderr
            .lines()
            .find(|line| line.contains("client to server"));
        let line = line.expect("what the path did").to_owned();
        assert!(line.contains(": 300 packets entered"), "{line}");
        let lost = line
            .split(", ")
            .find(|part| part.ends_with(" lost at random"));
        lost.expect("losses").to_owned()
    };
    assert_eq!(sent("7"), sent("7"));
}

#[test]
fn standard_streams_and_exit_code_are_those_of_the_command() {
    let bench = Bench::new();
    let ended = |command: &[&str]| {
        let args = [&["path", "-q", "--"], command].concat();
        bench.run(&args)
    };
    let done = ended(&["sh", "-c", "echo out; echo err >&2; exit 7"]);
    done.assert_code(7);
    assert_eq!(
        (done.stdout.as_str(), done.stderr.as_str()),
        ("out\n", "err\n")
    );
    ended(&["sh", "-c", "kill -TERM $$"]).assert_code(128 + 15);
    let missing = ended(&["no-such-program"]);
    missing.assert_code(127);
    missing.assert_stderr_contains("error: cannot start `no-such-program`");
    missing.assert_stderr_contains("hint: give a program of this machine");
    ended(&["/etc/passwd"]).assert_code(126);

    // Without a command, a shell, which has nobody at a terminal here.
    let mut shell = bench.regatta(&["path", "-q"]);
    let script = bench.write("script", "echo from $REGATTA_CLIENT\nexit 4\n");
    let shell = shell
        .env("SHELL", "/bin/sh")
        .stdin(std::fs::File::open(script).expect("the script"));
    let done = Done::from(shell.output().expect("the binary starts"));
    done.assert_code(4);
    assert_eq!(done.stdout, "from 10.60.0.1\n");
    bench.assert_nothing_left();
}

/// Checks that a shell at a terminal, which is `script` here, has job control.
#[test]
fn a_shell_at_a_terminal_has_job_control() {
    let bench = Bench::new();
    let script = bench.write(
        "typed",
        "set -o | grep monitor\nsleep 600 &\nkill %1; wait %1; echo ended $?\nexit 5\n",
    );
    let shell = format!(
        "'{}' path -q -- bash --norc -i",
        env!("CARGO_BIN_EXE_regatta")
    );
    let mut terminal = bench.command("script");
    terminal
        .args(["-qec", &shell, "/dev/null"])
        .stdin(std::fs::File::open(script).expect("what is typed"));
    let done = Done::from(terminal.output().expect("`script` runs"));
    done.assert_code(5);
    let fields: Vec<&str> = done.stdout.split_whitespace().collect();
    let printed = |pair: [&str; 2]| fields.windows(2).any(|two| *two == pair);
    assert!(
        printed(["monitor", "on"]) && printed(["ended", "143"]),
        "{done:#?}"
    );
    bench.assert_nothing_left();
}

#[test]
fn errors_are_reported_before_the_command_starts() {
    let bench = Bench::new();
    let refused = |args: &[&str], code: i32, expected: &str| {
        let args = [&["path"], args, &["--", "touch", "started"]].concat();
        let done = bench.run(&args);
        done.assert_code(code);
        done.assert_stderr_contains(expected);
        assert!(!bench.path("started").exists(), "{args:?}");
    };
    refused(&["--rtt", "80"], 2, "--rtt");
    refused(&["--jitter", "1s"], 2, "hint: ");
    refused(&["--study", "no-such-study"], 2, "no built-in study");
    let conditions = ["--study", "gadasin-2026-short", "--condition", "dry"];
    refused(&conditions, 2, "its conditions are: `baseline`");
    refused(
        &["--server", "echo why; exit 3"],
        1,
        "the server ended with exit code 3 before it listened",
    );
    bench.assert_nothing_left();
}

#[test]
fn a_condition_of_a_study_begins_its_schedule_with_the_command() {
    let bench = Bench::new();
    let study = bench.write(
        "steps.toml",
        r#"
name = "steps"
[[transport]]
driver = "tcp"
[[condition]]
name = "still"
rtt = "10ms"
rate = "50Mbit/s"
[[condition]]
name = "closing"
rtt = "10ms"
rate = "50Mbit/s"
[[condition.step]]
at = "15s"
loss = "100%"
[[workload]]
name = "bulk"
kind = "bulk"
size = "1MB"
message = "10kB"
"#,
    );
    // A shell starts soon enough for the first packet on a busy machine, too; the second packet comes after the step,
    // however long it took.
    let send =
        "echo x > /dev/udp/$REGATTA_SERVER/9; sleep 15.3; echo x > /dev/udp/$REGATTA_SERVER/9";
    let study = study.display().to_string();
    let args = [
        "path",
        "--study",
        &study,
        "--condition",
        "closing",
        "--",
        "bash",
        "-c",
        send,
    ];
    let done = bench.run(&args);
    done.assert_code(0);
    done.assert_stderr_contains("client to server: 2 packets entered, 1 left, 1 lost at random");
}

/// Processes that a server and a command leave running, in sessions of their own or not.
const LITTER: &str = "setsid sleep 600 & sleep 600 & ";

#[test]
fn nothing_outlives_the_command() {
    let bench = Bench::new();
    let server = format!("{LITTER} wait");
    let args = [
        "path", "-q", "--wait", "0s", "--server", &server, "--", "sh", "-c", LITTER,
    ];
    bench.run(&args).assert_code(0);
    bench.assert_nothing_left();
}

/// Starts a command that waits, with leftover processes and a server; returns when all are running.
fn waiting(bench: &Bench) -> std::process::Child {
    let server = format!("{LITTER} wait");
    let command = format!("{LITTER} echo up; wait");
    let args = [
        "path", "-q", "--wait", "0s", "--server", &server, "--", "sh", "-c", &command,
    ];
    let mut child = bench
        .regatta(&args)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut line = String::new();
    let out = child.stdout.take().expect("a pipe");
    BufReader::new(out).read_line(&mut line).expect("a line");
    assert_eq!(line, "up\n");
    child
}

#[test]
fn signals_are_forwarded_and_no_process_is_left() {
    let bench = Bench::new();
    for wish in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT] {
        let mut child = waiting(&bench);
        signal(child.id().cast_signed(), wish);
        let status = child.wait().expect("it ends");
        assert_eq!(status.code(), Some(128 + wish as i32), "{wish}");
        bench.assert_nothing_left();
    }
}

#[test]
fn nothing_outlives_a_kill() {
    let bench = Bench::new();
    let mut child = waiting(&bench);
    // The server starts what it leaves in its own time.
    let until = Instant::now() + Duration::from_secs(60);
    while bench.processes().len() < 8 {
        assert!(Instant::now() < until, "{:?}", bench.processes());
        std::thread::sleep(Duration::from_millis(5));
    }
    signal(child.id().cast_signed(), Signal::SIGKILL);
    child.wait().expect("it ends");
    bench.assert_nothing_left();
}

/// The supervisor would end the program and what that has started.
#[test]
fn nothing_outlives_a_kill_of_the_supervisors() {
    let bench = Bench::new();
    let mut child = waiting(&bench);
    for supervisor in bench.running("path-program") {
        // The end of one can be that of the other.
        let _ = kill(Pid::from_raw(supervisor), Signal::SIGKILL);
    }
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(128 + Signal::SIGKILL as i32));
    bench.assert_nothing_left();
}

#[test]
fn a_command_sees_its_processes_by_their_numbers() {
    let bench = Bench::new();
    let script = "sleep 600 & [ \"$(cat /proc/$!/comm)\" = sleep ] && kill $!; wait $!; echo $?";
    let done = bench.run(&["path", "-q", "--", "sh", "-c", script]);
    done.assert_code(0);
    assert_eq!(done.stdout, "143\n");
    bench.assert_nothing_left();
}

#[test]
fn a_path_daemon_that_is_killed_ends_the_command() {
    let bench = Bench::new();
    let mut child = waiting(&bench);
    signal(bench.running("path-daemon")[0], Signal::SIGKILL);
    assert_eq!(child.wait().expect("it ends").code(), Some(1));
    bench.assert_nothing_left();
}

#[test]
fn a_summary_goes_to_no_pipe_that_nobody_reads() {
    let bench = Bench::new();
    nix::unistd::mkfifo(&bench.path("pipe"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let done = bench.run(&["path", "-q", "--json", "pipe", "--", "touch", "begun"]);
    done.assert_code(2);
    done.assert_stderr_contains("hint: name a file, or a pipe that a process reads");
    assert!(!bench.path("begun").exists());
}

#[test]
fn a_summary_replaces_no_link_which_is_said_before_the_command_starts() {
    let bench = Bench::new();
    bench.write("file", "text");
    for target in ["file", "missing"] {
        let _ = std::fs::remove_file(bench.path("link"));
        std::os::unix::fs::symlink(bench.path(target), bench.path("link")).expect("a link");
        let done = bench.run(&["path", "-q", "--json", "link", "--", "touch", "begun"]);
        done.assert_code(2);
        done.assert_stderr_contains("cannot write `link`");
        done.assert_stderr_contains("it is a symbolic link, and only a file is replaced");
        assert!(!bench.path("begun").exists());
    }
    assert_eq!(std::fs::read_to_string(bench.path("file")).unwrap(), "text");
    assert!(!bench.path("missing").exists());
}

#[test]
fn a_summary_goes_to_a_pipe_that_a_process_reads() {
    let bench = Bench::new();
    let done = bench.run(&["path", "-q", "--json", "/dev/stdout", "--", "true"]);
    done.assert_code(0);
    assert!(done.stdout.contains("\"exit_code\": 0"), "{}", done.stdout);
}

/// Checks kills at any time, including the creation of the bed.
#[test]
fn nothing_outlives_a_kill_at_any_moment() {
    let bench = Bench::new();
    let mut random = Random::new();
    for moment in random.moments(repetitions(12, 200), Duration::from_millis(120)) {
        let mut child = bench
            .regatta(&["path", "-q", "--server", "sleep 600", "--", "sleep", "600"])
            .spawn()
            .expect("the binary starts");
        std::thread::sleep(moment);
        signal(child.id().cast_signed(), Signal::SIGKILL);
        child.wait().expect("it ends");
        bench.assert_nothing_left();
    }
}

#[test]
fn ordinary_user_has_a_path_or_an_error_with_a_hint() {
    if !root() {
        // Every other test of this file is that user's already.
        return;
    }
    let bench = Bench::new();
    let program = bench.path("regatta");
    std::fs::copy(env!("CARGO_BIN_EXE_regatta"), &program).expect("a copy");
    let directory = program.parent().expect("a directory");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(directory, open).expect("open to all");
    // The device is made in a mount namespace; the machine's own is left as it is.
    let as_nobody = |mode: &str| {
        let script = format!(
            "mkdir -p /dev/net; mount -t tmpfs tmpfs /dev/net; mknod -m {mode} /dev/net/tun c 10 200; \
             exec setpriv --reuid 65534 --regid 65534 --clear-groups {} path --rtt 20ms -- \
             sh -c 'echo $REGATTA_CLIENT'",
            program.display()
        );
        let mut command = bench.command("unshare");
        command.args(["--mount", "sh", "-euc", &script]);
        Done::from(command.output().expect("`unshare` runs"))
    };
    let done = as_nobody("0666");
    done.assert_code(0);
    assert_eq!(done.stdout, "10.60.0.1\n");
    let done = as_nobody("0600");
    done.assert_code(77);
    done.assert_stderr_contains("hint: let every user open it");
    bench.assert_nothing_left();
}
