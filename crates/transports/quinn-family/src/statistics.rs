//! Statistics of a connection as the stack reports them, readable from another thread.

use std::{net::SocketAddr, sync::Arc};

use parking_lot::Mutex;
use regatta_model::Facts;
use regatta_transport::{ProtocolSample, StatisticsSource};
use regatta_transport_tls as tls;

use regatta_transport_quic_common::{
    blocked::Blocked,
    facts::{ConnectionFacts, of_end},
};

use crate::{
    closer::{Closer, Shared},
    controller::CongestionControl,
    stack::{
        self,
        quic::{Connection, Side, crypto::rustls::HandshakeData},
    },
    watch::Watch,
};

/// Source of a connection's statistics. It holds the connection only while that is open, since a
/// handle of the stack would keep it open.
pub(crate) struct Statistics {
    connection: Mutex<State>,
    /// The other end's address when the connection began.
    remote: Option<SocketAddr>,
    shared: Arc<Shared>,
    watch: Arc<Watch>,
    blocked: Blocked,
}

enum State {
    Open(Connection),
    /// Facts recorded when the connection was closed.
    Closed(Facts),
}

impl Statistics {
    pub(crate) fn new(closer: &Closer, shared: Arc<Shared>) -> Arc<Self> {
        Arc::new(Self {
            remote: stack::remote(&closer.connection),
            connection: Mutex::new(State::Open(closer.connection.clone())),
            shared,
            watch: Arc::clone(&closer.watch),
            blocked: Blocked::default(),
        })
    }

    /// Drops the connection and keeps its facts.
    pub(crate) fn release(&self) {
        let mut state = self.connection.lock();
        if let State::Open(connection) = &*state {
            let facts = self.facts_of(connection);
            *state = State::Closed(facts);
        }
    }

    fn facts_of(&self, connection: &Connection) -> Facts {
        let end = self.shared.end;
        let (stats, path) = stack::stats(connection);
        let controller = stack::congestion_state(connection);
        let initial_window = controller
            .as_ref()
            .map(|controller| controller.initial_window());
        let handshake = connection.handshake_data();
        let alpn = handshake
            .and_then(|data| data.downcast::<HandshakeData>().ok())
            .and_then(|data| data.protocol);
        let facts = ConnectionFacts {
            congestion_control: controller.and_then(CongestionControl::of).map(Into::into),
            cipher_suite: Some(tls::CIPHER_SUITE),
            alpn: alpn.as_deref(),
            payload_bytes: path.current_mtu.into(),
            blocked_frames: stack::blocked_frames(&stats),
            receive_buffer_drops: self.shared.drops.count(),
        };
        let mut facts = facts.of_end(end);
        let events = [
            ("quic.congestion_events", path.congestion_events),
            ("quic.black_holes", path.black_holes_detected),
        ];
        facts.extend(of_end(end, events));
        if let (Some(window), "sender") = (initial_window, end) {
            let packet = u64::from(self.shared.sizes.first_payload_bytes);
            facts.insert(
                "initial_window.sender".to_owned(),
                regatta_model::stack::packets(window, packet),
            );
        }
        if self.shared.retries && connection.side() == Side::Server {
            facts.insert(
                "address_validation".to_owned(),
                "Retry before every handshake".to_owned(),
            );
        }
        if let Some(migration) = &self.shared.migration {
            facts.insert(format!("migration.{end}"), migration.describe());
        }
        if let (Some(before), Some(now)) = (self.remote, stack::remote(connection))
            && before != now
        {
            facts.insert(
                format!("migration.{end}"),
                "the other end's address changed, and the connection went on".to_owned(),
            );
        }
        facts.extend(self.shared.files.facts());
        facts
    }
}

impl StatisticsSource for Statistics {
    fn sample(&self) -> Option<ProtocolSample> {
        let State::Open(connection) = &*self.connection.lock() else {
            return None;
        };
        let (stats, path) = stack::stats(connection);
        let in_flight = self.watch.in_flight_bytes();
        // A connection that is closing has no window any more.
        let window = (!self.watch.is_closing()).then_some(path.cwnd);
        let window_limited = stack::blocked_frames(&stats).map(|frames| {
            self.blocked
                .sample(frames, in_flight, window.unwrap_or_default())
        });
        let (packets_sent, packets_lost) = stack::packets(&stats, &path);
        Some(ProtocolSample {
            smoothed_rtt: Some(path.rtt),
            min_rtt: stack::min_rtt(&path),
            congestion_window_bytes: window,
            bytes_in_flight: Some(in_flight),
            packets_sent: Some(packets_sent),
            retransmitted_packets: Some(packets_lost),
            congestion_events: Some(path.congestion_events),
            window_limited,
        })
    }

    fn facts(&self) -> Facts {
        match &*self.connection.lock() {
            State::Open(connection) => self.facts_of(connection),
            State::Closed(facts) => facts.clone(),
        }
    }
}
