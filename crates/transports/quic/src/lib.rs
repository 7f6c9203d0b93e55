//! QUIC (RFC 9000), one module per stack.
//!
//! | driver | stack |
//! |---|---|
//! | `quic-quinn` | quinn on tokio, one current-thread runtime per end, rustls on ring or aws-lc-rs |
//! | `quic-noq` | noq, a fork of quinn, on tokio, one current-thread runtime per end, rustls on ring or aws-lc-rs |
//! | `quic-quiche` | quiche on BoringSSL and tokio, one current-thread runtime per end |
//! | `quic-s2n` | s2n-quic on tokio, one current-thread runtime per end, rustls on aws-lc-rs |
//!
//! Each stack is a feature of this crate (`quinn`, `noq`, `quiche`, `s2n`), on by default.
//!
//! quinn and noq are packages of their own over one source; all share `regatta-transport-quic-common`.

// Without some of the stacks, some of what they share is unused.
#![cfg_attr(
    not(all(feature = "quiche", feature = "s2n")),
    allow(dead_code, unused_imports)
)]

#[cfg(feature = "quiche")]
pub mod quiche_driver;
#[cfg(feature = "s2n")]
pub mod s2n_driver;

use regatta_transport::Driver;
use regatta_transport_quic_common::{blocked, facts, files, options, path, write_buffer};
#[cfg(feature = "noq")]
pub use regatta_transport_quic_noq as noq_driver;
#[cfg(feature = "quinn")]
pub use regatta_transport_quic_quinn as quinn_driver;
use regatta_transport_sockets::{executor, socket, timer, wait};

/// Returns all drivers of this crate, in the order of tables.
#[must_use]
pub fn drivers() -> &'static [&'static dyn Driver] {
    static DRIVERS: &[&dyn Driver] = &[
        #[cfg(feature = "quinn")]
        &quinn_driver::DRIVER,
        #[cfg(feature = "noq")]
        &noq_driver::DRIVER,
        #[cfg(feature = "quiche")]
        &quiche_driver::DRIVER,
        #[cfg(feature = "s2n")]
        &s2n_driver::DRIVER,
    ];
    DRIVERS
}
