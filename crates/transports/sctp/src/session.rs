//! Session of one end of a trial, and the facts that both drivers have about it.

use std::{sync::Arc, time::Duration};

use regatta_control::TrialOrder;
use regatta_transport::{
    Carries, Client, ClientSession, Endpoint, MessageSession, OptionValues, Result, ServerSession,
    Stop, StreamSession, TrialContext, driver_options, options::TypedOption,
};
use regatta_transport_sockets::endpoints::{Incoming, MessageEnd, StreamEnd};

use crate::{association::Association, connection::SctpConnection, flow::SctpFlow};

driver_options! {
    /// Option of both drivers: the order of delivery.
    #[derive(Debug, Clone)]
    pub(crate) struct DeliveryOptions {
        ordered: bool = true,
            "deliver each stream in order; if `false`, every message is delivered as it arrives, and the driver \
             carries reliable messages instead of streams";
    }
}

pub(crate) const RTO_INITIAL: TypedOption<Option<Duration>> = TypedOption::new(
    "rto_initial",
    "",
    "retransmission time-out before the first measurement (RFC 9260, RTO.Initial), in whole milliseconds",
);

pub(crate) const RTO_MIN: TypedOption<Option<Duration>> = TypedOption::new(
    "rto_min",
    "",
    "smallest retransmission time-out (RFC 9260, RTO.Min), in whole milliseconds",
);

pub(crate) const RTO_MAX: TypedOption<Option<Duration>> = TypedOption::new(
    "rto_max",
    "",
    "largest retransmission time-out (RFC 9260, RTO.Max), in whole milliseconds",
);

/// Returns the definition of the option for the number of streams each way, at most `most`.
pub(crate) const fn streams_option(most: u16) -> TypedOption<u16> {
    let help = "streams that each end of an association may open";
    TypedOption::new("streams", "1024", help).within(1..=most as i64)
}

/// Returns a time of which the stack counts whole milliseconds: one at least.
pub(crate) fn whole_milliseconds(time: Duration) -> Duration {
    time.max(Duration::from_millis(1))
}

/// Returns the unit that an association with these options carries.
pub(crate) fn carries(options: &OptionValues) -> Carries {
    match DeliveryOptions::ordered.read(options) {
        true => Carries::Streams,
        false => Carries::Messages,
    }
}

/// Returns the fact of the order of delivery.
pub(crate) fn delivery(options: &OptionValues) -> (String, String) {
    let delivery = match DeliveryOptions::ordered.read(options) {
        true => "ordered",
        false => "unordered",
    };
    ("sctp.delivery".to_owned(), delivery.to_owned())
}

/// Makes the session of the end that connects, with flows of messages of at most `longest` bytes if it carries these.
pub(crate) fn client<A: Association>(
    end: impl Client<Connection = Arc<A>>,
    longest: usize,
    order: &TrialOrder,
    context: TrialContext,
) -> Result<Box<dyn ClientSession>> {
    let side = order.role.name();
    Ok(match carries(&order.transport.options) {
        Carries::Messages => {
            let end = MessageEnd::new(end, longest, true, flow(true, side));
            MessageSession::new(end, order, context)?
        }
        _ => StreamSession::new(streams(end, side), order, context)?,
    })
}

/// Makes the session of the end that listens, as [`client`] does.
pub(crate) fn server<A: Association>(
    end: impl Incoming<Connection = Arc<A>>,
    longest: usize,
    order: &TrialOrder,
    context: TrialContext,
) -> Result<Box<dyn ServerSession>> {
    let side = order.role.name();
    Ok(match carries(&order.transport.options) {
        Carries::Messages => {
            let end = MessageEnd::new(end, longest, true, flow(false, side));
            MessageSession::new(end, order, context)?
        }
        _ => StreamSession::new(streams(end, side), order, context)?,
    })
}

/// Returns the constructor of a message flow over an association.
fn flow<A: Association>(
    connects: bool,
    side: &'static str,
) -> impl Fn(Arc<A>, &Stop) -> Result<SctpFlow<A>> {
    move |association, stop| {
        stop.on_stop(&association);
        SctpFlow::new(association, connects, side, stop)
    }
}

/// Makes an end whose associations carry streams.
fn streams<A: Association, E: Endpoint<Connection = Arc<A>>>(
    end: E,
    side: &'static str,
) -> StreamEnd<E, SctpConnection<A>> {
    let make = Box::new(move |association: Arc<A>, stop: &Stop| {
        stop.on_stop(&association);
        Ok(SctpConnection::new(association, side))
    });
    StreamEnd { end, make }
}
