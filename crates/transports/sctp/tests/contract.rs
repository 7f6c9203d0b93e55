//! The contract of every driver, held by the streams of `sctp-userspace` and by its messages. Those of
//! `sctp` are in `kernel.rs`.

mod common;

use common::{Unordered, driver};
use regatta_transport::testing::contract;

regatta_transport::contract_tests! {
    streams: streams => driver("sctp-userspace");
    unordered_messages: reliable_messages => &Unordered::of("sctp-userspace");
}

/// Those of `sctp` are in `kernel.rs`.
#[test]
fn every_driver_has_its_cases() {
    contract::drivers_have_cases(
        &["sctp", "sctp-userspace"],
        regatta_transport_sctp::drivers(),
    );
}
