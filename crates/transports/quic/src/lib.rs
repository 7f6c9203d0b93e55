//! QUIC (RFC 9000), one module per stack.
//!
//! | driver | stack |
//! |---|---|
//! | `quic-quinn` | quinn on tokio, one current-thread runtime per end, rustls on aws-lc-rs |
//! | `quic-noq` | noq, a fork of quinn, on tokio, one current-thread runtime per end, rustls on aws-lc-rs |
//! | `quic-quiche` | quiche on BoringSSL and tokio, one current-thread runtime per end |
//! | `quic-s2n` | s2n-quic on tokio, one current-thread runtime per end, rustls on aws-lc-rs |
//!
//! What does not depend on the stack stands beside the drivers: sizes from the path ([`path`]),
//! waits with an end ([`wait`]), the time for which flow control held a sender back ([`blocked`]),
//! options that all have ([`options`]), files
//! that a trial leaves ([`files`]).

pub mod blocked;
pub mod files;
pub mod noq_driver;
pub mod options;
pub mod path;
pub mod quiche_driver;
pub mod quinn_driver;
pub mod quinn_family;
pub mod s2n_driver;
pub mod wait;

use regatta_transport::Driver;
use regatta_transport_sockets::{socket, timer};

/// Every driver of this crate, in the order of tables.
#[must_use]
pub fn drivers() -> &'static [&'static dyn Driver] {
    &[
        &quinn_driver::QuicQuinn,
        &noq_driver::QuicNoq,
        &quiche_driver::QuicQuiche,
        &s2n_driver::QuicS2n,
    ]
}
