//! Names of metrics that belong together: of one end, of one direction of the path, of one
//! distribution of delays.

use super::id;

/// Names of the metrics of one end's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndMetrics {
    /// CPU time of the process, over elapsed time.
    pub cpu: &'static str,
    /// User time of it.
    pub cpu_user: &'static str,
    /// System time of it.
    pub cpu_system: &'static str,
    /// Largest resident set, in bytes.
    pub peak_memory: &'static str,
}

impl EndMetrics {
    /// Metrics of the sender.
    pub const SENDER: Self = Self {
        cpu: id::CPU_SENDER_RATIO,
        cpu_user: id::CPU_SENDER_USER_RATIO,
        cpu_system: id::CPU_SENDER_SYSTEM_RATIO,
        peak_memory: id::PEAK_MEMORY_SENDER_BYTES,
    };

    /// Metrics of the receiver.
    pub const RECEIVER: Self = Self {
        cpu: id::CPU_RECEIVER_RATIO,
        cpu_user: id::CPU_RECEIVER_USER_RATIO,
        cpu_system: id::CPU_RECEIVER_SYSTEM_RATIO,
        peak_memory: id::PEAK_MEMORY_RECEIVER_BYTES,
    };
}

/// Names of the metrics of one direction of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkMetrics {
    /// Packets offered.
    pub packets: &'static str,
    /// Packets dropped at random or by the full queue, where the two cannot be told apart.
    pub drops: &'static str,
    /// Packets dropped at random, each on its own.
    pub loss_drops: &'static str,
    /// Packets dropped by the full queue.
    pub queue_drops: &'static str,
    /// Packets dropped in bursts.
    pub burst_drops: &'static str,
    /// Packets dropped because the condition names them.
    pub list_drops: &'static str,
    /// Packets dropped by CoDel.
    pub codel_drops: &'static str,
    /// Packets of which the path flipped a bit.
    pub corrupted: &'static str,
    /// Packets delivered twice.
    pub duplicated: &'static str,
    /// Packets that skipped the propagation delay.
    pub reordered: &'static str,
}

impl LinkMetrics {
    /// Metrics of the direction from the sender to the receiver.
    pub const FORWARD: Self = Self {
        packets: id::PATH_PACKETS,
        drops: id::PATH_DROPS,
        loss_drops: id::PATH_LOSS_DROPS,
        queue_drops: id::PATH_QUEUE_DROPS,
        burst_drops: id::PATH_BURST_DROPS,
        list_drops: id::PATH_LIST_DROPS,
        codel_drops: id::PATH_CODEL_DROPS,
        corrupted: id::PATH_CORRUPTED,
        duplicated: id::PATH_DUPLICATED,
        reordered: id::PATH_REORDERED,
    };

    /// Metrics of the direction from the receiver to the sender.
    pub const REVERSE: Self = Self {
        packets: id::PATH_REVERSE_PACKETS,
        drops: id::PATH_REVERSE_DROPS,
        loss_drops: id::PATH_REVERSE_LOSS_DROPS,
        queue_drops: id::PATH_REVERSE_QUEUE_DROPS,
        burst_drops: id::PATH_REVERSE_BURST_DROPS,
        list_drops: id::PATH_REVERSE_LIST_DROPS,
        codel_drops: id::PATH_REVERSE_CODEL_DROPS,
        corrupted: id::PATH_REVERSE_CORRUPTED,
        duplicated: id::PATH_REVERSE_DUPLICATED,
        reordered: id::PATH_REVERSE_REORDERED,
    };
}

/// Names of the metrics of one distribution of delays, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelayMetrics {
    /// Mean; also the name of the histogram.
    pub mean: &'static str,
    /// Median.
    pub p50: &'static str,
    /// 95th percentile.
    pub p95: &'static str,
    /// 99th percentile.
    pub p99: &'static str,
    /// Maximum, if it is a metric.
    pub max: Option<&'static str>,
}

impl DelayMetrics {
    /// Returns all names, that of the mean first.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        let all = [
            Some(self.mean),
            Some(self.p50),
            Some(self.p95),
            Some(self.p99),
            self.max,
        ];
        all.into_iter().flatten()
    }
}

/// Defines families of delays, one entry each: the constant, the beginning of the names, and the end of that of the
/// maximum if it is a metric.
macro_rules! delays {
    ($($(#[$meaning:meta])* $family:ident = $beginning:literal $(and $maximum:literal)?;)*) => {
        impl DelayMetrics {
            $($(#[$meaning])* pub const $family: Self = Self {
                mean: concat!($beginning, "_ns"),
                p50: concat!($beginning, "_p50_ns"),
                p95: concat!($beginning, "_p95_ns"),
                p99: concat!($beginning, "_p99_ns"),
                max: [$(Some(concat!($beginning, $maximum)),)? None][0],
            };)*
        }
    };
}

delays! {
    /// Probe messages on a connection of their own.
    ROUND_TRIP = "round_trip_delay" and "_max_ns";
    /// Probe messages on a stream of the transfer's connection.
    STREAM_ROUND_TRIP = "stream_round_trip_delay" and "_max_ns";
    /// Messages, or requests and their answers.
    MESSAGE = "message_delay" and "_max_ns";
    /// Set-up of connections.
    SET_UP = "set_up_time";
    /// Connections, to the first byte of the answer.
    FIRST_BYTE = "time_to_first_byte" and "_max_ns";
    /// Connections, to the last byte of the answer.
    COMPLETION = "time_to_completion" and "_max_ns";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_a_family_is_that_of_a_metric() {
        let families = [
            DelayMetrics::ROUND_TRIP,
            DelayMetrics::STREAM_ROUND_TRIP,
            DelayMetrics::MESSAGE,
            DelayMetrics::SET_UP,
            DelayMetrics::FIRST_BYTE,
            DelayMetrics::COMPLETION,
        ];
        for name in families.iter().flat_map(DelayMetrics::names) {
            assert!(super::super::find(name).is_some(), "{name}");
        }
    }
}
