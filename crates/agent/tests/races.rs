//! Every driver of the registry between two agents over loopback, through the control protocol.

mod common;

use std::time::{Duration, Instant};

use common::{Pair, order, tls};
use regatta_control::{Role, SideReport, TrialOrder};
use regatta_model::{Bytes, Pattern, Series, WorkloadKind};
use regatta_transport::Carries;

/// The same trial at both ends, changed alike.
fn both(trial: u32, driver: &str, change: impl Fn(&mut TrialOrder)) -> [TrialOrder; 2] {
    let tls = tls();
    [Role::Receiver, Role::Sender].map(|role| {
        let mut order = order(trial, role, driver, &tls);
        change(&mut order);
        order
    })
}

/// Drivers of the registry that this host supports, by name, with what they carry.
fn supported() -> Vec<(&'static str, Carries)> {
    let found: Vec<_> = regatta_agent::registry()
        .into_iter()
        .filter(|driver| driver.supported(&Default::default()).is_ok())
        .map(|driver| (driver.descriptor().name, driver.descriptor().carries))
        .collect();
    assert!(!found.is_empty(), "no driver is supported here");
    found
}

fn series<'a>(report: &'a SideReport, name: &str) -> Option<&'a Series> {
    report.series.iter().find(|series| series.name == name)
}

/// What every report must hold, whichever driver made it.
fn check(driver: &str, carries: Carries, size: u64, sender: &SideReport, receiver: &SideReport) {
    for (report, side) in [(sender, "sender"), (receiver, "receiver")] {
        let about = format!("{driver}, {side}: {report:?}");
        assert!(
            report.ended_monotonic_ns > report.started_monotonic_ns,
            "{about}"
        );
        for (name, value) in &report.metrics {
            assert!(
                regatta_model::metric::find(name).is_some(),
                "`{name}` in {about}"
            );
            assert!(value.is_finite() && *value >= 0.0, "`{name}` in {about}");
        }
        for series in &report.series {
            assert!(
                regatta_model::metric::find_series(&series.name).is_some(),
                "`{}` in {about}",
                series.name
            );
            assert_eq!(series.side, side, "{about}");
            assert_eq!(series.t_ns.len(), series.values.len(), "{about}");
            assert!(series.t_ns.is_sorted(), "{about}");
        }
        for what in ["", "_user", "_system"] {
            let name = format!("cpu_{side}{what}_ratio");
            assert!(report.metrics.contains_key(&name), "`{name}` in {about}");
        }
        // Of a program that is running at the end of a window shorter than a timer tick, the kernel
        // may not know yet what it has used.
        assert!(
            report.metrics[&format!("cpu_{side}_ratio")] > 0.0 || size < 1_000_000,
            "{about}"
        );
        assert!(
            report.metrics[&format!("peak_memory_{side}_bytes")] > 1e5,
            "{about}"
        );
        // The kernel counts the host's time in steps that a short window is too short for.
        let all_ns = (report.ended_monotonic_ns - report.started_monotonic_ns)
            * i64::from(regatta_telemetry::host_cpu::cores());
        assert!(
            report.metrics.contains_key("cpu_host_ratio") || all_ns < 110_000_000,
            "{about}"
        );
        assert_eq!(report.facts[&format!("interface.{side}")], "lo", "{about}");
        assert!(series(report, "cpu_ratio").is_some(), "{about}");
        assert!(series(report, "memory_bytes").is_some(), "{about}");
    }
    assert!(
        sender.metrics["packets_sent"] >= 1.0,
        "{driver}: {sender:?}"
    );
    assert!(
        sender.metrics["mean_packet_bytes"] >= 20.0,
        "{driver}: {sender:?}"
    );
    assert!(sender.metrics["goodput_bps"] > 0.0, "{driver}: {sender:?}");
    let delivered = receiver.metrics["bytes_delivered"];
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
    for (&t, &value) in goodput.t_ns.iter().zip(&goodput.values) {
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

#[test]
fn every_driver_races_through_two_agents() {
    for (driver, carries) in supported() {
        let mut pair = Pair::greeted();
        // The same agents run trial after trial: sizes that are no multiple of the message, one
        // message of one byte, and enough for a few samples.
        for (trial, size, message) in [(0, 1_000_000, 1_000), (1, 10_007, 1_000), (2, 1, 1)] {
            let [receiver, sender] = both(trial, driver, |order| {
                order.workload.kind = WorkloadKind::Bulk {
                    size: Bytes(size),
                    message: Bytes(message),
                    pattern: Pattern::Data,
                    options: regatta_model::BulkOptions::default(),
                };
                order.workload.probe.idle_messages = 3;
                order.sample_interval = Duration::from_millis(5);
            });
            let ends = pair.race(receiver, sender);
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
}

/// Longest that an answer to an abort may take: a session that is well needs no more than a second,
/// one that is stuck is given up after two; the rest is for a loaded machine.
const ABORT_LIMIT: Duration = Duration::from_secs(10);

/// A transfer that cannot end by itself in the time that the test takes.
fn endless(order: &mut TrialOrder) {
    order.workload.kind = WorkloadKind::Bulk {
        size: Bytes(1_000_000_000_000),
        message: Bytes(1_000),
        pattern: Pattern::Zeros,
        options: regatta_model::BulkOptions::default(),
    };
    order.workload.probe.idle_messages = 1;
    order.deadline = Duration::from_secs(600);
}

/// What a driver does by itself when its peer is gone, each driver's own tests hold; the controller
/// knows at once that an agent died, and aborts the other.
#[test]
fn the_death_of_one_agent_costs_one_trial_and_not_the_other_agent() {
    for (driver, carries) in supported() {
        for (killed, survivor) in [
            (Role::Receiver, Role::Sender),
            (Role::Sender, Role::Receiver),
        ] {
            let mut pair = Pair::greeted();
            let [receiver, sender] = both(0, driver, endless);
            pair.start(receiver, sender);
            pair.kill(killed);
            let asked = Instant::now();
            pair.abort(survivor, 0);
            let took = asked.elapsed();
            assert!(took < ABORT_LIMIT, "{driver}, {killed:?} killed: {took:?}");
            pair.replace(killed);
            let [receiver, sender] = both(1, driver, |_| ());
            let ends = pair.race(receiver, sender);
            let [Ok(sender), Ok(receiver)] = [&ends["sender"], &ends["receiver"]] else {
                panic!("{driver} after a death: {ends:?}");
            };
            check(driver, carries, 1_000_000, sender, receiver);
        }
    }
}

#[test]
fn an_abort_in_mid_transfer_leaves_agents_that_race_again() {
    for (driver, carries) in supported() {
        let mut pair = Pair::greeted();
        let [receiver, sender] = both(0, driver, endless);
        pair.start(receiver, sender);
        let asked = Instant::now();
        pair.abort(Role::Sender, 0);
        pair.abort(Role::Receiver, 0);
        let took = asked.elapsed();
        assert!(took < ABORT_LIMIT, "{driver}: {took:?}");
        let [receiver, sender] = both(1, driver, |_| ());
        let ends = pair.race(receiver, sender);
        let [Ok(sender), Ok(receiver)] = [&ends["sender"], &ends["receiver"]] else {
            panic!("{driver} after an abort: {ends:?}");
        };
        check(driver, carries, 1_000_000, sender, receiver);
    }
}
