//! Largest rate of a second of a trial, and the time that a transport takes to it.

use regatta_model::{
    Measurements, Series,
    metric::{id, series_id},
};

/// Window over which a rate is taken, in nanoseconds.
const WINDOW_NS: f64 = 1e9;

/// Share of the largest rate at which a transport is close to it.
const CLOSE: f64 = 0.95;

/// Rate of the window that ends at some time of a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
struct WindowRate {
    /// End of the window since the first connect call, in nanoseconds.
    end_ns: f64,
    /// Mean rate, in bits per second.
    bps: f64,
}

/// Adds the peak of what the receiver's interface gets; nothing where no sample ends a whole window, or where samples are
/// longer than one.
pub(crate) fn add(merged: &mut Measurements) {
    let is_arrivals = |it: &&Series| it.name == series_id::RECEIVED_BPS && it.side == "receiver";
    let Some(arrivals) = merged.series.iter().find(is_arrivals) else {
        return;
    };
    let windows = windows(&arrivals.t_ns, &arrivals.values);
    // Windows of one rate differ by rounding.
    let higher = |peak: WindowRate, it| {
        if rounded(it) > rounded(peak) {
            it
        } else {
            peak
        }
    };
    let Some(peak) = windows.iter().copied().reduce(higher) else {
        return;
    };
    let close = windows.iter().find(|it| it.bps >= CLOSE * peak.bps);
    let metrics = [
        (id::RECEIVED_PEAK_BPS, peak.bps),
        (id::TIME_TO_PEAK_NS, peak.end_ns),
        (id::TIME_TO_95_OF_PEAK_NS, close.unwrap_or(&peak).end_ns),
    ];
    for (metric, value) in metrics {
        merged.metrics.insert(metric, value);
    }
}

/// Returns the rate in whole bits per second.
const fn rounded(window: WindowRate) -> f64 {
    window.bps.round()
}

/// Returns the rate of each whole window that ends with a sample. A sample is the mean rate since the one before it.
fn windows(ends: &[i64], rates: &[f64]) -> Vec<WindowRate> {
    let ends: Vec<f64> = ends.iter().map(|end| *end as f64).collect();
    let lengths: Vec<f64> = (ends.windows(2)).map(|pair| pair[1] - pair[0]).collect();
    if lengths.iter().any(|length| *length > WINDOW_NS) {
        return Vec::new();
    }
    let mut found = Vec::new();
    // Bits of the samples that lie within the window, of which the first may begin before it.
    let (mut first, mut bits) = (0, 0.0);
    for (last, (length, rate)) in lengths.iter().zip(&rates[1..]).enumerate() {
        bits += length * rate;
        let start = ends[last + 1] - WINDOW_NS;
        while ends[first + 1] <= start {
            bits -= lengths[first] * rates[first + 1];
            first += 1;
        }
        let before = (start - ends[first]).max(0.0) * rates[first + 1];
        if ends[0] <= start {
            found.push(WindowRate {
                end_ns: ends[last + 1],
                bps: (bits - before) / WINDOW_NS,
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples of 100 ms.
    fn merged(values: Vec<f64>) -> Measurements {
        Measurements {
            series: vec![Series {
                name: series_id::RECEIVED_BPS.into(),
                side: "receiver".into(),
                t_ns: (1..=values.len() as i64).map(|n| n * 100_000_000).collect(),
                values,
            }],
            ..Measurements::default()
        }
    }

    #[test]
    fn the_peak_is_that_of_a_whole_second() {
        // A burst of 100 ms, then a second at 50 Mbit/s that ends after 5 s, and little after that.
        let values = (1..=80).map(|n| match n {
            20 => 200e6,
            41..=50 => 50e6,
            _ => 1e6,
        });
        let mut merged = merged(values.collect());
        add(&mut merged);
        let bps = merged.metrics["received_peak_bps"];
        assert!((bps - 50e6).abs() < 1.0, "{bps}");
        assert_eq!(merged.metrics["time_to_peak_ns"], 5e9);
    }

    #[test]
    fn a_transport_is_close_to_its_peak_before_it_has_it() {
        let values = (1..=200).map(|n| match n {
            ..150 => f64::from(n).min(100.0) * 1e6,
            _ => 104e6,
        });
        let mut merged = merged(values.collect());
        add(&mut merged);
        assert_eq!(merged.metrics["time_to_peak_ns"], 15.9e9);
        // Four samples of the rise and six at 100 have a mean of 99.
        assert_eq!(merged.metrics["time_to_95_of_peak_ns"], 10.5e9);
    }

    #[test]
    fn a_trial_shorter_than_a_second_has_no_peak() {
        let mut merged = merged(vec![1e6; 10]);
        add(&mut merged);
        assert!(merged.metrics.is_empty());
    }

    #[test]
    fn samples_longer_than_a_second_have_no_peak() {
        let mut merged = merged(vec![1e6; 100]);
        for t in &mut merged.series[0].t_ns {
            *t *= 20;
        }
        add(&mut merged);
        assert!(merged.metrics.is_empty());
    }

    /// A window that begins within a sample has its part of it.
    #[test]
    fn a_window_takes_a_part_of_a_long_sample() {
        let found = windows(&[0, 700_000_000, 1_400_000_000], &[0.0, 10.0, 20.0]);
        let expected = WindowRate {
            end_ns: 1.4e9,
            bps: 0.3 * 10.0 + 0.7 * 20.0,
        };
        assert_eq!(found.len(), 1);
        assert!((found[0].bps - expected.bps).abs() < 1e-9, "{found:?}");
        assert_eq!(found[0].end_ns, expected.end_ns);
    }
}
