//! `quic-noq`: noq on tokio, one current-thread runtime per end.
//!
//! Most of the source is shared with quinn; see [`crate::quinn_family`].

mod controller;
mod stack;

// One text, compiled for each of the two stacks, is what is meant.
#[allow(clippy::duplicate_mod)]
#[path = "../quinn_family/per_stack/connection.rs"]
mod connection;
#[allow(clippy::duplicate_mod)]
#[path = "../quinn_family/per_stack/datagram.rs"]
mod datagram;
#[allow(clippy::duplicate_mod)]
#[path = "../quinn_family/per_stack/driver.rs"]
mod driver;
#[allow(clippy::duplicate_mod)]
#[path = "../quinn_family/per_stack/endpoint.rs"]
mod endpoint;
#[allow(clippy::duplicate_mod)]
#[path = "../quinn_family/per_stack/migration.rs"]
mod migration;
#[allow(clippy::duplicate_mod)]
#[path = "../quinn_family/per_stack/options.rs"]
mod options;
#[allow(clippy::duplicate_mod)]
#[path = "../quinn_family/per_stack/runtime.rs"]
mod runtime;
#[allow(clippy::duplicate_mod)]
#[path = "../quinn_family/per_stack/statistics.rs"]
mod statistics;
#[allow(clippy::duplicate_mod)]
#[path = "../quinn_family/per_stack/stream.rs"]
mod stream;

use std::collections::BTreeMap;

use regatta_control::TrialOrder;
use regatta_model::OptionValue;
use regatta_transport::{
    Carries, Driver, DriverDescriptor, Session, TransportError, TrialContext, Unsupported,
};

pub use connection::QuicConnection;
pub use controller::CongestionControl;
pub use datagram::{DatagramFlow, QuicDatagramEndpoint};
pub use endpoint::QuicEndpoint;
pub use options::{Needs, Options};
pub use stream::QuicStream;

/// Version of noq that this crate is built with.
pub const NOQ_VERSION: &str = "1.4.0";

/// The driver `quic-noq`.
#[derive(Debug, Clone, Copy)]
pub struct QuicNoq;

static DESCRIPTOR: DriverDescriptor = DriverDescriptor {
    name: stack::NAME,
    title: "QUIC, noq",
    summary: "QUIC version 1 with TLS 1.3 by noq, a fork of quinn with BBR version 3",
    carries: Carries::Streams,
    reliable: true,
    encrypted: true,
    multiplexes: true,
    congestion_control_choosable: true,
    capabilities: driver::CAPABILITIES,
    stack: "noq",
    stack_version: NOQ_VERSION,
    options: options::DEFINITIONS,
};

impl Driver for QuicNoq {
    fn descriptor(&self) -> &'static DriverDescriptor {
        &DESCRIPTOR
    }

    fn carries(&self, options: &BTreeMap<String, OptionValue>) -> Carries {
        driver::carries(options)
    }

    fn supported(&self, _options: &BTreeMap<String, OptionValue>) -> Result<(), Unsupported> {
        // All of it is in this process but a UDP socket. Offloads that the kernel lacks are done
        // without, and the facts of the trial say so.
        Ok(())
    }

    fn prepare(
        &self,
        order: &TrialOrder,
        context: TrialContext,
    ) -> Result<Box<dyn Session>, TransportError> {
        self.check_options(&order.transport.options)?;
        driver::prepare(order, context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_one_that_is_built() {
        let lock = include_str!("../../../../../Cargo.lock");
        assert!(lock.contains(&format!("name = \"noq\"\nversion = \"{NOQ_VERSION}\"")));
    }

    #[test]
    fn options_are_checked_before_any_trial() {
        let check =
            |name: &str, value| QuicNoq.check_options(&BTreeMap::from([(name.to_owned(), value)]));
        for name in CongestionControl::NAMES {
            assert_eq!(check("cc", OptionValue::Text(name.to_owned())), Ok(()));
        }
        let error = check("cc", OptionValue::Text("hybla".to_owned())).expect_err("unknown");
        assert_eq!(error.hint(), "write one of `cubic`, `newreno`, `bbr3`");
        assert!(check("gso", OptionValue::Number(1)).is_err());
        assert!(check("migrate_after", OptionValue::Text("0s".to_owned())).is_err());
        assert!(check("stream_window", OptionValue::Text("4 parsec".to_owned())).is_err());
    }
}
