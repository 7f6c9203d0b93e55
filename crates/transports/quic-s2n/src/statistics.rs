//! Statistics of an s2n-quic connection, readable from another thread.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use regatta_model::Facts;
use regatta_transport::{ProtocolSample, StatisticsSource};

use crate::{
    end::End,
    events::{Figure, Watch},
};
use regatta_transport_quic_common::{
    blocked::Blocked,
    facts::{ConnectionFacts, of_end},
};

/// Source of a connection's statistics, which does not keep the connection open.
pub(crate) struct Statistics {
    watch: Arc<Watch>,
    end: End,
    blocked: Blocked,
    released: AtomicBool,
}

impl Statistics {
    pub(crate) fn new(watch: Arc<Watch>, end: End) -> Self {
        Self {
            watch,
            end,
            blocked: Blocked::default(),
            released: AtomicBool::new(false),
        }
    }

    /// Ends sampling: the connection is over.
    pub(crate) fn release(&self) {
        self.released.store(true, Ordering::Release);
    }
}

impl StatisticsSource for Statistics {
    fn sample(&self) -> Option<ProtocolSample> {
        if self.released.load(Ordering::Acquire) {
            return None;
        }
        let watch = &self.watch;
        // Nothing of it is known before anything was acknowledged.
        let smoothed_rtt_ns = Some(watch.smoothed_rtt_ns.get()).filter(|time| *time > 0);
        let recovery = |figure: &Figure| smoothed_rtt_ns.map(|_| figure.get());
        let in_flight = recovery(&watch.bytes_in_flight);
        let window = recovery(&watch.congestion_window_bytes);
        let limited = self.blocked.sample(
            watch.blocked_frames.get(),
            in_flight.unwrap_or_default(),
            window.unwrap_or_default(),
        );
        Some(ProtocolSample {
            smoothed_rtt: smoothed_rtt_ns.map(Duration::from_nanos),
            min_rtt: recovery(&watch.min_rtt_ns).map(Duration::from_nanos),
            congestion_window_bytes: window,
            bytes_in_flight: in_flight,
            packets_sent: Some(watch.packets_sent.get()),
            retransmitted_packets: Some(watch.packets_lost.get()),
            congestion_events: Some(watch.congestion_events.get()),
            window_limited: Some(limited),
        })
    }

    fn facts(&self) -> Facts {
        let (watch, side) = (&self.watch, self.end.side);
        let facts = ConnectionFacts {
            congestion_control: self.end.congestion_control.map(Into::into),
            cipher_suite: watch.cipher_suite.get().map(String::as_str),
            alpn: watch.alpn.get().map(Vec::as_slice),
            payload_bytes: watch.payload_bytes.get() as usize,
            blocked_frames: Some(watch.blocked_frames.get()),
            receive_buffer_drops: self.end.counters.receive_buffer_drops(),
        };
        let mut facts = facts.of_end(side);
        facts.extend(of_end(
            side,
            [("quic.congestion_events", watch.congestion_events.get())],
        ));
        facts
    }
}
