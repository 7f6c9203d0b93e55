//! Series: quantities sampled over time.

use serde::Serialize;

use super::Unit;

/// Definition of a quantity that is sampled over time during a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SeriesDefinition {
    /// Name in all files.
    pub name: &'static str,
    /// Unit of the stored value.
    pub unit: Unit,
    /// Short title for axes.
    pub title: &'static str,
    /// Quantity that is sampled.
    pub definition: &'static str,
}

/// All series. A sample at time `t` describes the interval that ends at `t`, or, for a level
/// (window, RTT, memory), the value at `t`.
pub const SERIES: &[SeriesDefinition] = &[
    SeriesDefinition {
        name: "goodput_bps",
        unit: Unit::BitsPerSecond,
        title: "goodput",
        definition: "Application bits delivered to the receiver in the interval over its length. Transports that deliver in order hold back what arrives after a lost packet, and deliver all of it at once when that has been sent again: samples are then zero, and after that above the path's rate. What arrives is received_bps.",
    },
    SeriesDefinition {
        name: "received_bps",
        unit: Unit::BitsPerSecond,
        title: "bits received",
        definition: "Bits of IP packets, headers included, that the end's interface got in the interval over its length: retransmissions, acknowledgments and probes too. Where offloads are on, headers are counted once for each packet that the interface hands over.",
    },
    SeriesDefinition {
        name: "round_trip_delay_ns",
        unit: Unit::Nanoseconds,
        title: "round-trip delay",
        definition: "Delay of one probe message under load, at its scheduled departure, which lies in the transfer (see the metric of this name).",
    },
    SeriesDefinition {
        name: "stream_round_trip_delay_ns",
        unit: Unit::Nanoseconds,
        title: "round-trip delay on a stream",
        definition: "The same on a stream of the transfer's own connection.",
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
        definition: "Time of all cores of the host that was not idle in the interval over its length; 100 % is the whole host.",
    },
    SeriesDefinition {
        name: "cpu_host_softirq_ratio",
        unit: Unit::Ratio,
        title: "CPU of the host in softirq",
        definition: "Softirq time of all cores of the host in the interval over its length, by the kernel's ticks, which miss much of what is short.",
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
    SeriesDefinition {
        name: "settling_time_ns",
        unit: Unit::Nanoseconds,
        title: "settling time after a step",
        definition: "Settling time of the bits received after each step of the path's schedule, at the time of the step; steps after which they did not settle are not in it. See the metric of this name.",
    },
];

/// Looks a series up by its name.
#[must_use]
pub fn find_series(name: &str) -> Option<&'static SeriesDefinition> {
    SERIES.iter().find(|series| series.name == name)
}
