//! The contract of every driver, held by the streams of `sctp-userspace` and by its messages. Those of
//! `sctp` are in `kernel.rs`.

mod common;

use common::{Unordered, driver};

regatta_transport::contract_tests! {
    streams: streams => driver("sctp-userspace");
    unordered_messages: reliable_messages => &Unordered::of("sctp-userspace");
}
