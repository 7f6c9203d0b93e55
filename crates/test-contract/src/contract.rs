//! Clauses of the contract that every driver must satisfy. They run over loopback, with both ends
//! in one process.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

use regatta_control::{Role, SideReport, TrialOrder};
use regatta_model::{
    Amount, BulkOptions, Bytes, Direction, OptionValue, Pattern, ProbePlacement, STACK_FACTS,
    Verify, WorkloadKind, fact, stack,
};
use regatta_transport::{
    Carries, Driver, DriverDescriptor, OptionError, OptionKind, Result, TransportError,
    TrialContext, WindowEdge,
    testing::{
        Pair, order_for, run_pair, run_pair_stopped, run_pair_then, run_pair_while, trial_context,
    },
};

/// Every driver of a registry has cases: `tested` are the names of those that have.
///
/// # Panics
/// If one has none.
pub fn drivers_have_cases(tested: &[&str], drivers: &[&dyn Driver]) {
    for &driver in drivers {
        let name = name(driver);
        assert!(tested.contains(&name), "no test is made for `{name}`");
    }
}

/// Checks that the descriptor names the same unit and reliability as the driver's tests.
pub fn carries(driver: &dyn Driver, carries: Carries, reliable: bool) {
    let descriptor = driver.descriptor();
    assert_eq!(descriptor.carries, carries, "{}", name(driver));
    assert_eq!(descriptor.reliable, reliable, "{}", name(driver));
}

pub(crate) fn name(driver: &dyn Driver) -> &'static str {
    driver.descriptor().name
}

pub(crate) fn pair(
    driver: &dyn Driver,
    size: u64,
    message: u64,
    change: impl Fn(&mut TrialOrder),
) -> (SideReport, SideReport, Pair) {
    let workload = std::cell::RefCell::new(String::new());
    let pair = run_pair(driver, size, message, |order| {
        change(order);
        *workload.borrow_mut() = order.workload.kind.description();
    })
    .expect("both ends can be prepared");
    let what = format!("{}: {}", name(driver), workload.into_inner());
    let report = |side: &Result<SideReport>, end: &str| match side {
        Ok(report) => report.clone(),
        Err(error) => panic!("{what}: {end}: {}", error.reasons().join(": ")),
    };
    (
        report(&pair.sender, "sender"),
        report(&pair.receiver, "receiver"),
        pair,
    )
}

pub(crate) fn metric(report: &SideReport, name: &str) -> f64 {
    let metrics = &report.measurements.metrics;
    let value = metrics.get(name);
    *value.unwrap_or_else(|| panic!("no metric `{name}` in {metrics:?}"))
}

/// Unknown options are refused with the nearest name, and every default is accepted.
pub fn options_are_checked(driver: &dyn Driver) {
    let none = BTreeMap::new();
    assert_eq!(driver.check_options(&none), Ok(()));
    assert_eq!(driver.supported(&none), Ok(()), "{}", name(driver));
    let check =
        |name: &str, value| driver.check_options(&BTreeMap::from([(name.to_owned(), value)]));
    let unknown = check("no-such-option", OptionValue::Flag(true));
    assert!(matches!(unknown, Err(OptionError::Unknown { .. })));
    for option in driver.descriptor().options {
        assert!(!option.help.is_empty() && !option.help.ends_with('.'));
        let wrong = check(option.name, OptionValue::Number(i64::MIN));
        assert!(wrong.is_err(), "`{}` takes any number", option.name);
        let default = match option.kind {
            _ if option.default.is_empty() => continue,
            OptionKind::Flag => OptionValue::Flag(option.default == "true"),
            OptionKind::Number { .. } => {
                OptionValue::Number(option.number(&none).expect("a number"))
            }
            _ => OptionValue::Text(option.default.to_owned()),
        };
        let default = BTreeMap::from([(option.name.to_owned(), default)]);
        assert_eq!(driver.descriptor().check(&default), Ok(()));
    }
}

/// Messages of one byte, of a header's length and about it, of many packets; last ones shorter.
pub fn every_size_is_delivered(driver: &dyn Driver, size: u64, message: u64) {
    let (sender, receiver, pair) = pair(driver, size, message, |_| {});
    let name = name(driver);
    let what = format!("{name} with {size} bytes in messages of {message}");
    let count = size.div_ceil(message) as f64;
    check_delivery(&sender, &receiver, (count, size as f64), &what);
    check_times(&sender, size, &what);
    check_fact(&sender, "acknowledgement", "in_band", &what);
    check_edges(&pair, &what);
}

/// One end of the window at each end, after at least one beginning.
pub(crate) fn check_edges(pair: &Pair, what: &str) {
    for seen in [&pair.sender_seen, &pair.receiver_seen] {
        let edges = seen.edges();
        let ends = edges.iter().filter(|edge| **edge == WindowEdge::End);
        assert_eq!(ends.count(), 1, "{what}: {edges:?}");
        assert_eq!(edges.first(), Some(&WindowEdge::Start), "{what}");
        assert_eq!(edges.last(), Some(&WindowEdge::End), "{what}");
    }
}

/// These metrics have these values.
pub(crate) fn check_metrics(expected: &[(&SideReport, &str, f64)], what: &str) {
    for (end, name, value) in expected {
        assert_eq!(metric(end, name), *value, "{what}: {name}");
    }
}

/// The report has none of these metrics.
pub(crate) fn check_absent(report: &SideReport, names: &[&str], what: &str) {
    let metrics = &report.measurements.metrics;
    let found = names.iter().find(|name| metrics.contains_key(name));
    assert_eq!(found, None, "{what}");
}

/// The report has this fact.
pub(crate) fn check_fact(report: &SideReport, name: &str, value: &str, what: &str) {
    assert_eq!(report.measurements.facts[name], value, "{what}: {name}");
}

/// The digests of both ends agree.
pub(crate) fn check_digests(sender: &SideReport, receiver: &SideReport, what: &str) {
    let sent = &sender.measurements.facts["digest.sent"];
    check_fact(receiver, "digest.delivered", sent, what);
}

/// A goodput is that of the delivered bytes over the transfer time.
pub(crate) fn check_goodput(report: &SideReport, delivered: f64, what: &str) {
    let goodput = delivered * 8e9 / metric(report, "transfer_time_ns");
    let off = (metric(report, "goodput_bps") - goodput).abs();
    assert!(off <= goodput * 1e-9, "{what}: {delivered}");
}

/// Less than this time, in seconds, has passed since `begun`.
pub(crate) fn check_within(begun: Instant, seconds: f64, what: &str) {
    let took = begun.elapsed();
    assert!(took.as_secs_f64() < seconds, "{what}: {took:?}");
}

/// The report has a warning of this code.
pub(crate) fn check_warning(report: &SideReport, code: &str, what: &str) {
    let warnings = &report.measurements.warnings;
    let has = warnings.iter().any(|warning| warning.code == code);
    assert!(has, "{what}: no `{code}` in {warnings:?}");
}

/// The report has these histograms.
pub(crate) fn check_histograms(report: &SideReport, names: &[&str], what: &str) {
    let histograms = &report.measurements.histograms;
    for name in names {
        let has = histograms.iter().any(|found| found.name == *name);
        assert!(has, "{what}: no {name}");
    }
}

/// All of these messages and bytes were sent and delivered.
pub(crate) fn check_delivery(
    sender: &SideReport,
    receiver: &SideReport,
    (messages, bytes): (f64, f64),
    what: &str,
) {
    let expected = [
        (sender, "messages_sent", messages),
        (sender, "bytes_sent", bytes),
        (sender, "messages_lost", 0.0),
        (receiver, "messages_delivered", messages),
        (receiver, "bytes_delivered", bytes),
        (receiver, "messages_corrupted", 0.0),
    ];
    check_metrics(&expected, what);
}

fn check_times(sender: &SideReport, delivered: u64, what: &str) {
    let time = metric(sender, "transfer_time_ns");
    let span = sender.ended_monotonic_ns - sender.started_monotonic_ns;
    assert_eq!(time, span as f64, "{what}");
    assert!(time > 0.0, "{what}");
    check_goodput(sender, delivered as f64, what);
    let set_up = metric(sender, "set_up_time_mean_ns");
    assert!(set_up > 0.0 && set_up <= time, "{what}");
}

/// Returns the transfer time of a sender's one connection from the moment when it could carry data,
/// in nanoseconds.
pub(crate) fn connected_time(sender: &SideReport) -> f64 {
    metric(sender, "transfer_time_ns") - metric(sender, "set_up_time_mean_ns")
}

/// Random content is checked against the same content at the other end.
pub fn random_data_is_delivered(driver: &dyn Driver) {
    let (_, receiver, _) = pair(driver, 300_000, 7000, random);
    assert_eq!(metric(&receiver, "bytes_delivered"), 300_000.0);
}

/// Random content of another seed at one end only is content that was not expected.
pub fn random_data_of_another_seed_is_not_delivered(driver: &dyn Driver) {
    let pair = run_pair(driver, 70_000, 7000, |order| {
        random(order);
        if order.role == Role::Sender {
            order.seed += 1;
        }
        order.deadline = Duration::from_secs(1);
    })
    .expect("both ends can be prepared");
    if let Ok(receiver) = &pair.receiver {
        let expected = [
            (receiver, "messages_corrupted", 10.0),
            (receiver, "messages_delivered", 0.0),
        ];
        check_metrics(&expected, name(driver));
    }
}

fn random(order: &mut TrialOrder) {
    if let WorkloadKind::Bulk { pattern, .. } = &mut order.workload.kind {
        *pattern = Pattern::Random;
    }
}

/// Idle probes come before the transfer, probes under load run beside it. The transfer is as long as its
/// deadline, as the fastest could be over before a busy processor has come to a probe: that of a guest may be away for
/// more than 200 ms.
pub fn probes_are_answered(driver: &dyn Driver) {
    let (sender, receiver, _) = pair(driver, ENDLESS, 50_000, |order| {
        order.deadline = Duration::from_millis(400);
        let probe = &mut order.workload.probe;
        probe.idle_messages = 5;
        probe.under_load = true;
        probe.interval = Duration::from_millis(1);
    });
    let what = name(driver);
    let idle = metric(&sender, "round_trip_delay_idle_p50_ns");
    assert!((1e3..1e9).contains(&idle), "{what}: {idle}");
    check_absent(&sender, &["round_trip_delay_idle_p99_ns"], what);
    assert!(metric(&sender, "probe_messages_sent") >= 1.0, "{what}");
    let mean = metric(&sender, "round_trip_delay_mean_ns");
    assert!(metric(&sender, "round_trip_delay_max_ns") >= mean, "{what}");
    check_fact(&sender, "probe.placement", "own connection", what);
    let histograms = ["round_trip_delay_idle_ns", "round_trip_delay_ns"];
    check_histograms(&sender, &histograms, what);
    let series = sender.measurements.series.first();
    let series = series.expect("a series of delays");
    assert_eq!(series.t_ns.len(), series.values.len());
    let transfer = sender.started_monotonic_ns..sender.ended_monotonic_ns;
    let outside = series.t_ns.iter().find(|t| !transfer.contains(t));
    assert_eq!(outside, None, "{what}: scheduled out of {transfer:?}");
    let descriptor = driver.descriptor();
    for end in [&sender, &receiver] {
        let again = (end.measurements.metrics).get("probe_packets_retransmitted");
        let why_not = end.measurements.facts.get("probe.packets_retransmitted");
        assert!(
            again.is_some() != why_not.is_some(),
            "{what}: {again:?}, {why_not:?}"
        );
        // A stack that counts for the transfer counts for the probe.
        let counts = descriptor.metrics.contains(&"retransmitted_packets");
        assert!(!counts || again.is_some(), "{what}: {why_not:?}");
        // Without retransmission what is lost has no answer.
        assert!(
            descriptor.reliable || again == Some(&0.0),
            "{what}: {again:?}"
        );
    }
    assert_eq!(
        series.t_ns.len() as f64 + metric(&sender, "probe_messages_lost"),
        metric(&sender, "probe_messages_sent"),
        "{what}"
    );
}

/// Nothing sends the messages of a probe with a connection of its own again, if each fits a packet; longer ones travel on a
/// stream. Both are answered.
pub fn probes_beside_streams_are_datagrams(driver: &dyn Driver) {
    for (message, is_datagram) in [(64, true), (1400, true), (8000, false)] {
        let (sender, receiver, _) = pair(driver, ENDLESS, 50_000, |order| {
            order.deadline = Duration::from_millis(100);
            order.path.mtu_bytes = 1500;
            let probe = &mut order.workload.probe;
            probe.message = Bytes(message);
            probe.idle_messages = 5;
            probe.under_load = true;
            probe.interval = Duration::from_millis(5);
        });
        let what = format!("{} with {message} B", name(driver));
        let fact = &sender.measurements.facts["probe.retransmission"];
        assert_eq!(fact.starts_with("none: "), is_datagram, "{what}: {fact}");
        assert_eq!(fact == "by the transport", !is_datagram, "{what}: {fact}");
        let idle = metric(&sender, "round_trip_delay_idle_p50_ns");
        assert!((1e3..1e9).contains(&idle), "{what}: {idle}");
        assert!(metric(&sender, "probe_messages_sent") >= 1.0, "{what}");
        for end in [&sender, &receiver] {
            let again = (end.measurements.metrics).get("probe_packets_retransmitted");
            assert!(!is_datagram || again == Some(&0.0), "{what}: {again:?}");
        }
    }
}

/// A transport that multiplexes can have the probe under load on a stream of the transfer's connection:
/// these are other metrics.
pub fn a_probe_may_share_the_connection(driver: &dyn Driver) {
    shares_the_connection(driver, Bytes(100_000_000).into(), BulkOptions::default());
}

/// As [`a_probe_may_share_the_connection`], with that of the first of several flows.
pub fn a_probe_may_share_the_connection_of_one_of_several_flows(driver: &dyn Driver) {
    shares_the_connection(
        driver,
        Amount::Time(Duration::from_millis(300)),
        BulkOptions {
            flows: 2,
            // Under load both ways answers wait for the connection's window, which the flows use up, longer than this
            // lasts: those of the beginning are measured.
            direction: Direction::Both,
            verify: Verify::Digest,
            ..BulkOptions::default()
        },
    );
}

fn shares_the_connection(driver: &dyn Driver, amount_of_bulk: Amount, of_bulk: BulkOptions) {
    if !driver.descriptor().multiplexes {
        return;
    }
    let (sender, receiver, _) = pair(driver, 100_000_000, 50_000, |order| {
        let probe = &mut order.workload.probe;
        probe.under_load = true;
        probe.interval = Duration::from_millis(1);
        probe.placement = ProbePlacement::Stream;
        if let WorkloadKind::Bulk {
            amount, options, ..
        } = &mut order.workload.kind
        {
            (*amount, *options) = (amount_of_bulk, of_bulk);
        }
    });
    let what = name(driver);
    assert!(metric(&receiver, "bytes_delivered") > 0.0, "{what}");
    check_fact(&sender, "probe.placement", "own stream", what);
    let mean = metric(&sender, "stream_round_trip_delay_mean_ns");
    let most = metric(&sender, "stream_round_trip_delay_max_ns");
    assert!(most >= mean, "{what}: {most} {mean}");
    check_absent(&sender, &["round_trip_delay_mean_ns"], what);
    for end in [&sender, &receiver] {
        check_absent(end, &["probe_packets_retransmitted"], what);
    }
    let why_not = "not known: the packets of the connection carry the transfer as well";
    check_fact(&sender, "probe.packets_retransmitted", why_not, what);
}

/// Both ends together state every fact by which stacks are compared: a value, or why there is none.
pub fn the_stack_is_described(driver: &dyn Driver) {
    for probed in [true, false] {
        let (sender, receiver, _) = pair(driver, 100_000, 1000, |order| {
            order.workload.probe.under_load = probed;
        });
        let what = name(driver);
        for stated in STACK_FACTS {
            let value = (sender.measurements.facts.get(stated.name))
                .or(receiver.measurements.facts.get(stated.name));
            let value = value.unwrap_or_else(|| panic!("{what} does not state `{}`", stated.name));
            assert!(!value.is_empty(), "{what}: `{}`", stated.name);
            let is_stated = !value.contains(&fact::not_stated().to_string());
            assert!(is_stated, "{what}: `{}`", stated.name);
            for beginning in [stack::NOT_APPLICABLE, stack::NOT_KNOWN] {
                let reason = value.strip_prefix(beginning);
                let has_reason = reason.is_none_or(|reason| reason.starts_with(": "));
                assert!(has_reason, "{what}: `{}` is `{value}`", stated.name);
            }
        }
        // What the stack reports is what the descriptor names, as far as the ends themselves write it.
        let reports = |name: &&str| {
            let ends = [&sender, &receiver];
            ends.iter()
                .any(|end| end.measurements.metrics.contains_key(name))
        };
        let known = DriverDescriptor::ALL_LEVELS.iter().copied();
        let undeclared = known
            .filter(reports)
            .find(|name| !driver.descriptor().metrics.contains(name));
        assert_eq!(
            undeclared, None,
            "{what} does not name a metric of its stack"
        );
        let placement = if probed { "own connection" } else { "none" };
        check_fact(&sender, "probe.placement", placement, what);
    }
}

/// A transfer that takes too long is measured on what was delivered by its deadline.
pub fn the_deadline_is_kept(driver: &dyn Driver) {
    let deadline = Duration::from_secs(1);
    let begun = Instant::now();
    let (sender, receiver, pair) = pair(driver, ENDLESS, 10_000, |order| {
        order.deadline = deadline;
        order.workload.probe.under_load = true;
    });
    let what = name(driver);
    check_within(begun, 5.6, what);
    let delivered = metric(&receiver, "bytes_delivered");
    assert!(delivered > 0.0, "{what}");
    let connected = connected_time(&sender);
    if driver.descriptor().carries == Carries::Files {
        // Each connection's set-up begins with its own connect call; the first one's end counts.
        assert!((1e9..2e9).contains(&connected), "{what}: {connected}");
    } else {
        assert_eq!(connected, 1e9, "{what}");
    }
    check_times(&sender, delivered as u64, what);
    assert!(metric(&sender, "bytes_sent") >= delivered, "{what}");
    check_deadline_warning(&sender, delivered, what);
    assert_eq!(pair.receiver_seen.edges().last(), Some(&WindowEdge::End));
}

/// The connecting end warns that its deadline ended the transfer, with the delivered bytes that are counted at
/// the end that got them: bytes after the deadline count at neither.
pub(crate) fn check_deadline_warning(connecting: &SideReport, delivered: f64, what: &str) {
    let mut warnings = connecting.measurements.warnings.iter();
    let warning = warnings.find(|warning| warning.code == "deadline_reached");
    let message = warning.map_or("", |warning| &warning.message);
    let bytes = format!(": {} of ", Bytes(delivered as u64));
    assert!(message.contains(&bytes), "{what}: {message:?}, {delivered}");
    // To the byte, which the sentence rounds.
    check_goodput(connecting, delivered, what);
}

/// Waits until the receiver has got some data.
pub(crate) fn wait_for_data(receiver: &TrialContext) {
    let begun = Instant::now();
    while receiver.live.bytes_delivered.load(Ordering::Relaxed) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(10), "nothing arrives");
        thread::sleep(Duration::from_millis(1));
    }
}

const ENDLESS: u64 = 40_000_000_000_000;

/// The host can end a trial at any time.
pub fn an_abort_ends_both_ends(driver: &dyn Driver) {
    run_pair_stopped(driver, ENDLESS, 10_000, |_| {}, wait_for_data);
}

/// The host can end a receiver without a sender at any time.
pub fn an_abort_ends_a_receiver_that_waits(driver: &dyn Driver) {
    let mut aborted = Instant::now();
    let order = order_for(Role::Receiver, name(driver), 1000, 1000);
    let (context, _) = trial_context();
    let receiver = driver.session(&order, context.clone()).expect("a receiver");
    let result = thread::scope(|scope| {
        let receiver = scope.spawn(move || receiver.run(None));
        thread::sleep(Duration::from_millis(20));
        aborted = Instant::now();
        context.stop.stop();
        receiver
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    assert!(matches!(result, Err(TransportError::Cancelled)));
    check_within(aborted, 1.0, name(driver));
}

/// A sender whose receiver has vanished fails, or stops at its deadline, with the reason.
pub fn a_vanished_receiver_is_noticed(driver: &dyn Driver) {
    let begun = Instant::now();
    let pair = run_pair_while(
        driver,
        ENDLESS,
        10_000,
        |order| order.deadline = Duration::from_secs(2),
        |_, receiver| {
            wait_for_data(receiver);
            receiver.stop.stop();
        },
    )
    .expect("both ends can be prepared");
    let what = name(driver);
    let error = pair.sender.expect_err("the receiver is gone");
    assert!(!error.reasons().concat().is_empty(), "{what}");
    check_within(begun, 15.0, what);
}

/// A receiver whose sender has vanished fails with the reason.
pub fn a_vanished_sender_is_noticed(driver: &dyn Driver) {
    let begun = Instant::now();
    let pair = run_pair_while(
        driver,
        ENDLESS,
        10_000,
        |_| {},
        |sender, receiver| {
            wait_for_data(receiver);
            sender.stop.stop();
        },
    )
    .expect("both ends can be prepared");
    let what = name(driver);
    let error = pair.receiver.expect_err("the sender is gone");
    assert!(!error.reasons().concat().is_empty(), "{what}");
    check_within(begun, 15.0, what);
}

/// Longest time that data of a sender that has ended is in flight on loopback.
const DRAIN_TIME: Duration = Duration::from_millis(100);

/// Runs a pair in which the sender must not be admitted.
fn nothing_is_delivered(driver: &dyn Driver, change: impl Fn(&mut TrialOrder)) -> Pair {
    let begun = Instant::now();
    let mut live = None;
    let pair = run_pair_then(
        driver,
        100_000,
        1000,
        |order| {
            order.connect_deadline = Duration::from_millis(500);
            order.deadline = Duration::from_millis(500);
            change(order);
        },
        |receiver| {
            thread::sleep(DRAIN_TIME);
            live = Some(Arc::clone(&receiver.live));
            receiver.stop.stop();
        },
    )
    .expect("both ends can be prepared");
    // The receiver has ended too.
    let delivered = live.map(|live| live.bytes_delivered.load(Ordering::Relaxed));
    assert_eq!(delivered, Some(0), "{}", name(driver));
    check_within(begun, 15.0, name(driver));
    if let Ok(sender) = &pair.sender {
        // A transport of messages cannot distinguish a refusal from a path that loses everything.
        let expected = [(sender, "goodput_bps", 0.0), (sender, "bytes_sent", 0.0)];
        check_metrics(&expected, name(driver));
    }
    pair
}

/// A flow without the trial's token delivers nothing.
pub fn a_wrong_token_is_refused(driver: &dyn Driver) {
    let pair = nothing_is_delivered(driver, |order| {
        if order.role == Role::Sender {
            order.token = "00".repeat(16);
        }
    });
    if driver.descriptor().carries != Carries::Messages {
        assert!(pair.sender.is_err(), "{}", name(driver));
    }
}

/// A peer that was not announced delivers nothing, with the right token too.
pub fn a_stranger_is_refused(driver: &dyn Driver) {
    nothing_is_delivered(driver, |order| {
        if order.role == Role::Receiver {
            order.peer = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
        }
    });
}
