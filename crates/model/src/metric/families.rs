//! Names of metrics that belong together: of one end, of one distribution of delays.

/// Defines a struct of metric names and two constants of it, such as one for each end. The name in a field is composed
/// of the field's first part, the instance's part and the field's rest: `cpu_` + `sender` + `_ratio`.
macro_rules! family {
    ($(#[$meaning:meta])* $type:ident {
        $(#[$of_one:meta])* $one:ident = $in_one:literal;
        $(#[$of_other:meta])* $other:ident = $in_other:literal;
        $($(#[$of_field:meta])* $field:ident: $first:literal .. $rest:literal;)*
    }) => {
        $(#[$meaning])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $type {
            $($(#[$of_field])* pub $field: &'static str,)*
        }

        impl $type {
            $(#[$of_one])*
            pub const $one: Self = Self { $($field: concat!($first, $in_one, $rest)),* };
            $(#[$of_other])*
            pub const $other: Self = Self { $($field: concat!($first, $in_other, $rest)),* };
        }
    };
}

family! {
    /// Names of the metrics of one end's process.
    EndMetrics {
        /// Metrics of the sender.
        SENDER = "sender";
        /// Metrics of the receiver.
        RECEIVER = "receiver";
        /// CPU time of the process, over elapsed time.
        cpu: "cpu_" .. "_ratio";
        /// User time of it.
        cpu_user: "cpu_" .. "_user_ratio";
        /// System time of it.
        cpu_system: "cpu_" .. "_system_ratio";
        /// Largest resident set, in bytes.
        peak_memory: "peak_memory_" .. "_bytes";
    }
}

/// Names of the metrics of one distribution of delays, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelayMetrics {
    /// The distribution itself: the histogram, and the series if there is one.
    pub distribution: &'static str,
    /// Mean.
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
    /// Returns the names of all metrics, that of the mean first.
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
            /// All families.
            pub const ALL: &'static [Self] = &[$(Self::$family),*];

            $($(#[$meaning])* pub const $family: Self = Self {
                distribution: concat!($beginning, "_ns"),
                mean: concat!($beginning, "_mean_ns"),
                p50: concat!($beginning, "_p50_ns"),
                p95: concat!($beginning, "_p95_ns"),
                p99: concat!($beginning, "_p99_ns"),
                max: [$(Some(concat!($beginning, $maximum)),)? None][0],
            };)*
        }
    };
}

delays! {
    /// Probe messages before the transfer.
    IDLE_ROUND_TRIP = "round_trip_delay_idle" and "_max_ns";
    /// Probe messages on a connection of their own.
    ROUND_TRIP = "round_trip_delay" and "_max_ns";
    /// Probe messages on a stream of the transfer's connection.
    STREAM_ROUND_TRIP = "stream_round_trip_delay" and "_max_ns";
    /// Messages, or requests and their answers.
    MESSAGE = "message_delay" and "_max_ns";
    /// Messages from one host to the other.
    ONE_WAY = "one_way_delay" and "_max_ns";
    /// Set-up of connections.
    SET_UP = "set_up_time";
    /// Connections, to the first byte of the answer.
    FIRST_BYTE = "time_to_first_byte" and "_max_ns";
    /// Connections, to the last byte of the answer.
    COMPLETION = "time_to_completion" and "_max_ns";
    /// Measured steps of a script.
    STEP = "step_time" and "_max_ns";
}

#[cfg(test)]
mod tests {
    use super::{
        super::{PacketCounter, id},
        *,
    };

    #[test]
    fn every_name_of_a_family_is_that_of_a_metric() {
        let ends = [EndMetrics::SENDER, EndMetrics::RECEIVER];
        let ends = ends.map(|it| [it.cpu, it.cpu_user, it.cpu_system, it.peak_memory]);
        let counters = PacketCounter::ALL
            .iter()
            .filter_map(|it| it.metrics())
            .flatten();
        let delays = DelayMetrics::ALL.iter().flat_map(DelayMetrics::names);
        let ends = ends.iter().flatten().copied();
        for name in delays
            .chain(ends)
            .chain(counters)
            .chain([id::PATH_QUEUE_DROPS])
        {
            assert!(super::super::find(name).is_some(), "{name}");
        }
    }
}
