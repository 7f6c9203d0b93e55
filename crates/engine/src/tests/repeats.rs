//! Tests of trials and path checks that are made again.

use regatta_control::{FailureKind, FromAgent, ToAgent};
use regatta_model::{Outcome, TrialRecord};

use super::{Heard, run, run_from};
use crate::{
    Ending, Event, Plan,
    tests::fake_bed::{Act, FakeBed, study, well},
};

/// Returns index, attempt and outcome of each record, in the order in which they were made.
fn attempts(heard: &Heard) -> Vec<(u32, u32, Outcome)> {
    let trials = heard.trials();
    let attempt = |trial: &&TrialRecord| (trial.index, trial.attempt, trial.outcome);
    trials.iter().map(attempt).collect()
}

#[test]
fn an_invalid_trial_is_repeated_at_the_end_of_its_round_at_most_twice() {
    use Outcome::{Invalid, Measured};
    let plan = Plan::new(&study(2, 1, 2)).unwrap();
    let mut bed = FakeBed::well();
    // The first trial and both of its repeats are spoiled, then the first of the next round.
    bed.late_ratios = vec![0.2, 0.2, 0.2, 0.0, 0.2];
    let (ending, heard) = run(&mut bed, &plan);
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
    assert_eq!(attempts(&heard), all);
    let trials = heard.trials();
    for (repeat, first) in [(2, 0), (3, 0), (6, 4)] {
        assert_eq!(trials[repeat].seed, trials[first].seed);
        assert_eq!(trials[repeat].transport, trials[first].transport);
        assert_eq!(trials[repeat].round, trials[first].round);
    }

    // Interrupted anywhere, a resumed run makes the rest and nothing else.
    for cut in 0..=trials.len() {
        let before: Vec<TrialRecord> = trials[..cut].iter().map(|t| (*t).clone()).collect();
        let done = plan.done(&before).unwrap();
        let mut bed = FakeBed::well();
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
        FailureKind::Failed,
        FailureKind::TimedOut,
        FailureKind::Unsupported,
    ] {
        let plan = Plan::new(&study(1, 1, 1)).unwrap();
        let mut bed = FakeBed::new(Box::new(move |_, _| {
            let mut script = well();
            Box::new(move |heard| match heard {
                ToAgent::Prepare { order } => vec![Act::Say(FromAgent::Failed {
                    trial: order.trial,
                    kind,
                    reasons: vec!["no".into()],
                    hint: String::new(),
                })],
                heard => script(heard),
            })
        }));
        let (_, heard) = run(&mut bed, &plan);
        assert_eq!(heard.trials().len(), 1, "{kind:?}");
    }
}

#[test]
fn a_check_that_the_machine_spoiled_is_repeated_at_most_twice() {
    let plan = Plan::new(&study(1, 1, 1)).unwrap();
    let checks = |heard: &Heard| {
        let is_check = |event: &&Event| matches!(event, Event::PathChecked { .. });
        heard.events.iter().filter(is_check).count()
    };
    let spoiled = |times: usize| vec!["it was late".to_owned(); times];
    let mut bed = FakeBed::well();
    bed.checks_spoiled = spoiled(1);
    let (_, heard) = run(&mut bed, &plan);
    assert_eq!((checks(&heard), heard.warning_codes().len()), (2, 0));
    let mut bed = FakeBed::well();
    bed.checks_spoiled = spoiled(9);
    let (_, heard) = run(&mut bed, &plan);
    assert_eq!(checks(&heard), 3);
    assert_eq!(heard.warning_codes(), ["path_not_checked"]);
    assert_eq!(
        heard.trials()[0].measurements.warnings[0].code,
        "path_not_checked"
    );
}
