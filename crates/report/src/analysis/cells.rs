//! Each transport under each condition with each workload: outcomes and descriptions.

use std::collections::BTreeMap;

use regatta_model::{Outcome, Transport, TrialRecord, Unit};

use super::summary::{Cell, CountedReason, MetricSummary};
use crate::{
    RunData,
    data::{path_doubted, reached_deadline},
};

/// Every cell of the study, in its order, those without any trial included.
pub fn all(data: &RunData) -> Vec<Cell> {
    let study = &data.header.study;
    let mut cells = Vec::new();
    for workload in &study.workloads {
        for condition in &study.conditions {
            for transport in &study.transports {
                cells.push(cell(data, transport, &condition.name, &workload.name));
            }
        }
    }
    cells
}

/// Results know nothing of drivers, so loss itself is the witness, and the one driver that never
/// sends again is known by name. What was lost because a workload closed its connection too early
/// says nothing of the transport.
fn retransmits(data: &RunData, transport: &Transport) -> bool {
    let abandons = |name: &str| {
        let workload = data.header.study.workloads.iter().find(|w| w.name == name);
        workload.is_some_and(|workload| workload.kind.abandons())
    };
    let lost = |trial: &TrialRecord| {
        trial.transport == transport.label
            && trial.outcome == Outcome::Measured
            && !abandons(&trial.workload)
            && trial
                .metrics
                .get("message_loss_ratio")
                .is_some_and(|lost| *lost > 0.0)
    };
    transport.driver != "udp" && !data.trials.iter().any(lost)
}

fn cell(data: &RunData, asked: &Transport, condition: &str, workload: &str) -> Cell {
    let transport = asked.label.as_str();
    let trials: Vec<&TrialRecord> = data
        .trials
        .iter()
        .filter(|trial| {
            trial.transport == transport
                && trial.condition == condition
                && trial.workload == workload
        })
        .collect();
    let measured: Vec<&TrialRecord> = trials
        .iter()
        .copied()
        .filter(|trial| trial.outcome == Outcome::Measured)
        .collect();
    let outcomes = Outcome::ALL
        .iter()
        .map(|outcome| {
            let count = trials.iter().filter(|t| t.outcome == *outcome).count();
            (outcome.name().to_owned(), count as u64)
        })
        .collect();
    Cell {
        transport: transport.to_owned(),
        condition: condition.to_owned(),
        workload: workload.to_owned(),
        retransmits: retransmits(data, asked),
        n: measured.len() as u64,
        outcomes,
        deadline_reached: measured.iter().filter(|t| reached_deadline(t)).count() as u64,
        path_doubted: measured.iter().filter(|t| path_doubted(t)).count() as u64,
        reasons: reasons(&trials),
        metrics: descriptions(&measured),
    }
}

fn reasons(trials: &[&TrialRecord]) -> Vec<CountedReason> {
    let mut reasons: Vec<CountedReason> = Vec::new();
    for trial in trials.iter().filter(|t| t.outcome != Outcome::Measured) {
        let known = reasons.iter_mut().find(|reason| {
            reason.outcome == trial.outcome.name() && reason.reasons == trial.reasons
        });
        match known {
            Some(reason) => reason.count += 1,
            None => reasons.push(CountedReason {
                outcome: trial.outcome.name().to_owned(),
                reasons: trial.reasons.clone(),
                hint: trial.hint.clone(),
                count: 1,
            }),
        }
    }
    reasons
}

fn descriptions(measured: &[&TrialRecord]) -> BTreeMap<String, MetricSummary> {
    regatta_model::METRICS
        .iter()
        .filter_map(|metric| {
            let values: Vec<f64> = measured
                .iter()
                .filter_map(|trial| trial.metrics.get(metric.name).copied())
                .filter(|value| value.is_finite())
                .collect();
            let description = regatta_stats::describe(&values)?;
            let summary = MetricSummary {
                unit: metric.unit.name().to_owned(),
                n: description.n as u64,
                mean: description.mean,
                sd: description.sd,
                cv: description.cv,
                ci95: description
                    .ci95
                    .map(|interval| possible(metric.unit, interval)),
                median: description.median,
                q1: description.q1,
                q3: description.q3,
                min: description.min,
                max: description.max,
            };
            Some((metric.name.to_owned(), summary))
        })
        .collect()
}

/// An interval cut at what the metric can be: no metric is negative, and a part of a whole is at
/// most one. Student's t knows of neither.
fn possible(unit: Unit, [low, high]: [f64; 2]) -> [f64; 2] {
    let most = match unit {
        Unit::Ratio => 1.0,
        _ => f64::INFINITY,
    };
    [low.max(0.0), high.min(most)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_end_where_the_metric_does() {
        assert_eq!(possible(Unit::Ratio, [-0.2, 1.3]), [0.0, 1.0]);
        assert_eq!(possible(Unit::CoreRatio, [-0.2, 1.3]), [0.0, 1.3]);
        assert_eq!(possible(Unit::BitsPerSecond, [1.0, 2.0]), [1.0, 2.0]);
    }
}
