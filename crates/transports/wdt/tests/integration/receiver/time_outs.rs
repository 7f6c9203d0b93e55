//! Times at which a receiver gives up, and its keep-alive messages.

use super::*;

#[test]
fn a_port_that_is_never_connected_is_given_up_two_seconds_after_the_first() {
    let mut receiving = Receiving::new(2, None);
    receiving.now = ms(20_000);
    receiving.connect(0);
    receiving.send(0, &bytes(&[Command::Settings(settings()), done(0, 0)]));
    receiving.now = ms(21_999);
    assert!(matches!(receiving.receive(1).1, receiver::Step::Accept(until) if until == ms(22_000)));
    assert_eq!(receiving.replies(0), [Reply::Wait]);
    receiving.now = ms(22_000);
    assert_eq!(receiving.receive(1).1, receiver::Step::End);
    let lost = Checkpoint {
        port: 2,
        ..Checkpoint::default()
    };
    assert_eq!(receiving.replies(0), [Reply::Errors(vec![lost])]);
    // The sender has nothing to send for it.
    receiving.send(0, &bytes(&[done(0, 0)]));
    assert_eq!(receiving.replies(0), [Reply::Done]);
    receiving.send(0, b"D");
    assert_eq!(receiving.receive(0).1, receiver::Step::Shutdown);
    assert_eq!(receiving.receive(0).1, receiver::Step::End);
    let report = receiving.session.finish().unwrap();
    assert_eq!(
        report.ports[1].failure.as_ref().unwrap().status,
        Status::Connection
    );
}

#[test]
fn keep_alives_are_sent_five_times_per_sender_timeout() {
    let mut receiving = Receiving::new(2, None);
    receiving.connect(0);
    receiving.connect(1);
    let with_heartbeats = Settings {
        heartbeats: true,
        ..settings()
    };
    receiving.send(
        0,
        &bytes(&[Command::Settings(with_heartbeats), file("a", 1, 100)]),
    );
    receiving.send(1, &bytes(&[Command::Settings(settings()), done(1, 100)]));
    let mut keep_alives = [Vec::new(), Vec::new()];
    for tick in 1..=40 {
        receiving.now = ms(tick * 100);
        receiving.send(0, b"x");
        for (port, keep_alives) in keep_alives.iter_mut().enumerate() {
            keep_alives.extend(
                receiving
                    .replies(port)
                    .into_iter()
                    .map(|reply| (tick * 100, reply)),
            );
        }
    }
    // A heartbeat when more than that has passed, and bytes of a block have come.
    let at = |times: &[u64], reply: &Reply| -> Vec<_> {
        times.iter().map(|at| (*at, reply.clone())).collect()
    };
    assert_eq!(keep_alives[0], at(&[1100, 2200, 3300], &Reply::Heartbeat));
    assert_eq!(keep_alives[1], at(&[1000, 2000, 3000, 4000], &Reply::Wait));
    // None in a pause, and one after it.
    receiving.now = ms(8000);
    assert_eq!(receiving.replies(0), []);
    receiving.send(0, b"x");
    assert_eq!(receiving.replies(0), [Reply::Heartbeat]);
}

#[test]
fn sender_kept_alive_by_heartbeats_may_reconnect_to_receive_the_abort() {
    for heartbeats in [false, true] {
        let mut receiving = Receiving::new(1, None);
        receiving.connect(0);
        let settings = Command::Settings(Settings {
            heartbeats,
            ..settings()
        });
        receiving.send(0, &bytes(&[settings, file("a", 1, 100)]));
        receiving.now = ms(1001);
        receiving.send(0, b"x");
        assert_eq!(receiving.replies(0).contains(&Reply::Heartbeat), heartbeats);
        let stopped = Failure::new(Status::Abort, "the transfer was stopped here");
        receiving.session.fail(stopped);
        assert_eq!(receiving.replies(0), abort(32, Status::Abort));
        receiving.now = ms(2001);
        if heartbeats {
            // One byte is what the reference reads after a write that failed: the heartbeat.
            assert_eq!(receiving.receive(0).1, receiver::Step::Accept(ms(3501)));
            receiving.connect(0);
            let replies = receiving.replies(0);
            assert!(
                matches!(replies[..], [Reply::LocalCheckpoint(_), Reply::Abort(_)]),
                "{replies:?}"
            );
            receiving.now = ms(3501);
        }
        assert_eq!(receiving.receive(0).1, receiver::Step::End);
        assert_eq!(
            receiving.session.finish().unwrap_err().status,
            Status::Abort
        );
    }
}

#[test]
fn a_silent_sender_is_given_up_after_both_time_outs() {
    let mut receiving = Receiving::new(1, None);
    receiving.connect(0);
    receiving.send(
        0,
        &bytes(&[Command::Settings(settings()), file("a", 1, 100)]),
    );
    receiving.send(0, b"xxx");
    receiving.now = ms(4999);
    assert!(matches!(receiving.receive(0).1, receiver::Step::Read(until) if until == ms(5000)));
    receiving.now = ms(5000);
    assert!(matches!(receiving.receive(0).1, receiver::Step::Accept(until) if until == ms(11_000)));
    receiving.connect(0);
    let checkpoint = Checkpoint {
        port: 1,
        blocks: 0,
        partial_bytes: 3,
        partial_sequence: 1,
        partial_offset: 0,
    };
    assert_eq!(receiving.replies(0), [Reply::LocalCheckpoint(checkpoint)]);
    receiving.break_off(0);
    // It sends that again, as nothing shows that the sender has read it.
    receiving.receive(0);
    receiving.connect(0);
    assert_eq!(receiving.replies(0), [Reply::LocalCheckpoint(checkpoint)]);
    // SETTINGS show it: the sender continues after the checkpoint.
    receiving.send(0, &bytes(&[Command::Settings(settings())]));
    receiving.break_off(0);
    receiving.receive(0);
    receiving.connect(0);
    let nothing_new = Checkpoint {
        port: 1,
        ..Checkpoint::default()
    };
    assert_eq!(receiving.replies(0), [Reply::LocalCheckpoint(nothing_new)]);
    receiving.break_off(0);
    receiving.receive(0);
    receiving.now = ms(20_000);
    assert_eq!(receiving.receive(0).1, receiver::Step::End);
    let failure = receiving.session.finish().unwrap_err();
    assert_eq!(failure.status, Status::Connection, "{failure}");
}
