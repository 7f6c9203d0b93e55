//! The mean of a series, with its standard error.

use std::collections::BTreeMap;

use crate::{
    describe::mean_and_sd,
    distribution::{
        chi_squared, incomplete_beta, noncentrality, power_of_t, t_critical, t_two_sided,
    },
    serial::Memory,
    usable,
};

/// An estimate whose distance from the truth, in standard errors, follows Student's t.
///
/// An estimate of logarithms is one of a geometric mean or of a ratio: see
/// [`Estimate::interval_of_ratio`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Number of values of the series, at least one.
    pub n: usize,
    /// The estimate.
    pub mean: f64,
    /// Standard error of the estimate, and its degrees of freedom; absent for one value.
    spread: Option<Spread>,
}

/// Standard error of an estimate, with what is known of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    /// Standard error.
    pub(crate) error: f64,
    /// Degrees of freedom of the standard error.
    pub(crate) df: f64,
    /// Threshold below which variation is due to rounding.
    rounding: f64,
    /// Probability that values which are all the same show this estimate by chance.
    chance: f64,
}

impl Estimate {
    /// Estimates the mean of a series in the order of time.
    ///
    /// `autocorrelation` is that of neighbouring values, 0 where they are independent, as
    /// [`crate::autocorrelation`] returns it. Above 0 the standard error grows by the variance
    /// inflation of an autoregressive series of first order, and the degrees of freedom of the variance shrink by
    /// (1 − ρ²) / (1 + ρ²).
    ///
    /// `None` for no values, a value that is not finite, or values whose spread is not.
    ///
    /// Sources: Student 1908, Biometrika 6, 1–25; Bayley and Hammersley 1946, J. R. Statist. Soc.
    /// Suppl. 8, 184–197 (both factors).
    #[must_use]
    pub fn of(values: &[f64], autocorrelation: f64) -> Option<Self> {
        let (mean, sd) = mean_and_sd(values)?;
        let n = values.len() as f64;
        let scale = values.iter().fold(0.0_f64, |scale, v| scale.max(v.abs()));
        let memory = Memory::of(autocorrelation, values.len());
        Some(Self {
            n: values.len(),
            mean,
            spread: sd.map(|sd| Spread {
                error: sd * (memory.inflation / n).sqrt(),
                df: memory.degrees(n - 1.0),
                rounding: 8.0 * f64::EPSILON * scale.max(1.0),
                chance: 0.5_f64.powf(n - 1.0),
            }),
        })
    }

    /// Estimates the mean of a series whose values are of blocks, such as the machines on which rounds
    /// ran: the differences between blocks are no part of the error.
    ///
    /// `blocks` has the block of each value. The model is v = μ + block + e with fixed blocks, so that the
    /// estimate holds for these blocks and not for others; [`blocks_differ`] tests whether they do. With
    /// one block, or with no block of several values, it is [`Estimate::of`].
    ///
    /// Source: Box, Hunter and Hunter 2005, Statistics for Experimenters, 4.2.
    #[must_use]
    pub fn of_blocks(values: &[f64], blocks: &[usize], autocorrelation: f64) -> Option<Self> {
        let ungrouped = Self::of(values, autocorrelation)?;
        let Some(within) = Within::of(values, blocks) else {
            return Some(ungrouped);
        };
        let n = values.len() as f64;
        let memory = Memory::of(autocorrelation, values.len());
        let variance = within.squares / within.df;
        let spread = ungrouped.spread.map(|spread| Spread {
            error: (variance * memory.inflation / n).sqrt(),
            df: memory.degrees(within.df),
            ..spread
        });
        Some(Self {
            spread,
            ..ungrouped
        })
    }

    /// Estimates the difference between the means of two independent samples, `self` less `other`,
    /// by Welch's method: their variances may differ.
    ///
    /// Where neither sample varies, the probability of the difference by chance is that of Fisher's
    /// exact permutation test: 2 divided by the number of ways to divide the values into samples of
    /// these sizes.
    ///
    /// Sources: Welch 1947, Biometrika 34, 28–35; Fisher 1935, The Design of Experiments, 21.
    #[must_use]
    pub fn less(&self, other: &Self) -> Self {
        let n = self.n + other.n;
        let of_both = self.spread.zip(other.spread);
        Self {
            n,
            mean: self.mean - other.mean,
            spread: of_both.map(|(a, b)| {
                let variance = |of: &Self| of.varying().map_or(0.0, |s| s.error.powi(2));
                let [va, vb] = [variance(self), variance(other)];
                let df = (va + vb).powi(2) / (va * va / a.df + vb * vb / b.df);
                let arrangements = (1..=self.n).fold(1.0, |arrangements, i| {
                    arrangements * (other.n + i) as f64 / i as f64
                });
                Spread {
                    error: (va + vb).sqrt(),
                    df: if df.is_finite() { df.max(1.0) } else { 1.0 },
                    rounding: a.rounding + b.rounding,
                    chance: (2.0 / arrangements).min(1.0),
                }
            }),
        }
    }

    /// Marks the values as those of a simulation: three or more that are all the same are then certain and no chance, so
    /// that the p-value of a mean beyond zero is 0.
    #[must_use]
    pub fn of_simulation(mut self) -> Self {
        if let Some(spread) = self.spread.as_mut().filter(|_| self.n >= 3) {
            spread.chance = 0.0;
        }
        self
    }

    /// Returns the standard deviation of one value, as if the values were independent: standard error × √n. Absent for one
    /// value.
    #[must_use]
    pub fn deviation(&self) -> Option<f64> {
        Some(self.spread?.error * (self.n as f64).sqrt())
    }

    /// Returns the spread of the values if they differ, beyond rounding.
    pub(crate) fn varying(&self) -> Option<&Spread> {
        self.spread
            .as_ref()
            .filter(|s| s.error * (self.n as f64).sqrt() > s.rounding)
    }

    /// Whether there are several values and all are the same.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        self.spread.is_some() && self.varying().is_none()
    }

    /// Returns the two-sided p-value of "the estimated quantity is zero"; absent for one value.
    ///
    /// Values that are all the same show no spread from which t could be computed, and no spread is
    /// not certainty: counters are often equal for two rounds and not in the third. Then the sign test
    /// decides, which supposes nothing of the distribution: 2^(1−n), or 1 if all are zero.
    ///
    /// Source: Conover 1999, Practical Nonparametric Statistics, 3.4 (sign test).
    #[must_use]
    pub fn p_value(&self) -> Option<f64> {
        let spread = self.spread?;
        Some(match self.varying() {
            Some(varying) => t_two_sided(self.mean / varying.error, varying.df),
            None if self.mean.abs() <= spread.rounding => 1.0,
            None => spread.chance,
        })
    }

    /// Returns the confidence interval of the estimated quantity; absent for one value and for a
    /// `confidence` that is not between 0 and 1.
    ///
    /// For values that are all the same, the interval is that value if the range of n values covers
    /// the median with this confidence, and absent otherwise. The interval leaves out zero where the
    /// p-value is below 1 − `confidence`.
    ///
    /// Source: Conover 1999, 3.2 (order statistics).
    #[must_use]
    pub fn interval(&self, confidence: f64) -> Option<[f64; 2]> {
        let known = self.spread.filter(|_| usable(confidence))?;
        match self.varying() {
            Some(spread) => {
                let half = t_critical(confidence, spread.df) * spread.error;
                let ends = [self.mean - half, self.mean + half];
                ends.iter().all(|end| end.is_finite()).then_some(ends)
            }
            None => (known.chance <= 1.0 - confidence).then_some([self.mean; 2]),
        }
    }

    /// Returns the interval of the ratio, or of the geometric mean, whose logarithm this estimates.
    #[must_use]
    pub fn interval_of_ratio(&self, confidence: f64) -> Option<[f64; 2]> {
        self.interval(confidence).and_then(ratio_ends)
    }

    /// Returns the interval in which the standard deviation of independent values with this standard error lies
    /// ([`Estimate::deviation`]), by the chi-squared distribution of its square. Absent where nothing varies.
    ///
    /// Source: Casella and Berger 2002, Statistical Inference, 9.2.
    #[must_use]
    pub fn interval_of_deviation(&self, confidence: f64) -> Option<[f64; 2]> {
        let spread = self.varying().filter(|_| usable(confidence))?;
        let deviation = self.deviation()?;
        let tail = (1.0 - confidence) / 2.0;
        Some([1.0 - tail, tail].map(|p| deviation * (spread.df / chi_squared(p, spread.df)).sqrt()))
    }

    /// Returns the smallest distance from zero that a test at level 1 − `confidence` detects with probability `power`, if
    /// the true spread is the observed one. Absent where nothing varies.
    ///
    /// Source: the noncentral t distribution, Johnson, Kotz and Balakrishnan 1995, Continuous
    /// Univariate Distributions 2, chapter 31.
    #[must_use]
    pub fn detectable(&self, confidence: f64, power: f64) -> Option<f64> {
        let spread = self
            .varying()
            .filter(|_| usable(confidence) && usable(power))?;
        spread.detectable(t_critical(confidence, spread.df), power)
    }
}

impl Spread {
    /// Returns the distance from zero at which an estimate lies further than `critical` standard errors from zero with
    /// probability `power`.
    pub(crate) fn detectable(&self, critical: f64, power: f64) -> Option<f64> {
        let distance = noncentrality(critical, self.df, power) * self.error;
        distance.is_finite().then_some(distance)
    }
}

/// Returns the exponentials of both ends of an interval of logarithms; `None` where they are not finite.
pub(crate) fn ratio_ends(ends: [f64; 2]) -> Option<[f64; 2]> {
    let ends = ends.map(f64::exp);
    ends.iter().all(|end| end.is_finite()).then_some(ends)
}

/// Sums of squares of values in blocks.
struct Within {
    /// Sum of the squared distances of values from the mean of their block.
    squares: f64,
    /// Degrees of freedom of `squares`, at least one.
    df: f64,
    /// Sum of the squared distances of the blocks' means from the mean, by value.
    between: f64,
    /// Degrees of freedom of `between`, at least one.
    df_between: f64,
}

impl Within {
    /// Computes the sums; `None` for one block, for blocks of one value each, and if `blocks` and `values` differ in length.
    fn of(values: &[f64], blocks: &[usize]) -> Option<Self> {
        if values.len() != blocks.len() {
            return None;
        }
        let mut members: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for (value, block) in values.iter().zip(blocks) {
            members.entry(*block).or_default().push(*value);
        }
        let (n, k) = (values.len(), members.len());
        if k < 2 || n <= k {
            return None;
        }
        let mean = values.iter().sum::<f64>() / n as f64;
        let (mut squares, mut between) = (0.0, 0.0);
        for of_block in members.values() {
            let block_mean = of_block.iter().sum::<f64>() / of_block.len() as f64;
            squares += of_block
                .iter()
                .map(|v| (v - block_mean).powi(2))
                .sum::<f64>();
            between += of_block.len() as f64 * (block_mean - mean).powi(2);
        }
        Some(Self {
            squares,
            df: (n - k) as f64,
            between,
            df_between: (k - 1) as f64,
        })
    }
}

/// Returns the p-value of "the blocks have one mean", by the F test; absent for one block, for blocks of
/// one value each, and where nothing varies within blocks.
///
/// Source: NIST Digital Library of Mathematical Functions, 8.17; Box, Hunter and Hunter 2005, 4.2.
#[must_use]
pub fn blocks_differ(values: &[f64], blocks: &[usize]) -> Option<f64> {
    let within = Within::of(values, blocks)?;
    let total = within.squares + within.between;
    let varies = within.squares > 0.0 && total.is_finite();
    // F = (between / df_between) / (squares / df).
    varies.then(|| {
        incomplete_beta(
            within.df / 2.0,
            within.df_between / 2.0,
            within.squares / total,
        )
    })
}

/// Returns the number of independent values with standard deviation `sd` from which a test at level
/// 1 − `confidence` detects a mean of `effect` with probability `power`; at least two. `None` above
/// `most`, and for what is no effect, level or power.
///
/// The autocorrelation of so few values is estimated, and widens the interval where it is positive by chance. The mean of
/// that is taken: 0.4 / √n, as the coefficient has a standard deviation of about 1 / √n.
#[must_use]
pub fn rounds_to_detect(
    sd: f64,
    effect: f64,
    confidence: f64,
    power: f64,
    most: usize,
) -> Option<usize> {
    let critical = |_, df| t_critical(confidence, df);
    fewest_values((sd, effect), (confidence, power), most, critical)
}

/// Returns the smallest number of values with which a test detects a mean of `effect` with probability `power`.
/// `critical` returns the threshold of the test, in standard errors, for a number of values and its degrees of freedom.
pub(crate) fn fewest_values(
    (sd, effect): (f64, f64),
    (confidence, power): (f64, f64),
    most: usize,
    critical: impl Fn(usize, f64) -> f64,
) -> Option<usize> {
    if !(sd >= 0.0 && effect > 0.0 && usable(confidence) && usable(power)) {
        return None;
    }
    let enough = |n: usize| {
        let memory = Memory::of(0.4 / (n as f64).sqrt(), n);
        let df = memory.degrees((n - 1) as f64);
        let shift = effect * (n as f64 / memory.inflation).sqrt() / sd.max(f64::MIN_POSITIVE);
        let critical = critical(n, df);
        critical.is_finite() && power_of_t(critical, df, shift) >= power
    };
    // Power grows with the number of values, so that halving finds the first that is enough.
    let (mut low, mut high) = (1, 2);
    while !enough(high) {
        if high >= most {
            return None;
        }
        (low, high) = (high, (2 * high).min(most));
    }
    while high - low > 1 {
        let middle = usize::midpoint(low, high);
        if enough(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(high)
}
