//! Statistics of an s2n-quic connection, readable from another thread.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use regatta_model::stack;
use regatta_transport::{ProtocolSample, StatisticsSource, WindowLimited};

use super::{connection::End, events::Watch, options::CongestionControl};
use crate::blocked::Blocked;

/// Source of a connection's statistics, which does not keep the connection open.
pub(super) struct Statistics {
    watch: Arc<Watch>,
    end: End,
    blocked: Mutex<Blocked>,
    released: AtomicBool,
}

impl Statistics {
    pub(super) fn new(watch: Arc<Watch>, end: End) -> Self {
        Self {
            watch,
            end,
            blocked: Mutex::new(Blocked::new(Instant::now())),
            released: AtomicBool::new(false),
        }
    }

    /// Ends sampling: the connection is over.
    pub(super) fn release(&self) {
        self.released.store(true, Ordering::Release);
    }
}

impl StatisticsSource for Statistics {
    fn sample(&self) -> Option<ProtocolSample> {
        if self.released.load(Ordering::Acquire) {
            return None;
        }
        let watch = &self.watch;
        let recovery = watch.recovery();
        let (in_flight, window) = recovery.map_or((0, 0), |recovery| {
            (recovery.bytes_in_flight, recovery.congestion_window_bytes)
        });
        let time = self
            .blocked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .add(Instant::now(), watch.blocked_frames(), in_flight, window);
        Some(ProtocolSample {
            smoothed_rtt: recovery.map(|recovery| recovery.smoothed_rtt),
            min_rtt: recovery.map(|recovery| recovery.min_rtt),
            congestion_window_bytes: recovery.map(|recovery| recovery.congestion_window_bytes),
            bytes_in_flight: recovery.map(|recovery| recovery.bytes_in_flight),
            packets_sent: Some(watch.packets_sent()),
            retransmitted_packets: Some(watch.packets_lost()),
            congestion_events: Some(watch.congestion_events()),
            window_limited: Some(WindowLimited {
                time,
                hint: "set the transport's option `stream_window` to a larger size",
            }),
        })
    }

    fn facts(&self) -> BTreeMap<String, String> {
        let (watch, side) = (&self.watch, self.end.side);
        let control = self.end.board.congestion_control();
        let mut facts = BTreeMap::from([
            (
                format!("congestion_control.{side}"),
                control
                    .map_or("unknown", CongestionControl::name)
                    .to_owned(),
            ),
            ("tls.version".to_owned(), "1.3".to_owned()),
            ("quic.version".to_owned(), "1".to_owned()),
            (
                format!("udp_payload_bytes.{side}"),
                watch.payload_bytes().to_string(),
            ),
            (
                format!("quic.congestion_events.{side}"),
                watch.congestion_events().to_string(),
            ),
            (
                format!("quic.flow_control_blocked_frames.{side}"),
                watch.blocked_frames().to_string(),
            ),
            (
                format!("retransmitted_packets.{side}"),
                "packets declared lost (RFC 9002); QUIC sends their content again in new packets"
                    .to_owned(),
            ),
        ]);
        let mut known = |name: &str, value: Option<&str>| {
            if let Some(value) = value {
                facts.insert(name.to_owned(), value.to_owned());
            }
        };
        known("tls.cipher_suite", watch.cipher_suite());
        let cipher = watch.cipher_suite().map(stack::cipher);
        known(
            "cipher.sender",
            cipher.as_deref().filter(|_| side == "sender"),
        );
        known("tls.alpn", watch.alpn());
        if let Some(drops) = self.end.counters.receive_buffer_drops() {
            facts.insert(format!("receive_buffer_drops.{side}"), drops.to_string());
        }
        facts
    }
}
