//! Endpoint of `udp`: listens for flows and makes them, each on a connected socket of its own, so
//! that the kernel keeps the probe's messages out of the transfer's buffer.

use std::net::SocketAddr;

use regatta_control::TrialOrder;
use regatta_model::{BitRate, Facts, StackFacts, Text, Warning, fact, reason, stack};
use regatta_transport::{
    Blocking, MessageEndpoint, MonotonicTime, Purpose, Result, Stop, TransportError, wait,
};

use crate::{
    MessageFrame, Options,
    batch::LONGEST_PAYLOAD,
    flow::Flow,
    framing::{self, Frame, Framing, Kind},
    packets,
    sockets::{self, Listener},
};

/// One end of a trial over UDP.
pub(crate) struct Endpoint {
    order: TrialOrder,
    options: Options,
    listener: Option<Listener>,
}

impl Endpoint {
    /// Makes an endpoint; at a server it listens when this returns.
    pub(crate) fn new(order: &TrialOrder) -> Result<Self> {
        let listens = !order.connects();
        let listener = listens.then(|| Listener::new(order)).transpose()?;
        Ok(Self {
            options: Options::read(&order.transport.options),
            order: order.clone(),
            listener,
        })
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

    /// Makes a flow for the sender of a datagram, if it is admitted.
    fn admit(
        &self,
        listener: &Listener,
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
        let flow = || self.flow(Some(listener), from, framing, stop);
        admit(message).then(flow).transpose()
    }
}

impl MessageEndpoint for Endpoint {
    type Flow = Flow;
    type Executor = Blocking;

    fn executor(&self) -> &Blocking {
        &Blocking
    }

    fn listen_address(&self) -> Option<SocketAddr> {
        self.listener.as_ref().map(Listener::address)
    }

    fn longest_message(&self) -> usize {
        LONGEST_PAYLOAD - self.frame_header()
    }

    fn pace(&self) -> Option<u64> {
        Some(self.options.rate?.0)
    }

    async fn connect(&self, peer: SocketAddr, purpose: Purpose, stop: &Stop) -> Result<Flow> {
        let framing = || Framing::connecting(self.order.role, purpose);
        self.flow(None, peer, self.is_framed().then(framing), stop)
    }

    async fn accept(
        &self,
        until: MonotonicTime,
        stop: &Stop,
        admit: &mut (impl FnMut(&[u8]) -> bool + Send),
    ) -> Result<Flow> {
        let Some(listener) = &self.listener else {
            return Err(TransportError::protocol(
                reason::connecting_does_not_listen(),
            ));
        };
        wait::for_next(
            listener,
            reason::opening_of_flow(),
            until,
            stop,
            &mut || {
                listener.take(|from, datagram| self.admit(listener, (from, datagram), stop, admit))
            },
        )
    }

    fn warnings(&self, message_bytes: usize) -> Vec<Warning> {
        let (header, largest) = (self.frame_header(), packets::largest(&self.order));
        let warning = packets::fragmentation(message_bytes, header, largest, self.order.local);
        warning.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use regatta_control::Role;
    use regatta_model::OptionValue;
    use regatta_transport::testing;

    use super::*;

    fn endpoint(mtu: u32) -> Endpoint {
        let mut order = testing::order_for(Role::Sender, "udp", 1, 1);
        order.path.mtu_bytes = mtu;
        Endpoint::new(&order).expect("an endpoint")
    }

    #[test]
    fn packets_have_the_configured_dscp() {
        let mut order = testing::order_for(Role::Sender, "udp", 1, 1);
        let dscp = ("dscp".to_owned(), OptionValue::Number(46));
        order.transport.options = [dscp].into();
        let endpoint = Endpoint::new(&order).expect("an endpoint");
        let peer = SocketAddr::new(order.local, 9);
        let opened = sockets::connect(&endpoint.order, None, peer).expect("a socket");
        assert_eq!(opened.socket.tos_v4().expect("a field"), 46 << 2);
    }

    #[test]
    fn ip_fragments_are_counted() {
        let endpoint = endpoint(1500);
        assert!(endpoint.warnings(1472).is_empty());
        // 1473 + 8 bytes in fragments of 1480; 10 000 + 8 of them in seven.
        for (message, fragments) in [(1473, 2), (10_000, 7), (65_507, 45)] {
            let warning = &endpoint.warnings(message)[0];
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
