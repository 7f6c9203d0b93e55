//! What a condition does to each transport, against the first condition of the study.

use super::{CONFIDENCE, summary::Difference};
use crate::RunData;

/// The metrics of the published table of relative differences (rate, delay, CPU), and ours.
pub const METRICS: [&str; 4] = [
    "goodput_bps",
    "round_trip_delay_ns",
    "cpu_host_ratio",
    "goodput_per_core_percent_bps",
];

/// Each transport under each further condition.
pub fn all(data: &RunData) -> Vec<Difference> {
    let study = &data.header.study;
    let Some((first, others)) = study.conditions.split_first() else {
        return Vec::new();
    };
    let mut differences = Vec::new();
    for workload in &study.workloads {
        for other in others {
            for transport in &study.transports {
                for metric in METRICS {
                    let values = |condition: &str| -> Vec<f64> {
                        data.measured(&transport.label, condition, &workload.name)
                            .filter_map(|trial| trial.metrics.get(metric).copied())
                            .filter(|value| value.is_finite())
                            .collect()
                    };
                    let (from, to) = (values(&first.name), values(&other.name));
                    let (Some(a), Some(b)) =
                        (regatta_stats::describe(&from), regatta_stats::describe(&to))
                    else {
                        continue;
                    };
                    let relative = regatta_stats::relative_difference(&a, &b, CONFIDENCE);
                    differences.push(Difference {
                        transport: transport.label.clone(),
                        workload: workload.name.clone(),
                        metric: metric.to_owned(),
                        from: first.name.clone(),
                        to: other.name.clone(),
                        mean_from: a.mean,
                        mean_to: b.mean,
                        relative: relative.map(|r| r.relative),
                        interval: relative.and_then(|r| r.interval),
                    });
                }
            }
        }
    }
    differences
}
