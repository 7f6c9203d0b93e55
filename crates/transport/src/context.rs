//! Interface between a session and the process that hosts it (the agent).

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering},
    },
    time::Duration,
};

use regatta_control::Note;
use regatta_model::Facts;

use crate::{delivered::Delivered, opening::Purpose, peer::Peer, stop::Stop};

/// State that one end of one trial shares with the process that hosts it.
///
/// The host makes one for each trial, keeps clones of `live`, `peer` and `stop`, and moves
/// this into [`crate::Driver::prepare`]. `testing::trial_context` makes one without an agent.
#[derive(Clone)]
pub struct TrialContext {
    /// Counters that the session writes and the host's sampler reads.
    pub live: Arc<LiveCounters>,
    /// Listener of the host to events of the session.
    pub observer: Arc<dyn Observer>,
    /// The other end, as its notes tell; the host writes them in.
    pub peer: Arc<Peer>,
    /// Stop that the host raises to abort the trial: the session then returns
    /// [`crate::TransportError::Cancelled`], within a second.
    pub stop: Stop,
}

impl fmt::Debug for TrialContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrialContext")
            .field("live", &self.live)
            .field("stop", &self.stop)
            .finish_non_exhaustive()
    }
}

/// An edge of the transfer window, over which CPU time, memory and interface counters are charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowEdge {
    /// Client: just before the first connect call. Server: a flow has arrived that may be the
    /// transfer's, before any work for it. May come more than once, as a server cannot know
    /// a flow's purpose before it has read from it: **the last one counts**.
    Start,
    /// Client: the acknowledgement has arrived, or the deadline has. Server: all that will be
    /// counted is counted and the acknowledgement is sent. Comes once, and not in a trial that
    /// failed.
    End,
}

/// Listener to the events of a running session.
///
/// Calls come on the session's threads, so an implementation must be quick: what it does between
/// `Start` and `End` is charged to the transport.
pub trait Observer: Send + Sync {
    /// Called at an edge of the transfer window.
    fn on_window(&self, edge: WindowEdge);

    /// Called when a connection is established; its statistics can be sampled until the reference
    /// is dead. Series are made from the connection whose purpose is [`Purpose::Transfer`].
    fn on_connection(&self, purpose: Purpose, source: Weak<dyn StatisticsSource>);

    /// Called when another process does this end's work: from now on its CPU time and memory, and
    /// those of its descendants, are charged instead of this process's. Comes before
    /// [`WindowEdge::Start`].
    fn on_process(&self, process: u32) {
        let _ = process;
    }

    /// Returns the statistics of the transfer's connection over the window, at the end that sends;
    /// for use after [`WindowEdge::End`].
    fn window_statistics(&self) -> WindowStatistics {
        WindowStatistics::default()
    }

    /// Passes a note to the other end of the trial, over control. Never blocks for long.
    fn send_note(&self, note: Note);
}

/// Phases of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// Not running yet.
    Prepared = 0,
    /// Probing the idle path, and opening what is needed before the transfer.
    Idle = 1,
    /// Time from the first connect call to the acknowledgement's arrival.
    Transfer = 2,
    /// Closing and reporting.
    Done = 3,
}

/// Counters of one end of one trial, written by one thread each and read by the sampler.
///
/// At the sender `*_sent` counts what was handed to the transport; at the receiver `*_delivered`
/// counts what its application got, each byte and each message once. The others stay zero.
#[derive(Debug, Default)]
pub struct LiveCounters {
    /// Bytes handed to the transport by the sender.
    pub bytes_sent: AtomicU64,
    /// Messages handed to the transport by the sender.
    pub messages_sent: AtomicU64,
    /// Bytes delivered at the receiver.
    pub bytes_delivered: AtomicU64,
    /// Messages delivered whole at the receiver.
    pub messages_delivered: AtomicU64,
    /// Bytes delivered before the warm-up ended.
    pub bytes_in_warm_up: AtomicU64,
    /// Moment of the last delivery of these, in nanoseconds of the monotonic clock; 0 before the first.
    pub last_in_warm_up_ns: AtomicI64,
    /// Moment of the last delivery of all, in nanoseconds of the monotonic clock; 0 before the first.
    pub last_delivery_ns: AtomicI64,
    /// Answers to probe messages at the connecting end, those of the idle probe included.
    pub probe_answers: AtomicU64,
    /// Sum of the delays of these answers, in nanoseconds.
    pub probe_delay_ns: AtomicU64,
    phase: AtomicU8,
}

impl LiveCounters {
    /// Returns the session's phase.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Prepared,
            1 => Phase::Idle,
            2 => Phase::Transfer,
            _ => Phase::Done,
        }
    }

    /// Returns the bytes and messages that the end has handed over so far.
    #[must_use]
    pub fn sent(&self) -> Delivered {
        Delivered {
            bytes: self.bytes_sent.load(Ordering::Relaxed),
            messages: self.messages_sent.load(Ordering::Relaxed),
        }
    }

    /// Returns the bytes and messages that have arrived at the end so far.
    pub(crate) fn received(&self) -> Delivered {
        Delivered {
            bytes: self.bytes_delivered.load(Ordering::Acquire),
            messages: self.messages_delivered.load(Ordering::Acquire),
        }
    }

    /// Sets the session's phase.
    pub fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }
}

/// State of a connection as its own stack sees it. Values that the stack does not provide are
/// absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProtocolSample {
    /// Smoothed round-trip time (RFC 9002; TCP: `tcpi_rtt`); of several connections the smallest, see
    /// [`Self::combined`].
    pub smoothed_rtt: Option<Duration>,
    /// Minimum round-trip time that the stack has seen.
    pub min_rtt: Option<Duration>,
    /// Congestion window, in bytes.
    pub congestion_window_bytes: Option<u64>,
    /// Bytes sent, not acknowledged and not declared lost.
    pub bytes_in_flight: Option<u64>,
    /// Number of packets (TCP: segments) sent since the connection began, retransmissions included.
    pub packets_sent: Option<u64>,
    /// Number of retransmitted segments (TCP), or of packets declared lost (QUIC), since the connection began.
    pub retransmitted_packets: Option<u64>,
    /// Number of congestion events that the congestion control has handled since the connection
    /// began.
    pub congestion_events: Option<u64>,
    /// Time during which the peer's receive window limited the sender, since the connection began.
    pub window_limited: Option<WindowLimited>,
}

impl ProtocolSample {
    /// Combines two connections, or subflows, into one sample: windows and counts are summed, round-trip times are the
    /// smaller ones, and `window_limited` is the longer one.
    #[must_use]
    pub fn combined(a: Self, b: Self) -> Self {
        let both = [a, b];
        let least = |time: fn(&Self) -> Option<Duration>| both.iter().filter_map(time).min();
        let sum = |count: fn(&Self) -> Option<u64>| {
            let counts = both.iter().filter_map(count);
            counts.reduce(|a, b| a + b)
        };
        let limited = both.iter().filter_map(|it| it.window_limited);
        Self {
            smoothed_rtt: least(|it| it.smoothed_rtt),
            min_rtt: least(|it| it.min_rtt),
            congestion_window_bytes: sum(|it| it.congestion_window_bytes),
            bytes_in_flight: sum(|it| it.bytes_in_flight),
            packets_sent: sum(|it| it.packets_sent),
            retransmitted_packets: sum(|it| it.retransmitted_packets),
            congestion_events: sum(|it| it.congestion_events),
            window_limited: limited.reduce(|a, b| if a.time < b.time { b } else { a }),
        }
    }
}

/// Statistics of the transfer's connection over the window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WindowStatistics {
    /// State when the window ended; empty if the connection could not be read then.
    pub at_end: ProtocolSample,
    /// Maximum number of bytes in flight that a sample showed; absent where the stack does not report them.
    pub max_bytes_in_flight: Option<u64>,
}

/// Time for which the peer's receive window kept a sender waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowLimited {
    /// The time, since the connection began.
    pub time: Duration,
    /// Setting that gives a larger window.
    pub by: WindowLimit,
}

/// Setting that decides on a receive window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowLimit {
    /// Receive buffers of TCP at the receiver.
    ReceiveBuffers,
    /// The transport's option `stream_window`.
    StreamWindow,
}

/// A connection whose statistics can be read from another thread at any time.
pub trait StatisticsSource: Send + Sync {
    /// Returns the current state; `None` once the connection is closed.
    fn sample(&self) -> Option<ProtocolSample>;

    /// Returns facts about the connection, by the full name of the fact as in `TrialRecord::facts`:
    /// `congestion_control.sender`, `tls.version`. Read once, when the transfer has ended.
    fn facts(&self) -> Facts {
        Facts::default()
    }

    /// Returns metrics that only this stack measures, by the metric's name in
    /// `regatta_model::metric`. Read once, at the end of a bulk transfer or an exchange; of several
    /// connections the largest counts.
    fn metrics(&self) -> BTreeMap<&'static str, f64> {
        BTreeMap::new()
    }
}
