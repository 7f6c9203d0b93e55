//! `udp-reliable`: reliable delivery over UDP datagrams, by stop-and-wait or a sliding window.
//!
//! - `frame` defines the datagrams, `sender` and `receiver` the two halves of a connection,
//!   `rtt` and `congestion` the timer and the window of the sender, `core` combines them: pure
//!   state machines, which `tests` runs over simulated paths.
//! - `connection` makes a core a connection of the common I/O loop, `protocol` finds the connection of
//!   a datagram and admits new ones, `stream` and `endpoint` are the interface to the workloads.

mod congestion;
mod connection;
mod core;
mod endpoint;
mod frame;
mod protocol;
mod receiver;
mod rtt;
mod sender;
mod stream;
#[cfg(test)]
mod tests;

use std::time::Duration;

use regatta_control::TrialOrder;
use regatta_model::{IpProtocol, Opening, WorkloadKind, reason};
use regatta_transport::{
    ClientSession, Driver, DriverDescriptor, Result, ServerSession, StreamSession, TransportError,
    TrialContext, driver_options, idle_messages_at_once, options::Choice,
};
use regatta_transport_sockets::endpoints::{Connecting, Listening, SocketRole};
use strum::{EnumString, VariantNames};

use self::{frame::LARGEST_WINDOW, sender::Rules};
use crate::{Options, batch::LONGEST_PAYLOAD};

/// Driver of reliable UDP: each message is a datagram that is acknowledged, and sent again if it is
/// not.
pub(crate) struct UdpReliable;

static DESCRIPTOR: DriverDescriptor = DriverDescriptor {
    name: "udp-reliable",
    title: "Reliable UDP",
    ip_protocol: Some(IpProtocol::Udp),
    summary: "reliable delivery over UDP, one message a datagram: stop-and-wait as published, or a \
              sliding window with selective acknowledgement",
    congestion_control_choosable: true,
    capabilities: &["gso"],
    stack: "Regatta over UDP of the Linux kernel",
    stack_version: env!("CARGO_PKG_VERSION"),
    options: ReliableOptions::DEFINITIONS,
    metrics: DriverDescriptor::ALL_LEVELS,
    ..DriverDescriptor::PLAIN
};

driver_options! {
    /// Options of `udp-reliable`.
    pub(crate) struct ReliableOptions {
        window_messages: u32 [1..=LARGEST_WINDOW as i64] = 1,
            "largest number of messages in flight; 1 is stop-and-wait";
        cc: CongestionControl = "cubic", "congestion control for a window above 1; `none` always fills the window";
        rto_max: Duration = "1s",
            "largest retransmission time-out; with a window of 1 every time-out, whatever the round-trip time";
        max_retransmits: u32 [0..=1_000_000] = 15, "number of retransmissions of a message before the transfer fails";
        ..Options::{gso, receive_buffer, send_buffer};
    }
}

/// Congestion control of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum CongestionControl {
    /// RFC 9438.
    Cubic,
    /// None: the window alone limits a sender.
    None,
}

impl Choice for CongestionControl {
    const NAMES: &'static [&'static str] = Self::VARIANTS;
}

/// Longest wait.
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// Returns the parameters of a sender for options that were checked.
fn rules(options: &ReliableOptions, at_once: u32) -> Rules {
    let window = options.window_messages as usize;
    Rules {
        window,
        at_once,
        // A longer one would leave the range of the clock.
        max_wait: options.rto_max.min(YEAR),
        max_retransmits: options.max_retransmits,
        // One message at a time leaves nothing to control.
        cubic: options.cc == CongestionControl::Cubic && window > 1,
    }
}

impl Driver for UdpReliable {
    fn descriptor(&self) -> &'static DriverDescriptor {
        &DESCRIPTOR
    }

    fn client(&self, order: &TrialOrder, context: TrialContext) -> Result<Box<dyn ClientSession>> {
        Ok(self.end::<Connecting>(order, context)?)
    }

    fn server(&self, order: &TrialOrder, context: TrialContext) -> Result<Box<dyn ServerSession>> {
        Ok(self.end::<Listening>(order, context)?)
    }
}

impl UdpReliable {
    /// Makes one end.
    fn end<R: SocketRole>(
        &self,
        order: &TrialOrder,
        context: TrialContext,
    ) -> Result<Box<StreamSession<endpoint::End<R>>>> {
        self.check_options(&order.transport.options)?;
        let (message, is_datagram) = order.workload.kind.largest_message();
        if is_datagram && message.0 > LONGEST_PAYLOAD as u64 {
            return Err(TransportError::unsupported(
                reason::longer_than_datagram(message),
                reason::message_of_at_most(LONGEST_PAYLOAD as u64),
            ));
        }
        let datagram = usize::try_from(message.0).ok().filter(|_| is_datagram);
        let options = ReliableOptions::read(&order.transport.options);
        let rules = rules(&options, idle_messages_at_once(order));
        let endpoint = endpoint::new(order, rules, datagram)?;
        let order = with_own_opening(order);
        StreamSession::new(endpoint, &order, context)
    }
}

/// Returns an order in which no flow waits for an answer to its opening: CONN and CONACC, with which a connection begins,
/// are that exchange.
fn with_own_opening(order: &TrialOrder) -> TrialOrder {
    let mut order = order.clone();
    if let WorkloadKind::Bulk { options, .. } = &mut order.workload.kind {
        options.opening = Opening::WithData;
    }
    order
}
