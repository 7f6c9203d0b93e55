//! Statistics of an association, readable from another thread.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError, Weak},
};

use regatta_transport::{ProtocolSample, StatisticsSource};

use crate::{
    association::{Association, Counts},
    connection::Handle,
};

/// The stack's own congestion control, which cannot be chosen: slow start and congestion avoidance
/// of SCTP, with fast retransmit.
pub(crate) const CONGESTION_CONTROL: &str = "rfc9260";

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

    fn last(&self) -> MutexGuard<'_, Counts> {
        // Nothing that can panic runs under this lock.
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counts(&self) -> Option<Counts> {
        let handle = self.handle.upgrade()?;
        let counts = handle.with(Association::counts).ok()?;
        *self.last() = counts;
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
            // The stack tells neither its window nor its estimate of the round-trip time.
            ..ProtocolSample::default()
        })
    }

    fn facts(&self) -> BTreeMap<String, String> {
        let counts = self.counts().unwrap_or(*self.last());
        let side = self.side;
        BTreeMap::from([
            (
                format!("congestion_control.{side}"),
                CONGESTION_CONTROL.to_owned(),
            ),
            (
                format!("retransmitted_packets.{side}"),
                "packets with at least one DATA chunk that was sent before, counted by the driver"
                    .to_owned(),
            ),
            (
                format!("sctp.retransmitted_chunks.{side}"),
                counts.retransmitted_chunks.to_string(),
            ),
            (
                format!("sctp.fast_retransmitted_chunks.{side}"),
                counts.fast_retransmits.to_string(),
            ),
            (
                format!("sctp.retransmission_timeouts.{side}"),
                counts.timeouts.to_string(),
            ),
            (
                format!("sctp.acknowledgements_received.{side}"),
                counts.acknowledgements.to_string(),
            ),
        ])
    }
}
