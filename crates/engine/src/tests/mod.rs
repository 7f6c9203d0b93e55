//! Tests of runs on a fake bed: events, their order, and failures.

mod competition;
pub(crate) mod fake_bed;
pub(crate) mod fake_monitor;
mod monitors;
mod ready;
mod repeats;
mod series;
mod successes;

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use regatta_bed::Host;
use regatta_control::{FromAgent, PROTOCOL_VERSION, Problem, ProblemKind, ToAgent};
use regatta_model::{Link, Outcome, Ratio, RunPart, Step, TrialRecord, Until};

use crate::{
    Done, Ending, EngineError, Event, Listener, ListenerError, Plan, Run, RunOptions, StopRule,
    limits,
    tests::fake_bed::{Action, FakeBed, healthy_agent, hello, study},
};

#[derive(Default)]
struct EventRecorder {
    events: Vec<Event>,
    /// Number of records after which the listener fails.
    full_after: Option<usize>,
}

impl Listener for EventRecorder {
    fn on_event(&mut self, event: &Event) -> Result<(), ListenerError> {
        if matches!(event, Event::TrialEnded { .. })
            && self
                .full_after
                .is_some_and(|most| self.trials().len() >= most)
        {
            return Err("no space left on device".into());
        }
        self.events.push(event.clone());
        Ok(())
    }
}

impl EventRecorder {
    fn trials(&self) -> Vec<&TrialRecord> {
        self.events
            .iter()
            .filter_map(|event| match event {
                Event::TrialEnded { trial, .. } => Some(&**trial),
                _ => None,
            })
            .collect()
    }

    fn outcomes(&self) -> Vec<Outcome> {
        self.trials().iter().map(|trial| trial.outcome).collect()
    }

    fn warning_codes(&self) -> Vec<&str> {
        self.events
            .iter()
            .filter_map(|event| match event {
                Event::Warning { warning } => Some(warning.code.as_str()),
                _ => None,
            })
            .collect()
    }
}

fn options(done: Done) -> RunOptions {
    RunOptions {
        run_id: "run".into(),
        study_text: String::new(),
        done,
        files: None,
        part: RunPart::default(),
    }
}

fn run_from(
    bed: &mut FakeBed,
    plan: &Plan,
    done: Done,
) -> (Result<Ending, EngineError>, EventRecorder) {
    let mut recorded = EventRecorder::default();
    let ending = Run::new(plan.clone(), options(done)).run(bed, &mut recorded);
    (ending, recorded)
}

fn run(bed: &mut FakeBed, plan: &Plan) -> (Result<Ending, EngineError>, EventRecorder) {
    run_from(bed, plan, Done::default())
}

#[test]
fn a_complete_run_sends_its_events_in_order() {
    let plan = Plan::new(&study(2, 2, 2)).unwrap();
    let mut bed = FakeBed::healthy();
    let (ending, recorded) = run(&mut bed, &plan);
    assert_eq!(ending.unwrap(), Ending::Complete);
    assert!(matches!(
        recorded.events[0],
        Event::RunStarted {
            trials: 8,
            done: 0,
            ..
        }
    ));
    assert!(matches!(recorded.events[1], Event::PathChecked { .. }));
    assert!(matches!(
        recorded.events.last(),
        Some(Event::RunEnded { .. })
    ));
    let trials = recorded.trials();
    let indices: Vec<u32> = trials.iter().map(|trial| trial.index).collect();
    assert_eq!(indices, (0..8).collect::<Vec<u32>>());
    assert!(
        trials
            .iter()
            .all(|trial| trial.outcome == Outcome::Measured)
    );
    assert_eq!(bed.spawned.get("a"), Some(&1), "one agent serves the run");
    // Each trial's path is set with the trial's seed.
    let seeds: Vec<u64> = trials.iter().map(|trial| trial.seed).collect();
    let set: Vec<u64> = bed.conditions_set.iter().map(|set| set.1).collect();
    assert_eq!(seeds, set);
}

#[test]
fn a_run_ends_with_the_round_in_which_its_intervals_are_narrow() {
    let mut study = study(2, 1, 40);
    study.until = Some(Until::Narrow(Ratio(0.03)));
    let plan = Plan::new(&study).unwrap();
    let (ending, recorded) = run(&mut FakeBed::healthy(), &plan);
    assert_eq!(ending.unwrap(), Ending::Complete);
    // Every trial of this bed has the same goodput.
    assert_eq!(recorded.trials().len(), 2 * 10);
    // Resumed, the run knows what was measured before.
    let before: Vec<TrialRecord> = recorded.trials().into_iter().cloned().collect();
    let done = plan.done(&before).unwrap();
    let mut again = EventRecorder::default();
    let ending = Run::new(plan, options(done)).run(&mut FakeBed::healthy(), &mut again);
    assert_eq!(
        (ending.unwrap(), again.trials().len()),
        (Ending::Complete, 0)
    );
}

/// Rule by which a run is decided after four whole rounds of two transports.
pub(crate) const AFTER_FOUR_ROUNDS: StopRule = StopRule {
    digest: |_, record| record.clone(),
    is_decided: |_, records| {
        assert!(records.iter().is_sorted_by_key(|it| it.round));
        assert_eq!(records.len() % 2, 0, "not of whole rounds");
        records.len() >= 8
    },
};

#[test]
fn a_run_ends_with_the_round_that_decides_it() {
    let mut study = study(2, 1, 40);
    study.until = Some(Until::Decided);
    let plan = Plan::new(&study).unwrap().with_stop_rule(AFTER_FOUR_ROUNDS);
    let (ending, recorded) = run(&mut FakeBed::healthy(), &plan);
    assert_eq!(ending.unwrap(), Ending::Complete);
    assert_eq!(recorded.trials().len(), 8);
    // Resumed within the third round, the run goes on to the same end.
    let before: Vec<TrialRecord> = recorded.trials().into_iter().cloned().collect();
    let done = plan.done(&before[..5]).unwrap();
    assert!(!plan.is_over(&done));
    let (_, resumed) = run_from(&mut FakeBed::healthy(), &plan, done);
    assert_eq!(resumed.trials().len(), 3);
    assert!(plan.is_over(&plan.done(&before).unwrap()));
}

/// A rule looks from the third round on, and at no round of a run of the same study that does not name it.
#[test]
fn a_rule_looks_at_no_run_of_two_rounds() {
    let at_once = StopRule {
        is_decided: |_, _| true,
        ..AFTER_FOUR_ROUNDS
    };
    for (until, trials) in [(Some(Until::Decided), 6), (None, 10)] {
        let mut study = study(2, 1, 5);
        study.until = until;
        let plan = Plan::new(&study).unwrap().with_stop_rule(at_once);
        let (_, recorded) = run(&mut FakeBed::healthy(), &plan);
        assert_eq!(recorded.trials().len(), trials);
    }
}

/// The first round of each part of a run is run whatever the time, so that a resumed run goes on.
#[test]
fn a_run_out_of_time_begins_no_further_round() {
    let mut study = study(2, 1, 5);
    study.until = Some(Until::Decided);
    study.time_limit = Some(Duration::from_nanos(1));
    let plan = Plan::new(&study).unwrap().with_stop_rule(AFTER_FOUR_ROUNDS);
    let (ending, recorded) = run(&mut FakeBed::healthy(), &plan);
    assert_eq!(ending.unwrap(), Ending::Complete);
    assert_eq!(recorded.trials().len(), 2);
    let before: Vec<TrialRecord> = recorded.trials().into_iter().cloned().collect();
    let done = plan.done(&before).unwrap();
    assert!(!plan.is_over(&done));
    let (_, resumed) = run_from(&mut FakeBed::healthy(), &plan, done);
    assert_eq!(resumed.trials().len(), 2);
}

#[test]
fn figures_of_both_ends_are_merged() {
    let plan = Plan::new(&study(1, 1, 1)).unwrap();
    let (_, recorded) = run(&mut FakeBed::healthy(), &plan);
    let trial = recorded.trials()[0].clone();
    let metric = |name: &str| trial.measurements.metrics[name];
    // 10 MB in 1 s, for 40 % of one core.
    assert_eq!(metric("goodput_bps"), 80e6);
    assert_eq!(metric("goodput_per_core_percent_bps"), 2e6);
    assert!((metric("cpu_per_byte_ns") - 40.0).abs() < 1e-9);
    assert_eq!(metric("interface_drops"), 5.0);
    assert_eq!(metric("path_packets"), 10_000.0);
}

#[test]
fn a_resumed_run_skips_completed_trials() {
    let plan = Plan::new(&study(2, 1, 3)).unwrap();
    let (_, complete_run) = run(&mut FakeBed::healthy(), &plan);
    let before: Vec<TrialRecord> = [0, 1, 4].map(|i| complete_run.trials()[i].clone()).to_vec();
    let done = plan.done(&before).unwrap();
    let (ending, recorded) = run_from(&mut FakeBed::healthy(), &plan, done);
    assert_eq!(ending.unwrap(), Ending::Complete);
    let indices: BTreeSet<u32> = recorded.trials().iter().map(|trial| trial.index).collect();
    assert_eq!(indices, BTreeSet::from([2, 3, 5]));
}

#[test]
fn every_step_of_a_schedule_is_checked_and_again_before_later_rounds() {
    let mut study = study(1, 1, 2);
    let first = study.conditions[0].forward.clone();
    let slower = Link {
        delay: Duration::from_millis(50),
        ..first.clone()
    };
    let step = |seconds, link: &Link| Step {
        at: Duration::from_secs(seconds),
        forward: link.clone(),
        reverse: link.clone(),
    };
    study.conditions[0].schedule = vec![step(1, &slower), step(2, &first)];
    let plan = Plan::new(&study).unwrap();
    let steps = |recorded: &EventRecorder| -> Vec<u64> {
        recorded
            .events
            .iter()
            .filter_map(|event| match event {
                Event::PathChecked { check } => Some(check.step_at_ns),
                _ => None,
            })
            .collect()
    };
    let (_, recorded) = run(&mut FakeBed::healthy(), &plan);
    assert_eq!(steps(&recorded), [0, 1_000_000_000], "the run is short");
    let mut recorded = EventRecorder::default();
    Run::new(plan, options(Done::default()))
        .with_path_check_interval(Duration::ZERO)
        .run(&mut FakeBed::healthy(), &mut recorded)
        .unwrap();
    assert_eq!(steps(&recorded), [0, 1_000_000_000, 0, 1_000_000_000]);
}

#[test]
fn a_crashed_agent_fails_only_its_trial() {
    let plan = Plan::new(&study(2, 1, 2)).unwrap();
    let mut bed = FakeBed::new(Box::new(|host, nth| {
        let mut script = healthy_agent();
        if host != Host::Server || nth > 0 {
            return script;
        }
        Box::new(move |message| match message {
            // The first receiver exits when it gets the note that all was sent.
            ToAgent::Note { .. } => vec![Action::Exit],
            message => script(message),
        })
    }));
    let (ending, recorded) = run(&mut bed, &plan);
    assert_eq!(ending.unwrap(), Ending::Complete);
    assert_eq!(
        recorded.outcomes(),
        [
            Outcome::Failed,
            Outcome::Measured,
            Outcome::Measured,
            Outcome::Measured
        ]
    );
    let reasons = &recorded.trials()[0].reasons;
    assert_eq!(
        reasons,
        &[
            "the receiver on host `b` died during the trial",
            "its process ended with exit status: 0"
        ]
    );
    assert_eq!(bed.spawned.get("b"), Some(&2));
    assert_eq!(bed.spawned.get("a"), Some(&1), "the other agent lives on");
}

/// Makes a run of one trial whose receiver acts so when it gets the note that all was sent, in each attempt.
fn receiver_that(act: fn(u32) -> Action) -> TrialRecord {
    let plan = Plan::new(&study(1, 1, 1)).unwrap();
    let mut bed = FakeBed::new(Box::new(move |host, _| {
        let mut script = healthy_agent();
        Box::new(move |message| match (host, message) {
            (Host::Server, ToAgent::Note { trial, .. }) => vec![act(trial)],
            (_, message) => script(message),
        })
    }));
    let (ending, recorded) = run(&mut bed, &plan);
    assert_eq!(ending.unwrap(), Ending::Complete);
    recorded.trials()[0].clone()
}

#[test]
fn an_agent_that_somebody_killed_makes_its_trial_invalid() {
    let killed: fn(u32) -> Action = |_| Action::ExitWith(9);
    for (act, status) in [
        (killed, "signal: 9 (SIGKILL)"),
        (|_| Action::ExitWith(15), "signal: 15 (SIGTERM)"),
    ] {
        let trial = receiver_that(act);
        assert_eq!(trial.outcome, Outcome::Invalid, "{status}");
        let reason = format!("its process ended with {status}");
        assert_eq!(trial.reasons[1], reason);
    }
}

#[test]
fn an_agent_that_crashed_makes_its_trial_a_failure() {
    for crash in [
        // SIGSEGV with a core dump, SIGABRT, and exit code 101.
        |_| Action::ExitWith(0x80 | 11),
        |_| Action::ExitWith(6),
        |_| Action::ExitWith(101 << 8),
    ] {
        assert_eq!(receiver_that(crash).outcome, Outcome::Failed);
    }
}

#[test]
fn an_end_that_was_disturbed_makes_its_trial_invalid() {
    let trial = receiver_that(|trial| {
        Action::Send(FromAgent::Failed {
            trial,
            problem: Problem::new(
                ProblemKind::Disturbed,
                ["the interface `eth1` of this end was down during the trial"],
                "",
            ),
        })
    });
    assert_eq!(trial.outcome, Outcome::Invalid);
    let expected = "the receiver on host `b` was disturbed from outside";
    assert_eq!(trial.reasons[0], expected);
}

#[test]
fn a_failure_is_attributed_to_the_crashed_end() {
    let plan = Plan::new(&study(1, 1, 1)).unwrap();
    let mut bed = FakeBed::new(Box::new(|host, _| {
        let mut script = healthy_agent();
        Box::new(move |message| match (host, message) {
            (Host::Client, ToAgent::Start { trial, .. }) => vec![Action::Send(FromAgent::Failed {
                trial,
                problem: Problem::new(ProblemKind::Failed, ["connection reset by peer"], ""),
            })],
            (Host::Server, ToAgent::Abort { .. }) => vec![Action::Exit],
            (_, message) => script(message),
        })
    }));
    let (_, recorded) = run(&mut bed, &plan);
    let trial = recorded.trials()[0].clone();
    assert_eq!(trial.outcome, Outcome::Failed);
    assert_eq!(
        trial.reasons[0],
        "the receiver on host `b` died during the trial"
    );
    assert_eq!(trial.reasons.last().unwrap(), "connection reset by peer");
}

#[test]
fn unsupported_is_found_once_and_recorded_in_every_round() {
    let plan = Plan::new(&study(1, 1, 3)).unwrap();
    let mut bed = FakeBed::new(Box::new(|_, _| {
        let mut script = healthy_agent();
        Box::new(move |message| match message {
            ToAgent::Prepare { order } => vec![Action::Send(FromAgent::Failed {
                trial: order.trial,
                problem: Problem::new(
                    ProblemKind::Unsupported,
                    ["the kernel has no `hybla`"],
                    "run `modprobe tcp_hybla`",
                ),
            })],
            message => script(message),
        })
    }));
    let (ending, recorded) = run(&mut bed, &plan);
    assert_eq!(ending.unwrap(), Ending::Complete);
    assert_eq!(recorded.outcomes(), [Outcome::Unsupported; 3]);
    assert_eq!(bed.conditions_set.len(), 1, "prepared once");
    let trials = recorded.trials();
    assert_eq!(trials[2].index, 2);
    assert_eq!(trials[2].round, 2);
    assert_eq!(trials[2].reasons, ["the kernel has no `hybla`"]);
    assert_eq!(trials[2].hint, "run `modprobe tcp_hybla`");
}

#[test]
fn an_agent_with_malformed_output_is_replaced() {
    let plan = Plan::new(&study(1, 1, 2)).unwrap();
    let mut bed = FakeBed::new(Box::new(|host, nth| {
        let mut script = healthy_agent();
        if host != Host::Client || nth > 0 {
            return script;
        }
        Box::new(move |message| match message {
            ToAgent::Start { .. } => vec![Action::Write("{\"type\":\"finished\"}\n")],
            message => script(message),
        })
    }));
    let (_, recorded) = run(&mut bed, &plan);
    assert_eq!(recorded.outcomes(), [Outcome::Failed, Outcome::Measured]);
    assert!(
        recorded.trials()[0].reasons[1].starts_with("it wrote `{\"type\":\"finished\"}`"),
        "{:?}",
        recorded.trials()[0].reasons
    );
    assert_eq!(bed.spawned.get("a"), Some(&2));
}

#[test]
fn a_newer_protocol_version_is_reported() {
    assert_protocol_is_refused(PROTOCOL_VERSION + 1);
}

#[test]
fn an_older_protocol_version_is_reported() {
    assert_protocol_is_refused(PROTOCOL_VERSION - 1);
}

fn assert_protocol_is_refused(theirs: u32) {
    let plan = Plan::new(&study(1, 1, 1)).unwrap();
    let mut bed = FakeBed::new(Box::new(move |_, _| {
        Box::new(move |_| {
            let mut greeting = hello();
            let FromAgent::Hello { protocol, .. } = &mut greeting else {
                unreachable!("hello is a hello")
            };
            *protocol = theirs;
            vec![Action::Send(greeting)]
        })
    }));
    let (ending, recorded) = run(&mut bed, &plan);
    let error = ending.unwrap_err().to_string();
    assert!(
        error.contains(&format!("version {theirs} of the control protocol")),
        "{error}"
    );
    assert!(recorded.events.is_empty(), "no run was started");
}

#[test]
fn a_listener_error_stops_the_run() {
    let plan = Plan::new(&study(2, 1, 5)).unwrap();
    let mut recorded = EventRecorder {
        full_after: Some(3),
        ..EventRecorder::default()
    };
    let mut bed = FakeBed::healthy();
    let error = Run::new(plan, options(Done::default()))
        .run(&mut bed, &mut recorded)
        .unwrap_err();
    assert!(matches!(error, EngineError::Listener { .. }));
    assert_eq!(recorded.trials().len(), 3);
    assert_eq!(bed.conditions_set.len(), 4, "nothing was measured after it");
}

#[test]
fn a_stop_discards_only_the_trial_under_way() {
    let plan = Plan::new(&study(1, 1, 5)).unwrap();
    let run = Run::new(plan, options(Done::default()));
    let stopper = run.stopper();
    let mut bed = FakeBed::new(Box::new(move |host, _| {
        let mut script = healthy_agent();
        let stopper = stopper.clone();
        Box::new(move |message| match (host, message) {
            // The user stops in the middle of the third trial, which would not end by itself.
            (Host::Client, ToAgent::Start { trial: 2, .. }) => {
                stopper.stop();
                Vec::new()
            }
            (_, message) => script(message),
        })
    }));
    let mut recorded = EventRecorder::default();
    let ending = run.run(&mut bed, &mut recorded).unwrap();
    assert!(matches!(ending, Ending::Interrupted { .. }));
    assert_eq!(recorded.trials().len(), 2);
    assert!(matches!(
        recorded.events.last(),
        Some(Event::RunEnded {
            ending: Ending::Interrupted { .. }
        })
    ));
}

#[test]
fn a_stop_ends_the_wait_for_agents_that_do_not_answer() {
    let plan = Plan::new(&study(1, 1, 1)).unwrap();
    let run = Run::new(plan, options(Done::default()));
    let stopper = run.stopper();
    let mut bed = FakeBed::new(Box::new(move |_, _| {
        let stopper = stopper.clone();
        Box::new(move |_| {
            stopper.stop();
            Vec::new()
        })
    }));
    let begun = Instant::now();
    let mut recorded = EventRecorder::default();
    let error = run.run(&mut bed, &mut recorded).unwrap_err();
    assert!(matches!(error, EngineError::Stopped), "{error:?}");
    assert!(recorded.events.is_empty());
    assert!(begun.elapsed() < limits::HELLO / 2);
}

#[test]
fn a_path_outside_its_tolerance_marks_its_trials() {
    let plan = Plan::new(&study(1, 1, 1)).unwrap();
    let mut bed = FakeBed::healthy();
    bed.check_within = false;
    let (_, recorded) = run(&mut bed, &plan);
    assert_eq!(recorded.warning_codes(), ["path_out_of_tolerance"]);
    let checks =
        (recorded.events.iter()).filter(|event| matches!(event, Event::PathChecked { .. }));
    assert_eq!(checks.count(), 1, "what was found stands");
    assert_eq!(
        recorded.trials()[0].measurements.warnings[0].code,
        "path_out_of_tolerance"
    );
}

#[test]
fn a_trial_with_many_late_packets_is_invalid() {
    let plan = Plan::new(&study(1, 1, 1)).unwrap();
    let mut bed = FakeBed::healthy();
    bed.counters.forward.late_packets = 5000;
    let (ending, recorded) = run(&mut bed, &plan);
    assert_eq!(ending.unwrap(), Ending::Complete);
    assert_eq!(recorded.outcomes(), [Outcome::Invalid; 3]);
    let trial = recorded.trials()[0].clone();
    assert!(trial.reasons[0].contains("50 %"), "{:?}", trial.reasons);
    assert!(
        !trial.measurements.metrics.is_empty(),
        "what was seen is kept"
    );
}

#[test]
fn a_trial_that_failed_with_the_path_daemon_is_not_recorded() {
    let plan = Plan::new(&study(1, 1, 3)).unwrap();
    let mut bed = FakeBed::new(Box::new(|_, _| {
        let mut script = healthy_agent();
        Box::new(move |message| match message {
            ToAgent::Prepare { order } => vec![Action::Send(FromAgent::Failed {
                trial: order.trial,
                problem: Problem::new(ProblemKind::Failed, ["cannot bind to `10.60.0.1:0`"], ""),
            })],
            message => script(message),
        })
    }));
    bed.daemon_crashed = true;
    let (ending, recorded) = run(&mut bed, &plan);
    assert!(matches!(ending, Err(EngineError::Bed(_))), "{ending:?}");
    assert_eq!(recorded.outcomes(), [], "no transport is blamed for it");
}

#[test]
fn an_end_of_the_path_daemon_ends_the_trial_at_once() {
    let mut study = study(1, 1, 1);
    // The test would wait for it.
    study.deadline = Duration::from_secs(86_400);
    let plan = Plan::new(&study).unwrap();
    let mut bed = FakeBed::healthy();
    let on_end = Arc::clone(&bed.on_daemon_end);
    bed.agents = Box::new(move |_, _| {
        let (mut script, on_end) = (healthy_agent(), Arc::clone(&on_end));
        Box::new(move |message| match message {
            // Nothing arrives any more.
            ToAgent::Start { .. } | ToAgent::Note { .. } => {
                on_end.lock().as_ref().unwrap().call();
                Vec::new()
            }
            message => script(message),
        })
    });
    bed.daemon_crashed = true;
    let (ending, recorded) = run(&mut bed, &plan);
    assert!(matches!(ending, Err(EngineError::Bed(_))), "{ending:?}");
    assert_eq!(recorded.outcomes(), [], "no transport is blamed for it");
}

#[test]
fn agents_that_crash_between_trials_fail_no_trial() {
    let plan = Plan::new(&study(2, 1, 2)).unwrap();
    let mut bed = FakeBed::healthy();
    bed.agents_crash_in_check = true;
    let (ending, recorded) = run(&mut bed, &plan);
    assert_eq!(ending.unwrap(), Ending::Complete);
    assert_eq!(recorded.outcomes(), [Outcome::Measured; 4]);
    assert_eq!(bed.spawned.get("a"), Some(&2));
    assert_eq!(bed.spawned.get("b"), Some(&2));
}

#[test]
fn agents_that_crash_or_hang_before_the_start_fail_no_trial() {
    let plan = Plan::new(&study(1, 1, 2)).unwrap();
    let mut bed = FakeBed::new(Box::new(|host, nth| {
        let mut script = healthy_agent();
        Box::new(move |message| match (nth, host, message) {
            (0, Host::Server, ToAgent::Prepare { .. }) => vec![Action::Exit],
            // It has no part in the trial yet, and is found by its silence all the same.
            (0, Host::Client, ToAgent::Abort { .. }) => Vec::new(),
            (_, _, message) => script(message),
        })
    }));
    let (ending, recorded) = run(&mut bed, &plan);
    assert_eq!(ending.unwrap(), Ending::Complete);
    assert_eq!(recorded.outcomes(), [Outcome::Measured; 2]);
    assert_eq!(bed.spawned.get("a"), Some(&2));
    assert_eq!(bed.spawned.get("b"), Some(&2));
}

#[test]
fn an_agent_that_always_crashes_before_the_start_fails_its_trials() {
    let plan = Plan::new(&study(1, 1, 2)).unwrap();
    let mut bed = FakeBed::new(Box::new(|host, _| {
        let mut script = healthy_agent();
        Box::new(move |message| match (host, message) {
            (Host::Server, ToAgent::Prepare { .. }) => vec![Action::Exit],
            (_, message) => script(message),
        })
    }));
    let (ending, recorded) = run(&mut bed, &plan);
    assert_eq!(ending.unwrap(), Ending::Complete);
    assert_eq!(recorded.outcomes(), [Outcome::Failed; 2]);
    assert_eq!(bed.spawned.get("b"), Some(&4), "each trial is tried twice");
}

#[test]
fn a_refusal_replaces_an_earlier_failure_that_it_caused() {
    let failed = |trial, kind, reason: &str| {
        Action::Send(FromAgent::Failed {
            trial,
            problem: Problem::new(kind, [reason], ""),
        })
    };
    let mut bed = FakeBed::new(Box::new(move |host, _| {
        let mut script = healthy_agent();
        Box::new(move |message| match (&message, host) {
            (ToAgent::Start { trial, .. }, Host::Client) => {
                vec![failed(
                    *trial,
                    ProblemKind::Failed,
                    "cannot send: broken pipe",
                )]
            }
            (ToAgent::Start { .. }, Host::Server) => Vec::new(),
            (ToAgent::Abort { trial }, Host::Server) => {
                let reason = "the server allows 1 MB for one client";
                let mut acts = vec![failed(*trial, ProblemKind::Unsupported, reason)];
                acts.extend(script(message));
                acts
            }
            _ => script(message),
        })
    }));
    let (ending, recorded) = run(&mut bed, &Plan::new(&study(1, 1, 1)).unwrap());
    assert_eq!(ending.unwrap(), Ending::Complete);
    assert_eq!(recorded.outcomes(), [Outcome::Unsupported]);
    let reasons = &recorded.trials()[0].reasons;
    assert_eq!(reasons, &["the server allows 1 MB for one client"]);
}
