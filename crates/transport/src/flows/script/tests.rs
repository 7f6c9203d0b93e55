//! A script over a transport of messages in memory that loses as the test says.

use std::time::Duration;

use regatta_control::SideReport;
use regatta_model::{
    Script, Spread, WorkloadKind,
    script::{ScriptFlow, SentBy, Step},
};

use crate::wire::{Decide, Impairment, Lossy, run};

/// Runs a flow of these steps; returns the reports of client and server.
fn run_steps(there: Decide, back: Decide, steps: Vec<Step>) -> [SideReport; 2] {
    let flow = ScriptFlow {
        name: "flow".to_owned(),
        count: 1,
        after: None,
        delay: Duration::ZERO,
        steps,
    };
    let script = WorkloadKind::Script(Script {
        spread: Spread::Either,
        rank_by: "transfer_time_ns".to_owned(),
        flows: vec![flow],
    });
    let pair = run(&Lossy::new(there, back), &script);
    let client = pair.sender.expect("the client's report");
    [client, pair.receiver.expect("the server's report")]
}

fn check(report: &SideReport, expected: &[(&str, f64)]) {
    for (name, expected) in expected {
        assert_eq!(report.measurements.metrics[*name], *expected, "{name}");
    }
}

#[test]
fn a_lost_request_and_a_lost_answer_lose_their_step() {
    let [client, server] = run_steps(
        |length, number| match (length, number) {
            (200, 1) => Impairment::Lost,
            _ => Impairment::Delivered,
        },
        |length, number| match (length, number) {
            (50, 3) => Impairment::Lost,
            (50, 5) => Impairment::Doubled,
            _ => Impairment::Delivered,
        },
        vec![Step::repeat(10, Step::exchange(200, 50).measured())],
    );
    check(
        &client,
        &[
            ("messages_sent", 10.0),
            ("messages_lost", 1.0),
            ("messages_delivered", 8.0),
            ("messages_duplicated", 1.0),
            ("steps_measured", 8.0),
            ("steps_lost", 2.0),
            ("late_answers", 0.0),
        ],
    );
    check(
        &server,
        &[
            ("messages_delivered", 9.0),
            ("messages_sent", 9.0),
            ("messages_lost", 1.0),
            ("bytes_sent", 450.0),
        ],
    );
    assert_eq!(client.measurements.facts["answers.timeout"], "1 s");
    // Both time-outs are in the time of the transfer, and in no step.
    let metrics = &client.measurements.metrics;
    assert!(metrics["transfer_time_ns"] >= 2e9);
    assert!(metrics["step_time_max_ns"] < 1e9);
}

#[test]
fn messages_one_way_wait_for_none_that_is_lost() {
    let lossy: Decide = |length, number| match (length, number) {
        (100, 0 | 7 | 19) => Impairment::Lost,
        _ => Impairment::Delivered,
    };
    let through: Decide = |_, _| Impairment::Delivered;
    let push = |by| vec![Step::repeat(20, Step::send(by, 100))];
    let [client, server] = run_steps(lossy, through, push(SentBy::Client));
    check(&client, &[("messages_sent", 20.0), ("messages_lost", 3.0)]);
    check(&server, &[("messages_delivered", 17.0)]);
    assert!(client.measurements.metrics["transfer_time_ns"] < 1e9);
    let [client, server] = run_steps(through, lossy, push(SentBy::Server));
    check(&client, &[("messages_delivered", 17.0)]);
    check(&server, &[("messages_sent", 20.0), ("messages_lost", 3.0)]);
    // The last one is given up after its time-out.
    assert!((1e9..2e9).contains(&client.measurements.metrics["transfer_time_ns"]));
}

#[test]
fn an_overtaken_message_of_a_request_is_awaited() {
    let request = vec![
        Step::send(SentBy::Client, 100),
        Step::send(SentBy::Client, 101),
        Step::send(SentBy::Server, 50),
    ];
    let call = Step {
        measured: true,
        ..Step::new(regatta_model::script::Action::Repeat {
            times: 1,
            every: None,
            steps: request,
        })
    };
    let [client, server] = run_steps(
        |length, _| match length {
            100 => Impairment::Overtaken,
            _ => Impairment::Delivered,
        },
        |_, _| Impairment::Delivered,
        vec![Step::repeat(5, call)],
    );
    check(&client, &[("steps_measured", 5.0), ("steps_lost", 0.0)]);
    check(
        &server,
        &[("messages_reordered", 5.0), ("messages_lost", 0.0)],
    );
}
