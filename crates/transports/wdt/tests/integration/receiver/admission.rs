//! Connections that do not belong to the transfer.

use std::collections::BTreeMap;

use super::*;

#[test]
fn strangers_cannot_end_a_running_transfer() {
    let mut receiving = Receiving::new(2, None);
    receiving.connect(0);
    receiving.send(0, &bytes(&[Command::Settings(settings())]));
    receiving.connect(1);
    receiving.send(1, b"GET / HTTP/1.1\r\n\r\n");
    assert!(
        matches!(receiving.receive(1), (replies, receiver::Step::Accept(_)) if replies.is_empty())
    );
    receiving.connect(1);
    assert!(matches!(
        receiving.replies(1)[..],
        [Reply::LocalCheckpoint(_)]
    ));
    let other = Settings {
        transfer_id: b"other".to_vec(),
        ..settings()
    };
    receiving.send(1, &bytes(&[Command::Settings(other)]));
    assert_eq!(receiving.replies(1), abort(32, Status::IdMismatch));
    assert_eq!(receiving.session.failure(), None);
}

/// Returns the wire bytes of a sender with this key, or without one.
fn sealed(secret: Option<&Secret>, plain: &[u8]) -> Vec<u8> {
    let mut wire = Vec::new();
    Seal::new(secret, 64)
        .unwrap()
        .seal(plain, &mut wire)
        .unwrap();
    wire
}

#[test]
fn unauthenticated_peers_cannot_end_or_delay_the_transfer() {
    let complete = bytes(&[Command::Settings(settings()), file("a", 1, 100)]);
    let other_id = bytes(&[Command::Settings(Settings {
        transfer_id: b"other".to_vec(),
        ..settings()
    })]);
    for (what, secret, wire, expected) in [
        ("nothing", None, vec![], None),
        ("HTTP", None, b"GET / HTTP/1.1\r\n\r\n".to_vec(), None),
        ("part of SETTINGS", None, complete[..5].to_vec(), None),
        (
            "another id",
            None,
            other_id.clone(),
            Some(Status::IdMismatch),
        ),
        (
            "one byte in clear",
            Some(gcm()),
            b"S".to_vec(),
            Some(Status::Encryption),
        ),
        (
            "another id in clear",
            Some(gcm()),
            other_id.clone(),
            Some(Status::Encryption),
        ),
        (
            "a prologue without a cipher",
            None,
            b"e\x07\x10 and more".to_vec(),
            Some(Status::Encryption),
        ),
        (
            "encrypted, another id",
            Some(gcm()),
            sealed(Some(&gcm()), &other_id),
            Some(Status::IdMismatch),
        ),
    ] {
        let mut receiving = Receiving::new(1, secret);
        // More often than anything would be counted.
        for _ in 0..20 {
            let mut stranger = receiving.ports[0].candidate(receiving.now);
            stranger.received(&mut wire.clone(), receiving.now);
            receiving.now += ms(1000);
            let mut output = Vec::new();
            loop {
                match stranger.step(receiving.now) {
                    receiver::Step::Write => {
                        output.extend_from_slice(stranger.output());
                        stranger.written();
                    }
                    receiver::Step::Shutdown => {}
                    // After ABORT it reads on for a moment.
                    receiver::Step::Read(until) => receiving.now = until,
                    other => {
                        assert_eq!(other, receiver::Step::Disconnect, "{what}");
                        break;
                    }
                }
            }
            assert!(!stranger.is_admitted(), "{what}");
            let refusal = receiving.ports[0].turned_away(stranger);
            assert_eq!(refusal.map(|failure| failure.status), expected, "{what}");
            assert_eq!(receiving.session.failure(), None, "{what}");
            receiving.now = ms(0);
        }
        receiving.connect(0);
        receiving.replies(0);
        receiving.send(0, &bytes(&[Command::Settings(settings()), file("a", 1, 4)]));
        receiving.send(0, b"data");
        receiving.send(0, &bytes(&[done(1, 4)]));
        assert_eq!(receiving.replies(0), [Reply::Done], "{what}");
    }
}

/// Peers that agree with a receiver of this secret about everything but encryption, with the status of a receiver that
/// waits for its sender.
fn disagreeing() -> Vec<(&'static str, Option<Secret>, Vec<u8>, Status)> {
    let other_key = Secret {
        key: Key::new([2; 16]),
        ..gcm()
    };
    let other_cipher = Secret {
        cipher: Cipher::Aes128Ctr,
        ..gcm()
    };
    let complete = bytes(&[Command::Settings(settings()), file("a", 1, 100)]);
    let encrypted = |secret: &Secret| sealed(Some(secret), &complete);
    vec![
        (
            "an encrypting sender",
            None,
            encrypted(&gcm()),
            Status::Protocol,
        ),
        (
            "another key",
            Some(gcm()),
            encrypted(&other_key),
            Status::Protocol,
        ),
        (
            "another cipher",
            Some(gcm()),
            encrypted(&other_cipher),
            Status::Protocol,
        ),
        (
            "SETTINGS in clear",
            Some(gcm()),
            complete,
            Status::Encryption,
        ),
    ]
}

/// What another key makes of a message are random bytes. One in twenty-five at most begins like a command of which more is to
/// come, so that the receiver waits for it: more than four of ten do in less than one run of ten thousand.
#[test]
fn a_disagreement_about_encryption_ends_a_receiver_that_waits() {
    const ATTEMPTS: usize = 10;
    let mut waiting = BTreeMap::<&str, usize>::new();
    for (what, secret, mut wire, status) in (0..ATTEMPTS).flat_map(|_| disagreeing()) {
        let mut receiving = Receiving::new(1, secret);
        receiving.connect(0);
        receiving.ports[0].received(&mut wire, receiving.now);
        let Some(failure) = receiving.session.failure() else {
            *waiting.entry(what).or_default() += 1;
            continue;
        };
        assert_eq!(failure.status, status, "{what}");
        receiving.break_off(0);
        while receiving.ports[0].step(receiving.now) != receiver::Step::End {
            receiving.ports[0].written();
        }
        assert_eq!(
            receiving.session.finish().unwrap_err().status,
            status,
            "{what}"
        );
    }
    for (what, waiting) in waiting {
        assert!(
            what.starts_with("another ") && waiting <= 4,
            "{what}: {waiting}"
        );
    }
}

#[test]
fn a_disagreement_about_encryption_changes_nothing_in_a_running_transfer() {
    for (what, secret, mut wire, _) in disagreeing() {
        let mut receiving = Receiving::new(2, secret);
        receiving.connect(0);
        receiving.send(0, &bytes(&[Command::Settings(settings())]));
        let mut stranger = receiving.ports[1].candidate(receiving.now);
        stranger.received(&mut wire, receiving.now);
        let refusal = receiving.ports[1].turned_away(stranger);
        let refused = refusal.map(|failure| failure.status);
        assert_eq!(refused, Some(Status::Encryption), "{what}");
        assert_eq!(receiving.session.failure(), None, "{what}");
    }
}

#[test]
fn receiver_reports_why_all_peers_were_refused() {
    for (secret, wire, status) in [
        (
            None,
            bytes(&[Command::Settings(Settings {
                transfer_id: b"other".to_vec(),
                ..settings()
            })]),
            Status::IdMismatch,
        ),
        (Some(gcm()), b"S".to_vec(), Status::Encryption),
    ] {
        let mut receiving = Receiving::new(1, secret);
        receiving.connect(0);
        receiving.ports[0].received(&mut wire.clone(), receiving.now);
        assert_eq!(receiving.session.failure(), None);
        receiving.break_off(0);
        receiving.now = ms(50_000);
        loop {
            match receiving.ports[0].step(receiving.now) {
                receiver::Step::Write => receiving.ports[0].written(),
                receiver::Step::End => break,
                _ => {}
            }
        }
        let failure = receiving.session.finish().unwrap_err();
        assert_eq!(failure.status, status, "{failure}");
    }
}
