//! The stack of one end: which association a packet is for.

use std::{net::SocketAddr, sync::Arc, time::Instant};

use bytes::Bytes;
use regatta_model::reason;
use regatta_transport::{Purpose, Result, TransportError};
use regatta_transport_sockets::driver::{self, Arrived, Connections, Incoming, Number, Protocol};
use sctp_proto::{AssociationHandle, ClientConfig, DatagramEvent, EndpointEvent, TransportConfig};

use super::{
    association::{Association, Limits},
    wire,
};

/// SCTP at one end.
pub(crate) struct Sctp {
    pub stack: sctp_proto::Endpoint,
    pub config: Arc<TransportConfig>,
    pub limits: Limits,
}

/// Handle to an association.
pub(crate) type Handle = driver::Handle<Sctp>;

impl Sctp {
    fn handle_packet(
        &mut self,
        now: Instant,
        from: SocketAddr,
        packet: Bytes,
        associations: &mut Connections<Association>,
    ) {
        let tag = wire::initiate_tag(&packet);
        // The stack ends an established association when its INIT comes once more, as it does when
        // the path duplicates packets; RFC 9260 §5.2.2 has the association go on.
        let is_of = |one: &Association| one.initiate_tag == tag && !one.is_handshaking();
        if tag.is_some() && associations.iter().any(is_of) {
            return;
        }
        let Some((handle, event)) = self.stack.handle(now, from, None, None, packet.clone()) else {
            return;
        };
        let number = handle.0 as Number;
        match event {
            DatagramEvent::NewAssociation(inner) => {
                let association = Association::new(inner, from, false, tag, self.limits);
                associations.insert(number, association);
                associations.announce(Incoming::Connection(number));
            }
            DatagramEvent::AssociationEvent(event) => {
                if let Some(association) = associations.get_mut(number) {
                    association.handle_packet(now, &packet, event);
                }
            }
        }
        if let Some(association) = associations.get_mut(number) {
            association.take_events();
        }
    }
}

impl Protocol for Sctp {
    type Connection = Association;

    const NAME: &'static str = "SCTP";

    const PACKETS_AT_ONCE: usize = 64;

    fn connect(
        &mut self,
        _local: SocketAddr,
        peer: SocketAddr,
        purpose: Purpose,
        associations: &mut Connections<Association>,
    ) -> Result<Number> {
        let mut config = ClientConfig::new();
        config.transport = Arc::clone(&self.config);
        let failed = || TransportError::stack(reason::cannot_connect(&peer.ip().to_string()));
        let (handle, inner) = self.stack.connect(config, peer).map_err(failed())?;
        let limits = match purpose {
            Purpose::Transfer => self.limits,
            Purpose::IdleProbe | Purpose::LoadProbe => self.limits.of_probe(),
        };
        let number = handle.0 as Number;
        let association = Association::new(inner, peer, true, None, limits);
        associations.insert(number, association);
        Ok(number)
    }

    fn handle(
        &mut self,
        now: Instant,
        arrived: Arrived<'_>,
        associations: &mut Connections<Association>,
    ) {
        // One copy for all that came as one: the stack keeps parts of it.
        let mut rest = Bytes::copy_from_slice(arrived.bytes);
        while !rest.is_empty() {
            let packet = rest.split_to(arrived.segment.min(rest.len()));
            self.handle_packet(now, arrived.from, packet, associations);
        }
    }

    fn forget(&mut self, number: Number) {
        // Nothing comes back: the stack only strikes it from its tables.
        drop(
            self.stack
                .handle_event(AssociationHandle(number as usize), EndpointEvent::drained()),
        );
    }
}
