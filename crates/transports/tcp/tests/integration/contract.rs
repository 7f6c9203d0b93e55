//! Contract tests of every driver over loopback, for the drivers of this crate.

use std::{collections::BTreeMap, time::Duration};

use regatta_control::{ProblemKind, Role};
use regatta_model::{Amount, Direction, OptionValue, Pattern, Verify, WorkloadKind};
use regatta_test_contract::contract;
use regatta_transport::{Driver, TransportError, testing};

fn driver(name: &str) -> &'static dyn Driver {
    *regatta_transport_tcp::drivers()
        .iter()
        .find(|driver| driver.descriptor().name == name)
        .expect("the driver is registered")
}

regatta_test_contract::contract_tests! {
    tcp: streams => driver("tcp");
    tcp_tls: streams => driver("tcp-tls");
    mptcp: streams => driver("mptcp");
}

#[test]
fn every_driver_has_its_cases() {
    contract::drivers_have_cases(&tested_drivers(), regatta_transport_tcp::drivers());
}

fn cc(name: &str) -> BTreeMap<String, OptionValue> {
    BTreeMap::from([("cc".to_owned(), OptionValue::Text(name.to_owned()))])
}

regatta_test_contract::test_cases! { the_congestion_control_is_set_and_read_back_at_both_ends:
    the_default(BTreeMap::new(), "cubic")
    // It is in every kernel.
    reno(cc("reno"), "reno")
}

fn the_congestion_control_is_set_and_read_back_at_both_ends(
    options: BTreeMap<String, OptionValue>,
    expected: &str,
) {
    let pair = testing::run_pair(driver("tcp"), 1000, 1000, |order| {
        order.transport.options.clone_from(&options);
    })
    .expect("both ends can be prepared");
    let sender = pair.sender.expect("a report");
    let receiver = pair.receiver.expect("a report");
    assert_eq!(
        sender.measurements.facts["congestion_control.sender"],
        expected
    );
    assert_eq!(
        receiver.measurements.facts["congestion_control.receiver"],
        expected
    );
    let sample = *pair.sender_seen.samples().last().expect("a sample");
    assert!(sample.congestion_window_bytes > Some(0), "{sample:?}");
    assert!(sender.measurements.metrics["min_rtt_ns"] > 0.0);
    assert_eq!(sender.measurements.metrics["retransmit_ratio"], 0.0);
}

/// Runs a timed transfer after a warm-up, which is not one flow from its first byte to its last.
#[test]
fn timeouts_of_a_closed_connection_are_reported() {
    let pair = testing::run_pair(driver("tcp"), 1000, 20_000, |order| {
        if let WorkloadKind::Bulk {
            amount, options, ..
        } = &mut order.workload.kind
        {
            *amount = Amount::Time(Duration::from_millis(300));
            options.warm_up = Duration::from_millis(100);
        }
    })
    .expect("both ends can be prepared");
    let sender = pair.sender.expect("a report");
    assert_eq!(
        sender
            .measurements
            .metrics
            .contains_key("retransmission_timeouts"),
        kernel_counts_timeouts(),
    );
}

regatta_test_contract::test_cases! { messages_without_a_copy_are_those_that_were_to_be_sent:
    of_many_pages(131_072)
    with_a_part_of_a_page(10_001)
}

fn messages_without_a_copy_are_those_that_were_to_be_sent(message: u64) {
    let size = 20 * message + 3;
    let pair = testing::run_pair(driver("tcp"), size, message, |order| {
        let options = &mut order.transport.options;
        options.insert("zero_copy".to_owned(), OptionValue::Flag(true));
        if let WorkloadKind::Bulk { options, .. } = &mut order.workload.kind {
            options.verify = Verify::Digest;
            options.direction = Direction::Both;
        }
    })
    .expect("both ends can be prepared");
    for report in [pair.sender, pair.receiver] {
        let measured = report.expect("a report").measurements;
        assert_eq!(measured.metrics["bytes_delivered"], size as f64);
        assert_eq!(measured.metrics["messages_corrupted"], 0.0);
        let fact = measured
            .facts
            .keys()
            .any(|name| name.starts_with("zero_copy."));
        assert!(fact, "{:?}", measured.facts);
    }
}

/// What is read from a file lies in memory that is written again.
#[test]
fn a_file_is_not_sent_without_a_copy() {
    let options = BTreeMap::from([("zero_copy".to_owned(), OptionValue::Flag(true))]);
    let mut workload = testing::order_for(Role::Sender, "tcp", 100_000, 10_000)
        .workload
        .kind;
    assert!(driver("tcp").applicable(&options, &workload).is_ok());
    if let WorkloadKind::Bulk { pattern, .. } = &mut workload {
        *pattern = Pattern::File;
    }
    assert!(driver("tcp").applicable(&options, &workload).is_err());
}

/// Returns how often the threads of this process have waited.
fn waits() -> i64 {
    // SAFETY: plain numbers, of which any bits are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: there is room for the figures.
    let result = unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    assert_eq!(result, 0);
    usage.ru_nvcsw
}

#[test]
fn connection_wakes_only_its_own_waiters() {
    const CONNECTIONS: i64 = 2 * 200;
    let before = waits();
    let pair = testing::run_pair(driver("tcp"), 200, 1, |order| {
        if let WorkloadKind::Bulk { options, .. } = &mut order.workload.kind {
            options.direction = Direction::Both;
            options.flows = 200;
        }
    })
    .expect("both ends can be prepared");
    let (sender, receiver) = (pair.sender.expect("a report"), pair.receiver.expect("one"));
    for side in [sender, receiver] {
        assert_eq!(side.measurements.metrics["bytes_delivered"], 200.0);
    }
    let waits = waits() - before;
    // Were all of them woken, it would be half of their number each time.
    assert!(waits < CONNECTIONS * 50, "{waits} waits");
}

fn kernel_counts_timeouts() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release");
    let mut numbers = release
        .split('.')
        .map(|part| part.parse::<u32>().unwrap_or_default());
    (numbers.next(), numbers.next()) >= (Some(6), Some(7))
}

#[test]
fn a_congestion_control_that_the_kernel_lacks_is_unsupported() {
    let unsupported = driver("tcp")
        .supported(&cc("nosuchcc"))
        .expect_err("there is none of this name");
    assert!(unsupported.reason.contains("cubic"), "{unsupported}");
    let hint = &unsupported.hint;
    assert!(hint.starts_with("choose one that it has ("), "{hint}");
    assert!(hint.contains("cubic"), "{hint}");
    let mut order = testing::order_for(Role::Sender, "tcp", 1000, 1000);
    order.transport.options = cc("nosuchcc");
    let error = driver("tcp")
        .session(&order, testing::trial_context().0)
        .err()
        .expect("it cannot be prepared");
    assert_eq!(error.kind(), ProblemKind::Unsupported);
}

regatta_test_contract::test_cases! { tls_reports_negotiated_parameters_and_cipher:
    with_aws_lc("aws-lc")
    with_ring("ring")
}

fn tls_reports_negotiated_parameters_and_cipher(crypto: &str) {
    let pair = testing::run_pair(driver("tcp-tls"), 100_000, 30_000, |order| {
        let crypto = OptionValue::Text(crypto.to_owned());
        order.transport.options = BTreeMap::from([("crypto".to_owned(), crypto)]);
    })
    .expect("both ends can be prepared");
    let facts = pair.sender.expect("a report").measurements.facts;
    assert_eq!(facts["tls.version"], "1.3");
    assert_eq!(facts["tls.cipher_suite"], "TLS13_AES_128_GCM_SHA256");
    assert_eq!(facts["cipher.sender"], "AES-128-GCM");
    assert_eq!(facts["crypto.sender"], crypto);
    assert_eq!(facts["tls.key_exchange"], "X25519");
    let certificate = &facts["tls.certificate"];
    assert!(certificate.starts_with("ECDSA P-256, "), "{certificate}");
}

#[test]
fn only_the_certificate_of_the_run_is_trusted() {
    let other = rcgen::generate_simple_self_signed([testing::SERVER_NAME.to_owned()])
        .expect("a certificate");
    let other = {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(other.cert.der())
    };
    let pair = testing::run_pair_then(
        driver("tcp-tls"),
        1000,
        1000,
        |order| {
            if order.role == Role::Sender {
                order.tls.certificate_der_base64.clone_from(&other);
            }
        },
        |receiver| receiver.stop.stop(),
    )
    .expect("both ends can be prepared");
    let error = pair.sender.expect_err("the certificate is another's");
    assert!(
        error.reasons().concat().contains("certificate"),
        "{:?}",
        error.reasons()
    );
    assert!(matches!(pair.receiver, Err(TransportError::Cancelled)));
}
