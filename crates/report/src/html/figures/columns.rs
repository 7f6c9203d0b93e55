//! Series of many trials, thinned to the columns of a figure.
//!
//! Time is cut into at most [`MAX_COLUMNS`] columns. Each keeps the mean of its samples in each trial and, over all
//! trials, its smallest and largest sample (min–max decimation), so that no extreme is lost however long a series is.

use std::collections::BTreeMap;

use regatta_model::{Series, TrialRecord};

use super::axis::largest;

/// Largest number of columns; more would not be visible.
const MAX_COLUMNS: f64 = 300.0;

/// Series of the trials of a cell, in columns.
#[derive(Debug, Default, PartialEq)]
pub struct Columns {
    /// `[seconds, lower quartile, median, upper quartile]` over the trials' means, where at least half of the trials
    /// have samples.
    pub quartiles: Vec<[f64; 4]>,
    /// `[seconds, smallest, largest]` of all samples; empty if a column holds one sample of each trial.
    pub extremes: Vec<[f64; 3]>,
}

/// Samples of one trial in one column.
#[derive(Debug, Clone, Copy)]
struct Bin {
    sum: f64,
    n: f64,
    smallest: f64,
    largest: f64,
}

impl Default for Bin {
    fn default() -> Self {
        Self {
            sum: 0.0,
            n: 0.0,
            smallest: f64::INFINITY,
            largest: f64::NEG_INFINITY,
        }
    }
}

/// Returns a series of some trials in columns. The values of these ends are added up where both were sampled.
/// `interval` is the time between samples, in seconds.
pub fn columns(trials: &[&TrialRecord], name: &str, ends: &[&str], interval: f64) -> Columns {
    let series = trials.iter().flat_map(|trial| &trial.measurements.series);
    let named = series.filter(|series| series.name == name);
    let ends_ns = named.filter_map(|series| series.t_ns.last());
    let longest = largest(ends_ns.map(|t_ns| *t_ns as f64 / 1e9));
    let interval = interval.max(1e-6);
    let step = interval.max(longest / MAX_COLUMNS);
    let mut all: BTreeMap<i64, Vec<Bin>> = BTreeMap::new();
    let mut with_samples = 0;
    for trial in trials {
        let series = trial.measurements.series.iter();
        let series: Vec<&Series> = series
            .filter(|series| series.name == name && ends.contains(&series.side.as_str()))
            .collect();
        let bins = binned(&series, interval, step);
        with_samples += usize::from(!bins.is_empty());
        for (number, bin) in bins {
            all.entry(number).or_default().push(bin);
        }
    }
    let seconds = |number: i64| number as f64 * step;
    let quartiles = all
        .iter()
        .filter(|(_, bins)| bins.len() * 2 >= with_samples)
        .filter_map(|(number, bins)| {
            let means: Vec<f64> = bins.iter().map(|bin| bin.sum / bin.n).collect();
            let of = regatta_stats::describe(&means)?;
            Some([seconds(*number), of.q1, of.median, of.q3])
        })
        .collect();
    let extremes = match step > interval {
        false => Vec::new(),
        true => (all.iter())
            .map(|(number, bins)| {
                let smallest = bins.iter().map(|bin| bin.smallest);
                let largest = bins.iter().map(|bin| bin.largest);
                let smallest = smallest.fold(f64::INFINITY, f64::min);
                [
                    seconds(*number),
                    smallest,
                    largest.fold(f64::NEG_INFINITY, f64::max),
                ]
            })
            .collect(),
    };
    Columns {
        quartiles,
        extremes,
    }
}

/// Returns the samples of one trial by the number of their column.
fn binned(series: &[&Series], interval: f64, step: f64) -> Vec<(i64, Bin)> {
    match series {
        [] => Vec::new(),
        [one] => bins(samples(one), step),
        [first, others @ ..] => {
            let by_interval = |series: &Series| -> Vec<(i64, f64)> {
                let bins = bins(samples(series), interval).into_iter();
                bins.map(|(number, bin)| (number, bin.sum / bin.n))
                    .collect()
            };
            let total = others.iter().fold(by_interval(first), |total, other| {
                added(&total, &by_interval(other))
            });
            let total = total.into_iter();
            bins(
                total.map(|(number, value)| (number as f64 * interval, value)),
                step,
            )
        }
    }
}

/// Collects samples, in the order of time, by the number of their step.
fn bins(samples: impl Iterator<Item = (f64, f64)>, step: f64) -> Vec<(i64, Bin)> {
    let mut bins: Vec<(i64, Bin)> = Vec::new();
    for (seconds, value) in samples {
        let number = (seconds / step).round() as i64;
        if bins.last().is_none_or(|(last, _)| *last != number) {
            bins.push((number, Bin::default()));
        }
        if let Some((_, bin)) = bins.last_mut() {
            bin.sum += value;
            bin.n += 1.0;
            bin.smallest = bin.smallest.min(value);
            bin.largest = bin.largest.max(value);
        }
    }
    bins
}

/// Returns the samples of a series since the first connect call, in seconds.
fn samples(series: &Series) -> impl Iterator<Item = (f64, f64)> {
    let samples = series.t_ns.iter().zip(&series.values);
    samples
        .filter(|(t_ns, value)| **t_ns >= 0 && value.is_finite())
        .map(|(t_ns, value)| (*t_ns as f64 / 1e9, *value))
}

/// Adds values of the same number; both are in ascending order.
fn added(a: &[(i64, f64)], b: &[(i64, f64)]) -> Vec<(i64, f64)> {
    let mut b = b.iter().peekable();
    let mut sums = Vec::with_capacity(a.len());
    for (number, value) in a {
        while b.next_if(|(other, _)| other < number).is_some() {}
        if let Some((_, other)) = b.next_if(|(other, _)| other == number) {
            sums.push((*number, value + other));
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use regatta_model::{Measurements, Outcome};

    use super::*;

    const INTERVAL: f64 = 0.1;

    /// Creates a trial with a series of each of these ends, at the interval.
    fn trial(values: &[(&str, Vec<f64>)]) -> TrialRecord {
        let series = values.iter().map(|(side, values)| Series {
            name: "goodput_bps".to_owned(),
            side: (*side).to_owned(),
            t_ns: (0..values.len() as i64).map(|n| n * 100_000_000).collect(),
            values: values.clone(),
        });
        TrialRecord {
            index: 0,
            attempt: 1,
            round: 0,
            transport: "".into(),
            condition: "".into(),
            workload: "".into(),
            started_unix_ns: 0,
            seed: 0,
            outcome: Outcome::Measured,
            reasons: Vec::new(),
            hint: regatta_model::Text::default(),
            measurements: Measurements {
                series: series.collect(),
                ..Measurements::default()
            },
        }
    }

    #[test]
    fn no_extreme_is_lost_however_long_a_series_is() {
        let mut values = vec![10.0; 100_000];
        (values[77_777], values[31_234]) = (400.0, 0.5);
        let trial = trial(&[("receiver", values)]);
        let columns = columns(&[&trial], "goodput_bps", &["receiver"], INTERVAL);
        assert!(
            columns.quartiles.len() <= 301,
            "{}",
            columns.quartiles.len()
        );
        assert_eq!(columns.quartiles.len(), columns.extremes.len());
        let largest = columns.extremes.iter().map(|[_, _, largest]| *largest);
        assert_eq!(largest.fold(0.0, f64::max), 400.0);
        let smallest = columns.extremes.iter().map(|[_, smallest, _]| *smallest);
        assert_eq!(smallest.fold(f64::INFINITY, f64::min), 0.5);
        let at = |value: f64| {
            let found = columns
                .extremes
                .iter()
                .find(|column| column[1..].contains(&value));
            found.expect("an extreme")[0]
        };
        let width = 10_000.0 / 300.0;
        assert!((at(400.0) - 7777.7).abs() <= width && (at(0.5) - 3123.4).abs() <= width);
    }

    #[test]
    fn a_short_series_is_not_thinned() {
        let trials = [[1.0, 2.0], [3.0, 4.0], [5.0, 9.0]].map(|v| trial(&[("receiver", v.into())]));
        let trials: Vec<&TrialRecord> = trials.iter().collect();
        let columns = columns(&trials, "goodput_bps", &["receiver"], INTERVAL);
        assert_eq!(
            columns.quartiles,
            [[0.0, 1.0, 3.0, 5.0], [0.1, 2.0, 4.0, 9.0]]
        );
        assert_eq!(columns.extremes, Vec::<[f64; 3]>::new());
    }

    #[test]
    fn ends_are_added_up_where_both_were_sampled() {
        let trial = trial(&[
            ("sender", vec![1.0, 2.0, 3.0]),
            ("receiver", vec![10.0, 20.0]),
        ]);
        let both = ["sender", "receiver"];
        let columns = columns(&[&trial], "goodput_bps", &both, INTERVAL);
        let medians: Vec<f64> = columns.quartiles.iter().map(|column| column[2]).collect();
        assert_eq!(medians, [11.0, 22.0]);
    }
}
