//! Statistics of a connection as the stack reports them, readable from another thread.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use regatta_transport::{ProtocolSample, StatisticsSource, WindowLimited};
use regatta_transport_tls as tls;

use regatta_transport_quic_common::blocked::Blocked;

use crate::{
    connection::Shared,
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
    limited: Mutex<Blocked>,
}

enum State {
    Open(Connection),
    /// Facts recorded when the connection was closed.
    Closed(BTreeMap<String, String>),
}

impl Statistics {
    pub(crate) fn new(connection: Connection, watch: Arc<Watch>, shared: Arc<Shared>) -> Arc<Self> {
        Arc::new(Self {
            remote: stack::remote(&connection),
            connection: Mutex::new(State::Open(connection)),
            shared,
            watch,
            limited: Mutex::new(Blocked::new(Instant::now())),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under this lock.
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops the connection and keeps its facts.
    pub(crate) fn release(&self) {
        let mut state = self.lock();
        if let State::Open(connection) = &*state {
            let facts = self.facts_of(connection);
            *state = State::Closed(facts);
        }
    }

    fn facts_of(&self, connection: &Connection) -> BTreeMap<String, String> {
        let end = self.shared.end;
        let figures = stack::figures(connection);
        let control = stack::congestion_state(connection).and_then(CongestionControl::of);
        let mut facts = BTreeMap::from([
            (
                format!("congestion_control.{end}"),
                control
                    .map_or("unknown", CongestionControl::name)
                    .to_owned(),
            ),
            ("tls.version".to_owned(), "1.3".to_owned()),
            ("tls.cipher_suite".to_owned(), tls::CIPHER_SUITE.to_owned()),
            ("quic.version".to_owned(), "1".to_owned()),
            (
                format!("udp_payload_bytes.{end}"),
                figures.payload_bytes.to_string(),
            ),
            (
                format!("quic.congestion_events.{end}"),
                figures.congestion_events.to_string(),
            ),
            (
                format!("quic.black_holes.{end}"),
                figures.black_holes.to_string(),
            ),
            (
                format!("retransmitted_packets.{end}"),
                "packets declared lost (RFC 9002); QUIC sends their content again in new packets"
                    .to_owned(),
            ),
        ]);
        if let (Some(controller), "sender") = (stack::congestion_state(connection), end) {
            let window = controller.initial_window();
            let packet = u64::from(self.shared.initial_payload_bytes);
            facts.insert(
                "initial_window.sender".to_owned(),
                regatta_model::stack::packets(window, packet),
            );
        }
        if let Some(frames) = figures.blocked_frames {
            facts.insert(
                format!("quic.flow_control_blocked_frames.{end}"),
                frames.to_string(),
            );
        }
        if let Some(protocol) = connection
            .handshake_data()
            .and_then(|data| data.downcast::<HandshakeData>().ok())
            .and_then(|data| data.protocol)
        {
            facts.insert(
                "tls.alpn".to_owned(),
                String::from_utf8_lossy(&protocol).into_owned(),
            );
        }
        if let Some(drops) = self.shared.drops.count() {
            facts.insert(format!("receive_buffer_drops.{end}"), drops.to_string());
        }
        if self.shared.retries && connection.side() == Side::Server {
            facts.insert(
                "address_validation".to_owned(),
                "Retry before every handshake".to_owned(),
            );
        }
        if let Some(migration) = &self.shared.migration {
            facts.insert(format!("migration.{end}"), migration.in_words());
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
        let State::Open(connection) = &*self.lock() else {
            return None;
        };
        let figures = stack::figures(connection);
        let in_flight = self.watch.in_flight_bytes();
        // A connection that is closing has no window any more.
        let window = (!self.watch.is_closing()).then_some(figures.window_bytes);
        let window_limited = figures.blocked_frames.map(|frames| WindowLimited {
            time: self
                .limited
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .add(
                    Instant::now(),
                    frames,
                    in_flight,
                    window.unwrap_or_default(),
                ),
            hint: "set the transport's option `stream_window` to a larger size",
        });
        Some(ProtocolSample {
            smoothed_rtt: Some(figures.smoothed_rtt),
            min_rtt: figures.min_rtt,
            congestion_window_bytes: window,
            bytes_in_flight: Some(in_flight),
            packets_sent: Some(figures.packets_sent),
            retransmitted_packets: Some(figures.packets_lost),
            congestion_events: Some(figures.congestion_events),
            window_limited,
        })
    }

    fn facts(&self) -> BTreeMap<String, String> {
        match &*self.lock() {
            State::Open(connection) => self.facts_of(connection),
            State::Closed(facts) => facts.clone(),
        }
    }
}
