//! The programs that come with Regatta, as far as `make external` could build them here, over
//! loopback. One that is missing, or cannot run here, has to say so with a hint.

use std::{collections::BTreeSet, time::Duration};

use regatta_control::{ProblemKind, Role, TrialOrder};
use regatta_model::{Finish, OptionValue, Pattern, WorkloadKind};
use regatta_test_contract::{contract, exchanges};
use regatta_transport::{
    Driver,
    testing::{order_for, run_pair, trial_context},
};

/// Defines the tests of each of these programs.
macro_rules! programs {
    ($($module:ident => $name:literal)+) => {
        regatta_test_contract::driver_tests! {
            [
                every_size_is_delivered_of_nothing,
                every_size_is_delivered_of_one_byte,
                every_size_is_delivered_of_messages_of_one_byte,
                every_size_is_delivered_of_many_packets,
                each_message_is_acknowledged,
                requests_have_their_answers,
                requests_keep_their_rate,
                the_deadline_ends_an_exchange,
                probes_are_answered,
                the_deadline_is_kept,
                an_abandoned_transfer_is_measured_on_what_arrived_and_flagged,
                a_wrong_token_is_refused_and_named,
                a_wrong_certificate_is_refused_and_named,
            ]
            $($module => $name);+
        }

        /// Programs that have tests.
        const TESTED: &[&str] = &[$($name),+];
    };
}

programs! {
    quic_aioquic => "quic-aioquic"
    sctp_pysctp => "sctp-pysctp"
    quic_go => "quic-go"
}

#[test]
fn every_program_has_its_tests() {
    let names = regatta_transport_external::drivers()
        .iter()
        .map(|driver| driver.descriptor().name)
        .filter(|name| *name != "external");
    let tested = TESTED.iter().copied();
    assert_eq!(names.collect::<BTreeSet<_>>(), tested.collect());
}

/// Returns the driver of this name, if it runs here. Where it does not, it must say why.
fn supported(name: &str) -> Option<&'static dyn Driver> {
    let mut drivers = regatta_transport_external::drivers().iter().copied();
    let driver = drivers.find(|driver| driver.descriptor().name == name);
    let driver = driver.unwrap_or_else(|| panic!("no driver is called `{name}`"));
    let Err(unsupported) = driver.supported(&Default::default()) else {
        return Some(driver);
    };
    println!("`{name}`: {unsupported}");
    assert!(!unsupported.reason.is_empty());
    assert!(!unsupported.hint.is_empty(), "{unsupported}");
    let order = order_for(Role::Sender, driver.descriptor().name, 1, 1);
    let error = driver.session(&order, trial_context().0).err();
    let error = error.expect("what is unsupported cannot be prepared");
    assert_eq!(error.kind(), ProblemKind::Unsupported, "{name}");
    assert_eq!(error.hint(), unsupported.hint, "{name}");
    None
}

fn every_size_is_delivered_of_nothing(name: &str) {
    is_delivered(name, 0, 1, Pattern::Data);
}

fn every_size_is_delivered_of_one_byte(name: &str) {
    is_delivered(name, 1, 1, Pattern::Data);
}

fn every_size_is_delivered_of_messages_of_one_byte(name: &str) {
    is_delivered(name, 500, 1, Pattern::Zeros);
}

fn every_size_is_delivered_of_many_packets(name: &str) {
    is_delivered(name, 5_000_003, 10_000, Pattern::Random);
}

fn is_delivered(name: &str, size: u64, message: u64, pattern: Pattern) {
    let Some(driver) = supported(name) else {
        return;
    };
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
    assert_eq!(
        receiver.measurements.metrics["bytes_delivered"], size as f64,
        "{what}"
    );
    assert_eq!(
        sender.measurements.metrics["bytes_sent"], size as f64,
        "{what}"
    );
    let set_up = sender.measurements.metrics["set_up_time_mean_ns"];
    let time = sender.measurements.metrics["transfer_time_ns"];
    assert!(0.0 < set_up && set_up <= time, "{what}: {set_up} of {time}");
    assert_eq!(sender.measurements.warnings, [], "{what}");
    assert_eq!(receiver.measurements.warnings, [], "{what}");
    assert_eq!(
        receiver.measurements.facts["external.times.receiver"], "the program's",
        "{what}"
    );
    let option = driver.descriptor().options.iter().find(|o| o.name == "cc");
    if let Some(cc) = option {
        assert_eq!(
            sender.measurements.facts["congestion_control.sender"], cc.default,
            "{what}"
        );
    }
    let version = driver.descriptor().stack_version;
    assert!(
        sender.measurements.facts["external.sender"].contains(version),
        "{sender:?}"
    );
    assert_eq!(
        sender.measurements.facts["external.sha256.sender"],
        receiver.measurements.facts["external.sha256.receiver"],
        "{what}"
    );
}

fn each_message_is_acknowledged(name: &str) {
    let Some(driver) = supported(name) else {
        return;
    };
    for size in [0, 163] {
        exchanges::stop_and_wait_has_each_message_acknowledged(driver, size, 17);
    }
}

fn requests_have_their_answers(name: &str) {
    if let Some(driver) = supported(name) {
        exchanges::requests_have_their_answers(driver, 300, 1000, 4000, 16);
    }
}

fn requests_keep_their_rate(name: &str) {
    if let Some(driver) = supported(name) {
        exchanges::requests_keep_their_rate(driver);
    }
}

fn the_deadline_ends_an_exchange(name: &str) {
    if let Some(driver) = supported(name) {
        exchanges::the_deadline_ends_an_exchange(driver);
    }
}

fn probes_are_answered(name: &str) {
    if let Some(driver) = supported(name) {
        contract::probes_are_answered(driver);
    }
}

fn the_deadline_is_kept(name: &str) {
    let Some(driver) = supported(name) else {
        return;
    };
    let pair = run_pair(driver, 40_000_000_000_000, 10_000, |order| {
        order.deadline = Duration::from_millis(700);
    })
    .expect("both ends are ready");
    let (sender, receiver) = match (pair.sender, pair.receiver) {
        (Ok(sender), Ok(receiver)) => (sender, receiver),
        ends => panic!("{name}: {ends:?}"),
    };
    let connected = sender.measurements.metrics["transfer_time_ns"]
        - sender.measurements.metrics["set_up_time_mean_ns"];
    assert_eq!(connected, 700e6, "{name}");
    assert!(
        receiver.measurements.metrics["bytes_delivered"] > 0.0,
        "{name}"
    );
    assert_eq!(
        sender.measurements.warnings[0].code, "deadline_reached",
        "{name}"
    );
}

fn an_abandoned_transfer_is_measured_on_what_arrived_and_flagged(name: &str) {
    let Some(driver) = supported(name) else {
        return;
    };
    let pair = run_pair(driver, 20_000_000, 10_000, |order| {
        order.path.mtu_bytes = 1500;
        if let WorkloadKind::Bulk { options, .. } = &mut order.workload.kind {
            options.finish = Finish::Abandon;
        }
    });
    let pair = match pair {
        Ok(pair) => pair,
        Err(error) => {
            assert_eq!(error.kind(), ProblemKind::Unsupported, "{name}: {error:?}");
            return;
        }
    };
    let (sender, receiver) = match (pair.sender, pair.receiver) {
        (Ok(sender), Ok(receiver)) => (sender, receiver),
        ends => panic!("{name}: {ends:?}"),
    };
    assert_eq!(sender.measurements.metrics["bytes_sent"], 20e6, "{name}");
    let delivered = receiver.measurements.metrics["bytes_delivered"];
    // aioquic takes all that is written into its memory, and drops it when it is closed; quic-go
    // takes a packet's worth, so that only what is under way is lost, and nothing on loopback.
    let is_complete = delivered == 20e6;
    assert!(!is_complete || name == "quic-go", "{name}: {delivered}");
    let lost = 2000.0 - receiver.measurements.metrics["messages_delivered"];
    assert_eq!(sender.measurements.metrics["messages_lost"], lost, "{name}");
    assert_eq!(sender.measurements.facts["finish"], "abandon", "{name}");
    assert_eq!(sender.measurements.warnings[0].code, "abandoned", "{name}");
}

/// What the published programs had: nothing set.
#[test]
fn aioquic_is_left_alone_with_its_own_profile() {
    let Some(driver) = supported("quic-aioquic") else {
        return;
    };
    let pair = run_pair(driver, 100_000, 1000, |order| {
        let library = OptionValue::Text("library".to_owned());
        let options = &mut order.transport.options;
        options.insert("profile".to_owned(), library);
    });
    let sender = pair.expect("both ends are ready").sender;
    let facts = sender.expect("it is delivered").measurements.facts;
    for (name, value) in [
        ("congestion_control.sender", "reno"),
        ("packet_size.sender", "1228 B, fixed"),
        ("cipher.sender", "AES-256-GCM"),
        ("tls.key_exchange", "secp256r1"),
    ] {
        assert_eq!(facts[name], value, "{name}");
    }
}

/// Runs a pair that must not connect, and returns its sender's failure.
fn refused(driver: &dyn Driver, change: impl Fn(&mut TrialOrder)) -> (ProblemKind, String) {
    let name = driver.descriptor().name;
    let end = |role| {
        let mut order = order_for(role, name, 1000, 1000);
        change(&mut order);
        let (context, _) = trial_context();
        let session = driver.session(&order, context.clone());
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

fn a_wrong_token_is_refused_and_named(name: &str) {
    let Some(driver) = supported(name) else {
        return;
    };
    let (kind, reason) = refused(driver, |order| {
        if order.role == Role::Sender {
            order.token = "00".repeat(16);
        }
    });
    assert_eq!(kind, ProblemKind::Failed, "{name}: {reason}");
    assert!(
        !driver.descriptor().encrypted || reason.contains("this is not the trial's token"),
        "{name}: {reason}"
    );
}

fn a_wrong_certificate_is_refused_and_named(name: &str) {
    let Some(driver) = supported(name) else {
        return;
    };
    if !driver.descriptor().encrypted {
        return;
    }
    // The same name, another certificate.
    let other =
        rcgen::generate_simple_self_signed([regatta_transport::testing::SERVER_NAME.to_owned()]);
    let other = base64(other.expect("a certificate").cert.der());
    let (kind, reason) = refused(driver, |order| {
        if order.role == Role::Sender {
            order.tls.certificate_der_base64.clone_from(&other);
        }
    });
    assert_eq!(kind, ProblemKind::Failed, "{name}: {reason}");
    assert!(reason.contains("certificate"), "{name}: {reason}");
    // The right certificate under another name.
    let (kind, reason) = refused(driver, |order| {
        order.tls.server_name = "elsewhere.invalid".to_owned();
    });
    assert_eq!(kind, ProblemKind::Failed, "{name}: {reason}");
}

fn base64(der: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(der)
}

#[test]
fn a_program_that_is_not_installed_is_unsupported_with_a_hint() {
    for driver in regatta_transport_external::drivers() {
        let name = driver.descriptor().name;
        match driver.supported(&Default::default()) {
            Ok(()) => {}
            Err(unsupported) => {
                let order = order_for(Role::Sender, name, 1, 1);
                let error = driver.session(&order, trial_context().0).err();
                let error = error.expect("what is unsupported cannot be prepared");
                assert_eq!(error.kind(), ProblemKind::Unsupported, "{name}");
                assert_eq!(error.hint(), unsupported.hint, "{name}");
            }
        }
    }
}
