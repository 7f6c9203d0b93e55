//! What the kernel tells of an association, readable from another thread.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use regatta_model::units::format_duration;
use regatta_transport::{ProtocolSample, StatisticsSource};

use super::{
    association::{Association, Seen},
    paths,
    socket::{self, Plain as _},
    uapi::{self, PeerAddrInfo, Status},
};

/// The kernel's own congestion control, which cannot be chosen: slow start, congestion avoidance
/// and fast retransmit of RFC 4960 §7, which RFC 9260 keeps.
pub(crate) const CONGESTION_CONTROL: &str = "rfc9260";

/// Does not keep the association open.
pub(crate) struct Statistics {
    association: Weak<Association>,
    /// `sender` or `receiver`.
    side: &'static str,
    last: Mutex<BTreeMap<String, String>>,
}

impl Statistics {
    pub(crate) fn new(association: Weak<Association>, side: &'static str) -> Self {
        Self {
            association,
            side,
            last: Mutex::default(),
        }
    }

    fn last(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        // Nothing that can panic runs under this lock.
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All paths of an association.
fn path_infos(association: &Association, status: &Status) -> Vec<PeerAddrInfo> {
    if association.paths().is_none() {
        return vec![status.primary];
    }
    let socket = association.socket();
    socket::peer_addresses(socket)
        .unwrap_or_default()
        .into_iter()
        .filter_map(|address| {
            let asked = PeerAddrInfo {
                address: socket::storage(address),
                ..PeerAddrInfo::zeroed()
            };
            socket::get(socket, uapi::GET_PEER_ADDR_INFO, asked).ok()
        })
        .collect()
}

/// The states of all paths, by address; tells what it sees of the primary one.
fn path_states(association: &Association) -> Vec<String> {
    let socket = association.socket();
    let mut states = Vec::new();
    for address in socket::peer_addresses(socket).unwrap_or_default() {
        let asked = PeerAddrInfo {
            address: socket::storage(address),
            ..PeerAddrInfo::zeroed()
        };
        let Ok(found) = socket::get(socket, uapi::GET_PEER_ADDR_INFO, asked) else {
            continue;
        };
        let state = found.state;
        if let Some(paths) = association.paths()
            && paths.primary() == address.ip()
        {
            paths.seen(state);
        }
        states.push(format!("{} {}", address.ip(), paths::state_name(state)));
    }
    states
}

/// Values that the kernel could not know yet are absent.
fn sample(association: &Association) -> Option<ProtocolSample> {
    let Seen { status, counts } = association.look()?;
    if association.paths().is_some() {
        path_states(association);
    }
    let paths = path_infos(association, &status);
    Some(ProtocolSample {
        // Whole milliseconds, and multiples of the kernel's tick.
        smoothed_rtt: paths
            .iter()
            .map(|path| path.smoothed_rtt_ms)
            .filter(|milliseconds| *milliseconds > 0)
            .min()
            .map(|milliseconds| Duration::from_millis(milliseconds.into())),
        congestion_window_bytes: Some(
            paths
                .iter()
                .map(|path| u64::from(path.congestion_window_bytes))
                .sum(),
        ),
        bytes_in_flight: Some(
            u64::from(status.unacknowledged) * u64::from(status.fragmentation_point),
        ),
        packets_sent: counts.map(|counts| counts.packets_sent),
        retransmitted_packets: counts.map(|counts| counts.retransmitted_chunks),
        // The kernel tells neither the least round-trip time, nor how often the window was reduced,
        // nor for how long the peer's window was closed.
        ..ProtocolSample::default()
    })
}

fn facts(association: &Association, side: &str) -> Option<BTreeMap<String, String>> {
    let Seen { status, counts } = association.look()?;
    let mut facts = BTreeMap::new();
    let mut fact = |name: &str, value: String| {
        facts.insert(format!("{name}.{side}"), value);
    };
    fact("congestion_control", CONGESTION_CONTROL.to_owned());
    fact(
        "retransmitted_packets",
        "DATA chunks that the kernel sent again; one of full size is one packet".to_owned(),
    );
    let (out, into, chunk) = (
        status.out_streams,
        status.in_streams,
        status.fragmentation_point,
    );
    fact("sctp.streams", format!("{out} out, {into} in"));
    fact("sctp.chunk_payload_bytes", chunk.to_string());
    if let Some(counts) = counts {
        for (name, value) in [
            ("sctp.retransmitted_chunks", counts.retransmitted_chunks),
            (
                "sctp.data_chunks_sent",
                counts.ordered_chunks_sent + counts.unordered_chunks_sent,
            ),
            (
                "sctp.data_chunks_received",
                counts.ordered_chunks_received + counts.unordered_chunks_received,
            ),
            ("sctp.unordered_chunks_sent", counts.unordered_chunks_sent),
            ("sctp.duplicate_chunks", counts.duplicate_chunks),
            ("sctp.out_of_sequence_tsns", counts.out_of_sequence_tsns),
            ("sctp.acknowledgements_received", counts.sacks_received),
            ("sctp.gap_acknowledgements", counts.gap_acks_received),
        ] {
            fact(name, value.to_string());
        }
    }
    if let Some(paths) = association.paths() {
        fact("sctp.paths", path_states(association).join(", "));
        if let Some(outcome) = paths.outcome() {
            fact("sctp.primary_path", outcome);
        }
        if let Some(time) = paths.given_up_after() {
            fact(
                "sctp.primary_given_up_after",
                format!("{}, as seen by samples", format_duration(time)),
            );
        }
    }
    Some(facts)
}

impl StatisticsSource for Statistics {
    fn sample(&self) -> Option<ProtocolSample> {
        sample(&*self.association.upgrade()?)
    }

    fn facts(&self) -> BTreeMap<String, String> {
        let association = self.association.upgrade();
        if let Some(found) = association.and_then(|one| facts(&one, self.side)) {
            *self.last() = found;
        }
        self.last().clone()
    }

    fn metrics(&self) -> BTreeMap<&'static str, f64> {
        let time = self
            .association
            .upgrade()
            .and_then(|association| association.paths()?.fail_over_time());
        // Only the receiver sees when its application gets data again.
        time.filter(|_| self.side == "receiver")
            .map(|time| ("fail_over_time_ns", time.as_nanos() as f64))
            .into_iter()
            .collect()
    }
}
