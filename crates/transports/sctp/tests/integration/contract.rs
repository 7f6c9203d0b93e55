//! Contract of every driver, run over the streams of `sctp-userspace` and over its messages. The
//! cases of `sctp` are in `kernel.rs`.

use regatta_test_contract::contract;

use crate::common::{Unordered, driver};

regatta_test_contract::contract_tests! {
    streams: streams => driver("sctp-userspace");
    unordered_messages: reliable_messages => &Unordered::of("sctp-userspace");
}

#[test]
fn probes_beside_streams_are_datagrams() {
    contract::probes_beside_streams_are_datagrams(driver("sctp-userspace"));
}

/// Checks that every driver has its cases; those of `sctp` are in `kernel.rs`.
#[test]
fn every_driver_has_its_cases() {
    contract::drivers_have_cases(
        &["sctp", "sctp-userspace"],
        regatta_transport_sctp::drivers(),
    );
}
