//! Tests of trials and path checks that are made again.

use regatta_control::{FromAgent, Problem, ProblemKind, ToAgent};
use regatta_model::{Outcome, Text, TrialRecord};

use super::{EventRecorder, run, run_from};
use crate::{
    Ending, Event, Plan,
    tests::fake_bed::{Action, FakeBed, healthy_agent, study},
};

/// Returns index, attempt and outcome of each record, in the order in which they were made.
fn attempts(recorded: &EventRecorder) -> Vec<(u32, u32, Outcome)> {
    let trials = recorded.trials();
    let attempt = |trial: &&TrialRecord| (trial.index, trial.attempt, trial.outcome);
    trials.iter().map(attempt).collect()
}

#[test]
fn an_invalid_trial_is_repeated_at_the_end_of_its_round_at_most_twice() {
    use Outcome::{Invalid, Measured};
    let plan = Plan::new(&study(2, 1, 2)).unwrap();
    let mut bed = FakeBed::healthy();
    // The first trial and both of its repeats are spoiled, then the first of the next round.
    bed.late_ratios = vec![0.2, 0.2, 0.2, 0.0, 0.2];
    let (ending, recorded) = run(&mut bed, &plan);
    assert_eq!(ending.unwrap(), Ending::Complete);
    let all = [
        (0, 1, Invalid),
        (1, 1, Measured),
        (4, 2, Invalid),
        (8, 3, Invalid),
        (2, 1, Invalid),
        (3, 1, Measured),
        (6, 2, Measured),
    ];
    assert_eq!(attempts(&recorded), all);
    let trials = recorded.trials();
    for (repeat, first) in [(2, 0), (3, 0), (6, 4)] {
        assert_eq!(trials[repeat].seed, trials[first].seed);
        assert_eq!(trials[repeat].transport, trials[first].transport);
        assert_eq!(trials[repeat].round, trials[first].round);
    }

    // Interrupted anywhere, a resumed run makes the rest and nothing else.
    for cut in 0..=trials.len() {
        let before: Vec<TrialRecord> = trials[..cut].iter().map(|t| (*t).clone()).collect();
        let done = plan.done(&before).unwrap();
        let mut bed = FakeBed::healthy();
        let mut spoiled: Vec<f64> = all
            .map(|it| if it.2 == Invalid { 0.2 } else { 0.0 })
            .to_vec();
        spoiled.drain(..cut);
        spoiled.reverse();
        bed.late_ratios = spoiled;
        let (_, rest) = run_from(&mut bed, &plan, done);
        assert_eq!(attempts(&rest), all[cut..], "after {cut}");
    }
}

#[test]
fn no_other_outcome_is_repeated() {
    for kind in [
        ProblemKind::Failed,
        ProblemKind::TimedOut,
        ProblemKind::Unsupported,
    ] {
        let plan = Plan::new(&study(1, 1, 1)).unwrap();
        let mut bed = FakeBed::new(Box::new(move |_, _| {
            let mut script = healthy_agent();
            Box::new(move |message| match message {
                ToAgent::Prepare { order } => vec![Action::Send(FromAgent::Failed {
                    trial: order.trial,
                    problem: Problem::new(kind, ["no"], ""),
                })],
                message => script(message),
            })
        }));
        let (_, recorded) = run(&mut bed, &plan);
        assert_eq!(recorded.trials().len(), 1, "{kind:?}");
    }
}

#[test]
fn a_disturbed_check_is_repeated_at_most_twice() {
    let plan = Plan::new(&study(1, 1, 1)).unwrap();
    let checks = |recorded: &EventRecorder| {
        let is_check = |event: &&Event| matches!(event, Event::PathChecked { .. });
        recorded.events.iter().filter(is_check).count()
    };
    let spoiled = |times: usize| vec![Text::from("it was late"); times];
    let mut bed = FakeBed::healthy();
    bed.checks_spoiled = spoiled(1);
    let (_, recorded) = run(&mut bed, &plan);
    assert_eq!((checks(&recorded), recorded.warning_codes().len()), (2, 0));
    let mut bed = FakeBed::healthy();
    bed.checks_spoiled = spoiled(9);
    let (_, recorded) = run(&mut bed, &plan);
    assert_eq!(checks(&recorded), 3);
    assert_eq!(recorded.warning_codes(), ["path_not_checked"]);
    assert_eq!(
        recorded.trials()[0].measurements.warnings[0].code,
        "path_not_checked"
    );
}
