//! Clauses of the contract for workloads in steps.

use std::time::{Duration, Instant};

use regatta_control::SideReport;
use regatta_model::{
    Script, Spread, WorkloadKind,
    script::{Action, Event, Interval, IntervalDistribution, ScriptFlow, SentBy, Step},
};
use regatta_transport::{
    Carries, Driver, TransportError,
    testing::{Pair, run_pair},
};

use crate::contract::{check_edges, check_fact, check_warning, check_within, metric, name, pair};

fn repeat(times: u64, every_ms: Option<u64>, steps: Vec<Step>) -> Step {
    let every = every_ms.map(|mean| Interval {
        mean: Duration::from_millis(mean),
        distribution: IntervalDistribution::Constant,
    });
    Step::new(Action::Repeat {
        times,
        every,
        steps,
    })
}

/// Returns a request and its response, measured as one.
fn exchange(request: u64, response: u64) -> Step {
    Step::exchange(request, response).measured()
}

fn wait(ms: u64) -> Step {
    let time = Duration::from_millis(ms);
    Step::new(Action::Wait { time })
}

fn flow(count: u32, after: Option<Event>, steps: Vec<Step>) -> ScriptFlow {
    ScriptFlow {
        name: "flow".to_owned(),
        count,
        after,
        delay: Duration::ZERO,
        steps,
    }
}

/// Whether the flows of a script may be streams of one connection.
fn has_streams(driver: &dyn Driver) -> bool {
    let descriptor = driver.descriptor();
    descriptor.multiplexes && descriptor.carries == Carries::Streams
}

fn script(driver: &dyn Driver, spread: Spread, flows: Vec<ScriptFlow>) -> WorkloadKind {
    WorkloadKind::Script(Script {
        spread: spread.of(has_streams(driver)),
        rank_by: "transfer_time_ns".to_owned(),
        flows,
    })
}

fn run(driver: &dyn Driver, kind: &WorkloadKind) -> (SideReport, SideReport, Pair) {
    pair(driver, 0, 1, |order| order.workload.kind = kind.clone())
}

/// Both ends have sent and received what the script says, undamaged: messages in both directions, of one byte and of several
/// packets, one after another without an answer, with waits at both ends, on flows whose first message comes from either. A
/// message that is a datagram has room for its number, and fits.
pub fn every_step_of_a_script_is_carried_out(driver: &dyn Driver, spread: Spread) {
    use SentBy::{Client, Server};
    let [least, most] = match driver.descriptor().carries {
        Carries::Messages => [4, 1000],
        Carries::Streams | Carries::Files => [1, u64::MAX],
    };
    let size = |bytes: u64| bytes.clamp(least, most);
    let send = |by, bytes| Step::send(by, size(bytes));
    let exchange = |request, response| exchange(size(request), size(response));
    let document = Step {
        name: Some("document".to_owned()),
        ..exchange(1, 100_000)
    };
    let flows = vec![
        flow(
            1,
            None,
            vec![document, send(Client, 1), send(Client, 70_000)],
        ),
        flow(
            3,
            Some(Event::StepEnded(0, 0)),
            vec![repeat(2, None, vec![exchange(500, 3000), wait(5)])],
        ),
        flow(
            1,
            None,
            vec![wait(10), send(Server, 40_000), wait(5), send(Server, 17)],
        ),
        flow(
            1,
            None,
            vec![send(Client, 300_000), wait(5), send(Client, 16)],
        ),
    ];
    let kind = script(driver, spread, flows);
    let WorkloadKind::Script(script) = &kind else {
        unreachable!("it was made as one");
    };
    let volume = script.volume();
    let (client, server, pair) = run(driver, &kind);
    let what = name(driver);
    for (sender, receiver, bytes) in [
        (&client, &server, volume.from_client),
        (&server, &client, volume.from_server),
    ] {
        assert_eq!(metric(sender, "bytes_sent"), bytes as f64, "{what}");
        assert_eq!(metric(receiver, "bytes_delivered"), bytes as f64, "{what}");
        assert_eq!(metric(receiver, "messages_corrupted"), 0.0, "{what}");
        assert_eq!(
            metric(sender, "messages_sent"),
            metric(receiver, "messages_delivered"),
            "{what}"
        );
    }
    let messages = metric(&client, "messages_sent") + metric(&server, "messages_sent");
    assert_eq!(messages, volume.messages as f64, "{what}");
    assert_eq!(metric(&client, "steps_measured"), 7.0, "{what}");
    assert!(metric(&client, "transfer_time_ns") >= script.least_time().as_nanos() as f64);
    let spread = match has_streams(driver) && spread == Spread::Either {
        true => "streams of one connection",
        false => "connections",
    };
    check_fact(&client, "spread", spread, what);
    check_fact(&client, "flows", "6", what);
    check_edges(&pair, what);
}

/// Flows that begin after others, or after a step of others, take the sum of their times.
pub fn a_flow_begins_when_the_one_before_has_ended(driver: &dyn Driver) {
    let named = |step: Step| Step {
        name: Some("both".to_owned()),
        ..step
    };
    let hundred = || repeat(2, Some(100), vec![exchange(4, 4)]);
    let flows = vec![
        flow(2, None, vec![named(hundred()), exchange(4, 4)]),
        flow(3, Some(Event::StepEnded(0, 0)), vec![hundred()]),
        flow(1, Some(Event::FlowsEnded(1)), vec![hundred()]),
    ];
    let (client, _, _) = run(driver, &script(driver, Spread::Either, flows));
    let what = name(driver);
    assert!(metric(&client, "transfer_time_ns") >= 300e6, "{what}");
    assert_eq!(metric(&client, "steps_measured"), 14.0, "{what}");
}

/// A step that is due while the one before it is under way counts its wait, and none before it was due.
pub fn a_step_is_measured_from_its_schedule(driver: &dyn Driver) {
    // The server takes 200 ms for each answer; the second is due after 50.
    let slow = vec![
        Step::send(SentBy::Client, 100),
        wait(200),
        Step::send(SentBy::Server, 100),
    ];
    let slow = repeat(1, None, slow).measured();
    let flows = vec![flow(1, None, vec![repeat(2, Some(50), vec![slow])])];
    let (client, _, _) = run(driver, &script(driver, Spread::Either, flows));
    let what = name(driver);
    // 200 ms, and 400 less the 50 after which it was due.
    let longest = metric(&client, "step_time_max_ns");
    assert!(longest >= 350e6, "{what}: {longest}");
    let latest = metric(&client, "transfer_time_ns") - 50e6;
    assert!(longest <= latest, "{what}: {longest}, {latest}");
    assert!(metric(&client, "step_time_mean_ns") >= 275e6, "{what}");
}

/// Of a script that takes longer than the deadline the steps that came to their end are measured.
pub fn the_deadline_ends_a_script(driver: &dyn Driver) {
    let begun = Instant::now();
    let calls = vec![repeat(100_000, Some(10), vec![exchange(100, 100)])];
    let flows = vec![
        flow(2, None, calls),
        flow(1, None, vec![wait(100_000), exchange(4, 4)]),
    ];
    let kind = script(driver, Spread::Either, flows);
    let (client, _, pair) = pair(driver, 0, 1, |order| {
        order.workload.kind = kind.clone();
        order.deadline = Duration::from_millis(400);
    });
    let what = name(driver);
    check_within(begun, 8.0, what);
    // 80 are due in that time; a busy host has less.
    let steps = metric(&client, "steps_measured");
    assert!((1.0..=82.0).contains(&steps), "{what}: {steps}");
    check_warning(&client, "deadline_reached", what);
    check_edges(&pair, what);
}

/// Over messages there are no streams that the flows of a script could be, and each message must have room for its number.
pub fn a_script_of_streams_or_tiny_messages_is_unsupported(driver: &dyn Driver) {
    let of_streams = Script {
        spread: Spread::Streams,
        ..Script::page_load()
    };
    let mut tiny = Script::page_load();
    tiny.flows[0].steps.push(Step::send(SentBy::Client, 3));
    for script in [of_streams, tiny] {
        let kind = WorkloadKind::Script(script);
        let refused = run_pair(driver, 0, 1, |order| order.workload.kind = kind.clone());
        assert!(
            matches!(refused, Err(TransportError::Unsupported(_))),
            "{}",
            name(driver)
        );
    }
}
