//! Descriptor and capabilities of the driver `sctp-userspace`.

use std::collections::BTreeMap;

use regatta_control::TrialOrder;
use regatta_model::OptionValue;
use regatta_transport::{
    Carries, Driver, DriverDescriptor, MessageSession, OptionDefinition, OptionKind, Session,
    StreamSession, TransportError, TrialContext,
    options::{self, GSO, RECEIVE_BUFFER, SEND_BUFFER},
};
use regatta_transport_sockets::driver::{MessageEnd, StreamEnd};

use crate::{
    connection::SctpConnection,
    endpoint,
    messages::SctpFlow,
    options::{LONGEST_MESSAGE_BYTES, MOST_STREAMS, Options},
};

/// Version of sctp-proto that this crate is built with.
const STACK_VERSION: &str = "0.10.8";

/// The driver `sctp-userspace`.
pub(crate) struct SctpUserspace;

static DESCRIPTOR: DriverDescriptor = DriverDescriptor {
    name: "sctp-userspace",
    title: "SCTP in user space",
    summary: "SCTP by sctp-proto at both ends, its packets carried in UDP",
    carries: Carries::Streams,
    reliable: true,
    encrypted: false,
    multiplexes: true,
    congestion_control_choosable: false,
    capabilities: &["unordered", "gso"],
    stack: "sctp-proto",
    stack_version: STACK_VERSION,
    options: &[
        ORDERED,
        STREAMS,
        RTO_INITIAL,
        RTO_MIN,
        RTO_MAX,
        RECEIVE_WINDOW,
        RECEIVE_BUFFER,
        SEND_BUFFER,
        GSO,
    ],
};

pub(crate) const ORDERED: OptionDefinition = options::flag(
    "ordered",
    true,
    "whether each stream is delivered in order; if not, every message is delivered \
           as it comes, and the driver carries messages instead of streams",
);

pub(crate) const STREAMS: OptionDefinition = OptionDefinition {
    name: "streams",
    kind: OptionKind::Number {
        least: 1,
        most: MOST_STREAMS as i64,
    },
    default: "1024",
    help: "streams that each end of an association may open",
};

pub(crate) const RTO_INITIAL: OptionDefinition = OptionDefinition {
    name: "rto_initial",
    kind: OptionKind::Time,
    default: "1s",
    help: "retransmission time-out before the first measurement (RFC 9260, RTO.Initial)",
};

pub(crate) const RTO_MIN: OptionDefinition = OptionDefinition {
    name: "rto_min",
    kind: OptionKind::Time,
    default: "1s",
    help: "least retransmission time-out (RFC 9260, RTO.Min)",
};

pub(crate) const RTO_MAX: OptionDefinition = OptionDefinition {
    name: "rto_max",
    kind: OptionKind::Time,
    default: "60s",
    help: "largest retransmission time-out (RFC 9260, RTO.Max)",
};

pub(crate) const RECEIVE_WINDOW: OptionDefinition = options::size(
    "receive_window",
    "receive window of an association, from 128 KiB to 64 MiB; if not set what the \
           path holds with its queue full",
);

impl Driver for SctpUserspace {
    fn descriptor(&self) -> &'static DriverDescriptor {
        &DESCRIPTOR
    }

    fn carries(&self, options: &BTreeMap<String, OptionValue>) -> Carries {
        if Options::read(options).ordered {
            Carries::Streams
        } else {
            Carries::Messages
        }
    }

    fn prepare(
        &self,
        order: &TrialOrder,
        context: TrialContext,
    ) -> Result<Box<dyn Session>, TransportError> {
        self.check_options(&order.transport.options)?;
        let (end, goodbye) = endpoint::new(order)?;
        let side = order.role.name();
        Ok(match self.carries(&order.transport.options) {
            Carries::Messages => {
                let end = MessageEnd::new(
                    end,
                    LONGEST_MESSAGE_BYTES,
                    true,
                    move |handle, connects, stop| SctpFlow::new(handle, connects, side, stop),
                );
                Box::new(MessageSession::new(end, order, context)?)
            }
            _ => {
                let end = StreamEnd::new(end, move |handle, _, _| {
                    Ok(SctpConnection::new(handle, side, goodbye))
                });
                Box::new(StreamSession::new(end, order, context)?)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_one_that_is_built() {
        let lock = include_str!("../../../../Cargo.lock");
        let entry = format!("name = \"sctp-proto\"\nversion = \"{STACK_VERSION}\"");
        assert!(lock.contains(&entry));
    }

    #[test]
    fn what_it_carries_depends_on_the_order_of_delivery() {
        let ordered =
            |ordered| BTreeMap::from([("ordered".to_owned(), OptionValue::Flag(ordered))]);
        assert_eq!(SctpUserspace.carries(&BTreeMap::new()), Carries::Streams);
        assert_eq!(SctpUserspace.carries(&ordered(true)), Carries::Streams);
        assert_eq!(SctpUserspace.carries(&ordered(false)), Carries::Messages);
    }
}
