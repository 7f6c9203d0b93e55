//! The metrics: one name, one unit, one definition for each.
//!
//! A metric that is not in this table is not written to any file.

use serde::{Deserialize, Serialize};

/// The unit of a stored value. Names carry it (`_ns`, `_bytes`, `_bps`, `_ratio`); tables show it
/// scaled (ms, MB, Mbit/s, %).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Bits per second.
    #[serde(rename = "bit/s")]
    BitsPerSecond,
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Nanoseconds per byte.
    #[serde(rename = "ns/B")]
    NanosecondsPerByte,
    /// Bytes.
    #[serde(rename = "B")]
    Bytes,
    /// Events per second.
    #[serde(rename = "1/s")]
    PerSecond,
    /// A number of things.
    #[serde(rename = "1")]
    Count,
    /// A part of a whole, 0 to 1.
    #[serde(rename = "ratio")]
    Ratio,
    /// CPU time over elapsed time; 1 is one whole core, more is several.
    #[serde(rename = "cores")]
    CoreRatio,
}

impl Unit {
    /// As written in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BitsPerSecond => "bit/s",
            Self::Nanoseconds => "ns",
            Self::NanosecondsPerByte => "ns/B",
            Self::Bytes => "B",
            Self::PerSecond => "1/s",
            Self::Count => "1",
            Self::Ratio => "ratio",
            Self::CoreRatio => "cores",
        }
    }
}

/// Which direction a user wants a metric to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
    /// Neither direction is better in itself.
    Neither,
}

/// One metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MetricDefinition {
    /// Name in every file.
    pub name: &'static str,
    /// Unit of the stored value.
    pub unit: Unit,
    /// Short title for tables and axes.
    pub title: &'static str,
    /// Which direction is better.
    pub better: Better,
    /// What is measured, between which events, with its source.
    pub definition: &'static str,
}

/// Looks a metric up by its name.
#[must_use]
pub fn find(name: &str) -> Option<&'static MetricDefinition> {
    METRICS.iter().find(|metric| metric.name == name)
}

/// Every metric of a trial, in the order in which tables show them.
pub const METRICS: &[MetricDefinition] = &[
    MetricDefinition {
        name: "goodput_bps",
        unit: Unit::BitsPerSecond,
        title: "goodput",
        better: Better::Higher,
        definition: "Delivered application bits over the time from the first connect call to the arrival of the receiver's acknowledgement. Retransmitted bits do not count.",
    },
    MetricDefinition {
        name: "receiver_goodput_bps",
        unit: Unit::BitsPerSecond,
        title: "goodput at the receiver",
        better: Better::Higher,
        definition: "Delivered application bits over the time from the first to the last delivery at the receiver; the bytes of the first delivery, which took no time in that interval, are left out. Absent if there was one delivery only.",
    },
    MetricDefinition {
        name: "transfer_time_ns",
        unit: Unit::Nanoseconds,
        title: "transfer time",
        better: Better::Lower,
        definition: "From the first connect call to the arrival of the receiver's acknowledgement, or to the deadline.",
    },
    MetricDefinition {
        name: "set_up_time_ns",
        unit: Unit::Nanoseconds,
        title: "set-up time",
        better: Better::Lower,
        definition: "From the connect call until the connection can carry data: TCP's handshake, with TLS's where it is used; QUIC's handshake; for UDP the exchange that opens the flow.",
    },
    MetricDefinition {
        name: "round_trip_delay_idle_ns",
        unit: Unit::Nanoseconds,
        title: "round-trip delay, idle",
        better: Better::Lower,
        definition: "Median over the messages that were sent and sent back one at a time before the transfer, on a connection of their own.",
    },
    MetricDefinition {
        name: "round_trip_delay_idle_p99_ns",
        unit: Unit::Nanoseconds,
        title: "round-trip delay, idle, 99th percentile",
        better: Better::Lower,
        definition: "99th percentile of the same messages.",
    },
    MetricDefinition {
        name: "round_trip_delay_ns",
        unit: Unit::Nanoseconds,
        title: "round-trip delay under load",
        better: Better::Lower,
        definition: "Mean over the messages that were sent and sent back during the transfer, counted from their scheduled departure.",
    },
    MetricDefinition {
        name: "round_trip_delay_p50_ns",
        unit: Unit::Nanoseconds,
        title: "round-trip delay under load, median",
        better: Better::Lower,
        definition: "Median of the same messages.",
    },
    MetricDefinition {
        name: "round_trip_delay_p95_ns",
        unit: Unit::Nanoseconds,
        title: "round-trip delay under load, 95th percentile",
        better: Better::Lower,
        definition: "95th percentile of the same messages.",
    },
    MetricDefinition {
        name: "round_trip_delay_p99_ns",
        unit: Unit::Nanoseconds,
        title: "round-trip delay under load, 99th percentile",
        better: Better::Lower,
        definition: "99th percentile of the same messages.",
    },
    MetricDefinition {
        name: "round_trip_delay_max_ns",
        unit: Unit::Nanoseconds,
        title: "round-trip delay under load, maximum",
        better: Better::Lower,
        definition: "Maximum of the same messages.",
    },
    MetricDefinition {
        name: "probe_messages_sent",
        unit: Unit::Count,
        title: "probe messages sent",
        better: Better::Neither,
        definition: "Messages sent to measure the round-trip delay under load.",
    },
    MetricDefinition {
        name: "probe_messages_lost",
        unit: Unit::Count,
        title: "probe messages without answer",
        better: Better::Lower,
        definition: "Of these, the ones whose answer did not arrive by the end of the trial.",
    },
    MetricDefinition {
        name: "bytes_sent",
        unit: Unit::Bytes,
        title: "bytes sent",
        better: Better::Neither,
        definition: "Application bytes handed to the transport.",
    },
    MetricDefinition {
        name: "bytes_delivered",
        unit: Unit::Bytes,
        title: "bytes delivered",
        better: Better::Higher,
        definition: "Application bytes that the receiver's application got, each counted once.",
    },
    MetricDefinition {
        name: "messages_sent",
        unit: Unit::Count,
        title: "messages sent",
        better: Better::Neither,
        definition: "Messages handed to the transport.",
    },
    MetricDefinition {
        name: "messages_delivered",
        unit: Unit::Count,
        title: "messages delivered",
        better: Better::Higher,
        definition: "Distinct messages that the receiver's application got whole.",
    },
    MetricDefinition {
        name: "messages_lost",
        unit: Unit::Count,
        title: "messages lost",
        better: Better::Lower,
        definition: "Messages sent that never arrived. What was under way at the deadline is waited for, as long as the path can hold it, and is not lost if it arrives then, though it was not delivered within the deadline; absent if the path can hold it longer than 5 s, and for a reliable transport that the deadline stopped.",
    },
    MetricDefinition {
        name: "message_loss_ratio",
        unit: Unit::Ratio,
        title: "message loss",
        better: Better::Lower,
        definition: "Messages lost over messages sent.",
    },
    MetricDefinition {
        name: "messages_duplicated",
        unit: Unit::Count,
        title: "messages duplicated",
        better: Better::Lower,
        definition: "Copies of messages already delivered.",
    },
    MetricDefinition {
        name: "messages_reordered",
        unit: Unit::Count,
        title: "messages reordered",
        better: Better::Lower,
        definition: "Messages that arrived after one with a higher sequence number (RFC 4737, Type-P-Reordered).",
    },
    MetricDefinition {
        name: "messages_corrupted",
        unit: Unit::Count,
        title: "messages corrupted",
        better: Better::Lower,
        definition: "Messages whose check failed at the receiver: the header is checked whole, the content at the beginning and the end of every piece that arrives.",
    },
    MetricDefinition {
        name: "interarrival_jitter_ns",
        unit: Unit::Nanoseconds,
        title: "interarrival jitter",
        better: Better::Lower,
        definition: "Smoothed interarrival jitter of the messages (RFC 3550, 6.4.1), for transports of messages.",
    },
    MetricDefinition {
        name: "one_way_delay_ns",
        unit: Unit::Nanoseconds,
        title: "one-way delay",
        better: Better::Lower,
        definition: "Median one-way delay of the messages (RFC 7679), only where both ends share one clock.",
    },
    MetricDefinition {
        name: "cpu_sender_ratio",
        unit: Unit::CoreRatio,
        title: "CPU, sender",
        better: Better::Lower,
        definition: "CPU time of the sending process, all threads, user and system, over the transfer time; 100 % is one core.",
    },
    MetricDefinition {
        name: "cpu_sender_user_ratio",
        unit: Unit::CoreRatio,
        title: "CPU, sender, user",
        better: Better::Lower,
        definition: "Of it, user time.",
    },
    MetricDefinition {
        name: "cpu_sender_system_ratio",
        unit: Unit::CoreRatio,
        title: "CPU, sender, system",
        better: Better::Lower,
        definition: "Of it, system time.",
    },
    MetricDefinition {
        name: "cpu_receiver_ratio",
        unit: Unit::CoreRatio,
        title: "CPU, receiver",
        better: Better::Lower,
        definition: "CPU time of the receiving process, all threads, user and system, over the transfer time; 100 % is one core.",
    },
    MetricDefinition {
        name: "cpu_receiver_user_ratio",
        unit: Unit::CoreRatio,
        title: "CPU, receiver, user",
        better: Better::Lower,
        definition: "Of it, user time.",
    },
    MetricDefinition {
        name: "cpu_receiver_system_ratio",
        unit: Unit::CoreRatio,
        title: "CPU, receiver, system",
        better: Better::Lower,
        definition: "Of it, system time.",
    },
    MetricDefinition {
        name: "cpu_host_ratio",
        unit: Unit::Ratio,
        title: "CPU, host",
        better: Better::Lower,
        definition: "Busy time of all cores of the host over the transfer time, the emulator and everything else included; 100 % is the whole host.",
    },
    MetricDefinition {
        name: "cpu_host_softirq_ratio",
        unit: Unit::Ratio,
        title: "CPU, host, softirq",
        better: Better::Lower,
        definition: "Of it, time in softirq.",
    },
    MetricDefinition {
        name: "cpu_path_ratio",
        unit: Unit::CoreRatio,
        title: "CPU, emulator",
        better: Better::Neither,
        definition: "CPU time of the process that forwards the packets over the whole trial, idle probe and set-up included; 100 % is one core. Part of both hosts' network stacks runs on it: what an arriving packet causes, and with TCP the sending that an acknowledgement allows. Charged to no transport.",
    },
    MetricDefinition {
        name: "goodput_per_core_percent_bps",
        unit: Unit::BitsPerSecond,
        title: "goodput per 1 % of a core",
        better: Better::Higher,
        definition: "Goodput over the CPU of both ends' processes in per cent of one core. What the kernel does for them elsewhere, in softirq or on the emulator's time, is not in it, and TCP has more of that than a transport in user space: see the host's and the emulator's CPU.",
    },
    MetricDefinition {
        name: "cpu_per_byte_ns",
        unit: Unit::NanosecondsPerByte,
        title: "CPU per byte",
        better: Better::Lower,
        definition: "CPU time of both ends' processes over delivered bytes; what the kernel does for them elsewhere is not in it.",
    },
    MetricDefinition {
        name: "peak_memory_sender_bytes",
        unit: Unit::Bytes,
        title: "peak memory, sender",
        better: Better::Lower,
        definition: "Largest resident set of the sending process, the part before the trial included.",
    },
    MetricDefinition {
        name: "peak_memory_receiver_bytes",
        unit: Unit::Bytes,
        title: "peak memory, receiver",
        better: Better::Lower,
        definition: "Largest resident set of the receiving process, the part before the trial included.",
    },
    MetricDefinition {
        name: "packets_per_second",
        unit: Unit::PerSecond,
        title: "packets per second",
        better: Better::Neither,
        definition: "IP packets that left the sending host's interface over the transfer time.",
    },
    MetricDefinition {
        name: "packets_sent",
        unit: Unit::Count,
        title: "packets sent",
        better: Better::Neither,
        definition: "IP packets that left the sending host's interface.",
    },
    MetricDefinition {
        name: "packets_received",
        unit: Unit::Count,
        title: "packets received",
        better: Better::Neither,
        definition: "IP packets that the receiving host's interface got.",
    },
    MetricDefinition {
        name: "mean_packet_bytes",
        unit: Unit::Bytes,
        title: "mean packet size",
        better: Better::Neither,
        definition: "Mean size of the IP packets that left the sending host's interface.",
    },
    MetricDefinition {
        name: "acknowledgement_packets",
        unit: Unit::Count,
        title: "packets back",
        better: Better::Neither,
        definition: "IP packets that left the receiving host's interface.",
    },
    MetricDefinition {
        name: "interface_errors",
        unit: Unit::Count,
        title: "interface errors",
        better: Better::Lower,
        definition: "Receive and transmit errors on both hosts' interfaces.",
    },
    MetricDefinition {
        name: "interface_drops",
        unit: Unit::Count,
        title: "interface drops",
        better: Better::Lower,
        definition: "Receive and transmit drops on both hosts' interfaces.",
    },
    MetricDefinition {
        name: "interface_collisions",
        unit: Unit::Count,
        title: "interface collisions",
        better: Better::Lower,
        definition: "Collisions on both hosts' interfaces.",
    },
    MetricDefinition {
        name: "receive_buffer_errors",
        unit: Unit::Count,
        title: "receive buffer errors",
        better: Better::Lower,
        definition: "UDP datagrams that the receiving host dropped because the socket's buffer was full (RcvbufErrors); not loss on the path.",
    },
    MetricDefinition {
        name: "retransmitted_packets",
        unit: Unit::Count,
        title: "retransmissions",
        better: Better::Lower,
        definition: "Segments (TCP) or packets (QUIC: packets declared lost) that the sender had to send again.",
    },
    MetricDefinition {
        name: "retransmit_ratio",
        unit: Unit::Ratio,
        title: "retransmit ratio",
        better: Better::Lower,
        definition: "Retransmissions over packets the transport sent. It is not the path's loss.",
    },
    MetricDefinition {
        name: "congestion_window_mean_bytes",
        unit: Unit::Bytes,
        title: "congestion window, mean",
        better: Better::Neither,
        definition: "Mean of the samples during the transfer.",
    },
    MetricDefinition {
        name: "congestion_window_max_bytes",
        unit: Unit::Bytes,
        title: "congestion window, maximum",
        better: Better::Neither,
        definition: "Maximum of the samples during the transfer.",
    },
    MetricDefinition {
        name: "smoothed_rtt_ns",
        unit: Unit::Nanoseconds,
        title: "smoothed RTT, mean",
        better: Better::Lower,
        definition: "Mean of the sender's smoothed_rtt samples during the transfer (RFC 9002; TCP: tcpi_rtt).",
    },
    MetricDefinition {
        name: "min_rtt_ns",
        unit: Unit::Nanoseconds,
        title: "minimum RTT",
        better: Better::Lower,
        definition: "The sender's own min_rtt at the end of the transfer.",
    },
    MetricDefinition {
        name: "bytes_in_flight_max_bytes",
        unit: Unit::Bytes,
        title: "bytes in flight, maximum",
        better: Better::Neither,
        definition: "Maximum of the samples during the transfer.",
    },
    MetricDefinition {
        name: "path_packets",
        unit: Unit::Count,
        title: "packets into the path",
        better: Better::Neither,
        definition: "IP packets that the emulated path was offered, sender to receiver.",
    },
    MetricDefinition {
        name: "path_loss_drops",
        unit: Unit::Count,
        title: "path drops: random loss",
        better: Better::Neither,
        definition: "IP packets that the path lost at random, sender to receiver.",
    },
    MetricDefinition {
        name: "path_queue_drops",
        unit: Unit::Count,
        title: "path drops: queue full",
        better: Better::Neither,
        definition: "IP packets that the bottleneck's full queue dropped, sender to receiver.",
    },
    MetricDefinition {
        name: "path_other_drops",
        unit: Unit::Count,
        title: "path drops: other",
        better: Better::Neither,
        definition: "IP packets dropped for another cause (larger than the MTU, refused by the receiving interface, or before the emulator could take them because it was overrun), sender to receiver.",
    },
    MetricDefinition {
        name: "path_loss_ratio",
        unit: Unit::Ratio,
        title: "path loss",
        better: Better::Neither,
        definition: "Random loss over packets into the path, sender to receiver.",
    },
    MetricDefinition {
        name: "path_reverse_packets",
        unit: Unit::Count,
        title: "packets into the path, reverse",
        better: Better::Neither,
        definition: "IP packets that the emulated path was offered, receiver to sender.",
    },
    MetricDefinition {
        name: "path_reverse_loss_drops",
        unit: Unit::Count,
        title: "path drops, reverse: random loss",
        better: Better::Neither,
        definition: "IP packets that the path lost at random, receiver to sender.",
    },
    MetricDefinition {
        name: "path_reverse_queue_drops",
        unit: Unit::Count,
        title: "path drops, reverse: queue full",
        better: Better::Neither,
        definition: "IP packets that the bottleneck's full queue dropped, receiver to sender.",
    },
    MetricDefinition {
        name: "path_queue_max_bytes",
        unit: Unit::Bytes,
        title: "path queue, maximum",
        better: Better::Neither,
        definition: "Longest that the bottleneck's queue was, sender to receiver.",
    },
];

/// A quantity that is sampled over time during a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SeriesDefinition {
    /// Name in every file.
    pub name: &'static str,
    /// Unit of the stored value.
    pub unit: Unit,
    /// Short title for axes.
    pub title: &'static str,
    /// What is sampled.
    pub definition: &'static str,
}

/// Every series. A sample at time `t` describes the interval that ends at `t`, or, for a level
/// (window, RTT, memory), the value at `t`.
pub const SERIES: &[SeriesDefinition] = &[
    SeriesDefinition {
        name: "goodput_bps",
        unit: Unit::BitsPerSecond,
        title: "goodput",
        definition: "Application bits delivered to the receiver in the interval over its length.",
    },
    SeriesDefinition {
        name: "round_trip_delay_ns",
        unit: Unit::Nanoseconds,
        title: "round-trip delay",
        definition: "Delay of one probe message under load, at its scheduled departure.",
    },
    SeriesDefinition {
        name: "cpu_ratio",
        unit: Unit::CoreRatio,
        title: "CPU of the process",
        definition: "CPU time of the end's process in the interval over its length; 100 % is one core.",
    },
    SeriesDefinition {
        name: "cpu_host_ratio",
        unit: Unit::Ratio,
        title: "CPU of the host",
        definition: "Busy time of all cores of the host in the interval over its length; 100 % is the whole host.",
    },
    SeriesDefinition {
        name: "cpu_host_softirq_ratio",
        unit: Unit::Ratio,
        title: "CPU of the host in softirq",
        definition: "Softirq time of all cores of the host in the interval over its length.",
    },
    SeriesDefinition {
        name: "memory_bytes",
        unit: Unit::Bytes,
        title: "resident memory",
        definition: "Resident set of the end's process.",
    },
    SeriesDefinition {
        name: "packets_sent_per_second",
        unit: Unit::PerSecond,
        title: "packets sent per second",
        definition: "IP packets that left the end's interface in the interval over its length.",
    },
    SeriesDefinition {
        name: "packets_received_per_second",
        unit: Unit::PerSecond,
        title: "packets received per second",
        definition: "IP packets that the end's interface got in the interval over its length.",
    },
    SeriesDefinition {
        name: "mean_packet_bytes",
        unit: Unit::Bytes,
        title: "mean packet size",
        definition: "Mean size of the IP packets that left the end's interface in the interval.",
    },
    SeriesDefinition {
        name: "interface_drops",
        unit: Unit::Count,
        title: "interface drops",
        definition: "Receive and transmit drops in the interval.",
    },
    SeriesDefinition {
        name: "interface_errors",
        unit: Unit::Count,
        title: "interface errors",
        definition: "Receive and transmit errors in the interval.",
    },
    SeriesDefinition {
        name: "retransmitted_packets",
        unit: Unit::Count,
        title: "retransmissions",
        definition: "Retransmissions in the interval.",
    },
    SeriesDefinition {
        name: "congestion_window_bytes",
        unit: Unit::Bytes,
        title: "congestion window",
        definition: "The sender's congestion window.",
    },
    SeriesDefinition {
        name: "smoothed_rtt_ns",
        unit: Unit::Nanoseconds,
        title: "smoothed RTT",
        definition: "The sender's smoothed_rtt.",
    },
    SeriesDefinition {
        name: "bytes_in_flight_bytes",
        unit: Unit::Bytes,
        title: "bytes in flight",
        definition: "Bytes sent and not yet acknowledged or declared lost.",
    },
];

/// Looks a series up by its name.
#[must_use]
pub fn find_series(name: &str) -> Option<&'static SeriesDefinition> {
    SERIES.iter().find(|series| series.name == name)
}
