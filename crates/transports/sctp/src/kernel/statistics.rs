//! Statistics of an association as the kernel reports them, readable from another thread.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::Duration,
};

use nix::time::{ClockId, clock_getres};
use regatta_model::{Facts, fact, metric::id, stack, units::format_duration};
use regatta_transport::{ProtocolSample, StatisticsSource};

use super::{
    association::{Association, StatisticsCache, StatisticsSnapshot},
    paths,
};
use crate::association::CONGESTION_CONTROL;

/// Size of the IPv4 header without options, in bytes: the kernel's window counts the bytes after
/// it.
const IP_HEADER_BYTES: u32 = 20;

/// Source of an association's statistics, which does not keep the association open.
pub(crate) struct Statistics {
    association: Weak<Association>,
    cache: Arc<StatisticsCache>,
    /// `sender` or `receiver`.
    side: &'static str,
    /// Congestion window and largest packet of the first path when the association was new, in
    /// bytes.
    first: Option<(u32, u32)>,
}

impl Statistics {
    pub(crate) fn new(association: &Arc<Association>, side: &'static str) -> Self {
        Self {
            association: Arc::downgrade(association),
            cache: Arc::clone(association.cache()),
            side,
            first: association.snapshot().map(|snapshot| {
                let path = snapshot.status.primary;
                (path.congestion_window_bytes, path.mtu)
            }),
        }
    }
}

/// Returns the duration of a tick of the kernel: the step of its coarse clocks.
fn tick() -> Duration {
    let tick = clock_getres(ClockId::CLOCK_MONOTONIC_COARSE).map(Duration::from);
    // The clock is as old as Linux 2.6.32. Without it, the most common tick.
    tick.ok()
        .filter(|tick| !tick.is_zero())
        .unwrap_or(Duration::from_millis(4))
}

/// Converts a snapshot to a sample. Values that the kernel could not know yet are absent.
fn sample(snapshot: &StatisticsSnapshot) -> ProtocolSample {
    let paths = || snapshot.paths.iter().map(|(_, path)| path);
    let rtt_ticks = paths().map(|path| path.smoothed_rtt_ticks);
    let windows = paths().map(|path| u64::from(path.congestion_window_bytes));
    let (chunks, chunk) = (
        snapshot.status.unacknowledged,
        snapshot.status.fragmentation_point,
    );
    ProtocolSample {
        smoothed_rtt: rtt_ticks
            .filter(|ticks| *ticks > 0)
            .min()
            .map(|ticks| tick() * ticks),
        congestion_window_bytes: Some(windows.sum()),
        bytes_in_flight: Some(u64::from(chunks) * u64::from(chunk)),
        packets_sent: snapshot.counts.map(|counts| counts.packets_sent),
        retransmitted_packets: snapshot.counts.map(|counts| counts.retransmitted_chunks),
        // The kernel reports neither the least round-trip time, nor how often the window was reduced,
        // nor for how long the peer's window was closed.
        ..ProtocolSample::default()
    }
}

/// Returns the facts in a snapshot, by their names without the side.
fn facts(snapshot: &StatisticsSnapshot) -> Vec<(&'static str, String)> {
    let (out, into) = (snapshot.status.out_streams, snapshot.status.in_streams);
    let chunk = snapshot.status.fragmentation_point;
    let counted = "DATA chunks that the kernel sent again; one of full size is one packet";
    let mut facts = vec![
        ("congestion_control", CONGESTION_CONTROL.to_owned()),
        (id::RETRANSMITTED_PACKETS, counted.to_owned()),
        ("sctp.streams", format!("{out} out, {into} in")),
        ("sctp.chunk_payload_bytes", chunk.to_string()),
    ];
    if let Some(counts) = snapshot.counts {
        let sent = counts.ordered_chunks_sent + counts.unordered_chunks_sent;
        let received = counts.ordered_chunks_received + counts.unordered_chunks_received;
        for (name, value) in [
            ("sctp.retransmitted_chunks", counts.retransmitted_chunks),
            ("sctp.data_chunks_sent", sent),
            ("sctp.data_chunks_received", received),
            ("sctp.unordered_chunks_sent", counts.unordered_chunks_sent),
            ("sctp.duplicate_chunks", counts.duplicate_chunks),
            ("sctp.out_of_sequence_tsns", counts.out_of_sequence_tsns),
            ("sctp.acknowledgements_received", counts.sacks_received),
            ("sctp.gap_acknowledgements", counts.gap_acks_received),
        ] {
            facts.push((name, value.to_string()));
        }
    }
    facts
}

impl StatisticsSource for Statistics {
    fn sample(&self) -> Option<ProtocolSample> {
        self.association
            .upgrade()?
            .snapshot()
            .as_deref()
            .map(sample)
    }

    fn facts(&self) -> Facts {
        if let Some(association) = self.association.upgrade() {
            association.snapshot();
        }
        let Some(snapshot) = self.cache.latest() else {
            return Facts::default();
        };
        let name = |name: &str| format!("{name}.{}", self.side);
        let mut all = Facts::default();
        let mut found = facts(&snapshot);
        if let (Some((window, mtu)), "sender") = (self.first, self.side) {
            let packet = u64::from(mtu.saturating_sub(IP_HEADER_BYTES));
            all.insert(
                name("initial_window"),
                stack::packets(window.into(), packet),
            );
            all.insert(name("packet_size"), fact::fixed_size(mtu.into()));
        }
        if let Some(paths) = &self.cache.paths {
            let states: Vec<_> = snapshot
                .paths
                .iter()
                .map(|(address, path)| format!("{address} {}", paths::state_name(path.state)))
                .collect();
            found.push(("sctp.paths", states.join(", ")));
            let outcome = paths.outcome();
            found.extend(outcome.map(|outcome| ("sctp.primary_path", outcome)));
            found.extend(paths.given_up_after().map(|time| {
                let text = format!("{}, as seen by samples", format_duration(time));
                ("sctp.primary_given_up_after", text)
            }));
        }
        let of_end = |(short, value)| (name(short), value);
        all.extend(found.into_iter().map(of_end));
        all
    }

    fn metrics(&self) -> BTreeMap<&'static str, f64> {
        // Only the receiver sees when its application gets data again.
        let paths = (self.cache.paths.as_ref()).filter(|_| self.side == "receiver");
        let time = paths.and_then(|paths| paths.fail_over_time());
        let metric = |time: Duration| (id::FAIL_OVER_TIME_NS, time.as_nanos() as f64);
        time.map(metric).into_iter().collect()
    }
}
