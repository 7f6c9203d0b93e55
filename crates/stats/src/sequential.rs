//! Tests of a mean that hold whenever a run stops, however often one has looked.

use crate::{
    Estimate,
    estimate::{Spread, fewest_values, ratio_ends},
    usable,
};

/// Variance of the effects that are expected before the first value, in variances of one value: the power is largest where
/// differences are about three standard deviations of a round.
const PRIOR_VARIANCE: f64 = 10.0;

/// These tests compare the hypothesis that the mean is zero with a normal distribution of the mean over the standard
/// deviation. The Bayes factor of the two is a martingale if the mean is zero, so that it exceeds 1 / α with a probability of
/// at most α in the whole course of a run (Ville 1939). With t the mean in standard errors, ν its degrees of freedom and G =
/// 1 + n · [`PRIOR_VARIANCE`], its logarithm is
///
/// −½ ln G + ½ (ν + 1) [ln(1 + t²/ν) − ln(1 + t²/(G ν))].
///
/// Values that are all the same are tested as in [`Estimate::p_value`]: further values can only end the likeness, so that
/// the probability of it at the first look is that of all looks.
///
/// Sources: Rouder and others 2009, Psychon. Bull. Rev. 16, 225–237 (Bayes factor of t); Lai 1976, Ann. Statist. 4, 265–280
/// (confidence sequence); Grünwald, de Heide and Koolen 2024, J. R. Statist. Soc. B 86, 1091–1128 (optional stopping).
impl Estimate {
    /// Returns the p-value of "the estimated quantity is zero" that holds at any stop; absent for one value.
    #[must_use]
    pub fn sequential_p_value(&self) -> Option<f64> {
        let Some(spread) = self.varying() else {
            return self.p_value();
        };
        let growth = growth(self.n);
        let square = (self.mean / spread.error).powi(2) / spread.df;
        let evidence = (spread.df + 1.0) / 2.0 * (square.ln_1p() - (square / growth).ln_1p());
        Some((growth.ln() / 2.0 - evidence).exp().min(1.0))
    }

    /// Returns the confidence interval of the estimated quantity that holds at any stop, the values whose
    /// [`Estimate::sequential_p_value`] is above 1 − `confidence`. Absent where there is none, as for few values.
    #[must_use]
    pub fn sequential_interval(&self, confidence: f64) -> Option<[f64; 2]> {
        let Some(spread) = self.varying().filter(|_| usable(confidence)) else {
            return self.interval(confidence);
        };
        let half = critical(confidence, self.n, spread.df) * spread.error;
        let ends = [self.mean - half, self.mean + half];
        ends.iter().all(|end| end.is_finite()).then_some(ends)
    }

    /// Returns the interval of the ratio whose logarithm this estimates, [`Estimate::sequential_interval`].
    #[must_use]
    pub fn sequential_interval_of_ratio(&self, confidence: f64) -> Option<[f64; 2]> {
        self.sequential_interval(confidence).and_then(ratio_ends)
    }

    /// Returns the smallest distance from zero that the test detects with probability `power` after these values, if the
    /// true spread is the observed one. Absent where nothing varies.
    #[must_use]
    pub fn sequential_detectable(&self, confidence: f64, power: f64) -> Option<f64> {
        let spread: &Spread = self
            .varying()
            .filter(|_| usable(confidence) && usable(power))?;
        let critical = critical(confidence, self.n, spread.df);
        critical
            .is_finite()
            .then(|| spread.detectable(critical, power))?
    }
}

/// Returns the number of values after which a test that holds at any stop detects a mean of `effect` with probability
/// `power`; as [`rounds_to_detect`](crate::rounds_to_detect) otherwise.
#[must_use]
pub fn sequential_rounds_to_detect(
    sd: f64,
    effect: f64,
    confidence: f64,
    power: f64,
    most: usize,
) -> Option<usize> {
    let critical = |n, df| critical(confidence, n, df);
    fewest_values((sd, effect), (confidence, power), most, critical)
}

/// Returns G, the variance of the mean of `n` values in squared standard errors under the expected effects.
fn growth(n: usize) -> f64 {
    1.0 + n as f64 * PRIOR_VARIANCE
}

/// Returns the number of standard errors from the mean at which the p-value is 1 − `confidence`; infinite where so few
/// values exclude nothing.
fn critical(confidence: f64, n: usize, df: f64) -> f64 {
    let growth = growth(n);
    let evidence = growth.ln() / 2.0 - (1.0 - confidence).ln();
    let ratio = (2.0 * evidence / (df + 1.0)).exp();
    match ratio < growth {
        true => ((ratio - 1.0) / (1.0 - ratio / growth) * df).sqrt(),
        false => f64::INFINITY,
    }
}
