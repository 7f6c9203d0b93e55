//! Formulas whose lines are drawn beside the measured values of a sweep.

use serde::{Deserialize, Serialize};

use super::{error::Result, section::Section};
use crate::{
    condition::Condition,
    metric::id,
    workload::{Direction, Workload, WorkloadKind},
};

/// Line of a formula in the figure of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Label of the line.
    pub label: String,
    /// The formula.
    #[serde(flatten)]
    pub formula: Formula,
}

/// Formula of a metric by the path and the work.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "formula", rename_all = "kebab-case")]
pub enum Formula {
    /// Goodput of a long transfer whose window follows random losses: `constant` × MSS / (R √p).
    ///
    /// Source: Mathis, Semke, Mahdavi and Ott (1997), <https://doi.org/10.1145/263932.264023>.
    Mathis {
        /// Constant, which depends on losses and acknowledgements.
        constant: f64,
    },
    /// Transfer time of a size B: `round_trips` × R + B / C, with the link rate C.
    RoundTrips {
        /// Round trips before and after the data.
        round_trips: f64,
    },
    /// Share of the goodput that flows of BBR, version 1, have beside ones that fill the queue: (1 − p) (1 − (Q/C + 0.2 s + R)
    /// / 10 s), where p = 1/2 − R C / (2 Q) − 4 N / (Q / 1500 B), at least 0, is the others' share.
    ///
    /// Source: Ware, Mukerjee, Seshan and Sherry (2019), <https://doi.org/10.1145/3355369.3355604>.
    Ware {
        /// Number of the flows of BBR N.
        flows: f64,
    },
}

/// Quantities of a path and a workload that formulas take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FormulaInputs {
    /// Round-trip time of an empty path R, in seconds.
    pub round_trip_s: f64,
    /// Probability of a random loss p in the direction of the data.
    pub loss_ratio: f64,
    /// Link rate C in the direction of the data, in bits per second; infinite where it is not limited.
    pub rate_bps: f64,
    /// Queue Q in the direction of the data, in bytes; infinite where it is not limited.
    pub queue_bytes: f64,
    /// Size B, in bytes.
    pub size_bytes: f64,
    /// Largest payload of a TCP segment with timestamps (RFC 7323), in bytes.
    pub mss_bytes: f64,
}

/// Headers of IPv4 and of TCP with timestamps, in bytes.
const HEADERS: f64 = 52.0;

impl FormulaInputs {
    /// Returns the quantities of a cell; `None` for work without one size in one direction.
    #[must_use]
    pub fn of(condition: &Condition, workload: &Workload) -> Option<Self> {
        let size = match &workload.kind {
            WorkloadKind::Bulk { amount, .. } => amount.bytes().0,
            WorkloadKind::StopAndWait { size, .. } => size.0,
            _ => return None,
        };
        let link = match workload.kind.payload_direction() {
            Direction::Forward => &condition.forward,
            Direction::Reverse => &condition.reverse,
            Direction::Both => return None,
        };
        let delay = condition.forward.delay + condition.reverse.delay;
        Some(Self {
            round_trip_s: delay.as_secs_f64(),
            loss_ratio: link.loss.0,
            rate_bps: link.rate.map_or(f64::INFINITY, |rate| rate.0 as f64),
            queue_bytes: condition.queue_limit(link).0 as f64,
            size_bytes: size as f64,
            mss_bytes: f64::from(condition.mtu_bytes) - HEADERS,
        })
    }

    /// Returns the quantities at a share of the way to `other`; in equal ratios if `logarithmic`.
    #[must_use]
    pub fn between(&self, other: &Self, share: f64, logarithmic: bool) -> Self {
        let between = |from: f64, to: f64| match logarithmic && from > 0.0 && to > 0.0 {
            _ if from == to => from,
            true => from * (to / from).powf(share),
            false => from + (to - from) * share,
        };
        Self {
            round_trip_s: between(self.round_trip_s, other.round_trip_s),
            loss_ratio: between(self.loss_ratio, other.loss_ratio),
            rate_bps: between(self.rate_bps, other.rate_bps),
            queue_bytes: between(self.queue_bytes, other.queue_bytes),
            size_bytes: between(self.size_bytes, other.size_bytes),
            mss_bytes: between(self.mss_bytes, other.mss_bytes),
        }
    }
}

impl Formula {
    /// Returns the name of the metric.
    #[must_use]
    pub const fn metric(self) -> &'static str {
        match self {
            Self::Mathis { .. } => id::GOODPUT_BPS,
            Self::RoundTrips { .. } => id::TRANSFER_TIME_NS,
            Self::Ware { .. } => id::GOODPUT_SHARE_RATIO,
        }
    }

    /// Returns the formula as text.
    #[must_use]
    pub fn text(self) -> String {
        match self {
            Self::Mathis { constant } => format!("{constant} MSS / (R √p)"),
            Self::RoundTrips { round_trips } => format!("{round_trips} R + B / C"),
            Self::Ware { flows } => {
                format!(
                    "(1 − p) (1 − (Q/C + R + 0.2 s) / 10 s), p = 1/2 − R C / 2 Q − {flows} · 6 kB / Q"
                )
            }
        }
    }

    /// Returns the value in the metric's unit; `None` where the formula has none, such as without loss or rate.
    #[must_use]
    pub fn value(self, inputs: &FormulaInputs) -> Option<f64> {
        let value = match self {
            Self::Mathis { constant } => {
                let window_bits = constant * inputs.mss_bytes * 8.0 / inputs.loss_ratio.sqrt();
                window_bits / inputs.round_trip_s
            }
            Self::RoundTrips { round_trips } => {
                let sending_s = inputs.size_bytes * 8.0 / inputs.rate_bps;
                (round_trips * inputs.round_trip_s + sending_s) * 1e9
            }
            Self::Ware { flows } => {
                let queue_s = inputs.queue_bytes * 8.0 / inputs.rate_bps;
                let packets = inputs.queue_bytes / 1500.0;
                let others = 0.5 - inputs.round_trip_s / (2.0 * queue_s) - 4.0 * flows / packets;
                let probing = (queue_s + 0.2 + inputs.round_trip_s) / 10.0;
                (1.0 - others.max(0.0)) * (1.0 - probing)
            }
        };
        (value.is_finite() && value > 0.0).then_some(value)
    }
}

/// Names of the formulas in study files.
const FORMULAS: [(&str, &str); 3] = [
    ("mathis", "mathis"),
    ("round-trips", "round-trips"),
    ("ware", "ware"),
];

/// Reads a section `[[curve]]`.
pub(super) fn read_curve(mut section: Section<'_>) -> Result<Curve> {
    let chosen = section.choice_of("formula", &FORMULAS)?;
    let (name, _) = section.required("formula", "\"mathis\"", chosen)?;
    let label = section.text("label")?;
    if let Some((label, span)) = &label {
        section.visible("label", label, span.clone())?;
    }
    let label = label.map(|(label, _)| label);
    let (formula, usual) = match name {
        "mathis" => {
            let constant = section.factor("constant")?.unwrap_or(1.22);
            (Formula::Mathis { constant }, "Mathis et al.")
        }
        "ware" => {
            let flows = section.factor("flows")?.unwrap_or(1.0);
            (Formula::Ware { flows }, "Ware et al.")
        }
        _ => {
            let round_trips = section.factor("round_trips")?.unwrap_or(1.0);
            (Formula::RoundTrips { round_trips }, "R + B/C")
        }
    };
    section.end()?;
    Ok(Curve {
        label: label.unwrap_or_else(|| usual.to_owned()),
        formula,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: FormulaInputs = FormulaInputs {
        round_trip_s: 0.1,
        loss_ratio: 0.01,
        rate_bps: 8e6,
        queue_bytes: f64::INFINITY,
        size_bytes: 1e6,
        mss_bytes: 1460.0,
    };

    #[test]
    fn formulas_have_their_published_values() {
        // A window of 12.2 segments of 1460 bytes each 100 ms.
        let mathis = Formula::Mathis { constant: 1.22 }
            .value(&PATH)
            .expect("a goodput");
        assert!((mathis / 1.424_96e6 - 1.0).abs() < 1e-9, "{mathis}");
        // 1 MB at 8 Mbit/s takes a second.
        let time = Formula::RoundTrips { round_trips: 2.0 }.value(&PATH);
        assert_eq!(time, Some(1.2e9));
    }

    /// The model of one flow at 10 Mbit/s and 40 ms, as its authors' code computes it.
    #[test]
    fn the_model_of_bbr_has_its_published_values() {
        let share = |queue_in_bdp: f64| {
            let inputs = FormulaInputs {
                round_trip_s: 0.04,
                rate_bps: 10e6,
                queue_bytes: queue_in_bdp * 50_000.0,
                ..PATH
            };
            Formula::Ware { flows: 1.0 }
                .value(&inputs)
                .expect("a share")
        };
        let published = [(1.0, 0.97), (2.0, 0.78), (4.0, 0.63), (8.0, 0.55)];
        let deep = [(16.0, 0.49), (32.0, 0.44), (64.0, 0.37)];
        for (queue, expected) in published.into_iter().chain(deep) {
            let found = share(queue);
            assert!((found - expected).abs() < 0.01, "{queue} BDP: {found}");
        }
    }

    #[test]
    fn a_formula_without_a_value_has_no_line() {
        let no_loss = FormulaInputs {
            loss_ratio: 0.0,
            ..PATH
        };
        assert_eq!(Formula::Mathis { constant: 1.22 }.value(&no_loss), None);
        let unlimited = FormulaInputs {
            rate_bps: f64::INFINITY,
            round_trip_s: 0.0,
            ..PATH
        };
        assert_eq!(
            Formula::RoundTrips { round_trips: 1.0 }.value(&unlimited),
            None
        );
    }

    #[test]
    fn quantities_between_two_cells_follow_the_axis() {
        let other = FormulaInputs {
            loss_ratio: 0.0001,
            rate_bps: f64::INFINITY,
            ..PATH
        };
        let from = FormulaInputs {
            rate_bps: f64::INFINITY,
            ..PATH
        };
        let middle = from.between(&other, 0.5, true);
        assert!((middle.loss_ratio / 0.001 - 1.0).abs() < 1e-9, "{middle:?}");
        assert_eq!(middle.rate_bps, f64::INFINITY);
        let middle = from.between(&other, 0.5, false);
        assert!((middle.loss_ratio - 0.005_05).abs() < 1e-12, "{middle:?}");
    }
}
