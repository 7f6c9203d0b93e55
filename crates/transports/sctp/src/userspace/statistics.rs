//! Statistics of an association, readable from another thread.

use std::sync::Weak;

use parking_lot::Mutex;
use regatta_model::Facts;
use regatta_transport::{ProtocolSample, StatisticsSource};

use super::{
    association::{Association, Counts},
    protocol::Handle,
};
use crate::association::CONGESTION_CONTROL;

/// Source of an association's statistics, which does not keep the association open.
pub(crate) struct Statistics {
    handle: Weak<Handle>,
    /// `sender` or `receiver`.
    side: &'static str,
    last: Mutex<Counts>,
}

impl Statistics {
    pub(crate) fn new(handle: Weak<Handle>, side: &'static str) -> Self {
        Self {
            handle,
            side,
            last: Mutex::default(),
        }
    }

    fn counts(&self) -> Option<Counts> {
        let handle = self.handle.upgrade()?;
        let counts = handle.with(Association::counts).ok()?;
        *self.last.lock() = counts;
        Some(counts)
    }
}

impl StatisticsSource for Statistics {
    fn sample(&self) -> Option<ProtocolSample> {
        let counts = self.counts()?;
        Some(ProtocolSample {
            packets_sent: Some(counts.packets_sent),
            retransmitted_packets: Some(counts.retransmitted_packets),
            bytes_in_flight: Some(counts.in_flight_bytes),
            // The stack exposes neither its window nor its estimate of the round-trip time.
            ..ProtocolSample::default()
        })
    }

    fn facts(&self) -> Facts {
        let counts = self.counts().unwrap_or(*self.last.lock());
        let counted =
            "packets with at least one DATA chunk that was sent before, counted by the driver";
        let texts = [
            ("congestion_control", CONGESTION_CONTROL),
            ("retransmitted_packets", counted),
        ];
        let counts = [
            ("sctp.retransmitted_chunks", counts.retransmitted_chunks),
            ("sctp.fast_retransmitted_chunks", counts.fast_retransmits),
            ("sctp.retransmission_timeouts", counts.timeouts),
            ("sctp.acknowledgements_received", counts.acknowledgements),
        ];
        let texts = texts.map(|(name, value)| (name, value.to_owned()));
        let counts = counts.map(|(name, count)| (name, count.to_string()));
        let of_end = |(name, value)| (format!("{name}.{}", self.side), value);
        texts.into_iter().chain(counts).map(of_end).collect()
    }
}
