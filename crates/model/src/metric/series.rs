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

/// Defines series, one entry each: the constant with its name, the name, its unit; title;
/// definition.
macro_rules! series {
    ($($id:ident = $name:literal [$unit:ident] $title:literal: $definition:literal;)*) => {
        /// Names of the series as constants.
        pub mod series_id {
            $(#[doc = $definition] pub const $id: &str = $name;)*
        }

        /// All series. A sample at time `t` describes the interval that ends at `t`, or, for a level
        /// (window, RTT, memory), the value at `t`.
        pub const SERIES: &[SeriesDefinition] = &[$(SeriesDefinition {
            name: $name,
            unit: Unit::$unit,
            title: $title,
            definition: $definition,
        }),*];
    };
}

series! {
    GOODPUT_BPS = "goodput_bps" [BitsPerSecond] "goodput":
        "Application bits delivered to the receiver in the interval over its length. Transports that deliver in order hold back what arrives after a lost packet, and deliver all of it at once when that has been sent again: samples are then zero, and after that above the path's rate. What arrives is received_bps.";
    RECEIVED_BPS = "received_bps" [BitsPerSecond] "bits received":
        "Bits of IP packets, headers included, that the end's interface got in the interval over its length: retransmissions, acknowledgments and probes too. Where offloads are on, headers are counted once for each packet that the interface hands over.";
    ROUND_TRIP_DELAY_NS = "round_trip_delay_ns" [Nanoseconds] "round-trip delay":
        "Delay of one probe message under load, at its scheduled departure, which lies in the time of goodput (see `round_trip_delay_mean_ns`).";
    STREAM_ROUND_TRIP_DELAY_NS = "stream_round_trip_delay_ns" [Nanoseconds] "round-trip delay on a stream":
        "The same on a stream of the transfer's own connection.";
    CPU_RATIO = "cpu_ratio" [CoreRatio] "CPU of the process":
        "CPU time of the end's process in the interval over its length; 100 % is one core.";
    CPU_HOST_RATIO = "cpu_host_ratio" [Ratio] "CPU of the host":
        "Time of all cores of the host that was not idle in the interval over its length; 100 % is the whole host.";
    CPU_HOST_SOFTIRQ_RATIO = "cpu_host_softirq_ratio" [Ratio] "CPU of the host in softirq":
        "Softirq time of all cores of the host in the interval over its length, by the kernel's ticks, which miss much of what is short.";
    MEMORY_BYTES = "memory_bytes" [Bytes] "resident memory":
        "Resident set of the end's process.";
    PACKETS_SENT_PER_SECOND = "packets_sent_per_second" [PerSecond] "packets sent per second":
        "IP packets that left the end's interface in the interval over its length.";
    PACKETS_RECEIVED_PER_SECOND = "packets_received_per_second" [PerSecond] "packets received per second":
        "IP packets that the end's interface got in the interval over its length. Segments that the emulator, when it was behind, handed over together are one.";
    MEAN_PACKET_BYTES = "mean_packet_bytes" [Bytes] "mean packet size":
        "Mean size of the IP packets that left the end's interface in the interval.";
    INTERFACE_DROPS = "interface_drops" [Count] "interface drops":
        "Receive and transmit drops in the interval.";
    INTERFACE_ERRORS = "interface_errors" [Count] "interface errors":
        "Receive and transmit errors in the interval.";
    INTERFACE_COLLISIONS = "interface_collisions" [Count] "interface collisions":
        "Collisions in the interval.";
    RETRANSMITTED_PACKETS = "retransmitted_packets" [Count] "retransmissions":
        "Retransmissions in the interval.";
    CONGESTION_WINDOW_BYTES = "congestion_window_bytes" [Bytes] "congestion window":
        "The sender's congestion window; of several connections or subflows their sum.";
    SMOOTHED_RTT_NS = "smoothed_rtt_ns" [Nanoseconds] "smoothed RTT":
        "The sender's smoothed_rtt; of several connections or subflows the smallest.";
    BYTES_IN_FLIGHT_BYTES = "bytes_in_flight_bytes" [Bytes] "bytes in flight":
        "Bytes sent and not yet acknowledged or declared lost.";
    STEP_GOODPUT_BPS = "step_goodput_bps" [BitsPerSecond] "goodput in a step":
        "Goodput from a step of the path's schedule to the next one, or to the end of the transfer, at the time of the step; the first is that before the first step. Means of the samples of goodput_bps.";
    GOODPUT_SHARE_RATIO = "goodput_share_ratio" [Ratio] "share of the goodput":
        "Of a flow of a competition: bytes delivered in the second over those of all flows that sent during the whole of it.";
    FAIRNESS_RATIO = "fairness_ratio" [Ratio] "Jain's fairness index":
        "Of the flows of a competition that sent during the whole second: see the metric `fairness_ratio`. With the first flow's trial.";
    CONVERGENCE_TIME_NS = "convergence_time_ns" [Nanoseconds] "convergence time":
        "After each start and each end of a flow of a competition, at the time of that: see the metric `convergence_time_last_ns`. Changes after which the flows did not converge are not in it. With the first flow's trial.";
    SETTLING_TIME_NS = "settling_time_ns" [Nanoseconds] "settling time after a step":
        "Settling time of the bits received after each step of the path's schedule, at the time of the step; steps after which they did not settle are not in it. See `settling_time_mean_ns`.";
}

/// Looks a series up by its name.
#[must_use]
pub fn find_series(name: &str) -> Option<&'static SeriesDefinition> {
    SERIES.iter().find(|series| series.name == name)
}
