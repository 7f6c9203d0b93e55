//! Workloads in steps, as studies have them.

use std::time::Duration;

use regatta_model::{
    Bytes, Direction, Script, Spread, Study, WorkloadKind,
    script::{Action, Event, IntervalDistribution, SentBy, Step},
};

/// Reads a study with a script of these lines, the first of which is line 8.
fn read(lines: &str) -> Result<Script, String> {
    let text = format!(
        "name = \"s\"\n[[transport]]\ndriver = \"tcp\"\n[[condition]]\nname = \"c\"\n[[workload]]\n\
         kind = \"script\"\n{lines}\n"
    );
    let study = Study::parse(&text, "my-study.toml").map_err(|error| error.to_string())?;
    match study.workloads.into_iter().next().map(|it| it.kind) {
        Some(WorkloadKind::Script(script)) => Ok(script),
        other => Err(format!("{other:?}")),
    }
}

/// Reads a script with one flow of these steps, in line 9.
fn steps(steps: &str) -> Result<Script, String> {
    read(&format!("[[workload.flow]]\nsteps = [{steps}]"))
}

#[test]
fn a_script_without_flows_loads_a_page() {
    let page = read("").expect("a script");
    assert_eq!(page, Script::page_load());
    let volume = page.volume();
    assert_eq!(volume.messages, 62);
    assert_eq!((volume.from_client, volume.from_server), (15_500, 780_000));
    assert_eq!(page.direction(), Direction::Both);
    assert_eq!(
        page.description(),
        "first, 5 of others: 62 messages, 795.5 kB"
    );
}

#[test]
fn every_key_of_a_script_is_read() {
    let script = read(
        "spread = \"connections\"
         [[workload.flow]]
         name = \"first\"
         steps = [{ request = \"1B\", response = \"2B\", measure = true }]
         [[workload.flow]]
         count = 3
         after = \"first\"
         delay = \"5ms\"
         steps = [
           { send = \"3B\", from = \"server\" },
           { wait = \"7ms\" },
           { repeat = 11, every = \"13ms\", spacing = \"exponential\", steps = [{ send = \"17B\" }] },
           { steps = [{ send = \"19B\" }] },
         ]",
    )
    .expect("a script");
    assert_eq!(script.spread, Spread::Connections);
    assert_eq!(script.ranked_by(), "step_time_p95_ns");
    let [first, second] = &script.flows[..] else {
        panic!("two flows");
    };
    assert!(first.steps[0].measured);
    assert_eq!(
        (second.count, second.after),
        (3, Some(Event::FlowsEnded(0)))
    );
    assert_eq!(second.name, "flow 2");
    assert_eq!(second.delay, Duration::from_millis(5));
    let actions: Vec<_> = second.steps.iter().map(|step| &step.action).collect();
    let pushed = Action::Send {
        by: SentBy::Server,
        size: Bytes(3),
    };
    assert_eq!(actions[0], &pushed);
    let waited = Action::Wait {
        time: Duration::from_millis(7),
    };
    assert_eq!(actions[1], &waited);
    let Action::Repeat {
        times: 11,
        every: Some(every),
        ..
    } = actions[2]
    else {
        panic!("{:?}", actions[2]);
    };
    assert_eq!(every.mean, Duration::from_millis(13));
    assert_eq!(every.distribution, IntervalDistribution::Exponential);
    assert_eq!(second.volume().from_client, 11 * 17 + 19);
    let kind = WorkloadKind::Script(script);
    let stored = serde_json::to_string(&kind).expect("JSON");
    let read_again: WorkloadKind = serde_json::from_str(&stored).expect("a kind");
    assert_eq!(read_again, kind);
}

/// Asserts that a script is refused at a line and column, with this message.
fn assert_refused(refused: Result<Script, String>, place: &str, expected: &str) {
    let shown = refused.expect_err(expected);
    assert!(shown.contains(expected), "{shown}");
    assert!(shown.contains(&format!("my-study.toml:{place}")), "{shown}");
    assert!(shown.contains("hint: "), "{shown}");
}

macro_rules! refused {
    ($($name:ident: $script:expr, $place:literal, $expected:literal;)*) => {
        $(#[test]
        fn $name() {
            assert_refused($script, $place, $expected);
        })*
    };
}

refused! {
    a_step_without_an_action: steps("{}"), "9:10", "this step does nothing";
    a_step_with_two_actions: steps("{ send = \"1B\", wait = \"1s\" }"), "9:10", "a step does one thing";
    a_misspelt_action: steps("{ sned = \"1B\" }"), "9:10", "did you mean `send`?";
    a_response_without_a_request: steps("{ response = \"1B\" }"), "9:10", "a `response` and no `request`";
    a_schedule_without_a_repetition: steps("{ every = \"1s\", steps = [{ send = \"1B\" }] }"), "9:10", "`every` is that of `repeat`";
    a_request_without_a_response: steps("{ request = \"1B\" }"), "9:10", "has no `response`";
    an_unknown_key: steps("{ send = \"1B\", by = \"server\" }"), "9:25", "unknown key `by`";
    an_empty_message: steps("{ send = \"0B\" }"), "9:19", "this size must be from 1 B";
    a_flow_without_messages: steps("{ wait = \"1s\" }"), "8:1", "this flow has no messages";
    a_flow_without_steps: read("[[workload.flow]]\nname = \"a\""), "8:1", "there are no `steps`";
    two_flows_of_one_name:
        read("[[workload.flow]]\nname = \"a\"\nsteps = [{ send = \"1B\" }]\n[[workload.flow]]\nname = \"a\"\nsteps = [{ send = \"1B\" }]"),
        "12:8", "two flows or steps `a`";
    a_flow_after_one_that_is_not_above: read("[[workload.flow]]\nafter = \"b\"\nsteps = [{ send = \"1B\" }]"),
        "9:9", "no flow or step `b` stands above this flow";
    a_first_flow_with_a_delay: read("[[workload.flow]]\ndelay = \"1s\"\nsteps = [{ send = \"1B\" }]"),
        "9:9", "the first flow begins with the transfer";
    too_many_messages: steps("{ repeat = 2000000, steps = [{ send = \"1B\" }, { send = \"1B\" }] }"),
        "8:1", "6000000 messages, waits and repetitions";
    too_many_repetitions_without_messages:
        steps("{ send = \"1B\" }, { repeat = 1000000, steps = [{ repeat = 1000, steps = [{ wait = \"1ns\" }] }] }"),
        "8:1", "messages, waits and repetitions";
    an_action_beside_repeat: steps("{ repeat = 2, send = \"1B\" }"), "9:10", "a step with `repeat` has what it repeats in `steps`";
    two_steps_of_one_name: steps("{ send = \"1B\", name = \"a\" }, { send = \"1B\", name = \"a\" }"),
        "9:", "two steps of this name";
    a_name_inside_a_repetition: steps("{ repeat = 2, steps = [{ send = \"1B\", name = \"a\" }] }"),
        "9:", "only a step of the flow itself has a name";
    a_measured_step_after_the_wait_of_the_time_before:
        steps("{ repeat = 5, steps = [{ send = \"1B\", from = \"server\", measure = true }, { wait = \"1s\" }] }"),
        "9:10", "the moment at which the server begins this one is not known";
    a_percentile_of_too_few_steps:
        read("rank_by = \"step_time_p99_ns\"\n[[workload.flow]]\nsteps = [{ repeat = 99, steps = [{ request = \"1B\", response = \"1B\", measure = true }] }]"),
        "8:11", "this script measures 99 steps";
    too_many_flows: read("[[workload.flow]]\ncount = 2000\nsteps = [{ send = \"1B\" }]"),
        "9:9", "`count` cannot be 2000";
    a_spacing_without_a_schedule: steps("{ repeat = 2, spacing = \"exponential\", steps = [{ send = \"1B\" }] }"),
        "9:34", "`spacing` is that of `every`";
    a_measured_step_that_ends_at_the_server: steps("{ send = \"1B\", measure = true }"),
        "9:35", "does not end with a message from the server";
    a_measured_step_that_the_server_begins_later:
        steps("{ repeat = 2, every = \"1s\", steps = [{ send = \"1B\", from = \"server\", measure = true }] }"),
        "9:", "the moment at which the server begins this one is not known";
    a_ranking_by_steps_that_nothing_measures:
        read("rank_by = \"step_time_p50_ns\"\n[[workload.flow]]\nsteps = [{ send = \"1B\" }]"),
        "8:11", "no step of this script is measured";
    a_ranking_by_another_metric: read("rank_by = \"goodput_bps\""), "8:11", "a script is not ranked by `goodput_bps`";
    a_schedule_beyond_the_deadline: steps("{ repeat = 61, every = \"1s\", steps = [{ send = \"1B\" }] }"),
        "6:1", "the waits and schedules of this script take";
}

#[test]
fn a_flow_begins_after_a_step_of_another() {
    let script = read(
        "[[workload.flow]]
         steps = [{ send = \"1B\" }, { request = \"1B\", response = \"1B\", name = \"first\" }, { send = \"1B\" }]
         [[workload.flow]]
         after = \"first\"
         steps = [{ send = \"1B\" }]",
    )
    .expect("a script");
    assert_eq!(script.flows[1].after, Some(Event::StepEnded(0, 1)));
    assert!(script.is_sound());
    // There and back, and there and the acknowledgement.
    let time = script.time(Duration::from_millis(100), f64::INFINITY);
    assert_eq!(time, Duration::from_millis(200));
}

/// What an order may have that no study has.
#[test]
fn scripts_that_no_study_can_have_are_not_sound() {
    let of = |change: fn(&mut Script)| {
        let mut script = Script::page_load();
        assert!(script.is_sound());
        change(&mut script);
        script.is_sound()
    };
    assert!(!of(|it| it.flows.clear()));
    assert!(!of(|it| it.flows[0].count = 0));
    assert!(!of(|it| it.flows[0].count = u32::MAX));
    assert!(!of(|it| it.flows[0].after = Some(Event::FlowsEnded(0))));
    assert!(!of(|it| it.flows[1].after = Some(Event::StepEnded(0, 9))));
    assert!(!of(
        |it| it.flows[0].steps = vec![Step::send(SentBy::Client, 0)]
    ));
    assert!(!of(
        |it| it.flows[0].steps = vec![Step::exchange(1, u64::MAX)]
    ));
    assert!(!of(|it| {
        let steps = Vec::new();
        let action = Action::Repeat {
            times: u64::MAX,
            every: None,
            steps,
        };
        it.flows[0].steps = vec![Step::new(action)];
    }));
    assert!(!of(|it| {
        let once = Step::send(SentBy::Client, 1);
        it.flows[0].steps = vec![(0..20).fold(once, |inner, _| Step::repeat(u64::MAX, inner))];
    }));
}

#[test]
fn steps_within_too_many_others_are_refused() {
    let nested = (0..20).fold("{ send = \"1B\" }".to_owned(), |inner, _| {
        format!("{{ steps = [{inner}] }}")
    });
    let shown = steps(&nested).expect_err("too deep");
    assert!(shown.contains("within more than 8 others"), "{shown}");
}

/// Times by hand: a path of 100 ms there and back and 8 Mbit/s, a byte each microsecond.
#[test]
fn a_script_takes_its_turns_its_bytes_and_its_waits() {
    let time = |lines: &str| {
        let script = steps(lines).expect("a script");
        script.time(Duration::from_millis(100), 8e6).as_millis()
    };
    // There, and the acknowledgement back.
    assert_eq!(time("{ send = \"10kB\" }"), 10 + 50 + 50);
    assert_eq!(
        time("{ request = \"1kB\", response = \"10kB\" }"),
        1 + 50 + 10 + 50
    );
    assert_eq!(
        time("{ repeat = 3, steps = [{ request = \"1kB\", response = \"1kB\" }] }"),
        3 * 102
    );
    assert_eq!(
        time("{ repeat = 3, every = \"1s\", steps = [{ request = \"1kB\", response = \"1kB\" }] }"),
        2000 + 102
    );
    assert_eq!(
        time("{ send = \"1kB\" }, { wait = \"3s\" }, { send = \"1kB\" }"),
        3002 + 100
    );
}
