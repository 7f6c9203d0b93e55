//! Figures of sweeps: which metrics are drawn as lines, as bars and as maps.

use super::{Figure, Source, bars, heat, sweep};
use crate::analysis::SweepResult;

/// Draws the metrics of the rankings: by message size as bars, else as lines, with maps of two parameters.
pub fn of_rankings(source: &Source<'_>) -> Vec<Figure> {
    let of_result =
        |(number, result): (usize, &SweepResult)| match (result.is_primary, bars::has_bars(result))
        {
            (false, _) => [None, None],
            (true, true) => [bars::draw(source, result, number), None],
            (true, false) => [
                sweep::draw(source, result, number),
                heat::draw(source, result, number),
            ],
        };
    let results = source.summary.sweeps.iter().enumerate();
    results.flat_map(of_result).flatten().collect()
}

/// Draws the lines of the other metrics, and those that have bars on the first screen.
pub fn further(source: &Source<'_>) -> Vec<Figure> {
    let results = source.summary.sweeps.iter().enumerate();
    let further = results.filter(|(_, result)| !result.is_primary || bars::has_bars(result));
    let drawn = further.filter_map(|(number, result)| sweep::draw(source, result, number));
    drawn.collect()
}
