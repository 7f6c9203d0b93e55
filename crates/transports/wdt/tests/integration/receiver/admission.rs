//! Connections that do not belong to the transfer.

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
    let other_key = Secret {
        key: Key::new([2; 16]),
        ..gcm()
    };
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
            "an encrypting sender",
            None,
            sealed(Some(&gcm()), &complete),
            Some(Status::Encryption),
        ),
        (
            "one byte in clear",
            Some(gcm()),
            b"S".to_vec(),
            Some(Status::Encryption),
        ),
        (
            "SETTINGS in clear",
            Some(gcm()),
            complete.clone(),
            Some(Status::Encryption),
        ),
        (
            "another key",
            Some(gcm()),
            sealed(Some(&other_key), &complete),
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
