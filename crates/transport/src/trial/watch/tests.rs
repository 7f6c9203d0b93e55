//! Tests of the moment at which the deadline of a transfer begins, and of that at which a session is over.

use std::{sync::Arc, time::Duration};

use regatta_control::{Note, Role};

use super::{ClientEnd, ClientWatch, ServerWatch};
use crate::{clock::MonotonicTime, delivered::Delivered, stop::Stop, testing, trial::Trial};

const CONNECT: Duration = Duration::from_secs(1);
const DEADLINE: Duration = Duration::from_millis(20);

/// Arms a watch, does what is given with it, and returns when the transfer was ended after its start.
fn ended_after(act: impl FnOnce(&ClientWatch, MonotonicTime)) -> Duration {
    let (context, _) = testing::trial_context();
    let transfer = Stop::new();
    let watch = ClientWatch::new(&context, &transfer, (CONNECT, DEADLINE))
        .expect("a thread can be started");
    let started = watch.arm();
    act(&watch, started);
    assert!(transfer.wait_until(started + Duration::from_secs(30)));
    match watch.finish() {
        Some(ClientEnd::Deadline { at, .. }) => at.since(started),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_transfer_without_a_connection_ends_at_the_connect_deadline() {
    assert_eq!(ended_after(|_, _| {}), CONNECT);
}

#[test]
fn the_deadline_counts_from_the_first_connection() {
    let connected = Duration::from_millis(990);
    let ended = ended_after(|watch, started| {
        for later in [0, 10] {
            let at = started + connected + Duration::from_millis(later);
            assert_eq!(watch.connected(at), started + connected);
        }
    });
    assert_eq!(ended, connected + DEADLINE, "beyond the connect deadline");
}

/// Checks that the session of a listening end is stopped as soon as its transfer is complete and the other end has
/// closed, although packets may be under way for a minute.
fn is_over_when_complete_and_closed(closed_first: bool) {
    let mut order = testing::order_for(Role::Receiver, "any", 1, 1);
    order.path.longest_one_way = Duration::from_secs(60);
    let (context, _) = testing::trial_context();
    let peer = Arc::clone(&context.peer);
    let trial = Trial::new(&order, context).expect("a trial");
    let watch = ServerWatch::new(&trial).expect("a thread can be started");
    if closed_first {
        peer.note(Note::Closed);
    }
    assert!(watch.complete(Delivered::default()));
    if !closed_first {
        assert!(!trial.stop.is_stopped(), "the other end may ask again");
        peer.note(Note::Closed);
    }
    let soon = MonotonicTime::now() + Duration::from_secs(30);
    assert!(trial.stop.wait_until(soon));
}

regatta_test_contract::test_cases! { is_over_when_complete_and_closed:
    complete_first(false)
    closed_first(true)
}
