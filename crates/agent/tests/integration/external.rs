//! Programs as drivers through two real agents: the commented example runs and is measured from
//! outside, and a program's error fails its own trial only.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use regatta_control::{ProblemKind, Role, TrialOrder};
use regatta_model::{Bytes, OptionValue, Pattern, WorkloadKind};
use regatta_test_support::processes::{is_running, running_with};

use crate::common::{Agent, Pair, eventually, order, tls, with_option};

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../external/example/driver")
}

/// Returns both orders of a trial with a program.
fn both(trial: u32, program: &Path, size: u64) -> [TrialOrder; 2] {
    let tls = tls();
    [Role::Receiver, Role::Sender].map(|role| {
        let mut order = order(trial, role, "external", &tls);
        order.workload.probe.idle_messages = 0;
        order.workload.probe.under_load = false;
        order.workload.kind = WorkloadKind::Bulk {
            amount: Bytes(size).into(),
            message: Bytes(10_000),
            pattern: Pattern::Data,
            options: regatta_model::BulkOptions::default(),
        };
        let path = program.to_str().expect("UTF-8").to_owned();
        with_option(order, "program", OptionValue::Text(path))
    })
}

/// A shell script beside which its test may leave files.
struct Script(PathBuf);

impl Script {
    fn new(name: &str, text: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("regatta-{}-{name}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        let path = directory.join("driver");
        fs::write(
            &path,
            format!("#!/bin/sh\ncd {}\n{text}\n", directory.display()),
        )
        .expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
        Self(path)
    }

    fn beside(&self, name: &str) -> PathBuf {
        self.0.with_file_name(name)
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        if let Some(directory) = self.0.parent() {
            let _ = fs::remove_dir_all(directory);
        }
    }
}

#[test]
fn example_runs_and_its_own_cpu_time_and_memory_are_charged() {
    const SIZE: u64 = 400_000_000;
    let mut pair = Pair::greeted();
    let [receiver, sender] = both(0, &example(), SIZE);
    let ends = pair.run_trial(receiver, sender);
    let [Ok(sender), Ok(receiver)] = [&ends["sender"], &ends["receiver"]] else {
        panic!("{ends:?}");
    };
    assert_eq!(
        receiver.measurements.metrics["bytes_delivered"],
        SIZE as f64
    );
    assert!(sender.measurements.metrics["goodput_bps"] > 0.0);
    assert_eq!(
        sender.measurements.facts["congestion_control.sender"],
        "cubic"
    );
    // A CRC-32 of all that arrives is work that the agent does not do: to charge the agent instead
    // of the program would leave next to nothing.
    let seconds = |side: &regatta_control::SideReport, name: &str| {
        let window = (side.ended_monotonic_ns - side.started_monotonic_ns) as f64 / 1e9;
        side.measurements.metrics[name] * window
    };
    let used = seconds(receiver, "cpu_receiver_ratio");
    assert!(used > 0.02, "{used} s: {receiver:?}");
    assert!(seconds(sender, "cpu_sender_ratio") > 0.001, "{sender:?}");
    for (report, name) in [
        (sender, "peak_memory_sender_bytes"),
        (receiver, "peak_memory_receiver_bytes"),
    ] {
        // An interpreter has more than 4 MB, and this agent in its test build less than 200 MB.
        assert!(
            (4e6..2e8).contains(&report.measurements.metrics[name]),
            "{report:?}"
        );
        assert!(
            report
                .measurements
                .series
                .iter()
                .any(|series| series.name == "memory_bytes")
        );
    }
}

#[test]
fn example_answers_messages_and_the_probe() {
    let mut pair = Pair::greeted();
    let [receiver, sender] = both(0, &example(), 0).map(|mut order| {
        order.workload.kind = WorkloadKind::StopAndWait {
            size: Bytes(100_000),
            message: Bytes(1000),
            pattern: Pattern::Data,
            timeout: std::time::Duration::from_secs(1),
        };
        order.workload.probe.idle_messages = 3;
        order
    });
    let ends = pair.run_trial(receiver, sender);
    let [Ok(sender), Ok(receiver)] = [&ends["sender"], &ends["receiver"]] else {
        panic!("{ends:?}");
    };
    let delivered = receiver.measurements.metrics["messages_delivered"];
    assert_eq!(delivered, 100.0);
    let metrics = &sender.measurements.metrics;
    assert!(metrics["message_delay_p50_ns"] > 0.0, "{sender:?}");
    assert!(metrics["round_trip_delay_idle_p50_ns"] > 0.0, "{sender:?}");
}

#[test]
fn failing_program_fails_only_its_trial() {
    let failing = Script::new("failing", "echo 'out of disk' >&2\nexit 3");
    fails_only_its_trial(&failing.0, ProblemKind::Failed, "out of disk");
}

#[test]
fn missing_program_fails_only_its_trial() {
    let missing = Path::new("/no/such/driver");
    fails_only_its_trial(missing, ProblemKind::Failed, "option `program`");
}

#[test]
fn unsupported_program_fails_only_its_trial() {
    let unsupported = Script::new("unsupported", "echo 'not on this host' >&2\nexit 77");
    fails_only_its_trial(&unsupported.0, ProblemKind::Unsupported, "not on this host");
}

fn fails_only_its_trial(program: &Path, kind: ProblemKind, message: &str) {
    let mut agent = Agent::greeted();
    let [receiver, _] = both(0, program, 1000);
    agent.send(&regatta_control::ToAgent::Prepare {
        order: Box::new(receiver),
    });
    let (found, reasons, _) = agent.receive_failure();
    assert_eq!(found, kind, "{reasons:?}");
    assert!(reasons.concat().contains(message), "{reasons:?}");
    let [receiver, _] = both(1, &example(), 1000);
    assert!(agent.prepare(receiver).is_some(), "the same agent goes on");
}

#[test]
fn processes_of_a_program_end_with_a_killed_agent() {
    // It has a child in its own session; the number that a program sees may be another.
    let script = Script::new(
        "orphans",
        "read -r order\ncase $order in *describe*) echo '{\"type\":\"description\",\"contract\":2,\
         \"name\":\"t\",\"version\":\"1\",\"workloads\":[\"bulk\"]}'; exit 0;; esac\n\
         mkfifo never\nsh -c 'read x <never' orphan-of-a-test &\n\
         echo '{\"type\":\"ready\",\"port\":9}'\nread -r x <never",
    );
    let mut agent = Agent::greeted();
    let [receiver, _] = both(0, &script.0, 1000);
    agent.prepare(receiver);
    let path = script.beside("driver").display().to_string();
    let running = running_with(&path);
    assert!(!running.is_empty(), "the program runs");
    agent.child.kill().expect("it is our child");
    agent.child.wait().expect("it is our child");
    eventually("the program ends", || {
        running.iter().all(|process| !is_running(*process))
    });
}
