//! Tests with certificates that are not the run's, and with paths that are too small for QUIC.

use std::thread;

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use regatta_control::{ProblemKind, Role};
use regatta_transport::{
    Driver, TransportError,
    testing::{SERVER_NAME, order_for, trial_context},
};

for_each_stack! {
    another_certificate_with_the_same_name_is_refused,
    a_certificate_without_its_key_is_refused,
    a_path_with_too_small_packets_is_unsupported,
}

fn another_certificate_with_the_same_name_is_refused(driver: &dyn Driver) {
    let name = driver.descriptor().name;
    let other = rcgen::generate_simple_self_signed([SERVER_NAME.to_owned()]).expect("made");
    let mut order = order_for(Role::Sender, name, 1000, 1000);
    order.tls.certificate_der_base64 = BASE64.encode(other.cert.der());
    let (context, _) = trial_context();
    let sender = driver.session(&order, context).expect("a sender");
    let order = order_for(Role::Receiver, name, 1000, 1000);
    let (context, _) = trial_context();
    let receiver = driver.session(&order, context.clone()).expect("a receiver");
    let peer = receiver.listen_address();
    let error = thread::scope(|scope| {
        let receiver = scope.spawn(move || receiver.run(None));
        let error = sender.run(peer).expect_err("it is not the pinned one");
        // The receiver waits on for the right sender until it is stopped.
        context.stop.stop();
        let receiver = receiver.join().expect("no panic");
        assert!(matches!(receiver, Err(TransportError::Cancelled)), "{name}");
        error
    });
    let reasons = error.reasons().join(": ");
    // s2n-quic does not report whose.
    let whose = if name == "quic-s2n" { "" } else { "peer " };
    let reason = format!("invalid {whose}certificate");
    assert!(reasons.contains(&reason), "{name}: {reasons}");
}

fn a_certificate_without_its_key_is_refused(driver: &dyn Driver) {
    let name = driver.descriptor().name;
    let other = rcgen::generate_simple_self_signed([SERVER_NAME.to_owned()]).expect("made");
    let mut order = order_for(Role::Receiver, name, 1000, 1000);
    order.tls.key_der_base64 = Some(BASE64.encode(other.signing_key.serialize_der()));
    let (context, _) = trial_context();
    assert!(driver.session(&order, context.clone()).is_err(), "{name}");
    order.tls.key_der_base64 = None;
    assert!(
        matches!(
            driver.session(&order, context),
            Err(TransportError::Order { .. })
        ),
        "{name}"
    );
}

fn a_path_with_too_small_packets_is_unsupported(driver: &dyn Driver) {
    let mut order = order_for(Role::Sender, driver.descriptor().name, 1000, 1000);
    order.path.mtu_bytes = 1000;
    let (context, _) = trial_context();
    let error = driver
        .session(&order, context)
        .err()
        .expect("QUIC needs more");
    assert_eq!(error.kind(), ProblemKind::Unsupported);
    assert!(!error.hint().is_empty());
}
