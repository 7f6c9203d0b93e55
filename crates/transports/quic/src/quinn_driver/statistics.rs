//! What quinn knows of a connection, readable from another thread.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use quinn::{Connection, ConnectionStats};
use regatta_transport::{ProtocolSample, StatisticsSource, WindowLimited};

use super::{controller::Watch, options::CongestionControl};
use crate::{pinned, socket::Counters};

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
/// for how long. The time between two samples counts if it said so in between.
struct Limited {
    sampled: Instant,
    blocked_frames: u64,
    total: Duration,
}

impl Limited {
    fn add(&mut self, now: Instant, blocked_frames: u64) -> Duration {
        if blocked_frames > self.blocked_frames {
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
            (
                "tls.cipher_suite".to_owned(),
                pinned::CIPHER_SUITE.to_owned(),
            ),
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
        let limited = self
            .limited
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .add(Instant::now(), blocked_frames(&stats));
        Some(ProtocolSample {
            smoothed_rtt: Some(stats.path.rtt),
            min_rtt: Some(stats.path.min_rtt),
            // A connection that is closing has no window any more.
            congestion_window_bytes: (!self.watch.is_closing()).then_some(stats.path.cwnd),
            bytes_in_flight: Some(self.watch.in_flight_bytes()),
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
        assert_eq!(limited.add(at(100), 0), Duration::ZERO);
        assert_eq!(limited.add(at(200), 3), Duration::from_millis(100));
        assert_eq!(limited.add(at(300), 3), Duration::from_millis(100));
        assert_eq!(limited.add(at(350), 4), Duration::from_millis(150));
    }
}
