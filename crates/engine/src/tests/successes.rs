//! Tests of runs whose cells end before the last round.

use std::collections::BTreeSet;

use regatta_control::{FromAgent, Problem, ProblemKind, ToAgent};
use regatta_model::{CellEnd, TrialRecord};

use super::{EventRecorder, run_from};
use crate::{
    Done, Ending, Event, Plan,
    tests::fake_bed::{Action, FakeBed, healthy_agent, study},
};

/// Makes a bed on which these trials fail.
fn failing(trials: BTreeSet<u32>) -> FakeBed {
    ending(trials, ProblemKind::Failed)
}

/// Makes a bed on which these trials end with a problem of this kind.
fn ending(trials: BTreeSet<u32>, kind: ProblemKind) -> FakeBed {
    FakeBed::new(Box::new(move |_, _| {
        let mut script = healthy_agent();
        let trials = trials.clone();
        Box::new(move |message| match message {
            ToAgent::Prepare { order } if trials.contains(&order.trial) => {
                vec![Action::Send(FromAgent::Failed {
                    trial: order.trial,
                    problem: Problem::new(kind, ["no"], ""),
                })]
            }
            message => script(message),
        })
    }))
}

fn indices(recorded: &EventRecorder) -> Vec<u32> {
    recorded.trials().iter().map(|trial| trial.index).collect()
}

fn announced(recorded: &EventRecorder) -> Option<(u32, u32)> {
    recorded.events.iter().find_map(|event| match event {
        Event::RunStarted { trials, done, .. } => Some((*trials, *done)),
        _ => None,
    })
}

#[test]
fn a_cell_ends_with_its_successes_also_in_a_resumed_run() {
    let mut study = study(2, 1, 5);
    study.cell_end = Some(CellEnd::Successes(3));
    let plan = Plan::new(&study).unwrap();
    // The first transport fails twice, so that it needs all rounds; the other one has enough in three.
    let of_first = |rounds: u32| {
        let trials = plan.trials().iter();
        trials
            .filter(move |trial| trial.cell.transport == 0 && trial.round < rounds)
            .map(|trial| trial.index)
    };
    let failing_trials: BTreeSet<u32> = of_first(2).collect();
    let expected: Vec<u32> = (plan.trials().iter())
        .filter(|trial| trial.cell.transport == 0 || trial.round < 3)
        .map(|trial| trial.index)
        .collect();
    let (ending, recorded) = run_from(&mut failing(failing_trials.clone()), &plan, Done::default());
    assert_eq!(ending.unwrap(), Ending::Complete);
    assert_eq!(indices(&recorded), expected);
    assert_eq!(announced(&recorded), Some((6, 0)));

    let trials = recorded.trials();
    for cut in 0..=trials.len() {
        let before: Vec<TrialRecord> = trials[..cut].iter().map(|trial| (*trial).clone()).collect();
        let failed = trials[..cut]
            .iter()
            .filter(|trial| !trial.is_whole())
            .count();
        let done = plan.done(&before).unwrap();
        let (ending, rest) = run_from(&mut failing(failing_trials.clone()), &plan, done);
        assert_eq!(ending.unwrap(), Ending::Complete);
        assert_eq!(indices(&rest), expected[cut..], "after {cut}");
        assert_eq!(announced(&rest), Some((6 + failed as u32, cut as u32)));
    }
}

#[test]
fn a_cell_that_never_succeeds_ends_with_the_last_round() {
    let mut study = study(1, 1, 4);
    study.cell_end = Some(CellEnd::Successes(3));
    let plan = Plan::new(&study).unwrap();
    let (ending, recorded) = run_from(&mut failing((0..4).collect()), &plan, Done::default());
    assert_eq!(ending.unwrap(), Ending::Complete);
    assert_eq!(indices(&recorded), [0, 1, 2, 3]);
}

#[test]
fn a_cell_ends_with_a_trial_that_timed_out() {
    let mut study = study(2, 1, 3);
    study.cell_end = Some(CellEnd::Deadlines(1));
    let plan = Plan::new(&study).unwrap();
    let of_first = plan.trials().iter();
    let of_first = of_first.filter(|trial| trial.cell.transport == 0);
    let late: BTreeSet<u32> = of_first.map(|trial| trial.index).collect();
    let expected: Vec<u32> = (plan.trials().iter())
        .filter(|trial| trial.cell.transport == 1 || trial.round == 0)
        .map(|trial| trial.index)
        .collect();
    let mut bed = ending(late, ProblemKind::TimedOut);
    let (ending, recorded) = run_from(&mut bed, &plan, Done::default());
    assert_eq!(ending.unwrap(), Ending::Complete);
    assert_eq!(indices(&recorded), expected);
    assert_eq!(announced(&recorded), Some((6, 0)));
}

/// The guest of a chunk runs the chunk from its first trial on, whatever a run before it has done there, and
/// knows of the rounds before it.
#[test]
fn a_resumed_chunk_has_the_same_trials() {
    let mut study = study(2, 1, 5);
    study.cell_end = Some(CellEnd::Successes(3));
    let plan = Plan::new(&study).unwrap();
    let failing_trials: BTreeSet<u32> = (plan.trials().iter())
        .filter(|trial| trial.cell.transport == 0 && trial.round < 2)
        .map(|trial| trial.index)
        .collect();
    let (_, complete_run) = run_from(&mut failing(failing_trials.clone()), &plan, Done::default());
    let trials = complete_run.trials();
    for rounds in [0..2, 2..4, 4..5] {
        let expected: Vec<u32> = (trials.iter())
            .filter(|trial| rounds.contains(&trial.round))
            .map(|trial| trial.index)
            .collect();
        let before = trials.iter().filter(|trial| trial.round < rounds.start);
        for cut in before.count()..=trials.len() {
            let records: Vec<TrialRecord> = trials[..cut].iter().map(|it| (*it).clone()).collect();
            let done = plan.done(&records).unwrap();
            let anew = done.anew(&plan, rounds.clone());
            let (ending, recorded) = run_from(&mut failing(failing_trials.clone()), &plan, anew);
            assert_eq!(ending.unwrap(), Ending::Complete);
            assert_eq!(
                indices(&recorded),
                expected,
                "{rounds:?} after {cut} trials"
            );
        }
    }
}
