//! Both ends of a trial get ready at the same time.

use std::sync::mpsc::{Receiver, Sender, channel};

use regatta_bed::Host;
use regatta_control::{FailureKind, FromAgent, ToAgent};
use regatta_model::Outcome;

use super::run;
use crate::{
    Ending, Plan,
    tests::fake_bed::{Act, FakeBed, study, well},
};

/// Makes a bed on which the listening end answers its order only when the connecting end has answered its own:
/// both well, or both with a failure that names the host.
fn bed(fail: bool) -> FakeBed {
    let (said, heard) = channel();
    let mut said: Option<Sender<()>> = Some(said);
    let mut heard: Option<Receiver<()>> = Some(heard);
    FakeBed::new(Box::new(move |host, _| {
        let mut script = well();
        let (said, heard) = match host {
            Host::Client => (said.take(), None),
            Host::Server => (None, heard.take()),
        };
        Box::new(move |message| {
            let ToAgent::Prepare { order } = &message else {
                return script(message);
            };
            if let Some(heard) = &heard {
                heard.recv().expect("the connecting end has its order");
            }
            let acts = if fail {
                vec![Act::Say(FromAgent::Failed {
                    trial: order.trial,
                    kind: FailureKind::Failed,
                    reasons: vec![format!("no memory on {}", host.name())],
                    hint: String::new(),
                })]
            } else {
                script(message)
            };
            if let Some(said) = &said {
                said.send(()).expect("the listening end waits");
            }
            acts
        })
    }))
}

#[test]
fn no_end_waits_for_the_other_to_be_ready() {
    let plan = Plan::new(&study(1, 1, 2)).unwrap();
    let (ending, heard) = run(&mut bed(false), &plan);
    assert_eq!(ending.unwrap(), Ending::Complete);
    assert_eq!(heard.outcomes(), [Outcome::Measured; 2]);
}

#[test]
fn the_failure_of_the_listening_end_is_told_whichever_comes_first() {
    let plan = Plan::new(&study(1, 1, 1)).unwrap();
    let (ending, heard) = run(&mut bed(true), &plan);
    assert_eq!(ending.unwrap(), Ending::Complete);
    assert_eq!(heard.outcomes(), [Outcome::Failed]);
    let reasons = heard.trials()[0].reasons.join(": ");
    assert!(reasons.contains("no memory on b"), "{reasons}");
}
