//! The contract of every driver, held by the streams of `sctp-userspace` and by its messages.

mod common;

use common::{Unordered, driver};
use regatta_transport::testing;

#[test]
fn streams_hold_the_contract() {
    testing::contract::holds(driver("sctp-userspace"));
}

#[test]
fn unordered_messages_hold_the_contract() {
    testing::contract::holds(&Unordered::of("sctp-userspace"));
}
