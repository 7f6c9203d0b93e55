//! Tables of the distributions of jitter, the user-space emulator's own.

use std::sync::LazyLock;

use regatta_emulation::netem_table;
use regatta_model::DelayDistribution;

static NORMAL: LazyLock<Option<Vec<i16>>> =
    LazyLock::new(|| netem_table(DelayDistribution::Normal));
static PARETO: LazyLock<Option<Vec<i16>>> =
    LazyLock::new(|| netem_table(DelayDistribution::Pareto));

/// Returns the table of a distribution; `None` for the uniform one, which needs none.
pub(super) fn of(distribution: DelayDistribution) -> Option<&'static [i16]> {
    match distribution {
        DelayDistribution::Uniform => None,
        DelayDistribution::Normal => NORMAL.as_deref(),
        DelayDistribution::Pareto => PARETO.as_deref(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tables are in units of 1/8192, `NETEM_DIST_SCALE` of the kernel's `sch_netem.c`.
    #[test]
    fn tables_have_mean_zero_and_the_deviation_that_netem_multiplies() {
        for distribution in [DelayDistribution::Normal, DelayDistribution::Pareto] {
            let table = of(distribution).expect("a table");
            let n = table.len() as f64;
            let mean = table.iter().map(|v| f64::from(*v)).sum::<f64>() / n;
            let squares = table.iter().map(|v| (f64::from(*v) - mean).powi(2));
            let deviation = (squares.sum::<f64>() / n).sqrt();
            assert!(mean.abs() < 8.0, "{mean}");
            assert!((deviation / 8192.0 - 1.0).abs() < 2e-3, "{deviation}");
        }
        assert!(of(DelayDistribution::Uniform).is_none());
    }
}
