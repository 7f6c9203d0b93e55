//! Places in which reports show metrics, beside the tables of all of them.

use std::sync::LazyLock;

use super::{METRICS, MetricDefinition};

/// Place in which reports show a metric, with what they call it there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Comparisons of every pair of transports, in every study.
    Compared,
    /// Differences of conditions from the first one.
    Differences,
    /// Tables of means, on a page and on a terminal, where the heading has several lines.
    Column(&'static str),
    /// Tables of means on a page.
    PageColumn,
    /// Percentile beside the median of this name, which shares its column where there is little room.
    Beside(&'static str),
    /// Table of the answer, under this heading.
    Answer(&'static str),
    /// Prices of a lead: the quantity of which the side that is worse by the metric has more, and its short name.
    Price(&'static str, &'static str),
    /// Table of losses, at this position.
    Loss(u8),
    /// Figures of sweeps, beside the metric of the ranking.
    Sweeps,
    /// Figure of means, beside the metric of the ranking.
    Means,
    /// Figure of the spread of the trials.
    Spread,
    /// Figure of the trials in their order.
    Order,
    /// Comparisons of runs; its name in their sentences.
    Runs(&'static str),
    /// Limits of comparisons of runs, under this short name.
    Limit(&'static str),
}

/// Metrics with places, in the order in which reports show them.
static SHOWN: LazyLock<Vec<&MetricDefinition>> = LazyLock::new(|| {
    let mut shown = Vec::from_iter(METRICS.iter().filter(|it| !it.places.is_empty()));
    shown.sort_by_key(|metric| metric.rank);
    shown
});

/// Iterates over the metrics of a place in the order in which reports show them; `choose` returns what is needed of the
/// place, and `None` for others.
pub fn shown_in<T>(
    choose: impl Fn(Place) -> Option<T> + Clone,
) -> impl Iterator<Item = (&'static MetricDefinition, T)> + Clone {
    let shown = SHOWN.iter();
    shown
        .filter_map(move |metric| Some((*metric, metric.places.iter().copied().find_map(&choose)?)))
}

/// Whether the metric of this name has the place.
#[must_use]
pub fn is_in(place: Place, name: &str) -> bool {
    let mut shown = SHOWN.iter();
    shown.any(|metric| metric.name == name && metric.places.contains(&place))
}

/// Iterates over the names of the metrics of a place, in the order in which reports show them.
pub fn names_in<'a>(place: Place) -> impl Iterator<Item = &'a str> + Clone {
    shown_in(move |it| (it == place).then_some(())).map(|(metric, ())| metric.name)
}
