//! Time that each transport takes to settle after each step of the path's schedule.

use regatta_model::{
    Condition, Measurements, Series,
    metric::{id, series_id},
};
use regatta_stats::{Settling, settling_time};

/// Series that settles: the rate at the receiver's interface. The goodput of a transport that
/// delivers in order stops after every lost packet, however full the link is.
const ARRIVALS: &str = series_id::RECEIVED_BPS;

/// Adds the settling times of a trial under a condition with a schedule. `transfer_ns` is the end
/// of the transfer, at which the time after the last step ends.
pub(crate) fn add(condition: &Condition, transfer_ns: f64, merged: &mut Measurements) {
    if condition.schedule.is_empty() {
        return;
    }
    let is_arrivals = |it: &&Series| it.name == ARRIVALS && it.side == "receiver";
    let Some(arrivals) = merged.series.iter().find(is_arrivals) else {
        return;
    };
    let times = arrivals.t_ns.iter().map(|t| *t as f64);
    let samples: Vec<(f64, f64)> = times.zip(arrivals.values.iter().copied()).collect();
    let steps = condition.schedule.iter();
    let starts: Vec<f64> = steps.map(|step| step.at.as_nanos() as f64).collect();
    let mut settled = Series {
        name: series_id::SETTLING_TIME_NS.to_owned(),
        side: "path".to_owned(),
        t_ns: Vec::new(),
        values: Vec::new(),
    };
    let mut unsettled = 0u32;
    for (number, start) in starts.iter().enumerate() {
        let next = starts.get(number + 1);
        let end = next.map_or(transfer_ns, |next| next.min(transfer_ns));
        let from = samples.partition_point(|sample| sample.0 <= *start);
        let to = samples.partition_point(|sample| sample.0 <= end);
        match settling_time(samples.get(from..to).unwrap_or_default(), *start) {
            Some(Settling::After(time)) => {
                settled.t_ns.push(*start as i64);
                settled.values.push(time);
            }
            Some(Settling::Not) => unsettled += 1,
            None => {}
        }
    }
    let n = settled.values.len();
    if n > 0 {
        let mean = settled.values.iter().sum::<f64>() / n as f64;
        let mut sorted = settled.values.clone();
        sorted.sort_by(f64::total_cmp);
        let median = f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2]);
        merged.metrics.insert(id::SETTLING_TIME_MEAN_NS, mean);
        merged.metrics.insert(id::SETTLING_TIME_P50_NS, median);
        merged.series.push(settled);
    }
    if n > 0 || unsettled > 0 {
        merged
            .metrics
            .insert(id::UNSETTLED_STEPS, f64::from(unsettled));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use regatta_model::Step;

    use super::*;

    fn series(name: &str, values: Vec<f64>) -> Series {
        Series {
            name: name.into(),
            side: "receiver".into(),
            t_ns: (1..=values.len() as i64).map(|n| n * 100_000_000).collect(),
            values,
        }
    }

    fn merged(values: Vec<f64>) -> Measurements {
        Measurements {
            series: vec![series(ARRIVALS, values)],
            ..Measurements::default()
        }
    }

    fn steps_at(seconds: &[u64]) -> Condition {
        let mut condition = crate::tests::fake_bed::study(1, 1, 1).conditions[0].clone();
        condition.schedule = seconds
            .iter()
            .map(|at| Step {
                at: Duration::from_secs(*at),
                forward: condition.forward.clone(),
                reverse: condition.reverse.clone(),
            })
            .collect();
        condition
    }

    #[test]
    fn each_step_has_its_own_settling_time() {
        // Half a second of little after 5 s, nothing to see after 10 s, no rest after 15 s, and too
        // little time after 19 s.
        let condition = steps_at(&[5, 10, 15, 19]);
        let values = (1..=199)
            .map(|n| match n {
                51..=55 => 10e6,
                151..=190 => f64::from(n - 150) * 1e6,
                _ => 90e6,
            })
            .collect();
        let mut merged = merged(values);
        add(&condition, 19.9e9, &mut merged);
        let series = merged.series.last().expect("settling times");
        assert_eq!(series.t_ns, [5_000_000_000, 10_000_000_000]);
        assert_eq!(series.values, [0.5e9, 0.0]);
        assert_eq!(merged.metrics["settling_time_mean_ns"], 0.25e9);
        assert_eq!(merged.metrics["unsettled_steps"], 1.0);
    }

    /// A lost packet every two seconds: nothing is delivered for a round trip of 300 ms, and then
    /// everything at once, while the link stays full.
    #[test]
    fn a_full_link_is_settled_however_goodput_stalls() {
        let mut merged = merged(vec![20e6; 200]);
        let goodput = (0..200)
            .map(|n| match n % 20 {
                0..=2 => 0.0,
                3 => 77e6,
                _ => 19.25e6,
            })
            .collect();
        merged.series.insert(0, series("goodput_bps", goodput));
        add(&steps_at(&[5, 10, 15]), 20e9, &mut merged);
        assert_eq!(merged.metrics["settling_time_mean_ns"], 0.0);
        assert_eq!(merged.metrics["unsettled_steps"], 0.0);
    }

    #[test]
    fn a_path_without_a_schedule_has_none() {
        let mut merged = merged(vec![1e6; 100]);
        add(&steps_at(&[]), 10e9, &mut merged);
        assert!(merged.metrics.is_empty());
    }
}
