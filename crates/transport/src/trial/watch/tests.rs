//! Tests of the moment at which the deadline of a transfer begins.

use std::time::Duration;

use super::{SenderEnd, SenderWatch};
use crate::{clock::MonotonicTime, stop::Stop, testing};

const CONNECT: Duration = Duration::from_secs(1);
const DEADLINE: Duration = Duration::from_millis(20);

/// Arms a watch, does what is given with it, and returns when the transfer was ended after its start.
fn ended_after(act: impl FnOnce(&SenderWatch, MonotonicTime)) -> Duration {
    let (context, _) = testing::trial_context();
    let transfer = Stop::new();
    let watch = SenderWatch::new(&context, &transfer, (CONNECT, DEADLINE))
        .expect("a thread can be started");
    let started = watch.arm();
    act(&watch, started);
    assert!(transfer.wait_until(started + Duration::from_secs(30)));
    match watch.finish() {
        Some(SenderEnd::Deadline { at, .. }) => at.since(started),
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
