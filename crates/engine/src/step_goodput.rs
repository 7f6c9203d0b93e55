//! Goodput in each step of the path's schedule.

use regatta_model::{Condition, Measurements, Series, metric::series_id};

/// Bits that were delivered by a time, from samples of the goodput.
struct Delivered {
    /// Times in nanoseconds since the first connect call, ascending, each with the bits that were delivered by then.
    by_time: Vec<(f64, f64)>,
}

impl Delivered {
    /// Adds up the samples until the end of the transfer; `None` for fewer than two.
    fn of(series: &Series, end_ns: f64) -> Option<Self> {
        let [first, second, ..] = series.t_ns[..] else {
            return None;
        };
        // The sampler begins an interval before its first sample.
        let begin = (2 * first - second).max(0) as f64;
        let mut by_time = vec![(begin, 0.0)];
        let (mut before, mut bits) = (begin, 0.0);
        for (t, rate) in series.t_ns.iter().zip(&series.values) {
            let t = *t as f64;
            if !rate.is_finite() || t > end_ns || t <= before {
                continue;
            }
            bits += rate * (t - before) / 1e9;
            before = t;
            by_time.push((t, bits));
        }
        Some(Self { by_time })
    }

    /// Returns the time of the last sample.
    fn end(&self) -> f64 {
        self.by_time.last().map_or(0.0, |(t, _)| *t)
    }

    /// Returns the bits that were delivered by a time; within a sample the rate is constant.
    fn by(&self, t: f64) -> f64 {
        let after = self.by_time.partition_point(|sample| sample.0 <= t);
        match (
            after.checked_sub(1).map(|it| self.by_time[it]),
            self.by_time.get(after),
        ) {
            (None, _) => 0.0,
            (Some((_, bits)), None) => bits,
            (Some((before, bits)), Some((next, more))) => {
                bits + (more - bits) * (t - before) / (next - before)
            }
        }
    }

    /// Returns the rate between two times, in bits per second.
    fn rate(&self, from: f64, to: f64) -> f64 {
        (self.by(to) - self.by(from)) / (to - from) * 1e9
    }
}

/// Adds the goodput in each step of the path's schedule. `end_ns` is the end of the transfer; the samples are those of one
/// direction.
pub(crate) fn add(condition: &Condition, end_ns: f64, merged: &mut Measurements) {
    if condition.schedule.is_empty() {
        return;
    }
    let mut goodputs = merged
        .series
        .iter()
        .filter(|it| it.name == series_id::GOODPUT_BPS);
    let (Some(series), None) = (goodputs.next(), goodputs.next()) else {
        return;
    };
    let Some(delivered) = Delivered::of(series, end_ns) else {
        return;
    };
    let later = condition
        .schedule
        .iter()
        .map(|step| step.at.as_nanos() as f64);
    let starts: Vec<f64> = std::iter::once(0.0).chain(later).collect();
    let mut steps = Series {
        name: series_id::STEP_GOODPUT_BPS.to_owned(),
        side: "receiver".to_owned(),
        t_ns: Vec::new(),
        values: Vec::new(),
    };
    for (position, start) in starts.iter().enumerate() {
        let next = starts.get(position + 1).copied().unwrap_or(f64::INFINITY);
        let end = next.min(delivered.end());
        if end > *start {
            steps.t_ns.push(*start as i64);
            steps.values.push(delivered.rate(*start, end));
        }
    }
    if !steps.values.is_empty() {
        merged.series.push(steps);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use regatta_model::Step;

    use super::*;

    /// Samples every 100 ms.
    fn merged(rates: impl IntoIterator<Item = f64>) -> Measurements {
        let values: Vec<f64> = rates.into_iter().collect();
        Measurements {
            series: vec![Series {
                name: series_id::GOODPUT_BPS.to_owned(),
                side: "receiver".to_owned(),
                t_ns: (1..=values.len() as i64).map(|n| n * 100_000_000).collect(),
                values,
            }],
            ..Measurements::default()
        }
    }

    fn condition(steps: &[u64]) -> Condition {
        let mut condition = crate::tests::fake_bed::study(1, 1, 1).conditions[0].clone();
        let step = |at: &u64| Step {
            at: Duration::from_secs(*at),
            forward: condition.forward.clone(),
            reverse: condition.reverse.clone(),
        };
        condition.schedule = steps.iter().map(step).collect();
        condition
    }

    /// By hand: two seconds before the first step, one until the second, and half a second until the end. The third step is
    /// after it.
    #[test]
    fn each_step_has_its_goodput() {
        let mut found = merged([10e6; 20].into_iter().chain([40e6; 10]).chain([80e6; 5]));
        add(&condition(&[2, 3, 4]), 3.5e9, &mut found);
        let steps = found.series.last().expect("a series");
        assert_eq!(steps.name, "step_goodput_bps");
        assert_eq!(steps.t_ns, [0, 2_000_000_000, 3_000_000_000]);
        for (found, expected) in steps.values.iter().zip([10e6, 40e6, 80e6]) {
            assert!((found - expected).abs() < 1.0, "{:?}", steps.values);
        }
    }

    /// Of both directions at once there is no single rate, and without a schedule no step.
    #[test]
    fn two_directions_and_a_constant_path_have_no_steps() {
        let mut found = merged([10e6; 30]);
        add(&condition(&[]), 3e9, &mut found);
        assert_eq!(found.series.len(), 1);
        let other = found.series[0].clone();
        found.series.push(other);
        add(&condition(&[1]), 3e9, &mut found);
        assert_eq!(found.series.len(), 2);
    }

    /// What the receiver gets after the end of the transfer belongs to no step.
    #[test]
    fn samples_after_the_end_do_not_count() {
        let mut found = merged([10e6; 20].into_iter().chain([90e6; 20]));
        add(&condition(&[1]), 2e9, &mut found);
        let steps = &found.series.last().expect("a series").values;
        assert!(steps.iter().all(|it| (it - 10e6).abs() < 1.0), "{steps:?}");
    }
}
