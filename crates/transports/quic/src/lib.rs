//! QUIC (RFC 9000), one package per stack, each over `regatta-transport-quic-common`.
//!
//! | driver | stack |
//! |---|---|
//! | `quic-quinn` | quinn on tokio, one current-thread runtime per end, rustls on ring or aws-lc-rs |
//! | `quic-noq` | noq, a fork of quinn, on tokio, one current-thread runtime per end, rustls on ring or aws-lc-rs |
//! | `quic-quiche` | quiche on BoringSSL and tokio, one current-thread runtime per end |
//! | `quic-s2n` | s2n-quic on tokio, one current-thread runtime per end, rustls on aws-lc-rs |
//!
//! Each stack is a feature of this crate (`quinn`, `noq`, `quiche`, `s2n`), on by default. quinn and noq are
//! two packages over one source.

use regatta_transport::Driver;
#[cfg(feature = "noq")]
pub use regatta_transport_quic_noq as noq_driver;
#[cfg(feature = "quiche")]
pub use regatta_transport_quic_quiche as quiche_driver;
#[cfg(feature = "quinn")]
pub use regatta_transport_quic_quinn as quinn_driver;
#[cfg(feature = "s2n")]
pub use regatta_transport_quic_s2n as s2n_driver;

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
