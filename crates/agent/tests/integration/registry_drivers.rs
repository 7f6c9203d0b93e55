//! Every driver of the registry between two agents over loopback, through the control protocol.

use std::time::{Duration, Instant};

use regatta_control::{ProblemKind, Role, SideReport, ToAgent, TrialOrder};
use regatta_model::{Bytes, Pattern, Series, WorkloadKind};
use regatta_transport::Carries;

use crate::common::{Agent, Pair, order, tls};

/// Makes the orders of the same trial for both ends, each changed by `change`.
fn both(trial: u32, driver: &str, change: impl Fn(&mut TrialOrder)) -> [TrialOrder; 2] {
    let tls = tls();
    [Role::Receiver, Role::Sender].map(|role| {
        let mut order = order(trial, role, driver, &tls);
        change(&mut order);
        order
    })
}

/// Makes the tests of each of these drivers.
macro_rules! drivers {
    ($($module:ident => $name:literal)+) => {
        $(
            mod $module {
                use super::*;

                #[test]
                fn trials_run_through_two_agents() {
                    run($name, super::trials_run_through_two_agents);
                }

                #[test]
                fn killed_receiver_fails_one_trial_and_not_the_sender() {
                    run($name, |driver, carries| {
                        agent_survives_a_killed_peer(driver, carries, Role::Receiver, Role::Sender);
                    });
                }

                #[test]
                fn killed_sender_fails_one_trial_and_not_the_receiver() {
                    run($name, |driver, carries| {
                        agent_survives_a_killed_peer(driver, carries, Role::Sender, Role::Receiver);
                    });
                }

                #[test]
                fn agents_run_another_trial_after_an_abort_in_mid_transfer() {
                    run($name, super::agents_run_another_trial_after_an_abort_in_mid_transfer);
                }
            }
        )+

        /// Drivers that have tests.
        const TESTED: &[&str] = &[$($name),+];
    };
}

drivers! {
    tcp => "tcp"
    tcp_tls => "tcp-tls"
    mptcp => "mptcp"
    udp => "udp"
    udp_reliable => "udp-reliable"
    quic_quinn => "quic-quinn"
    quic_noq => "quic-noq"
    quic_quiche => "quic-quiche"
    quic_s2n => "quic-s2n"
    sctp => "sctp"
    sctp_userspace => "sctp-userspace"
    wdt => "wdt"
    external => "external"
    quic_aioquic => "quic-aioquic"
    sctp_pysctp => "sctp-pysctp"
    quic_go => "quic-go"
}

/// Tested drivers that are programs of their own.
const PROGRAMS: &[&str] = &["external", "quic-aioquic", "quic-go", "sctp-pysctp"];

/// Returns the size of a transfer that ends soon. Those of programs take half a second or more: what a program has used
/// that is still running is known by timer ticks, and the agent's window begins and ends when it has read the program's
/// lines.
fn full_size(driver: &str) -> u64 {
    match driver {
        "external" => 300_000_000,
        "quic-go" => 50_000_000,
        "sctp-pysctp" => 50_000_000,
        "quic-aioquic" => 8_000_000,
        _ => 1_000_000,
    }
}

/// Changes an order to the transfer of a size.
fn sized(order: &mut TrialOrder, size: u64, message: u64) {
    order.workload.kind = WorkloadKind::Bulk {
        amount: Bytes(size).into(),
        message: Bytes(message),
        pattern: Pattern::Data,
        options: regatta_model::BulkOptions::default(),
    };
}

#[test]
fn drivers_that_are_programs_are_known_as_such() {
    let registry = regatta_agent::registry();
    let names = registry.iter().map(|it| it.descriptor().name);
    let programs: Vec<_> = names
        .filter(|it| regatta_agent::runs_a_program(it))
        .collect();
    assert_eq!(programs, PROGRAMS);
}

#[test]
fn every_driver_of_the_registry_has_tests() {
    let registry = regatta_agent::registry();
    let mut names: Vec<_> = registry.iter().map(|it| it.descriptor().name).collect();
    let mut tested = TESTED.to_vec();
    names.sort_unstable();
    tested.sort_unstable();
    assert_eq!(names, tested);
}

/// Runs a test of a driver with the unit that it carries. Where this host does not support the
/// driver, an agent must say so.
fn run(name: &'static str, test: impl FnOnce(&'static str, Carries)) {
    let registry = regatta_agent::registry();
    let driver = registry.iter().find(|it| it.descriptor().name == name);
    let driver = driver.unwrap_or_else(|| panic!("no driver is called `{name}`"));
    let Err(unsupported) = driver.supported(&Default::default()) else {
        return test(name, driver.descriptor().carries);
    };
    println!("`{name}`: {unsupported}");
    let [receiver, _] = both(0, name, |_| ());
    let mut agent = Agent::greeted();
    agent.send(&ToAgent::Prepare {
        order: Box::new(receiver),
    });
    let (kind, reasons, _) = agent.receive_failure();
    assert_eq!(kind, ProblemKind::Unsupported, "{reasons:?}");
}

fn series<'a>(report: &'a SideReport, name: &str) -> Option<&'a Series> {
    report
        .measurements
        .series
        .iter()
        .find(|series| series.name == name)
}

/// Checks what holds for the report of either end.
fn check_side(driver: &str, size: u64, report: &SideReport, side: &str) {
    let context = format!("{driver}, {side}: {report:?}");
    assert!(
        report.ended_monotonic_ns > report.started_monotonic_ns,
        "{context}"
    );
    for (name, value) in &report.measurements.metrics {
        assert!(
            regatta_model::metric::find(name).is_some(),
            "`{name}` in {context}"
        );
        assert!(value.is_finite() && *value >= 0.0, "`{name}` in {context}");
    }
    for series in &report.measurements.series {
        assert!(
            regatta_model::metric::find_series(&series.name).is_some(),
            "`{}` in {context}",
            series.name
        );
        assert_eq!(series.side, side, "{context}");
        assert_eq!(series.t_ns.len(), series.values.len(), "{context}");
        assert!(series.t_ns.is_sorted(), "{context}");
    }
    for mode in ["", "_user", "_system"] {
        let name = format!("cpu_{side}{mode}_ratio");
        assert!(
            report.measurements.metrics.contains_key(&name),
            "`{name}` in {context}"
        );
    }
    let is_full_size = size >= full_size(driver);
    assert!(
        report.measurements.metrics[&format!("cpu_{side}_ratio")] > 0.0 || !is_full_size,
        "{context}"
    );
    assert!(
        report.measurements.metrics[&format!("peak_memory_{side}_bytes")] > 1e5,
        "{context}"
    );
    // The kernel counts the host's time in steps that a short window is too short for.
    let all_ns = (report.ended_monotonic_ns - report.started_monotonic_ns)
        * i64::from(regatta_telemetry::host_cpu::cores());
    assert!(
        report.measurements.metrics.contains_key("cpu_host_ratio")
            || all_ns < 110_000_000
            || PROGRAMS.contains(&driver) && !is_full_size,
        "{context}"
    );
    assert_eq!(
        report.measurements.facts[&format!("interface.{side}")],
        "lo",
        "{context}"
    );
    assert!(series(report, "cpu_ratio").is_some(), "{context}");
    assert!(series(report, "memory_bytes").is_some(), "{context}");
}

/// Checks what holds for the reports of every driver.
fn check(driver: &str, carries: Carries, size: u64, sender: &SideReport, receiver: &SideReport) {
    for (report, side) in [(sender, "sender"), (receiver, "receiver")] {
        check_side(driver, size, report, side);
    }
    // A level is the mean of its stored samples; each transfer has at least one, at its end.
    if !PROGRAMS.contains(&driver) {
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        for (metric, name) in [
            ("smoothed_rtt_mean_ns", "smoothed_rtt_ns"),
            ("congestion_window_mean_bytes", "congestion_window_bytes"),
        ] {
            let stored = series(sender, name).map(|series| mean(&series.values));
            let reported = sender.measurements.metrics.get(metric).copied();
            assert_eq!(reported, stored, "{driver}: `{metric}` of {sender:?}");
            assert!(
                reported.is_some() || driver != "tcp",
                "{driver}: {sender:?}"
            );
        }
    }
    // Over loopback the interface's packets are those of all programs.
    let packets = sender.measurements.metrics.get("mean_packet_bytes");
    assert_eq!(packets, None, "{driver}: {sender:?}");
    assert!(
        sender.measurements.metrics["goodput_bps"] > 0.0,
        "{driver}: {sender:?}"
    );
    let delivered = receiver.measurements.metrics["bytes_delivered"];
    // Datagrams may be lost, by a full buffer; a stream delivers everything.
    match carries {
        Carries::Streams | Carries::Files => {
            assert_eq!(delivered, size as f64, "{driver}: {receiver:?}")
        }
        Carries::Messages => assert!(delivered > 0.0 && delivered <= size as f64, "{driver}"),
    }
    // The samples of goodput add up to no more than was delivered.
    let goodput = series(receiver, "goodput_bps").expect("goodput at the receiver");
    let mut before = receiver.started_monotonic_ns;
    let mut bits = 0.0;
    let mut samples = goodput.t_ns.iter().zip(&goodput.values);
    if PROGRAMS.contains(&driver) {
        // Sampling begins when the program's line is read, which may be after the time that the line gives.
        before = samples.next().map_or(before, |(&t, _)| t);
    }
    for (&t, &value) in samples {
        bits += value * (t - before) as f64 / 1e9;
        before = t;
    }
    // The window begins a little before or after the session's own mark.
    assert!(
        bits <= delivered * 8.0 * 1.05,
        "{driver}: {bits} of {}",
        delivered * 8.0
    );
}

fn trials_run_through_two_agents(driver: &'static str, carries: Carries) {
    let mut pair = Pair::greeted();
    // The same agents run trial after trial: sizes that are no multiple of the message, one
    // message of one byte, and enough for a few samples.
    let full = full_size(driver);
    for (trial, size, message) in [(0, full, 1_000), (1, 10_007, 1_000), (2, 1, 1)] {
        let [receiver, sender] = both(trial, driver, |order| {
            sized(order, size, message);
            order.workload.probe.idle_messages = 3;
            order.sample_interval = Duration::from_millis(5);
        });
        let ends = pair.run_trial(receiver, sender);
        let end = |side: &str| match &ends[side] {
            Ok(report) => report.clone(),
            Err(failure) => panic!("{driver}, trial {trial}, {side}: {failure:?}"),
        };
        check(driver, carries, size, &end("sender"), &end("receiver"));
    }
    for agent in [&mut pair.sender, &mut pair.receiver] {
        agent.input = None;
        assert_eq!(
            agent.child.wait().expect("our child").code(),
            Some(0),
            "{driver}"
        );
    }
}

/// Longest time that an answer to an abort may take: a working session needs no more than a second,
/// one that is stuck is given up after two; the rest is for a loaded machine.
const ABORT_LIMIT: Duration = Duration::from_secs(10);

/// Makes the transfer endless: it cannot end by itself in the time that the test takes.
fn endless(order: &mut TrialOrder) {
    order.workload.kind = WorkloadKind::Bulk {
        amount: Bytes(1_000_000_000_000).into(),
        message: Bytes(1_000),
        pattern: Pattern::Zeros,
        options: regatta_model::BulkOptions::default(),
    };
    order.workload.probe.idle_messages = 1;
    order.deadline = Duration::from_secs(600);
}

/// Kills the agent at one end in the middle of a transfer, aborts the trial at the other end, and
/// runs a whole trial with a new agent. The controller knows at once that an agent died; how a
/// driver detects the end of its peer is left to the driver's own tests.
fn agent_survives_a_killed_peer(
    driver: &'static str,
    carries: Carries,
    killed: Role,
    survivor: Role,
) {
    let mut pair = Pair::greeted();
    let [receiver, sender] = both(0, driver, endless);
    pair.start(receiver, sender);
    pair.kill(killed);
    let aborted_at = Instant::now();
    pair.abort(survivor, 0);
    let elapsed = aborted_at.elapsed();
    assert!(
        elapsed < ABORT_LIMIT,
        "{driver}, {killed:?} killed: {elapsed:?}"
    );
    pair.replace(killed);
    let size = full_size(driver);
    let [receiver, sender] = both(1, driver, |order| sized(order, size, 1_000));
    let ends = pair.run_trial(receiver, sender);
    let [Ok(sender), Ok(receiver)] = [&ends["sender"], &ends["receiver"]] else {
        panic!("{driver} after a death: {ends:?}");
    };
    check(driver, carries, size, sender, receiver);
}

fn agents_run_another_trial_after_an_abort_in_mid_transfer(driver: &'static str, carries: Carries) {
    let mut pair = Pair::greeted();
    let [receiver, sender] = both(0, driver, endless);
    pair.start(receiver, sender);
    let aborted_at = Instant::now();
    pair.abort(Role::Sender, 0);
    pair.abort(Role::Receiver, 0);
    let elapsed = aborted_at.elapsed();
    assert!(elapsed < ABORT_LIMIT, "{driver}: {elapsed:?}");
    let size = full_size(driver);
    let [receiver, sender] = both(1, driver, |order| sized(order, size, 1_000));
    let ends = pair.run_trial(receiver, sender);
    let [Ok(sender), Ok(receiver)] = [&ends["sender"], &ends["receiver"]] else {
        panic!("{driver} after an abort: {ends:?}");
    };
    check(driver, carries, size, sender, receiver);
}
