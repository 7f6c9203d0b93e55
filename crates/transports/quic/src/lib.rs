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

/// Passes all stacks to another macro, which takes `([$($stack:ident $name:literal $package:ident;)*] …)`: a name of its own,
/// that of the feature, and the package. The driver is `quic-` and the name of the feature.
#[macro_export]
macro_rules! stacks {
    ($then:ident $($argument:tt)*) => {
        $then! {
            [
                quinn "quinn" regatta_transport_quic_quinn;
                noq "noq" regatta_transport_quic_noq;
                quiche "quiche" regatta_transport_quic_quiche;
                s2n "s2n" regatta_transport_quic_s2n;
            ]
            $($argument)*
        }
    };
}

macro_rules! define {
    ([$($stack:ident $name:literal $package:ident;)*]) => {
        /// Returns all drivers of this crate, in the order of tables.
        #[must_use]
        pub fn drivers() -> &'static [&'static dyn Driver] {
            static DRIVERS: &[&dyn Driver] = &[$(
                #[cfg(feature = $name)]
                &$package::DRIVER,
            )*];
            DRIVERS
        }

        /// Names of the drivers whose stacks this build leaves out.
        pub const LEFT_OUT: &[&str] = &[$(
            #[cfg(not(feature = $name))]
            concat!("quic-", $name),
        )*];
    };
}

stacks!(define);
