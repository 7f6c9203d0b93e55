//! What quinn knows of a connection, readable from another thread.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use quinn::{Connection, ConnectionStats};
use regatta_transport::{ProtocolSample, StatisticsSource, WindowLimited};

use super::{controller::Watch, options::CongestionControl};
use regatta_transport_tls as tls;

use crate::socket::Counters;

/// Holds the connection as long as it is open: a handle of quinn's would keep it open.
pub(super) struct Statistics {
    connection: Mutex<State>,
    /// `sender` or `receiver`.
    watch: Arc<Watch>,
    side: &'static str,
    counters: Arc<Counters>,
    limited: Mutex<Limited>,
}

/// For how long flow control held the sender back.
///
/// quinn says how often it told the other end that it was blocked, once for each limit, and not
/// for how long. The time between two samples counts if it said so in between and the congestion
/// window has room at its end: with a full congestion window the path is the limit, whatever
/// flow control says.
struct Limited {
    sampled: Instant,
    blocked_frames: u64,
    total: Duration,
}

impl Limited {
    fn add(&mut self, now: Instant, blocked_frames: u64, has_room: bool) -> Duration {
        if blocked_frames > self.blocked_frames && has_room {
            self.total += now.saturating_duration_since(self.sampled);
        }
        self.sampled = now;
        self.blocked_frames = blocked_frames;
        self.total
    }
}

enum State {
    Open(Connection),
    /// What was known when it was closed.
    Closed(BTreeMap<String, String>),
}

impl Statistics {
    pub(super) fn new(
        connection: Connection,
        watch: Arc<Watch>,
        side: &'static str,
        counters: Arc<Counters>,
    ) -> Arc<Self> {
        Arc::new(Self {
            connection: Mutex::new(State::Open(connection)),
            watch,
            side,
            counters,
            limited: Mutex::new(Limited {
                sampled: Instant::now(),
                blocked_frames: 0,
                total: Duration::ZERO,
            }),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under this lock.
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the connection go; the facts stay.
    pub(super) fn release(&self) {
        let mut state = self.lock();
        if let State::Open(connection) = &*state {
            let facts = self.facts_of(connection);
            *state = State::Closed(facts);
        }
    }

    fn facts_of(&self, connection: &Connection) -> BTreeMap<String, String> {
        let side = self.side;
        let stats = connection.stats();
        let control = CongestionControl::of(connection.congestion_state());
        let mut facts = BTreeMap::from([
            (
                format!("congestion_control.{side}"),
                control
                    .map_or("unknown", CongestionControl::name)
                    .to_owned(),
            ),
            ("tls.version".to_owned(), "1.3".to_owned()),
            ("tls.cipher_suite".to_owned(), tls::CIPHER_SUITE.to_owned()),
            ("quic.version".to_owned(), "1".to_owned()),
            (
                format!("udp_payload_bytes.{side}"),
                stats.path.current_mtu.to_string(),
            ),
            (
                format!("quic.congestion_events.{side}"),
                stats.path.congestion_events.to_string(),
            ),
            (
                format!("quic.black_holes.{side}"),
                stats.path.black_holes_detected.to_string(),
            ),
            (
                format!("quic.flow_control_blocked_frames.{side}"),
                blocked_frames(&stats).to_string(),
            ),
            (
                format!("retransmitted_packets.{side}"),
                "packets declared lost (RFC 9002); QUIC sends their content again in new packets"
                    .to_owned(),
            ),
        ]);
        if let Some(protocol) = connection
            .handshake_data()
            .and_then(|data| data.downcast::<quinn::crypto::rustls::HandshakeData>().ok())
            .and_then(|data| data.protocol)
        {
            facts.insert(
                "tls.alpn".to_owned(),
                String::from_utf8_lossy(&protocol).into_owned(),
            );
        }
        if let Some(drops) = self.counters.receive_buffer_drops() {
            facts.insert(format!("receive_buffer_drops.{side}"), drops.to_string());
        }
        facts
    }
}

/// Whether the congestion window has room for a tenth of it or more.
fn has_room(in_flight_bytes: u64, window_bytes: u64) -> bool {
    (in_flight_bytes as f64) < 0.9 * window_bytes as f64
}

/// How often this end told the other one that a flow-control window held it back.
fn blocked_frames(stats: &ConnectionStats) -> u64 {
    stats.frame_tx.data_blocked + stats.frame_tx.stream_data_blocked
}

impl StatisticsSource for Statistics {
    fn sample(&self) -> Option<ProtocolSample> {
        let State::Open(connection) = &*self.lock() else {
            return None;
        };
        let stats = connection.stats();
        let in_flight = self.watch.in_flight_bytes();
        // A connection that is closing has no window any more.
        let window = (!self.watch.is_closing()).then_some(stats.path.cwnd);
        let limited = self
            .limited
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .add(
                Instant::now(),
                blocked_frames(&stats),
                window.is_some_and(|window| has_room(in_flight, window)),
            );
        Some(ProtocolSample {
            smoothed_rtt: Some(stats.path.rtt),
            min_rtt: Some(stats.path.min_rtt),
            congestion_window_bytes: window,
            bytes_in_flight: Some(in_flight),
            packets_sent: Some(stats.path.sent_packets),
            retransmitted_packets: Some(stats.path.lost_packets),
            congestion_events: Some(stats.path.congestion_events),
            window_limited: Some(WindowLimited {
                time: limited,
                hint: "set the transport's option `stream_window` to a larger size",
            }),
        })
    }

    fn facts(&self) -> BTreeMap<String, String> {
        match &*self.lock() {
            State::Open(connection) => self.facts_of(connection),
            State::Closed(facts) => facts.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_time_in_which_it_was_blocked_counts() {
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        let mut limited = Limited {
            sampled: begun,
            blocked_frames: 0,
            total: Duration::ZERO,
        };
        assert_eq!(limited.add(at(100), 0, true), Duration::ZERO);
        assert_eq!(limited.add(at(200), 3, true), Duration::from_millis(100));
        assert_eq!(limited.add(at(300), 3, true), Duration::from_millis(100));
        assert_eq!(limited.add(at(350), 4, true), Duration::from_millis(150));
        // Blocked with a full congestion window: the path is the limit.
        assert_eq!(limited.add(at(450), 9, false), Duration::from_millis(150));
        // What it said then counts no later either.
        assert_eq!(limited.add(at(550), 9, true), Duration::from_millis(150));
    }

    #[test]
    fn a_window_that_is_nearly_full_has_no_room() {
        assert!(has_room(0, 14_720));
        assert!(has_room(89_999, 100_000));
        assert!(!has_room(90_000, 100_000));
        assert!(!has_room(100_000, 100_000));
        assert!(!has_room(0, 0));
    }
}
