//! Session of one end of a trial, and the facts that both drivers have about it.

use std::sync::Arc;

use regatta_control::TrialOrder;
use regatta_transport::{
    Carries, MessageSession, OptionDefinition, OptionValues, Result, Session, Stop, StreamSession,
    TrialContext, options,
};
use regatta_transport_sockets::endpoints::{AdmittingEnd, MessageEnd, StreamEnd};

use crate::{association::Association, connection::SctpConnection, flow::SctpFlow};

pub(crate) const ORDERED: OptionDefinition = options::flag(
    "ordered",
    true,
    "deliver each stream in order; if `false`, every message is delivered as it arrives, and the driver carries reliable \
     messages instead of streams",
);

pub(crate) const RTO_INITIAL: OptionDefinition = options::time(
    "rto_initial",
    "retransmission time-out before the first measurement (RFC 9260, RTO.Initial), in whole milliseconds",
);

pub(crate) const RTO_MIN: OptionDefinition = options::time(
    "rto_min",
    "smallest retransmission time-out (RFC 9260, RTO.Min), in whole milliseconds",
);

pub(crate) const RTO_MAX: OptionDefinition = options::time(
    "rto_max",
    "largest retransmission time-out (RFC 9260, RTO.Max), in whole milliseconds",
);

/// Returns the definition of the option for the number of streams each way, of which the stack has at most `most`.
pub(crate) const fn streams(most: u16) -> OptionDefinition {
    let help = "streams that each end of an association may open";
    options::number("streams", (1, most as i64), "1024", help)
}

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
        let make = move |association: Arc<A>, connects, stop: &Stop| {
            stop.on_stop(&association);
            SctpFlow::new(association, connects, side, stop)
        };
        let end = MessageEnd::new(end, longest, true, make);
        Ok(Box::new(MessageSession::new(end, order, context)?))
    } else {
        let make = Box::new(move |association: Arc<A>, _: bool, stop: &Stop| {
            stop.on_stop(&association);
            Ok(SctpConnection::new(association, side))
        });
        let end = StreamEnd { end, make };
        Ok(Box::new(StreamSession::new(end, order, context)?))
    }
}
