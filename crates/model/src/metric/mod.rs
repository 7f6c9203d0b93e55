//! The metrics: one name, one unit, one definition for each.
//!
//! A metric that is not in this table is not written to any file. Adding one takes an entry here and the
//! code that measures it, under its constant in [`id`]. The entry says, too, where reports show it.

/// Defines metrics, one entry each: the constant with its name, the name, its unit, direction and,
/// unless it is [`Combination::Sender`], its rule of combination; title; where reports show it beside the tables of all
/// metrics, its rank among those and its [`Place`]s; definition.
macro_rules! metrics {
    ($($id:ident = $name:literal [$unit:ident, $better:ident $(, $rule:ident)?] $title:literal
        $({$rank:literal: $($place:ident $(($($of_place:expr),+))?),+})?: $definition:literal;)*) => {
        /// Names of these metrics.
        pub mod id {
            $(#[doc = $definition] pub const $id: &str = $name;)*
        }

        pub(super) const METRICS: &[super::MetricDefinition] = &[$(super::MetricDefinition {
            name: $name,
            unit: super::Unit::$unit,
            title: $title,
            better: super::Better::$better,
            combination: [$(super::Combination::$rule,)? super::Combination::Sender][0],
            rank: [$($rank,)? u8::MAX][0],
            places: &[$($(super::Place::$place $(($($of_place),+))?),+)?],
            definition: $definition,
        }),*];
    };
}
use metrics;

mod families;
mod hosts;
mod network;
mod packet_counter;
mod places;
mod series;
mod work;

/// Names of the metrics as constants.
pub mod id {
    pub use super::{hosts::id::*, network::id::*, packet_counter::id::*, work::id::*};
}

use serde::Serialize;

use crate::{
    named::{Named as _, named},
    units::{BitRate, Bytes, Ratio, UnitError, parse_duration},
};
pub use families::{DelayMetrics, EndMetrics};
pub use packet_counter::{Fate, PacketCounter, PacketCounters};
pub use places::{Place, is_in, names_in, shown_in};
pub use series::{SERIES, SeriesDefinition, find_series, series_id};

/// Unit of a stored value. Names carry it (`_ns`, `_bytes`, `_bps`, `_ratio`); tables show it
/// scaled (ms, MB, Mbit/s, %).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bits per second.
    BitsPerSecond,
    /// Nanoseconds.
    Nanoseconds,
    /// Nanoseconds per byte.
    NanosecondsPerByte,
    /// Bytes.
    Bytes,
    /// Events per second.
    PerSecond,
    /// Dimensionless count.
    Count,
    /// Part of a whole, 0 to 1.
    Ratio,
    /// CPU time over elapsed time; 1 is one whole core, more is several.
    CoreRatio,
}

named!(Unit:
    "bit/s" => BitsPerSecond, "ns" => Nanoseconds, "ns/B" => NanosecondsPerByte, "B" => Bytes,
    "1/s" => PerSecond, "1" => Count, "ratio" => Ratio, "cores" => CoreRatio);

impl Unit {
    /// Returns the name of the unit in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.as_str()
    }

    /// Whether a value from outside can be one of this unit: finite, not negative, a part of a whole at most 1, a count
    /// whole and exact.
    #[must_use]
    pub fn admits(self, value: f64) -> bool {
        // From here on the next whole number has no value of its own.
        const LARGEST_EXACT: f64 = (1_u64 << f64::MANTISSA_DIGITS) as f64;
        let largest = match self {
            Self::Ratio => 1.0,
            _ => LARGEST_EXACT,
        };
        (0.0..=largest).contains(&value) && (self != Self::Count || value.fract() == 0.0)
    }

    /// Reads a value as users write it, with a unit where this one has prefixes, and converts it to this unit.
    pub(crate) fn read(self, text: &str) -> Result<f64, UnitError> {
        match self {
            Self::BitsPerSecond => text.parse().map(|BitRate(rate)| rate as f64),
            Self::Nanoseconds => parse_duration(text).map(|time| time.as_nanos() as f64),
            Self::Bytes => text.parse().map(|Bytes(size)| size as f64),
            Self::Ratio => text.parse().map(|Ratio(ratio)| ratio),
            Self::CoreRatio | Self::Count | Self::PerSecond | Self::NanosecondsPerByte => {
                let number = text.trim().parse().ok();
                number
                    .filter(|value: &f64| value.is_finite())
                    .ok_or_else(|| {
                        UnitError::new(
                            format!("`{text}` is not a number"),
                            "write a number in the metric's own unit",
                        )
                    })
            }
        }
    }
}

/// Direction in which a metric improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Higher values are better.
    Higher,
    /// Lower values are better.
    Lower,
    /// Neither direction is better in itself.
    Neither,
}

named!(Better: "higher" => Higher, "lower" => Lower, "neither" => Neither);

/// Rule that makes the value of a trial from the values that its two ends report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Combination {
    /// Value of the sender; that of the receiver where the sender has none.
    Sender,
    /// Value of the receiver; that of the sender where the receiver has none.
    Receiver,
    /// Sum over the ends that have a value.
    Sum,
    /// Sum of both ends; absent where one has no value, since that is not zero.
    SumOfBoth,
    /// [`Self::Sum`] where both ends send, else [`Self::Sender`].
    SenderOrSum,
    /// [`Self::Sum`] where both ends send, else [`Self::Receiver`].
    ReceiverOrSum,
    /// Minimum value of the ends where both send, else [`Self::Sender`].
    SenderOrLeast,
}

impl Combination {
    /// Combines the values of both ends; `both_send` is whether data goes in both directions.
    #[must_use]
    pub fn combine(
        self,
        sender: Option<f64>,
        receiver: Option<f64>,
        both_send: bool,
    ) -> Option<f64> {
        match self {
            Self::SenderOrSum | Self::SenderOrLeast if !both_send => sender.or(receiver),
            Self::ReceiverOrSum if !both_send => receiver.or(sender),
            Self::Sender => sender.or(receiver),
            Self::Receiver => receiver.or(sender),
            Self::Sum | Self::SenderOrSum | Self::ReceiverOrSum => match (sender, receiver) {
                (Some(sender), Some(receiver)) => Some(sender + receiver),
                _ => sender.or(receiver),
            },
            Self::SumOfBoth => Some(sender? + receiver?),
            Self::SenderOrLeast => sender.into_iter().chain(receiver).reduce(f64::min),
        }
    }
}

/// Definition of one metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MetricDefinition {
    /// Name in all files.
    pub name: &'static str,
    /// Unit of the stored value.
    pub unit: Unit,
    /// Short title for tables and axes.
    pub title: &'static str,
    /// Direction in which the metric improves.
    pub better: Better,
    /// Rule for the values of both ends.
    #[serde(skip)]
    pub combination: Combination,
    /// Rank among the metrics that reports show in places of their own.
    #[serde(skip)]
    pub rank: u8,
    /// Places in which reports show it, beside the tables of all metrics.
    #[serde(skip)]
    pub places: &'static [Place],
    /// Quantity that is measured, and between which events, with its source.
    pub definition: &'static str,
}

/// Looks a metric up by its name.
#[must_use]
pub fn find(name: &str) -> Option<&'static MetricDefinition> {
    METRICS.iter().find(|metric| metric.name == name)
}

/// Tables of metrics, in the order in which files and reports show them.
const TABLES: [&[MetricDefinition]; 4] = [
    work::METRICS,
    hosts::METRICS,
    network::METRICS,
    packet_counter::METRICS,
];

const COUNT: usize = TABLES[0].len() + TABLES[1].len() + TABLES[2].len() + TABLES[3].len();

/// All metrics of a trial, in the order in which tables show them.
pub const METRICS: &[MetricDefinition] = &all();

const fn all() -> [MetricDefinition; COUNT] {
    let mut all = [TABLES[0][0]; COUNT];
    let (mut table, mut filled) = (0, 0);
    while table < TABLES.len() {
        let mut index = 0;
        while index < TABLES[table].len() {
            all[filled] = TABLES[table][index];
            filled += 1;
            index += 1;
        }
        table += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, time::Duration};

    use super::*;
    use crate::{
        Bytes,
        workload::{Arrivals, BulkOptions, Handshake, Pattern, Spread, WorkloadKind},
    };

    #[test]
    fn every_metric_has_one_definition_and_carries_its_unit_in_its_name() {
        let names: BTreeSet<_> = METRICS.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), METRICS.len(), "a name is there twice");
        for metric in METRICS {
            let suffix = match metric.unit {
                Unit::BitsPerSecond => "_bps",
                Unit::Nanoseconds | Unit::NanosecondsPerByte => "_ns",
                Unit::Bytes => "",
                Unit::PerSecond => "_per_second",
                Unit::Ratio | Unit::CoreRatio => "_ratio",
                Unit::Count => "",
            };
            assert!(metric.name.ends_with(suffix), "{}", metric.name);
            assert!(metric.definition.ends_with('.'), "{}", metric.name);
        }
    }

    #[test]
    fn a_sum_of_both_ends_is_absent_where_one_does_not_know() {
        let of = |sender, receiver| Combination::SumOfBoth.combine(sender, receiver, false);
        assert_eq!(of(Some(2.0), Some(3.0)), Some(5.0));
        assert_eq!(of(Some(2.0), None), None);
        assert_eq!(of(None, Some(3.0)), None);
    }

    /// A stem with several statistics, or a series, that is a metric without one would be read as either of them.
    #[test]
    fn every_metric_of_a_distribution_names_its_statistic() {
        const STATISTICS: [&str; 6] = ["_mean", "_p50", "_p95", "_p99", "_max", "_last"];
        let stem = |name: &'static str| -> Option<&'static str> {
            let (base, _) = name.rsplit_once('_')?;
            STATISTICS.iter().find_map(|it| base.strip_suffix(it))
        };
        let times = METRICS.iter().filter(|it| it.name.ends_with("_ns"));
        let stems: BTreeSet<_> = times.clone().filter_map(|it| stem(it.name)).collect();
        let delays = SERIES.iter().map(|series| series.name);
        let delays = delays.filter(|name| name.ends_with("_ns"));
        let bare = times.map(|metric| metric.name).filter(|name| {
            let (base, _) = name.rsplit_once('_').unwrap_or((name, ""));
            stems.contains(base) || delays.clone().any(|series| series == *name)
        });
        assert_eq!(bare.collect::<Vec<_>>(), Vec::<&str>::new());
    }

    #[test]
    fn a_value_from_outside_has_bounds() {
        for (unit, value, is_admitted) in [
            (Unit::Ratio, 0.0, true),
            (Unit::Ratio, 1.0, true),
            (Unit::Ratio, 1.001, false),
            (Unit::Ratio, 1e308, false),
            (Unit::Count, 3.0, true),
            (Unit::Count, 3.5, false),
            (Unit::Count, -1.0, false),
            (Unit::Count, 1e300, false),
            (Unit::Bytes, f64::INFINITY, false),
            (Unit::Bytes, 1460.5, true),
            (Unit::Nanoseconds, f64::NAN, false),
            (Unit::Nanoseconds, 1e300, false),
        ] {
            assert_eq!(unit.admits(value), is_admitted, "{value} {}", unit.name());
        }
    }

    /// An end and the path count packets over different times.
    #[test]
    fn every_count_of_packets_names_its_window() {
        let of_the_path = METRICS.iter().filter(|m| m.name.starts_with("path_"));
        for metric in of_the_path {
            assert!(metric.definition.contains("whole trial"), "{}", metric.name);
        }
        for name in [
            "packets_per_second",
            "packets_sent",
            "packets_received",
            "mean_packet_bytes",
            "acknowledgement_packets",
            "interface_errors",
            "interface_drops",
            "interface_collisions",
            "receive_buffer_errors",
            "received_ect_packets",
        ] {
            let definition = find(name).expect("a metric").definition;
            let is_named = definition.contains("window") || definition.contains("`packets_sent`");
            assert!(is_named, "{name}");
        }
    }

    #[test]
    fn primary_metrics_are_defined() {
        let (size, message) = (Bytes(1), Bytes(1));
        let kinds = [
            WorkloadKind::Bulk {
                amount: size.into(),
                message,
                pattern: Pattern::Data,
                options: BulkOptions::default(),
            },
            WorkloadKind::StopAndWait {
                size,
                message,
                pattern: Pattern::Data,
                timeout: Duration::from_secs(1),
            },
            WorkloadKind::ShortConnections {
                connections: 1,
                handshake: Handshake::Full,
                request: size,
                response: size,
            },
            WorkloadKind::MultiStream {
                messages: 1,
                message,
                messages_per_second: 1.0,
                streams: 1,
                spread: Spread::Streams,
            },
        ];
        let arrivals = [
            Arrivals::Open {
                requests_per_second: 1.0,
            },
            Arrivals::Closed { outstanding: 1 },
        ];
        let exchanges = arrivals.map(|arrivals| WorkloadKind::RequestResponse {
            requests: 1,
            request: size,
            response: size,
            arrivals,
        });
        for kind in kinds.iter().chain(&exchanges) {
            let metric = find(kind.primary_metric()).expect("a metric of the table");
            assert_ne!(metric.better, Better::Neither, "{}", metric.name);
        }
    }
}
