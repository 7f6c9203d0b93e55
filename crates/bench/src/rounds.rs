//! Figures of single runs, and statistics over many rounds of them.

use regatta_stats::plausible_counts;
use serde::Serialize;

/// Bytes of a GiB.
const GIB: f64 = (1_u64 << 30) as f64;

/// Figures of one run of one program.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figures {
    /// Bytes that the receiver counted.
    pub delivered_bytes: f64,
    /// Time in which they were delivered, in seconds.
    pub seconds: f64,
    /// CPU time of both ends, all threads, user and system.
    pub cpu_seconds: f64,
    /// Messages lost over messages sent, where it applies.
    pub lost_ratio: Option<f64>,
}

impl Figures {
    /// Returns delivered bits over time.
    pub fn goodput_bps(&self) -> f64 {
        self.delivered_bytes * 8.0 / self.seconds
    }

    /// Returns the CPU seconds for each GiB delivered.
    pub fn cpu_seconds_per_gib(&self) -> f64 {
        self.cpu_seconds * GIB / self.delivered_bytes
    }
}

/// Median and range of some values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// Middle value, or the mean of the two in the middle.
    pub median: f64,
    /// Minimum value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Interval in which the median of many more values lies with 95 % confidence, between two of these in their order;
    /// absent for fewer than six values.
    pub median_interval: Option<[f64; 2]>,
}

impl Spread {
    /// Computes the median and range of `values`; `None` if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            f64::midpoint(values[middle - 1], values[middle])
        };
        // As many values as that are plausibly on either side of the true median.
        let (outside, _) = plausible_counts(values.len() as u64, 0.5, 0.05);
        let outside = usize::try_from(outside).unwrap_or(0);
        let median_interval =
            (outside > 0).then(|| [values[outside - 1], values[values.len() - outside]]);
        Some(Self {
            median,
            min,
            max,
            median_interval,
        })
    }
}

/// Bound on a median ratio.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "bound")]
pub enum Gate {
    /// The median ratio is at least this.
    AtLeast(f64),
    /// The median ratio is at most this.
    AtMost(f64),
}

impl Gate {
    /// Whether a median ratio passes.
    pub fn passes(self, median: f64) -> bool {
        match self {
            Self::AtLeast(bound) => median >= bound,
            Self::AtMost(bound) => median <= bound,
        }
    }
}

/// Comparison of a driver with its reference in one quantity, paired by round.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Name, such as `tcp / iperf3: goodput`.
    pub name: String,
    /// Unit of `ours` and `theirs`.
    pub unit: &'static str,
    /// Values of the driver.
    pub ours: Spread,
    /// Values of the reference.
    pub theirs: Spread,
    /// Ratios of `ours` to `theirs`, one for each round.
    pub ratio: Spread,
    /// Bound on the median ratio; absent where the ratio is only shown.
    pub gate: Option<Gate>,
    /// Whether the gate is passed; true without a gate.
    pub passed: bool,
}

impl Comparison {
    /// Compares a quantity over rounds; `None` without rounds.
    pub fn new(
        name: impl Into<String>,
        unit: &'static str,
        pairs: &[(Figures, Figures)],
        quantity: impl Fn(&Figures) -> f64,
        gate: Option<Gate>,
    ) -> Option<Self> {
        let ratio = |(ours, theirs): &(Figures, Figures)| quantity(ours) / quantity(theirs);
        let ratio = Spread::of(pairs.iter().map(ratio))?;
        Some(Self {
            name: name.into(),
            unit,
            ours: Spread::of(pairs.iter().map(|(ours, _)| quantity(ours)))?,
            theirs: Spread::of(pairs.iter().map(|(_, theirs)| quantity(theirs)))?,
            ratio,
            gate,
            passed: gate.is_none_or(|gate| gate.passes(ratio.median)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(bytes: f64, cpu: f64) -> Figures {
        Figures {
            delivered_bytes: bytes,
            seconds: 2.0,
            cpu_seconds: cpu,
            lost_ratio: None,
        }
    }

    #[test]
    fn ratios_are_paired_by_round() {
        // The machine was twice as fast in the second round; the ratio does not see it.
        let pairs = [
            (run(100.0, 1.0), run(80.0, 1.0)),
            (run(200.0, 1.0), run(160.0, 1.0)),
            (run(90.0, 1.0), run(100.0, 1.0)),
        ];
        let goodput = Comparison::new(
            "goodput",
            "bit/s",
            &pairs,
            Figures::goodput_bps,
            Some(Gate::AtLeast(1.0)),
        )
        .expect("rounds");
        assert_eq!(goodput.ratio.median, 1.25);
        assert_eq!((goodput.ratio.min, goodput.ratio.max), (0.9, 1.25));
        assert_eq!(goodput.ours.median, 400.0);
        assert!(goodput.passed && !Gate::AtMost(1.0).passes(1.25));
    }

    #[test]
    fn a_median_of_an_even_number_lies_between_the_two() {
        let spread = Spread::of([4.0, 1.0, 3.0, 2.0]).expect("values");
        assert_eq!((spread.median, spread.min, spread.max), (2.5, 1.0, 4.0));
        assert_eq!(spread.median_interval, None);
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn the_interval_of_the_median_of_nine_leaves_one_out_at_each_end() {
        let spread = Spread::of((1..=9).map(f64::from)).expect("values");
        assert_eq!(spread.median_interval, Some([2.0, 8.0]));
    }

    #[test]
    fn cpu_time_is_per_delivered_byte() {
        assert_eq!(run(GIB / 2.0, 3.0).cpu_seconds_per_gib(), 6.0);
    }
}
