//! Every pair of transports, paired by round.

use std::collections::BTreeMap;

use regatta_model::{Better, metric};
use regatta_stats::{bonferroni_confidence, compare_paired, holm};

use super::{
    CONFIDENCE, HEADLINE_METRICS,
    summary::{Comparison, Conclusion},
};
use crate::RunData;

/// Every pair under each condition and workload, for each headline metric.
pub fn all(data: &RunData) -> Vec<Comparison> {
    let study = &data.header.study;
    let mut comparisons = Vec::new();
    for workload in &study.workloads {
        for condition in &study.conditions {
            for metric in HEADLINE_METRICS {
                comparisons.extend(family(data, &condition.name, &workload.name, metric));
            }
        }
    }
    comparisons
}

/// The values of one metric by round.
fn by_round(
    data: &RunData,
    transport: &str,
    condition: &str,
    workload: &str,
    metric: &str,
) -> BTreeMap<u32, f64> {
    data.measured(transport, condition, workload)
        .filter_map(|trial| Some((trial.round, *trial.metrics.get(metric)?)))
        .filter(|(_, value)| value.is_finite())
        .collect()
}

/// The pairs that one correction covers: those of one condition, workload and metric.
fn family(data: &RunData, condition: &str, workload: &str, metric: &str) -> Vec<Comparison> {
    let columns: Vec<(&str, BTreeMap<u32, f64>, Option<f64>)> = data
        .header
        .study
        .transports
        .iter()
        .map(|transport| {
            let label = transport.label.as_str();
            let values = by_round(data, label, condition, workload, metric);
            let lost = by_round(data, label, condition, workload, "message_loss_ratio");
            let loss = lost.values().sum::<f64>() / lost.len().max(1) as f64;
            (label, values, (loss > 0.0).then_some(loss))
        })
        .filter(|(_, values, _)| !values.is_empty())
        .collect();
    let mut pairs = Vec::new();
    for (position, a) in columns.iter().enumerate() {
        for b in &columns[position + 1..] {
            let rounds: Vec<(f64, f64)> =
                a.1.iter()
                    .filter_map(|(round, value)| Some((*value, *b.1.get(round)?)))
                    .collect();
            pairs.push((a, b, rounds));
        }
    }
    let tested = pairs.iter().filter(|(_, _, rounds)| rounds.len() >= 2);
    let family = tested.count().max(1);
    let confidence = bonferroni_confidence(CONFIDENCE, family);
    let better = metric::find(metric).map_or(Better::Higher, |metric| metric.better);

    let mut comparisons: Vec<Comparison> = pairs
        .into_iter()
        .map(|(a, b, rounds)| {
            let paired = compare_paired(&rounds, confidence);
            let ratio = paired.and_then(|paired| paired.ratio);
            let difference_interval = paired.and_then(|paired| paired.difference_interval);
            let ratio_interval = ratio.and_then(|ratio| ratio.interval);
            Comparison {
                condition: condition.to_owned(),
                workload: workload.to_owned(),
                metric: metric.to_owned(),
                a: a.0.to_owned(),
                b: b.0.to_owned(),
                n: rounds.len() as u64,
                difference: paired.map(|paired| paired.mean_difference),
                difference_interval,
                ratio: ratio.map(|ratio| ratio.ratio),
                ratio_interval,
                confidence,
                family: family as u64,
                p_value: if ratio.is_some() {
                    // The test behind the ratio's interval is that of the logarithms.
                    let logarithms: Vec<(f64, f64)> =
                        rounds.iter().map(|(a, b)| (a.ln(), b.ln())).collect();
                    compare_paired(&logarithms, confidence).and_then(|logs| logs.p_value)
                } else {
                    paired.and_then(|paired| paired.p_value)
                },
                p_holm: None,
                loss_a: a.2,
                loss_b: b.2,
                conclusion: conclude(difference_interval, ratio_interval, better),
            }
        })
        .collect();

    let tested: Vec<(usize, f64)> = comparisons
        .iter()
        .enumerate()
        .filter_map(|(position, comparison)| Some((position, comparison.p_value?)))
        .collect();
    let p_values: Vec<f64> = tested.iter().map(|(_, p)| *p).collect();
    for ((position, _), adjusted) in tested.into_iter().zip(holm(&p_values)) {
        comparisons[position].p_holm = Some(adjusted);
    }
    comparisons
}

/// The ratio's interval decides where there is one, else that of the difference.
fn conclude(difference: Option<[f64; 2]>, ratio: Option<[f64; 2]>, better: Better) -> Conclusion {
    let (interval, equal) = match (ratio, difference) {
        (Some(interval), _) => (interval, 1.0),
        (None, Some(interval)) => (interval, 0.0),
        (None, None) => return Conclusion::NotEnoughRounds,
    };
    let higher = if interval[0] > equal {
        true
    } else if interval[1] < equal {
        false
    } else {
        return Conclusion::NoDifferenceDetected;
    };
    if higher == (better != Better::Lower) {
        Conclusion::Faster
    } else {
        Conclusion::Slower
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_delay_is_faster_and_less_goodput_is_slower() {
        let below = Some([0.5, 0.9]);
        assert_eq!(conclude(None, below, Better::Lower), Conclusion::Faster);
        assert_eq!(conclude(None, below, Better::Higher), Conclusion::Slower);
        let around = Some([0.9, 1.1]);
        assert_eq!(
            conclude(None, around, Better::Higher),
            Conclusion::NoDifferenceDetected
        );
        assert_eq!(
            conclude(Some([1.0, 2.0]), None, Better::Higher),
            Conclusion::Faster
        );
        assert_eq!(
            conclude(None, None, Better::Higher),
            Conclusion::NotEnoughRounds
        );
    }
}
