//! The agent as a process: its answers and its exit codes.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use nix::{
    sys::{
        signal::{Signal, kill},
        wait::{Id, WaitPidFlag, waitid},
    },
    unistd::Pid,
};
use regatta_control::{FromAgent, Note, PROTOCOL_VERSION, ProblemKind, Role, SideReport, ToAgent};
use regatta_model::OptionValue;
use regatta_test_support::processes::is_running;

use crate::common::{Agent, eventually, hello, order, tls, with_option};

fn prepare(agent: &mut Agent, order: regatta_control::TrialOrder) {
    agent.send(&ToAgent::Prepare {
        order: Box::new(order),
    });
}

#[test]
fn end_of_input_exits_with_code_0() {
    let mut agent = Agent::greeted();
    agent.input = None;
    let (status, errors) = agent.wait();
    assert_eq!((status.code(), errors.as_str()), (Some(0), ""));
    let mut silent = Agent::start();
    silent.input = None;
    assert_eq!(silent.wait().0.code(), Some(0));
}

/// A transfer of a thousand flows takes more descriptors than most systems give to a process by default.
#[test]
fn file_limit_is_raised_to_the_hard_limit() {
    let agent = env!("CARGO_BIN_EXE_regatta-agent-under-test");
    let mut child = Command::new("sh")
        .args(["-c", "ulimit -S -n 256 && exec \"$0\"", agent])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut input = child.stdin.take().expect("piped");
    let hello = serde_json::to_string(&hello()).expect("serialises");
    writeln!(input, "{hello}").expect("the agent reads");
    let mut greeting = String::new();
    let mut output = BufReader::new(child.stdout.take().expect("piped"));
    output.read_line(&mut greeting).expect("a greeting");
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", child.id()));
    let limits = limits.expect("the limits of a process");
    let files = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"));
    let files: Vec<&str> = files.expect("a limit").split_whitespace().collect();
    assert_eq!(files[0], files[1], "{limits}");
    drop(input);
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn hello_has_facts_of_the_host_and_the_stacks() {
    let mut agent = Agent::start();
    agent.send(&hello());
    let FromAgent::Hello {
        facts,
        monotonic_ns,
        version,
        ..
    } = agent.receive()
    else {
        panic!("no hello");
    };
    assert!(monotonic_ns > 0 && monotonic_ns <= regatta_telemetry::monotonic_ns());
    assert_eq!(facts.0["version.regatta"], version);
    assert_eq!(facts.0["version.test-stack"], "1.2.3");
    assert!(facts.0.contains_key("kernel.release"));
}

#[test]
fn malformed_input_is_reported_on_stderr_and_exits_with_code_2() {
    for (line, expected) in [
        ("{ \"type\": ", "line 2 of the input is not a valid message"),
        ("{\"type\":\"dance\"}", "dance"),
        ("\u{1}\u{2}", "not a valid message"),
        ("[1, 2]", "not a valid message"),
    ] {
        let mut agent = Agent::greeted();
        agent.send_text(line);
        let (status, errors) = agent.wait();
        assert_eq!(status.code(), Some(2), "{line}: {errors}");
        assert!(
            errors.starts_with("error: ") && errors.contains(expected),
            "{errors}"
        );
        assert!(
            errors.contains("hint: ") && !errors.contains("panicked"),
            "{errors}"
        );
    }
}

#[test]
fn another_version_is_answered_with_hello_and_exits_with_code_2() {
    let mut agent = Agent::start();
    agent.send_text("{\"type\":\"hello\",\"protocol\":99,\"new\":true}");
    assert!(matches!(
        agent.receive(),
        FromAgent::Hello {
            protocol: PROTOCOL_VERSION,
            ..
        }
    ));
    let (status, errors) = agent.wait();
    assert_eq!(status.code(), Some(2));
    assert!(errors.contains("version `99`"), "{errors}");
}

#[test]
fn trials_that_cannot_run_fail_and_the_next_one_runs() {
    let tls = tls();
    let mut agent = Agent::greeted();
    prepare(&mut agent, order(1, Role::Sender, "carrier-pigeon", &tls));
    let (kind, reasons, hint) = agent.receive_failure();
    assert_eq!(kind, ProblemKind::Failed);
    assert_eq!(reasons, ["there is no transport `carrier-pigeon`"]);
    assert!(hint.contains("`test-work`"), "{hint}");

    prepare(&mut agent, order(2, Role::Sender, "test-unsupported", &tls));
    let (kind, reasons, hint) = agent.receive_failure();
    assert_eq!(kind, ProblemKind::Unsupported);
    assert_eq!(reasons, ["the kernel has no `test`"]);
    assert_eq!(hint, "modprobe test");

    let wrong = order(3, Role::Sender, "test-work", &tls);
    prepare(
        &mut agent,
        with_option(wrong, "cpu_sm", OptionValue::Number(1)),
    );
    let (kind, reasons, hint) = agent.receive_failure();
    assert_eq!(kind, ProblemKind::Failed);
    assert!(reasons[1].contains("no option `cpu_sm`"), "{reasons:?}");
    assert_eq!(hint, "did you mean `cpu_ms`?");

    for (trial, early) in [(4, true), (5, false)] {
        let panics = order(trial, Role::Receiver, "test-panic", &tls);
        if early {
            prepare(
                &mut agent,
                with_option(panics, "early", OptionValue::Flag(true)),
            );
        } else {
            agent.prepare(panics);
        }
        let (kind, reasons, _) = agent.receive_failure();
        assert_eq!(kind, ProblemKind::Failed);
        assert_eq!(reasons[0], "the driver `test-panic` panicked");
        assert!(reasons[1].starts_with("it panicked"), "{reasons:?}");
    }

    assert!(
        finish_work(&mut agent, 6, 1)
            .measurements
            .metrics
            .contains_key("cpu_receiver_ratio")
    );
}

/// Runs `test-work` at a receiver.
fn finish_work(agent: &mut Agent, trial: u32, cpu_ms: i64) -> SideReport {
    let works = order(trial, Role::Receiver, "test-work", &tls());
    agent.prepare(with_option(works, "cpu_ms", OptionValue::Number(cpu_ms)));
    match agent.receive() {
        FromAgent::Finished { report, .. } => *report,
        other => panic!("{other:?} instead of a report"),
    }
}

#[test]
fn second_trial_is_refused_and_aborts_are_answered() {
    let tls = tls();
    let mut agent = Agent::greeted();
    // Nothing to abort: answered all the same.
    agent.send(&ToAgent::Abort { trial: 9 });
    assert!(matches!(agent.receive(), FromAgent::Aborted { trial: 9 }));
    // A sender that was never started.
    agent.prepare(order(1, Role::Sender, "test-waiting", &tls));
    prepare(&mut agent, order(2, Role::Sender, "test-waiting", &tls));
    assert_eq!(agent.receive_failure().1, ["trial 1 is still under way"]);
    agent.send(&ToAgent::Abort { trial: 1 });
    assert!(matches!(agent.receive(), FromAgent::Aborted { trial: 1 }));
    // A session that ends slowly, aborted twice.
    let slow = order(3, Role::Receiver, "test-waiting", &tls);
    agent.prepare(with_option(slow, "linger_ms", OptionValue::Number(300)));
    agent.send(&ToAgent::Abort { trial: 3 });
    agent.send(&ToAgent::Abort { trial: 3 });
    assert!(matches!(agent.receive(), FromAgent::Aborted { trial: 3 }));
    // Notes and starts for nobody are not answered.
    agent.send(&ToAgent::Note {
        trial: 3,
        note: Note::Received {
            messages: 0,
            bytes: 0,
        },
    });
    let peer = "127.0.0.1:9".parse().expect("an address");
    agent.send(&ToAgent::Start { trial: 3, peer });
    assert!(!finish_work(&mut agent, 4, 1).measurements.facts.is_empty());
    agent.input = None;
    assert_eq!(agent.wait().0.code(), Some(0));
}

/// A shell stands for the controller, and this test keeps the other end of its input, so that only
/// the kernel's signal can end the agent.
#[test]
fn agent_ends_with_a_killed_controller() {
    let mut controller = Command::new("sh")
        .args(["-c", "exec 3<&0; \"$0\" <&3 & echo $!; wait"])
        .arg(env!("CARGO_BIN_EXE_regatta-agent-under-test"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a shell");
    let mut input = controller.stdin.take().expect("piped");
    let mut lines = BufReader::new(controller.stdout.take().expect("piped")).lines();
    let agent: i32 = lines
        .next()
        .expect("a line")
        .expect("text")
        .parse()
        .expect("the agent's identifier");
    // The agent answers after it has asked the kernel for the signal.
    let greeting = serde_json::to_string(&hello()).expect("serialises");
    writeln!(input, "{greeting}").expect("the agent reads");
    assert!(
        lines
            .next()
            .expect("a line")
            .expect("text")
            .contains("hello")
    );
    assert!(is_running(agent));
    controller.kill().expect("it is our child");
    controller.wait().expect("it is our child");
    eventually("the agent ends", || !is_running(agent));
    drop(input);
}

/// The other end fails first, as it hears nothing: the abort asks this end for the cause.
#[test]
fn an_end_that_was_stopped_for_a_while_says_so_when_it_is_aborted() {
    let mut agent = Agent::greeted();
    agent.prepare(order(1, Role::Receiver, "test-waiting", &tls()));
    let process = Pid::from_raw(agent.child.id().cast_signed());
    kill(process, Signal::SIGSTOP).expect("it is our child");
    waitid(Id::Pid(process), WaitPidFlag::WSTOPPED).expect("it is our child");
    kill(process, Signal::SIGCONT).expect("it is our child");
    agent.send(&ToAgent::Abort { trial: 1 });
    let (kind, reasons, _) = agent.receive_failure();
    assert_eq!(kind, ProblemKind::Disturbed, "{reasons:?}");
    assert!(matches!(agent.receive(), FromAgent::Aborted { trial: 1 }));
    // The next trial is none of those that were disturbed.
    agent.prepare(order(2, Role::Receiver, "test-waiting", &tls()));
    agent.send(&ToAgent::Abort { trial: 2 });
    assert!(matches!(agent.receive(), FromAgent::Aborted { trial: 2 }));
}

/// Returns the CPU time that a process has used by now, all threads.
fn process_cpu(process: nix::unistd::Pid) -> Duration {
    let clock = nix::time::clock_getcpuclockid(process).expect("a clock");
    nix::time::clock_gettime(clock).expect("its time").into()
}

#[test]
fn abort_of_a_stuck_session_is_answered_in_time_and_ends_the_process() {
    let mut agent = Agent::greeted();
    agent.prepare(order(1, Role::Receiver, "test-stuck", &tls()));
    let aborted_at = Instant::now();
    agent.send(&ToAgent::Abort { trial: 1 });
    assert!(matches!(agent.receive(), FromAgent::Aborted { trial: 1 }));
    assert!(
        aborted_at.elapsed() < Duration::from_secs(5),
        "{:?}",
        aborted_at.elapsed()
    );
    let (status, errors) = agent.wait();
    assert_eq!(status.code(), Some(3));
    assert!(
        errors.contains("the session of trial 1 did not end"),
        "{errors}"
    );
}

/// Ends within five seconds, and processor time.
mod real_time {
    use regatta_test_support::machine::MachineLoad;

    use super::*;

    #[test]
    fn end_of_input_in_mid_trial_ends_all_started_processes() {
        let _load = MachineLoad::watch();
        for driver in ["test-stuck", "test-waiting", "test-child"] {
            let mut agent = Agent::greeted();
            agent.prepare(order(1, Role::Receiver, driver, &tls()));
            let mut started = vec![agent.child.id().cast_signed()];
            if driver == "test-child" {
                let FromAgent::Note {
                    note:
                        Note::Sent {
                            messages, bytes, ..
                        },
                    ..
                } = agent.receive()
                else {
                    panic!("no note");
                };
                started.extend([messages as i32, bytes as i32]);
                assert!(
                    started.iter().all(|&process| is_running(process)),
                    "{started:?}"
                );
            }
            let closed = Instant::now();
            agent.input = None;
            assert_eq!(agent.wait().0.code(), Some(0), "{driver}");
            // At once: no session is waited for.
            assert!(closed.elapsed() < Duration::from_secs(5), "{driver}");
            for process in started {
                eventually("the process ends", || !is_running(process));
            }
        }
    }

    /// CPU is charged over the window only, of all threads, and not more than the kernel says that
    /// the whole process used.
    #[test]
    fn cpu_of_all_threads_is_charged_over_the_window_only() {
        let _load = MachineLoad::watch();
        const WORK: Duration = Duration::from_millis(400);
        let mut agent = Agent::greeted();
        let work_ms = i64::try_from(WORK.as_millis()).expect("small");
        let report = finish_work(&mut agent, 1, work_ms);
        let window_ns = report.ended_monotonic_ns - report.started_monotonic_ns;
        let ratio = report.measurements.metrics["cpu_receiver_ratio"];
        let charged = Duration::from_secs_f64(ratio * window_ns as f64 / 1e9);
        // Two threads; the sampler and the edges cost a little. 200 ms more were used outside.
        assert!(
            charged >= 2 * WORK - Duration::from_millis(10),
            "{charged:?}"
        );
        assert!(
            charged <= 2 * WORK + Duration::from_millis(60),
            "{charged:?}"
        );
        let parts = report.measurements.metrics["cpu_receiver_user_ratio"]
            + report.measurements.metrics["cpu_receiver_system_ratio"];
        assert!((parts - ratio).abs() < 1e-6, "{parts} is not {ratio}");

        // CPU time that the kernel charged to the process: the window's, 200 ms around it, and the
        // agent's own start and answers.
        let child = nix::unistd::Pid::from_raw(i32::try_from(agent.child.id()).expect("a pid"));
        let used = process_cpu(child);
        assert!(
            used >= charged + Duration::from_millis(200),
            "{used:?} for {charged:?}"
        );
        assert!(
            used <= charged + Duration::from_millis(350),
            "{used:?} for {charged:?}"
        );

        let cpu = report
            .measurements
            .series
            .iter()
            .find(|series| series.name == "cpu_ratio")
            .expect("a series");
        assert!(cpu.t_ns.iter().all(|&t| t > report.started_monotonic_ns));
        assert!(cpu.t_ns.last().expect("a sample") - report.ended_monotonic_ns < 50_000_000);
        assert!(report.measurements.metrics["peak_memory_receiver_bytes"] > 1e6);
        assert_eq!(report.measurements.facts["interface.receiver"], "lo");
    }
}
