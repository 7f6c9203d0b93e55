//! Propagation delay with its random part.

use std::{array, sync::LazyLock};

use regatta_model::{DelayDistribution, Link};
use statrs::distribution::{ContinuousCDF, Normal};

use crate::rng::up_to;

/// Number of values of a tabulated distribution, all equally likely, as in netem's tables.
const ENTRIES: usize = 4096;

/// Bits by which a draw is shifted to get its index in the table: only the highest bits count.
const SHIFT: u32 = u64::BITS - ENTRIES.trailing_zeros();

/// Binary digits after the point in a table. Values are rounded to them, which is far coarser
/// than what mathematical libraries differ by: the tables are the same on every machine.
const FRACTION_BITS: u32 = 16;

/// The same in netem's tables (`NETEM_DIST_SCALE` of the kernel's `sch_netem.c`).
const NETEM_FRACTION_BITS: u32 = 13;

/// Deviations from the mean at which both tables end.
const REACH: f64 = 4.0;

/// Value at which the tail of the Pareto distribution that begins at 1 is cut off, so that it ends
/// [`REACH`] standard deviations above its mean.
const PARETO_CUT: f64 = 3.7269;

/// Deviations from the mean, rising, in units of the standard deviation.
#[derive(Debug)]
struct Table {
    values: [i32; ENTRIES],
    netem: [i16; ENTRIES],
}

static NORMAL: LazyLock<Table> = LazyLock::new(|| {
    let normal = Normal::standard();
    table(|u| normal.inverse_cdf(u))
});

/// Shape 3: the part above x is x^-3.
static PARETO: LazyLock<Table> =
    LazyLock::new(|| table(|u| (1.0 - u).cbrt().recip().min(PARETO_CUT)));

/// Tabulates the quantiles of a distribution, moved and scaled to mean 0 and standard deviation 1.
fn table(quantile: impl Fn(f64) -> f64) -> Table {
    let n = ENTRIES as f64;
    let raw: [f64; ENTRIES] = array::from_fn(|index| quantile((index as f64 + 0.5) / n));
    let mean = raw.iter().sum::<f64>() / n;
    let variance = raw.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
    let deviation = variance.sqrt();
    let values = raw.map(|x| {
        let scaled = ((x - mean) / deviation).clamp(-REACH, REACH);
        (scaled * f64::from(1 << FRACTION_BITS)).round() as i32
    });
    let netem = values.map(|value| {
        let value = value >> (FRACTION_BITS - NETEM_FRACTION_BITS);
        // Four standard deviations are one more than the largest number.
        i16::try_from(value).unwrap_or(i16::MAX)
    });
    Table { values, netem }
}

/// Returns the table of a distribution; `None` for the uniform one, which is computed.
fn table_of(distribution: DelayDistribution) -> Option<&'static Table> {
    match distribution {
        DelayDistribution::Uniform => None,
        DelayDistribution::Normal => Some(&NORMAL),
        DelayDistribution::Pareto => Some(&PARETO),
    }
}

/// Returns the deviations of a distribution from its mean, in units of 1/8192 of its standard
/// deviation, rising and all equally likely: the form of netem's tables. `None` for the uniform
/// one, which netem computes.
#[must_use]
pub fn netem_table(distribution: DelayDistribution) -> Option<&'static [i16]> {
    Some(&table_of(distribution)?.netem)
}

/// The propagation delay of a link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Propagation {
    delay_ns: u64,
    jitter_ns: u64,
    /// Table of the distribution; `None` for the uniform one.
    table: Option<&'static Table>,
}

impl Propagation {
    pub(crate) fn new(delay_ns: u64, jitter_ns: u64, distribution: DelayDistribution) -> Self {
        Self {
            delay_ns,
            jitter_ns,
            table: table_of(distribution),
        }
    }

    /// Whether packets need a draw.
    pub(crate) fn varies(&self) -> bool {
        self.jitter_ns > 0
    }

    /// Returns the delay for a draw, in nanoseconds. A delay below zero is zero: nothing arrives
    /// before it was sent.
    #[inline]
    pub(crate) fn of(&self, draw: u64) -> u64 {
        if self.jitter_ns == 0 {
            return self.delay_ns;
        }
        match self.table {
            None => {
                let offset = up_to(draw, 2 * self.jitter_ns);
                (self.delay_ns + offset).saturating_sub(self.jitter_ns)
            }
            Some(table) => {
                let deviation = i128::from(table.values[(draw >> SHIFT) as usize]);
                let offset = (i128::from(self.jitter_ns) * deviation) >> FRACTION_BITS;
                u64::try_from(i128::from(self.delay_ns) + offset).unwrap_or(0)
            }
        }
    }
}

/// Mean and standard deviation of the propagation delay that single packets find.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DelayMoments {
    /// Mean, in nanoseconds.
    pub mean_ns: f64,
    /// Standard deviation, in nanoseconds.
    pub deviation_ns: f64,
}

/// Returns the mean and deviation of the propagation delay that packets far from one another find
/// on a link: its jitter, cut off at zero delay, and the packets that skip it by being reordered.
#[must_use]
pub fn delay_moments(link: &Link) -> DelayMoments {
    let nanoseconds =
        |value: std::time::Duration| u64::try_from(value.as_nanos()).unwrap_or(u64::MAX / 4);
    let propagation = Propagation::new(
        nanoseconds(link.delay),
        nanoseconds(link.jitter),
        link.jitter_distribution,
    );
    let draws = (0..ENTRIES as u64).map(|index| (index << SHIFT) | (1 << (SHIFT - 1)));
    let n = ENTRIES as f64;
    let (sum, squares) = draws.fold((0.0, 0.0), |(sum, squares), draw| {
        // Around the delay, so that nothing is lost to cancellation.
        let offset = propagation.of(draw) as f64 - propagation.delay_ns as f64;
        (sum + offset, squares + offset * offset)
    });
    let delay = propagation.delay_ns as f64;
    let (offset, square) = (sum / n, squares / n);
    let skips = link.reorder_ratio.0;
    let mean_offset = (1.0 - skips) * offset - skips * delay;
    let mean_square = (1.0 - skips) * square + skips * delay * delay;
    DelayMoments {
        mean_ns: delay + mean_offset,
        deviation_ns: (mean_square - mean_offset * mean_offset).max(0.0).sqrt(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use regatta_model::Ratio;

    use super::*;

    fn link(delay_ms: u64, jitter_ms: u64, distribution: DelayDistribution) -> Link {
        Link {
            delay: Duration::from_millis(delay_ms),
            jitter: Duration::from_millis(jitter_ms),
            jitter_distribution: distribution,
            ..Link::default()
        }
    }

    #[test]
    fn tables_have_mean_0_deviation_1_and_the_shape_of_their_distribution() {
        let one = f64::from(1 << FRACTION_BITS);
        for (table, lowest, highest) in [(&NORMAL, -3.7, 3.7), (&PARETO, -0.83, 4.0)] {
            let values: Vec<f64> = table.values.iter().map(|z| f64::from(*z) / one).collect();
            let n = values.len() as f64;
            let mean = values.iter().sum::<f64>() / n;
            let variance = values.iter().map(|z| z * z).sum::<f64>() / n;
            assert!(mean.abs() < 1e-4, "{mean}");
            assert!((variance - 1.0).abs() < 1e-3, "{variance}");
            assert!(values.is_sorted());
            assert!(values[0] >= lowest && values[values.len() - 1] <= highest);
        }
        // Quantiles of the normal distribution, from its tables.
        for (at, z) in [(0.5, 0.0), (0.841_345, 1.0), (0.977_25, 2.0)] {
            let value = f64::from(NORMAL.values[(at * ENTRIES as f64) as usize]) / one;
            assert!((value - z).abs() < 0.01, "{at}: {value}");
        }
        // The tail reaches its end, and falls as x^-3: 1/8 lies above twice the beginning.
        let (start, end) = (
            f64::from(PARETO.values[0]) / one,
            f64::from(PARETO.values[ENTRIES - 1]) / one,
        );
        assert!(end > 3.98, "{end}");
        let scale = (end - start) / (PARETO_CUT - 1.0);
        let above = PARETO
            .values
            .iter()
            .filter(|z| f64::from(**z) / one > start + scale)
            .count();
        assert!((505..=519).contains(&above), "{above}");
    }

    #[test]
    fn netem_s_tables_have_mean_zero_and_the_deviation_that_it_multiplies() {
        for distribution in [DelayDistribution::Normal, DelayDistribution::Pareto] {
            let table = netem_table(distribution).expect("a table");
            let n = table.len() as f64;
            let mean = table.iter().map(|v| f64::from(*v)).sum::<f64>() / n;
            let squares = table.iter().map(|v| (f64::from(*v) - mean).powi(2));
            let deviation = (squares.sum::<f64>() / n).sqrt();
            assert!(mean.abs() < 8.0, "{mean}");
            assert!((deviation / 8192.0 - 1.0).abs() < 2e-3, "{deviation}");
        }
        assert!(netem_table(DelayDistribution::Uniform).is_none());
    }

    #[test]
    fn moments_are_those_of_the_distribution() {
        let ms = |moments: DelayMoments| (moments.mean_ns / 1e6, moments.deviation_ns / 1e6);
        let near = |found: (f64, f64), mean: f64, deviation: f64| {
            assert!((found.0 - mean).abs() < 0.01, "{found:?}");
            assert!((found.1 - deviation).abs() < 0.01, "{found:?}");
        };
        near(
            ms(delay_moments(&link(15, 0, DelayDistribution::Uniform))),
            15.0,
            0.0,
        );
        let uniform = delay_moments(&link(15, 5, DelayDistribution::Uniform));
        near(ms(uniform), 15.0, 5.0 / 3f64.sqrt());
        near(
            ms(delay_moments(&link(50, 5, DelayDistribution::Normal))),
            50.0,
            5.0,
        );
        near(
            ms(delay_moments(&link(15, 5, DelayDistribution::Pareto))),
            15.0,
            5.0,
        );
        // Tabulated distributions are moved to mean 0: within a ten-thousandth of their deviation.
        for distribution in [DelayDistribution::Normal, DelayDistribution::Pareto] {
            let mean_ns = delay_moments(&link(50, 5, distribution)).mean_ns;
            assert!((mean_ns - 50e6).abs() < 500.0, "{distribution:?} {mean_ns}");
        }
        // Uniform on −10 to 10 ms, cut off at zero: half of it is zero, the rest 5 ms on average.
        let cut = delay_moments(&link(0, 10, DelayDistribution::Uniform));
        assert!((cut.mean_ns / 1e6 - 2.5).abs() < 0.01, "{cut:?}");
        // Deviation of the uniform distribution: half its width over √3. Delays are whole nanoseconds.
        assert!((uniform.mean_ns - 15e6).abs() < 1.0, "{uniform:?}");
        assert!(
            (uniform.deviation_ns - 5e6 / 3f64.sqrt()).abs() < 1.0,
            "{uniform:?}"
        );
        let reordered = Link {
            reorder_ratio: Ratio(0.25),
            ..link(20, 0, DelayDistribution::Uniform)
        };
        near(
            ms(delay_moments(&reordered)),
            15.0,
            20.0 * (0.25f64 * 0.75).sqrt(),
        );
    }

    /// 2⁶² ns, 146 years, stand for what nanoseconds in 64 bits cannot count.
    #[test]
    fn a_delay_beyond_nanoseconds_is_long() {
        let forever = Link {
            delay: Duration::MAX,
            ..Link::default()
        };
        assert!(delay_moments(&forever).mean_ns > 4e18);
    }

    /// By hand: uniform on −5 to 15 ms is cut off at zero in a quarter of the cases, else uniform on 0 to 15 ms: mean
    /// 3/4 · 7.5, mean square 3/4 · 15² / 3. Four fifths of the packets find it, the others no delay: mean 4.5, mean
    /// square 45.
    #[test]
    fn moments_of_jitter_that_is_cut_off_and_skipped_are_those_of_the_mixture() {
        let moments = delay_moments(&Link {
            reorder_ratio: Ratio(0.2),
            ..link(5, 10, DelayDistribution::Uniform)
        });
        assert!((moments.mean_ns / 1e6 - 4.5).abs() < 1e-5, "{moments:?}");
        let deviation = (45.0_f64 - 4.5 * 4.5).sqrt();
        assert!(
            (moments.deviation_ns / 1e6 - deviation).abs() < 1e-5,
            "{moments:?}"
        );
    }
}
