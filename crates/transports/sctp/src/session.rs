//! Session of one end of a trial, and what both drivers say about it.

use std::sync::Arc;

use regatta_control::TrialOrder;
use regatta_transport::{
    Carries, MessageSession, OptionDefinition, OptionValues, Result, Session, StreamSession,
    TrialContext, options,
};
use regatta_transport_sockets::endpoints::{AdmittingEnd, MessageEnd, StreamEnd};

use crate::{association::Association, connection::SctpConnection, flow::SctpFlow};

pub(crate) const ORDERED: OptionDefinition = options::flag(
    "ordered",
    true,
    "whether each stream is delivered in order; if not, every message is delivered \
           as it comes, and the driver carries messages instead of streams",
);

/// Returns the unit that an association with these options carries.
pub(crate) fn carries(options: &OptionValues) -> Carries {
    match ORDERED.flag(options) {
        true => Carries::Streams,
        false => Carries::Messages,
    }
}

/// Returns the fact of the order of delivery.
pub(crate) fn delivery(options: &OptionValues) -> (String, String) {
    let delivery = match ORDERED.flag(options) {
        true => "ordered",
        false => "unordered",
    };
    ("sctp.delivery".to_owned(), delivery.to_owned())
}

/// Makes the session of one end, with flows of messages of at most `longest` bytes if it carries these.
pub(crate) fn session<A: Association>(
    end: impl AdmittingEnd<Handle = Arc<A>>,
    longest: usize,
    order: &TrialOrder,
    context: TrialContext,
) -> Result<Box<dyn Session>> {
    let side = order.role.name();
    if carries(&order.transport.options) == Carries::Messages {
        let end = MessageEnd {
            end,
            longest,
            reliable: true,
            make: Box::new(move |association, connects, stop| {
                SctpFlow::new(association, connects, side, stop)
            }),
        };
        Ok(Box::new(MessageSession::new(end, order, context)?))
    } else {
        let end = StreamEnd {
            end,
            make: Box::new(move |association, _, _| Ok(SctpConnection::new(association, side))),
        };
        Ok(Box::new(StreamSession::new(end, order, context)?))
    }
}
