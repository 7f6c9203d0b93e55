//! Descriptor and capabilities of the driver `sctp-userspace`.

use regatta_control::TrialOrder;
use regatta_model::{IpProtocol, metric::id};
use regatta_transport::{
    Carries, ClientSession, Driver, DriverDescriptor, OptionValues, Result, ServerSession,
    TrialContext,
};
use regatta_transport_sockets::endpoints::{Connecting, Listening};

use super::{
    endpoint,
    options::{LONGEST_MESSAGE_BYTES, Options},
};
use crate::session;

/// Version of sctp-proto that this crate is built with.
const STACK_VERSION: &str = "0.10.8";

/// The driver `sctp-userspace`.
pub(crate) struct SctpUserspace;

static DESCRIPTOR: DriverDescriptor = DriverDescriptor {
    name: "sctp-userspace",
    title: "SCTP in user space",
    ip_protocol: Some(IpProtocol::Udp),
    summary: "SCTP by sctp-proto at both ends, its packets carried in UDP",
    multiplexes: true,
    capabilities: &["unordered", "gso"],
    stack: "sctp-proto",
    stack_version: STACK_VERSION,
    options: Options::DEFINITIONS,
    metrics: &[
        id::RETRANSMITTED_PACKETS,
        id::RETRANSMIT_RATIO,
        id::BYTES_IN_FLIGHT_MAX_BYTES,
    ],
    ..DriverDescriptor::PLAIN
};

impl Driver for SctpUserspace {
    fn descriptor(&self) -> &'static DriverDescriptor {
        &DESCRIPTOR
    }

    fn carries(&self, options: &OptionValues) -> Carries {
        session::carries(options)
    }

    fn client(&self, order: &TrialOrder, context: TrialContext) -> Result<Box<dyn ClientSession>> {
        self.check_options(&order.transport.options)?;
        let end = endpoint::new::<Connecting>(order)?;
        session::client(end, LONGEST_MESSAGE_BYTES, order, context)
    }

    fn server(&self, order: &TrialOrder, context: TrialContext) -> Result<Box<dyn ServerSession>> {
        self.check_options(&order.transport.options)?;
        let end = endpoint::new::<Listening>(order)?;
        session::server(end, LONGEST_MESSAGE_BYTES, order, context)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use regatta_model::OptionValue;

    use super::*;

    #[test]
    fn stack_version_matches_the_built_crate() {
        let lock = include_str!("../../../../../Cargo.lock");
        let entry = format!("name = \"sctp-proto\"\nversion = \"{STACK_VERSION}\"");
        assert!(lock.contains(&entry));
    }

    #[test]
    fn carried_kind_depends_on_ordered_delivery() {
        let ordered =
            |ordered| BTreeMap::from([("ordered".to_owned(), OptionValue::Flag(ordered))]);
        assert_eq!(SctpUserspace.carries(&BTreeMap::new()), Carries::Streams);
        assert_eq!(SctpUserspace.carries(&ordered(true)), Carries::Streams);
        assert_eq!(SctpUserspace.carries(&ordered(false)), Carries::Messages);
    }
}
