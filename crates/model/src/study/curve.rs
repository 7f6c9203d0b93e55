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
            WorkloadKind::Bulk { size, .. } | WorkloadKind::StopAndWait { size, .. } => size.0,
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
        }
    }

    /// Returns the formula as text.
    #[must_use]
    pub fn text(self) -> String {
        match self {
            Self::Mathis { constant } => format!("{constant} MSS / (R √p)"),
            Self::RoundTrips { round_trips } => format!("{round_trips} R + B / C"),
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
        };
        (value.is_finite() && value > 0.0).then_some(value)
    }
}

/// Names of the formulas in study files.
const FORMULAS: [(&str, &str); 2] = [("mathis", "mathis"), ("round-trips", "round-trips")];

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
