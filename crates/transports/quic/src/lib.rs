//! QUIC (RFC 9000), one module per stack.
//!
//! | driver | stack |
//! |---|---|
//! | `quic-quinn` | quinn on tokio, one current-thread runtime per end, rustls on aws-lc-rs |
//! | `quic-noq` | noq, a fork of quinn, on tokio, one current-thread runtime per end, rustls on aws-lc-rs |
//! | `quic-quiche` | quiche on BoringSSL and tokio, one current-thread runtime per end |
//! | `quic-s2n` | s2n-quic on tokio, one current-thread runtime per end, rustls on aws-lc-rs |
//!
//! Each stack is a feature of this crate (`quinn`, `noq`, `quiche`, `s2n`), on by default.
//!
//! Modules shared by all drivers: sizes from the path ([`path`]),
//! the time for which flow control held a sender back ([`blocked`]), common options ([`options`]),
//! key logs and event logs ([`files`]).

// Without some of the stacks, some of what they share is unused.
#![cfg_attr(
    not(all(
        feature = "quinn",
        feature = "noq",
        feature = "quiche",
        feature = "s2n"
    )),
    allow(dead_code, unused_imports)
)]

pub mod blocked;
pub mod files;
#[cfg(feature = "noq")]
pub mod noq_driver;
pub mod options;
pub mod path;
#[cfg(feature = "quiche")]
pub mod quiche_driver;
#[cfg(feature = "quinn")]
pub mod quinn_driver;
pub mod quinn_family;
#[cfg(feature = "s2n")]
pub mod s2n_driver;

use regatta_transport::Driver;
use regatta_transport_sockets::{executor, socket, timer, wait};

/// Returns all drivers of this crate, in the order of tables.
#[must_use]
pub fn drivers() -> &'static [&'static dyn Driver] {
    &[
        #[cfg(feature = "quinn")]
        &quinn_driver::QuicQuinn,
        #[cfg(feature = "noq")]
        &noq_driver::QuicNoq,
        #[cfg(feature = "quiche")]
        &quiche_driver::QuicQuiche,
        #[cfg(feature = "s2n")]
        &s2n_driver::QuicS2n,
    ]
}
