//! The connections of one end: which of them a packet is for, which may begin, and what they share.

use std::{collections::HashMap, net::SocketAddr, time::Instant};

use quiche::{ConnectionId, Header, RecvInfo};
use regatta_model::reason;
use regatta_transport::{Purpose, Result, TransportError};
use regatta_transport_sockets::driver::{self, Arrived, Connections, Incoming, Number, Protocol};

use crate::{
    entry::{Entry, ID_BYTES, Kind, Quiche},
    files::Files,
    tls::{self, RetryTokens},
};

/// Handle to a connection.
pub(crate) type Handle = driver::Handle<Quic>;

/// quiche at one end.
pub(crate) struct Quic {
    pub(crate) config: quiche::Config,
    /// Properties of the connections.
    pub(crate) kind: Kind,
    /// Maker of Retry tokens if the peer must prove its address first.
    pub(crate) retry: Option<RetryTokens>,
    pub(crate) server_name: String,
    /// Whether the peer is given connection identifiers for a second path.
    pub(crate) spare_ids: bool,
    /// Whether tickets of the peer are kept for later connections.
    pub(crate) keeps_tickets: bool,
    pub(crate) files: Files,
    /// Connections by the destination connection identifiers that the peer uses.
    pub(crate) routes: HashMap<Vec<u8>, Number>,
    /// Number of connections that have begun.
    pub(crate) begun: Number,
    /// Most recent ticket from the peer.
    pub(crate) ticket: Option<Vec<u8>>,
}

/// Returns the destination connection identifier of a packet.
fn destination(packet: &mut [u8]) -> Option<Vec<u8>> {
    const LONG_HEADER: u8 = 0x80;
    if packet.first()? & LONG_HEADER == 0 {
        return packet.get(1..=ID_BYTES).map(<[u8]>::to_vec);
    }
    let header = Header::from_slice(packet, ID_BYTES).ok()?;
    Some(header.dcid.to_vec())
}

impl Quic {
    fn insert(
        &mut self,
        mut quiche: Quiche,
        own: &[u8],
        peer: SocketAddr,
        connections: &mut Connections<Entry>,
    ) -> Number {
        let number = self.begun;
        self.begun += 1;
        self.files.attach(&mut quiche, number);
        self.routes.insert(own.to_vec(), number);
        connections.insert(number, Entry::new(quiche, peer, self.kind));
        number
    }

    /// Processes a packet that belongs to no connection and may begin one.
    fn consider(
        &mut self,
        packet: &mut [u8],
        id: &[u8],
        recv_info: RecvInfo,
        connections: &mut Connections<Entry>,
    ) {
        if self.kind.client {
            return;
        }
        let Ok(header) = Header::from_slice(packet, ID_BYTES) else {
            return;
        };
        if header.ty != quiche::Type::Initial
            || !quiche::version_is_supported(header.version)
            || packet.len() < quiche::MIN_CLIENT_INITIAL_LEN
        {
            return;
        }
        let mut retry = None;
        if let Some(tokens) = &self.retry {
            let token = header.token.as_deref().unwrap_or_default();
            match tokens.read(recv_info.from, token, id) {
                Some(first) => retry = Some(first.to_vec()),
                None => {
                    self.send_retry(&header, recv_info, connections);
                    return;
                }
            }
        }
        if !connections.has_room() {
            return;
        }
        match self.begin(id, retry.as_deref(), recv_info, connections) {
            Ok(number) => {
                if let Some(entry) = connections.get_mut(number) {
                    entry.receive(packet, recv_info);
                }
                connections.announce(Incoming::Connection(number));
            }
            Err(error) => connections.announce(Incoming::Refused(error)),
        }
    }

    /// Begins a connection that the peer opens with the connection identifier `id`; `retry` is the one
    /// that it used before a Retry packet.
    fn begin(
        &mut self,
        id: &[u8],
        retry: Option<&[u8]>,
        recv_info: RecvInfo,
        connections: &mut Connections<Entry>,
    ) -> Result<Number> {
        let failed = |error| TransportError::stack(reason::cannot_accept_quic())(error);
        let own = tls::random::<ID_BYTES>()?;
        let own_id = ConnectionId::from_ref(&own);
        let RecvInfo { from, to } = recv_info;
        let quiche = match retry {
            Some(first) => quiche::accept_with_retry(
                &own_id,
                quiche::RetryConnectionIds {
                    original_destination_cid: &ConnectionId::from_ref(first),
                    retry_source_cid: &ConnectionId::from_ref(id),
                },
                to,
                from,
                &mut self.config,
            ),
            None => quiche::accept_with_buf_factory(&own_id, None, to, from, &mut self.config),
        }
        .map_err(failed)?;
        let number = self.insert(quiche, &own, from, connections);
        // What the peer sends before it knows the identifier of this end.
        self.routes.insert(id.to_vec(), number);
        Ok(number)
    }

    /// Sends a Retry packet (RFC 9000 §8.1.2); if it is lost, the peer sends its first packet
    /// again.
    fn send_retry(
        &self,
        header: &Header<'_>,
        recv_info: RecvInfo,
        connections: &mut Connections<Entry>,
    ) {
        let Ok(next) = tls::random::<ID_BYTES>() else {
            return;
        };
        let token = self
            .retry
            .as_ref()
            .and_then(|tokens| tokens.make(recv_info.from, &header.dcid, &next));
        let mut buffer = [0; quiche::MIN_CLIENT_INITIAL_LEN];
        let Some(token) = token else { return };
        let written = quiche::retry(
            &header.scid,
            &header.dcid,
            &ConnectionId::from_ref(&next),
            &token,
            header.version,
            &mut buffer,
        );
        if let Ok(length) = written {
            connections.reply(recv_info.to, recv_info.from, buffer[..length].to_vec());
        }
    }
}

impl Protocol for Quic {
    type Connection = Entry;

    const NAME: &'static str = "QUIC";

    fn connect(
        &mut self,
        local: SocketAddr,
        peer: SocketAddr,
        _purpose: Purpose,
        connections: &mut Connections<Entry>,
    ) -> Result<Number> {
        let failed = |error| TransportError::stack(reason::cannot_begin_quic())(error);
        let own = tls::random::<ID_BYTES>()?;
        let mut quiche = quiche::connect_with_buffer_factory(
            Some(&self.server_name),
            &ConnectionId::from_ref(&own),
            local,
            peer,
            &mut self.config,
        )
        .map_err(failed)?;
        if let Some(ticket) = &self.ticket {
            // One that cannot be read any more makes a full handshake.
            let _ = quiche.set_session(ticket);
        }
        Ok(self.insert(quiche, &own, peer, connections))
    }

    fn handle(
        &mut self,
        _now: Instant,
        arrived: Arrived<'_>,
        connections: &mut Connections<Entry>,
    ) {
        let Arrived { from, to, .. } = arrived;
        let recv_info = RecvInfo { from, to };
        for packet in arrived.bytes.chunks_mut(arrived.segment) {
            let Some(id) = destination(packet) else {
                continue;
            };
            let number = self.routes.get(&id);
            match number.map(|number| connections.get_mut(*number)) {
                Some(Some(entry)) => entry.receive(packet, recv_info),
                Some(None) => {}
                None => self.consider(packet, &id, recv_info, connections),
            }
        }
    }

    fn updated(&mut self, number: Number, entry: &mut Entry) {
        if self.keeps_tickets
            && let Some(ticket) = entry.new_ticket()
        {
            self.ticket = Some(ticket);
        }
        if self.spare_ids {
            for own in entry.issue_ids() {
                self.routes.insert(own, number);
            }
        }
    }

    fn forget(&mut self, number: Number) {
        self.routes.retain(|_, routed| *routed != number);
    }
}
