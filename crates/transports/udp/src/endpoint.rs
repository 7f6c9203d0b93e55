//! Endpoint of `udp`: listens for flows and makes them, each on a connected socket of its own, so
//! that the kernel keeps the probe's messages out of the transfer's buffer.

use std::net::SocketAddr;

use regatta_control::TrialOrder;
use regatta_model::{BitRate, Facts, StackFacts, Text, Warning, fact, reason, stack};
use regatta_transport::{
    self as transport, Accepted, Blocking, Client, MessageEndpoint, MonotonicTime, Purpose, Result,
    Server, Stop, wait,
};

use crate::{
    MessageFrame, Options,
    batch::LONGEST_PAYLOAD,
    flow::Flow,
    framing::{self, Frame, Framing, Kind},
    packets,
    sockets::{self, Listener},
};

/// One end of a trial over UDP; `R` is [`Connecting`] or its [`Listener`].
pub(crate) struct Endpoint<R> {
    order: TrialOrder,
    options: Options,
    role: R,
}

/// Role of the end that connects.
pub(crate) struct Connecting;

impl Endpoint<Connecting> {
    /// Creates the connecting end.
    pub(crate) fn client(order: &TrialOrder) -> Self {
        Self::new(order, Connecting)
    }
}

impl Endpoint<Listener> {
    /// Creates the listening end. Its socket is bound when this returns.
    pub(crate) fn server(order: &TrialOrder) -> Result<Self> {
        Ok(Self::new(order, Listener::new(order)?))
    }

    /// Makes a flow for the sender of a datagram, if it is admitted.
    fn admit(
        &self,
        (from, datagram): (SocketAddr, &[u8]),
        stop: &Stop,
        admit: &mut impl FnMut(&[u8]) -> bool,
    ) -> Result<Option<Flow>> {
        let (message, framing) = match Frame::decode(datagram) {
            _ if !self.is_framed() => (datagram, None),
            Some(frame) if frame.kind == Kind::Conn => {
                let framing = Framing::accepting(self.order.role, frame);
                (frame.message, Some(framing))
            }
            // Late, of a flow that has ended.
            Some(_) => return Ok(None),
            // Whoever it is counts it as refused.
            None => ([].as_slice(), None),
        };
        let flow = || self.flow(Some(&self.role), from, framing, stop);
        admit(message).then(flow).transpose()
    }
}

impl<R> Endpoint<R> {
    fn new(order: &TrialOrder, role: R) -> Self {
        Self {
            options: Options::read(&order.transport.options),
            order: order.clone(),
            role,
        }
    }

    fn is_framed(&self) -> bool {
        self.options.frame == MessageFrame::Conn
    }

    /// Returns the number of bytes before each message in its datagram.
    fn frame_header(&self) -> usize {
        usize::from(self.is_framed()) * framing::HEADER_BYTES
    }

    fn flow(
        &self,
        from: Option<&Listener>,
        peer: SocketAddr,
        framing: Option<Framing>,
        stop: &Stop,
    ) -> Result<Flow> {
        let mut opened = sockets::connect(&self.order, from, peer)?;
        opened.facts.extend(self.stack_facts(opened.offload));
        Ok(Flow::new(self.order.role, opened, framing, stop))
    }

    /// Returns the properties of UDP for the comparison of stacks.
    fn stack_facts(&self, offload: bool) -> Facts {
        let none = || Text::from(fact::not_applicable(fact::udp_has_none()));
        let stated = StackFacts {
            initial_window: none(),
            slow_start_exit: none(),
            pacing: match self.pace() {
                Some(rate) => fact::paced_by_workload(BitRate(rate)).into(),
                None => "none".into(),
            },
            packet_size: "a datagram for each message".into(),
            first_flight: fact::not_applicable(fact::opening_carries_no_data()).into(),
            cipher: "none".into(),
            crypto: "none".into(),
            key_exchange: stack::no_tls(),
            certificate: stack::no_tls(),
            threads: stack::KERNEL_THREAD.into(),
            offloads: match offload {
                true => fact::of_the_socket(fact::on().into()).into(),
                false => "none".into(),
            },
            acknowledgements: none(),
            flow_control: none(),
        };
        let end = self.order.role.name();
        let mut facts = stated.of_end(end);
        facts.insert(format!("congestion_control.{end}"), none());
        facts
    }

    /// Returns the rate of the transfer's messages, in bits per second.
    fn pace(&self) -> Option<u64> {
        Some(self.options.rate?.0)
    }
}

impl<R: Send + Sync + 'static> transport::Endpoint for Endpoint<R> {
    type Connection = Flow;
    type Executor = Blocking;

    fn executor(&self) -> &Blocking {
        &Blocking
    }

    fn warnings(&self) -> Vec<Warning> {
        let (message, _) = self.order.workload.kind.largest_message();
        let message = usize::try_from(message.0).unwrap_or(usize::MAX);
        let (header, largest) = (self.frame_header(), packets::largest(&self.order));
        let warning = packets::fragmentation(message, header, largest, self.order.local);
        warning.into_iter().collect()
    }
}

impl<R: Send + Sync + 'static> MessageEndpoint for Endpoint<R> {
    fn longest_message(&self) -> usize {
        LONGEST_PAYLOAD - self.frame_header()
    }

    fn pace(&self) -> Option<u64> {
        self.pace()
    }
}

impl Client for Endpoint<Connecting> {
    async fn connect(
        &self,
        peer: SocketAddr,
        purpose: Purpose,
        _: MonotonicTime,
        stop: &Stop,
    ) -> Result<Flow> {
        let framing = || Framing::connecting(self.order.role, purpose);
        self.flow(None, peer, self.is_framed().then(framing), stop)
    }
}

impl Server for Endpoint<Listener> {
    fn address(&self) -> SocketAddr {
        self.role.address()
    }

    async fn accept(
        &self,
        until: MonotonicTime,
        stop: &Stop,
        admit: &mut (impl FnMut(&[u8]) -> bool + Send),
    ) -> Result<Accepted<Flow>> {
        let listener = &self.role;
        let mut next = || listener.take(|from, datagram| self.admit((from, datagram), stop, admit));
        let flow = wait::for_next(listener, reason::opening_of_flow(), until, stop, &mut next);
        flow.map(Accepted::Connection)
    }
}

#[cfg(test)]
mod tests {
    use regatta_control::Role;
    use regatta_model::OptionValue;
    use regatta_transport::{Endpoint as _, testing};

    use super::*;

    fn endpoint(message: u64) -> Endpoint<Connecting> {
        let mut order = testing::order_for(Role::Sender, "udp", message, message);
        order.path.mtu_bytes = 1500;
        Endpoint::client(&order)
    }

    #[test]
    fn packets_have_the_configured_dscp() {
        let mut order = testing::order_for(Role::Sender, "udp", 1, 1);
        let dscp = ("dscp".to_owned(), OptionValue::Number(46));
        order.transport.options = [dscp].into();
        let endpoint = Endpoint::client(&order);
        let peer = SocketAddr::new(order.local, 9);
        let opened = sockets::connect(&endpoint.order, None, peer).expect("a socket");
        assert_eq!(opened.socket.tos_v4().expect("a field"), 46 << 2);
    }

    #[test]
    fn ip_fragments_are_counted() {
        assert!(endpoint(1472).warnings().is_empty());
        // 1473 + 8 bytes in fragments of 1480; 10 000 + 8 of them in seven.
        for (message, fragments) in [(1473, 2), (10_000, 7), (65_507, 45)] {
            let warning = &endpoint(message).warnings()[0];
            assert!(
                warning
                    .message
                    .contains(&format!("{fragments} IP fragments")),
                "{}",
                warning.message
            );
        }
    }
}
