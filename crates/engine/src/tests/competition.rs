//! Competitions on a fake bed: flows that run at once, and flows that fail.

use regatta_model::{CellEnd, Competition, CompetitionFlow, Study, Workload, metric::id};

use super::{fake_bed::AgentFactory, *};

/// Returns a study of two transports that run alone and compete, and a third that runs alone.
fn competing() -> Study {
    let mut study = study(3, 1, 2);
    let flow = |transport: &str| CompetitionFlow {
        transport: transport.to_owned(),
        copy_of: None,
        start: Duration::ZERO,
        rtt: None,
        workload: None,
    };
    let competition = Workload {
        name: "t0 against t1".into(),
        competition: Some(Competition {
            flows: vec![flow("t0"), flow("t1")],
        }),
        ..study.workloads[0].clone()
    };
    study.workloads.push(competition);
    study
}

fn plan() -> Plan {
    Plan::new(&competing()).expect("few trials")
}

/// Returns the records of the competition, by round.
fn flows(recorded: &EventRecorder) -> Vec<&TrialRecord> {
    let trials = recorded.trials().into_iter();
    trials.filter(|it| it.workload == "t0 against t1").collect()
}

/// Makes agents of which the second client does what `act` says when it is to start; it is the second flow's.
fn second_client(act: impl Fn(u32) -> Vec<Action> + Clone + Send + 'static) -> AgentFactory {
    Box::new(move |host, nth| {
        let act = act.clone();
        let mut healthy = healthy_agent();
        Box::new(move |message| match message {
            ToAgent::Start { trial, .. } if host == Host::Client && nth == 1 => act(trial),
            message => healthy(message),
        })
    })
}

#[test]
fn flows_are_planned_beside_one_another() {
    let plan = plan();
    assert_eq!(plan.cells(), 5);
    let competing = |index: u32| plan.names(plan.trial(index).expect("a trial").cell)[2].len() > 4;
    for round in 0..2 {
        let first = (round * 5..round * 5 + 5).find(|it| competing(*it));
        let first = first.expect("a competition");
        assert!(competing(first + 1));
        let flows = plan.flows(&plan.trial(first).expect("a trial"));
        let indices: Vec<u32> = flows.iter().map(|it| it.index).collect();
        assert_eq!(indices, [first, first + 1]);
        assert_eq!(flows[0].seed, flows[1].seed, "they share a path");
    }
}

#[test]
fn flows_have_agents_of_their_own_and_are_stored_together() {
    let mut bed = FakeBed::healthy();
    let (ending, recorded) = run(&mut bed, &plan());
    assert_eq!(ending.expect("an ending"), Ending::Complete);
    assert_eq!(recorded.trials().len(), 10);
    assert_eq!(bed.spawned.get("a"), Some(&2));
    for record in flows(&recorded) {
        assert_eq!(record.outcome, Outcome::Measured);
        assert!(record.measurements.metrics.contains_key(id::FLOW_START_NS));
    }
    let mut ended = recorded.events.iter().filter_map(|event| match event {
        Event::TrialEnded { trial, more } if trial.workload == "t0 against t1" => Some(*more),
        _ => None,
    });
    assert!(ended.by_ref().eq([true, false, true, false]));
    // One path for both: three alone and a competition in each round.
    assert_eq!(bed.conditions_set.len(), 8);
}

#[test]
fn a_flow_that_dies_makes_the_others_invalid_and_is_not_repeated() {
    let agents = second_client(|_| vec![Action::Exit]);
    let (ending, recorded) = run(&mut FakeBed::new(agents), &plan());
    assert_eq!(ending.expect("an ending"), Ending::Complete);
    let first = &flows(&recorded)[..2];
    let outcomes: Vec<Outcome> = first.iter().map(|it| it.outcome).collect();
    assert_eq!(outcomes, [Outcome::Invalid, Outcome::Failed]);
    assert_eq!(
        first[0].reasons[0],
        "nothing competed: the flow `t1` failed"
    );
    assert_eq!(recorded.trials().len(), 10, "none is repeated");
    // The agent is replaced, so that the next round competes.
    let second = &flows(&recorded)[2..];
    assert!(second.iter().all(|it| it.outcome == Outcome::Measured));
}

#[test]
fn a_flow_that_cannot_connect_in_time_is_a_result() {
    let late = |trial| {
        let problem = Problem::new(ProblemKind::TimedOut, ["no connection within 10 s"], "");
        vec![Action::Send(FromAgent::Failed { trial, problem })]
    };
    let (_, recorded) = run(&mut FakeBed::new(second_client(late)), &plan());
    let outcomes: Vec<Outcome> = flows(&recorded).iter().map(|it| it.outcome).collect();
    let expected = [Outcome::Measured, Outcome::TimedOut];
    assert_eq!(outcomes, [expected, expected].concat());
}

#[test]
fn a_competition_with_a_flow_that_is_not_supported_is_not_supported() {
    let refuse = |trial| {
        let problem = Problem::new(ProblemKind::Unsupported, ["no such module"], "load it");
        vec![Action::Send(FromAgent::Failed { trial, problem })]
    };
    let (_, recorded) = run(&mut FakeBed::new(second_client(refuse)), &plan());
    let first = &flows(&recorded)[..2];
    assert!(first.iter().all(|it| it.outcome == Outcome::Unsupported));
    assert!(first[0].reasons[0].contains("because of its flow `t1`"));
    assert_eq!(first[0].hint, "load it");
}

#[test]
fn a_competition_that_the_machine_spoiled_is_repeated_whole() {
    let mut bed = FakeBed::healthy();
    let plan = plan();
    let first = plan.trials().iter().position(|it| it.cell.workload == 1);
    // The path of the first competition is late.
    bed.late_ratios = vec![0.5];
    bed.late_ratios
        .extend(vec![0.0; first.expect("a competition")]);
    let (_, recorded) = run(&mut bed, &plan);
    let flows = flows(&recorded);
    let found: Vec<(u32, Outcome)> = flows.iter().map(|it| (it.attempt, it.outcome)).collect();
    let of = |attempt, outcome| [(attempt, outcome); 2];
    let expected = [
        of(1, Outcome::Invalid),
        of(2, Outcome::Measured),
        of(1, Outcome::Measured),
    ];
    assert_eq!(found, expected.concat());
}

#[test]
fn a_competition_of_which_one_record_is_missing_is_run_whole_again() {
    let plan = plan();
    let (_, recorded) = run(&mut FakeBed::healthy(), &plan);
    let records: Vec<TrialRecord> = recorded.trials().into_iter().cloned().collect();
    let first = flows(&recorded)[0].index;
    let cut: Vec<TrialRecord> = records.iter().take(first as usize + 1).cloned().collect();
    let done = plan.done(&cut).expect("records of this plan");
    let next: Vec<u32> = plan
        .next_of_round(0, &done)
        .iter()
        .map(|it| it.index)
        .collect();
    assert_eq!(next[..2], [first, first + 1]);
    let all = plan.done(&records).expect("records of this plan");
    assert_eq!(all.finished(), 10);
}

/// Starts are drawn for each round, within a round trip, and the first flow waits for none.
#[test]
fn each_round_draws_its_starts() {
    let plan = plan();
    let first = |round: usize| {
        plan.trials()[round * 5..]
            .iter()
            .find(|it| it.cell.workload == 1)
    };
    let starts = |round| {
        let flows = plan.flows(first(round).expect("a competition"));
        crate::competition::starts(&plan, &flows)
    };
    assert_ne!(starts(0), starts(1));
    for round in 0..2 {
        let [(_, at), (_, later)] = starts(round)[..] else {
            panic!("two flows")
        };
        assert_eq!(at, Duration::ZERO);
        assert!(later <= Duration::from_millis(30), "{later:?}");
    }
}

/// The flows have their successes in different rounds: both run until the second one has its own.
#[test]
fn flows_run_together_until_all_have_their_successes() {
    let mut study = competing();
    study.rounds = 3;
    study.cell_end = Some(CellEnd::Successes(1));
    let plan = Plan::new(&study).expect("few trials");
    let late = |trial| {
        let problem = Problem::new(ProblemKind::TimedOut, ["no connection within 10 s"], "");
        vec![Action::Send(FromAgent::Failed { trial, problem })]
    };
    let (ending, recorded) = run(&mut FakeBed::new(second_client(late)), &plan);
    assert_eq!(ending.expect("an ending"), Ending::Complete);
    // A first flow that was whole in the first round runs beside the second one, which never is.
    assert_eq!(flows(&recorded).len(), 6);
}
