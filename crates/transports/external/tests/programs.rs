//! The programs that come with Regatta, those that `make external` could make here, over loopback.
//! One that is not there, or cannot run here, has to say so with a hint.

mod common;

use std::time::Duration;

use regatta_control::{FailureKind, Role, TrialOrder};
use regatta_model::{Finish, Pattern, WorkloadKind};
use regatta_transport::{
    Driver,
    testing::{order_for, run_pair, trial_context},
};

/// The named ones that run here.
fn supported() -> Vec<&'static dyn Driver> {
    let named = regatta_transport_external::drivers()
        .iter()
        .copied()
        .filter(|driver| driver.descriptor().name != "external");
    named
        .filter(|driver| match driver.supported(&Default::default()) {
            Ok(()) => true,
            Err(unsupported) => {
                println!("`{}`: {unsupported}", driver.descriptor().name);
                assert!(!unsupported.reason.is_empty());
                assert!(!unsupported.hint.is_empty(), "{unsupported}");
                false
            }
        })
        .collect()
}

#[test]
fn every_size_is_delivered() {
    for driver in supported() {
        let name = driver.descriptor().name;
        for (size, message, pattern) in [
            (0, 1, Pattern::Data),
            (1, 1, Pattern::Data),
            (500, 1, Pattern::Zeros),
            (5_000_003, 10_000, Pattern::Random),
        ] {
            let what = format!("{name} with {size} bytes in messages of {message}");
            let pair = run_pair(driver, size, message, |order| {
                // The packets of a real path, and not loopback's.
                order.path.mtu_bytes = 1500;
                if let WorkloadKind::Bulk {
                    pattern: filled, ..
                } = &mut order.workload.kind
                {
                    *filled = pattern;
                }
            })
            .unwrap_or_else(|error| panic!("{what}: {:?}", error.reasons()));
            let sender = pair
                .sender
                .unwrap_or_else(|e| panic!("{what}: {:?}", e.reasons()));
            let receiver = pair
                .receiver
                .unwrap_or_else(|e| panic!("{what}: {:?}", e.reasons()));
            assert_eq!(receiver.metrics["bytes_delivered"], size as f64, "{what}");
            assert_eq!(sender.metrics["bytes_sent"], size as f64, "{what}");
            let set_up = sender.metrics["set_up_time_ns"];
            let time = sender.metrics["transfer_time_ns"];
            assert!(0.0 < set_up && set_up <= time, "{what}: {set_up} of {time}");
            assert_eq!(sender.warnings, [], "{what}");
            assert_eq!(receiver.warnings, [], "{what}");
            let option = driver.descriptor().options.iter().find(|o| o.name == "cc");
            if let Some(cc) = option {
                assert_eq!(
                    sender.facts["congestion_control.sender"], cc.default,
                    "{what}"
                );
            }
            let version = driver.descriptor().stack_version;
            assert!(
                sender.facts["external.sender"].contains(version),
                "{sender:?}"
            );
        }
    }
}

#[test]
fn the_deadline_is_kept() {
    for driver in supported() {
        let name = driver.descriptor().name;
        let pair = run_pair(driver, 40_000_000_000_000, 10_000, |order| {
            order.deadline = Duration::from_millis(700);
        })
        .expect("both ends are ready");
        let (sender, receiver) = match (pair.sender, pair.receiver) {
            (Ok(sender), Ok(receiver)) => (sender, receiver),
            ends => panic!("{name}: {ends:?}"),
        };
        assert_eq!(sender.metrics["transfer_time_ns"], 700e6, "{name}");
        assert!(receiver.metrics["bytes_delivered"] > 0.0, "{name}");
        assert_eq!(sender.warnings[0].code, "deadline_reached", "{name}");
    }
}

#[test]
fn an_abandoned_transfer_is_measured_on_what_arrived_and_flagged() {
    for driver in supported() {
        let name = driver.descriptor().name;
        let pair = run_pair(driver, 20_000_000, 10_000, |order| {
            order.path.mtu_bytes = 1500;
            if let WorkloadKind::Bulk { options, .. } = &mut order.workload.kind {
                options.finish = Finish::Abandon;
            }
        });
        let pair = match pair {
            Ok(pair) => pair,
            Err(error) => {
                assert_eq!(error.kind(), FailureKind::Unsupported, "{name}: {error:?}");
                continue;
            }
        };
        let (sender, receiver) = match (pair.sender, pair.receiver) {
            (Ok(sender), Ok(receiver)) => (sender, receiver),
            ends => panic!("{name}: {ends:?}"),
        };
        assert_eq!(sender.metrics["bytes_sent"], 20e6, "{name}");
        let delivered = receiver.metrics["bytes_delivered"];
        // aioquic takes all that is written into its memory, and drops it when it is closed; quic-go
        // takes a packet's worth, so that only what is under way is lost, and nothing on loopback.
        let whole = delivered == 20e6;
        assert!(!whole || name == "quic-go", "{name}: {delivered}");
        let lost = 2000.0 - receiver.metrics["messages_delivered"];
        assert_eq!(sender.metrics["messages_lost"], lost, "{name}");
        assert_eq!(sender.facts["finish"], "abandon", "{name}");
        assert_eq!(sender.warnings[0].code, "abandoned", "{name}");
    }
}

/// Runs a pair that must not come together, and says how its sender failed.
fn refused(driver: &dyn Driver, change: impl Fn(&mut TrialOrder)) -> (FailureKind, String) {
    let name = driver.descriptor().name;
    let end = |role| {
        let mut order = order_for(role, name, 1000, 1000);
        change(&mut order);
        let (context, _) = trial_context();
        let session = driver.prepare(&order, context.clone());
        (session.expect("this end gets ready"), context)
    };
    let (receiver, context) = end(Role::Receiver);
    let peer = receiver.listen_address();
    let (sender, _) = end(Role::Sender);
    let receiving = std::thread::spawn(move || receiver.run(None));
    let sent = sender.run(peer);
    context.stop.stop();
    assert!(receiving.join().expect("no panic").is_err(), "{name}");
    let error = sent.expect_err("it must be refused");
    (error.kind(), error.reasons().join(": "))
}

#[test]
fn a_wrong_token_and_a_wrong_certificate_are_refused_and_named() {
    for driver in supported() {
        let name = driver.descriptor().name;
        let (kind, reason) = refused(driver, |order| {
            if order.role == Role::Sender {
                order.token = "00".repeat(16);
            }
        });
        assert_eq!(kind, FailureKind::Failed, "{name}: {reason}");
        if !driver.descriptor().encrypted {
            continue;
        }
        assert!(
            reason.contains("this is not the trial's token"),
            "{name}: {reason}"
        );
        // The same name, another certificate.
        let other =
            rcgen::generate_simple_self_signed(
                [regatta_transport::testing::SERVER_NAME.to_owned()],
            );
        let other = base64(other.expect("a certificate").cert.der());
        let (kind, reason) = refused(driver, |order| {
            if order.role == Role::Sender {
                order.tls.certificate_der_base64.clone_from(&other);
            }
        });
        assert_eq!(kind, FailureKind::Failed, "{name}: {reason}");
        assert!(reason.contains("certificate"), "{name}: {reason}");
        // The right certificate under another name.
        let (kind, reason) = refused(driver, |order| {
            order.tls.server_name = "elsewhere.invalid".to_owned();
        });
        assert_eq!(kind, FailureKind::Failed, "{name}: {reason}");
    }
}

fn base64(der: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(der)
}

#[test]
fn what_is_not_installed_is_unsupported_with_what_to_type() {
    for driver in regatta_transport_external::drivers() {
        let name = driver.descriptor().name;
        match driver.supported(&Default::default()) {
            Ok(()) => {}
            Err(unsupported) => {
                let order = order_for(Role::Sender, name, 1, 1);
                let error = driver.prepare(&order, trial_context().0).err();
                let error = error.expect("what is unsupported cannot be prepared");
                assert_eq!(error.kind(), FailureKind::Unsupported, "{name}");
                assert_eq!(error.hint(), unsupported.hint, "{name}");
            }
        }
    }
}
