//! Both ends of a trial get ready at the same time.

use std::sync::mpsc::{Receiver, Sender, channel};

use regatta_bed::Host;
use regatta_control::{FromAgent, Problem, ProblemKind, ToAgent};
use regatta_model::Outcome;

use super::run;
use crate::{
    Ending, Plan,
    tests::fake_bed::{Action, FakeBed, healthy_agent, study},
};

/// Makes a bed on which the listening end answers its order only when the connecting end has answered its own:
/// both well, or both with a failure that names the host.
fn bed(fail: bool) -> FakeBed {
    let (prepared_tx, prepared_rx) = channel();
    let mut prepared_tx: Option<Sender<()>> = Some(prepared_tx);
    let mut prepared_rx: Option<Receiver<()>> = Some(prepared_rx);
    FakeBed::new(Box::new(move |host, _| {
        let mut script = healthy_agent();
        let (prepared_tx, prepared_rx) = match host {
            Host::Client => (prepared_tx.take(), None),
            Host::Server => (None, prepared_rx.take()),
        };
        Box::new(move |message| {
            let ToAgent::Prepare { order } = &message else {
                return script(message);
            };
            if let Some(prepared_rx) = &prepared_rx {
                prepared_rx
                    .recv()
                    .expect("the connecting end has its order");
            }
            let acts = if fail {
                vec![Action::Send(FromAgent::Failed {
                    trial: order.trial,
                    problem: Problem::new(
                        ProblemKind::Failed,
                        [format!("no memory on {}", host.name())],
                        "",
                    ),
                })]
            } else {
                script(message)
            };
            if let Some(prepared_tx) = &prepared_tx {
                prepared_tx.send(()).expect("the listening end waits");
            }
            acts
        })
    }))
}

#[test]
fn no_end_waits_for_the_other_to_be_ready() {
    let plan = Plan::new(&study(1, 1, 2)).unwrap();
    let (ending, recorded) = run(&mut bed(false), &plan);
    assert_eq!(ending.unwrap(), Ending::Complete);
    assert_eq!(recorded.outcomes(), [Outcome::Measured; 2]);
}

#[test]
fn the_failure_of_the_listening_end_is_reported_whichever_comes_first() {
    let plan = Plan::new(&study(1, 1, 1)).unwrap();
    let (ending, recorded) = run(&mut bed(true), &plan);
    assert_eq!(ending.unwrap(), Ending::Complete);
    assert_eq!(recorded.outcomes(), [Outcome::Failed]);
    let reasons = recorded.trials()[0].reasons.join(": ");
    assert!(reasons.contains("no memory on b"), "{reasons}");
}
