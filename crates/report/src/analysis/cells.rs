//! Each transport under each condition with each workload: outcomes and descriptions.

use std::collections::BTreeMap;

use itertools::Itertools as _;
use regatta_model::{
    MetricDefinition, OptionValue, Outcome, Transport, TrialRecord, Unit, Workload,
    metric::{Place, id, is_in},
};
use regatta_stats::{Estimate, autocorrelation, binomial_interval, sen_slope, trend_p_value};

use super::{
    CONFIDENCE, failures,
    index::{ByCell, Index},
    mean::{CORRELATED_CELL, MeanKind, MeanOfAll, shown_interval},
    summary::{Cell, CountedReason, MetricSummary},
    values::values_of,
};
use crate::{
    RunData,
    data::{CellGroup, path_doubted},
    format::grouped,
    language,
};

/// Fact of a trial: how its transport retransmits.
pub const RETRANSMISSION: &str = "retransmission";

/// Returns all cells of the study, in its order, including those without any trial.
pub fn all(index: &Index<'_>, trials: &ByCell<'_>) -> Vec<Cell> {
    let data = index.data;
    let transports = data.header.study.transports.iter();
    let transports: Vec<(&Transport, bool)> = transports
        .map(|transport| (transport, retransmits(data, transport)))
        .collect();
    let of_group = |(group, &(transport, retransmits)): (CellGroup<'_>, &(&Transport, bool))| {
        let trials = trials.get(&group.cell(&transport.label));
        cell(
            index,
            transport,
            retransmits,
            group,
            trials.map_or(&[], Vec::as_slice),
        )
    };
    let cells = data.groups().cartesian_product(&transports);
    let study = &data.header.study;
    let is_there = |(group, (transport, _)): &(CellGroup<'_>, &(&Transport, bool))| {
        study.has_cell(&transport.label, group.workload)
    };
    cells.filter(is_there).map(of_group).collect()
}

/// Whether a transport retransmits, according to the facts of its trials; for results of versions
/// without that fact, according to the names of the drivers and the mode that never do.
fn retransmits(data: &RunData, transport: &Transport) -> bool {
    let retransmission = (data.trials.iter())
        .filter(|trial| trial.transport == transport.label)
        .find_map(|trial| trial.measurements.facts.get(RETRANSMISSION));
    match retransmission {
        Some(retransmission) => retransmission != "none",
        None => {
            let datagrams = OptionValue::Text("datagram".to_owned());
            transport.driver != "udp" && transport.options.get("mode") != Some(&datagrams)
        }
    }
}

fn cell(
    index: &Index<'_>,
    transport: &Transport,
    retransmits: bool,
    group: CellGroup<'_>,
    trials: &[&TrialRecord],
) -> Cell {
    let work = group.workload;
    let with = |outcome: Outcome| {
        let trials = trials.iter().copied();
        trials.filter(move |it| it.outcome == outcome)
    };
    let measured: Vec<&TrialRecord> = with(Outcome::Measured).collect();
    let outcomes = Outcome::ALL.map(|it| (it.name().to_owned(), with(it).count() as u64));
    let study = &index.data.header.study;
    let primary = study.primary_metric(work);
    let own = study.rank_by.is_some() || !is_in(Place::Compared, primary);
    let values = index.values(group.cell(&transport.label), primary);
    let values: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
    let kind = MeanKind::of(values.iter().copied());
    let logs = kind
        .and_then(|kind| kind.series(&values))
        .unwrap_or_default();
    let drifts = trend_p_value(&logs).is_some_and(|p_value| p_value < CORRELATED_CELL);
    let slope = drifts.then(|| sen_slope(&logs)).flatten();
    Cell {
        transport: transport.label.clone(),
        condition: group.condition.name.clone(),
        workload: work.name.clone(),
        retransmits,
        n: measured.len() as u64,
        outcomes: outcomes.into(),
        deadline_reached: measured.iter().filter(|t| t.reached_deadline()).count() as u64,
        path_doubted: measured.iter().filter(|t| path_doubted(t)).count() as u64,
        failures: failures::of(trials, work),
        autocorrelation: autocorrelation(std::slice::from_ref(&logs), 1, CORRELATED_CELL),
        trend_ratio: slope.map(|slope| (slope * (logs.len() - 1) as f64).exp_m1()),
        reasons: reasons(trials),
        metrics: descriptions(trials, work, primary),
        clock_errors_ns: clock_errors(&measured, work),
        ranked_by: own.then(|| primary.to_owned()),
    }
}

/// Returns the largest error from the hosts' clocks of each delay that depends on them.
fn clock_errors(measured: &[&TrialRecord], work: &Workload) -> BTreeMap<String, f64> {
    let delays = work.kind.one_way_delays();
    let names = delays.into_iter().flat_map(|family| family.names());
    let largest = |name: &str| {
        let trials = measured.iter().map(|trial| &trial.measurements.metrics);
        let with_delay = trials.filter(|metrics| metrics.contains_key(name));
        let bounds = with_delay.filter_map(|metrics| metrics.get(id::CLOCK_OFFSET_BOUND_NS));
        bounds.copied().reduce(f64::max)
    };
    names
        .filter_map(|name| Some((name.to_owned(), largest(name)?)))
        .collect()
}

fn reasons(trials: &[&TrialRecord]) -> Vec<CountedReason> {
    let trials = trials.iter().filter(|it| it.outcome != Outcome::Measured);
    let alike = grouped(trials.map(|trial| ((trial.outcome, &trial.reasons), &trial.hint)));
    let counted = (alike.into_iter()).map(|((outcome, reasons), hints)| CountedReason {
        outcome: outcome.name().to_owned(),
        reasons: reasons.iter().map(language::shown).collect(),
        hint: language::shown(hints[0]),
        count: hints.len() as u64,
    });
    counted.collect()
}

fn descriptions(
    trials: &[&TrialRecord],
    workload: &Workload,
    primary: &str,
) -> BTreeMap<String, MetricSummary> {
    let measured = trials.iter().filter(|it| it.outcome == Outcome::Measured);
    // Of more than a hundred metrics a trial has few.
    let mut values: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for trial in measured {
        for (name, value) in &trial.measurements.metrics {
            let value = match name {
                id::TRANSFER_TIME_NS => trial.value(name, &workload.kind).unwrap_or(*value),
                _ => *value,
            };
            if value.is_finite() {
                values.entry(name).or_default().push(value);
            }
        }
    }
    let described = regatta_model::METRICS.iter().filter_map(|metric| {
        let of_measured = values.get(metric.name)?;
        let is_primary = metric.name == primary;
        let of_all: Vec<f64> = match is_primary || super::is_compared(metric.name) {
            true => {
                let values = values_of(trials, workload, (metric.name, is_primary)).into_iter();
                values.map(|(_, value)| value).collect()
            }
            false => Vec::new(),
        };
        let described = match metric.name {
            // A share of all.
            id::WHOLE_TRANSFER_RATIO if is_primary => describe_metric(metric, &of_all, &[]),
            _ => describe_metric(metric, of_measured, &of_all),
        };
        Some((metric.name.to_owned(), described?))
    });
    described.collect()
}

/// Describes the finite values of one metric of the measured trials of a cell, in the order of the rounds; `of_all` are those
/// of every trial that was started ([`super::value_of`]), if cells are compared by this metric. `None` without any measured one.
#[must_use]
pub fn describe_metric(
    metric: &MetricDefinition,
    values: &[f64],
    of_all: &[f64],
) -> Option<MetricSummary> {
    let description = regatta_stats::describe(values)?;
    let series = |values: Vec<f64>| {
        let rho = autocorrelation(std::slice::from_ref(&values), 1, CORRELATED_CELL);
        Estimate::of(&values, rho)
    };
    let mean = series(values.to_vec());
    let geometric = (values.iter().all(|v| *v > 0.0))
        .then(|| series(values.iter().map(|v| v.ln()).collect()))
        .flatten();
    let share = (metric.name == id::WHOLE_TRANSFER_RATIO).then(|| {
        let complete = values.iter().filter(|value| **value > 0.5).count();
        binomial_interval(complete as u64, values.len() as u64, CONFIDENCE)
    });
    Some(MetricSummary {
        unit: metric.unit.name().to_owned(),
        n: description.n as u64,
        mean: description.mean,
        sd: description.sd,
        cv: description.cv,
        ci95: share.or_else(|| {
            let interval = mean.and_then(|m| shown_interval(&m))?;
            Some(possible(metric.unit, interval))
        }),
        geometric_mean: geometric.map(|g| g.mean.exp().clamp(description.min, description.max)),
        geometric_ci95: geometric
            .and_then(|g| shown_interval(&g))
            .map(|interval| possible(metric.unit, interval.map(f64::exp))),
        of_all: MeanOfAll::of(of_all).filter(|all| all.kind != MeanKind::Geometric),
        median: description.median,
        q1: description.q1,
        q3: description.q3,
        min: description.min,
        max: description.max,
    })
}

/// Clips an interval to the metric's possible values, which Student's t does not know: no metric is
/// negative, and a part of a whole is at most one.
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
    use crate::analysis::fixture::{bulk, messages, stopped, trial};

    #[test]
    fn a_delay_has_the_largest_error_of_the_clocks() {
        let of = |metrics: &[(&str, f64)]| trial(0, Outcome::Measured, metrics);
        let delay = (id::MESSAGE_DELAY_P95_NS, 1e6);
        let trials = [
            of(&[delay, (id::CLOCK_OFFSET_BOUND_NS, 5.0)]),
            of(&[delay, (id::CLOCK_OFFSET_BOUND_NS, 7.0)]),
            of(&[(id::CLOCK_OFFSET_BOUND_NS, 9.0)]),
        ];
        let found = clock_errors(&trials.each_ref(), &messages());
        let expected = [(id::MESSAGE_DELAY_P95_NS.to_owned(), 7.0)];
        assert_eq!(found, BTreeMap::from(expected));
    }

    /// A trial that failed has no whole transfer, which counts where the work is ranked by their share.
    #[test]
    fn the_share_of_whole_transfers_is_of_every_trial() {
        let metrics = [(id::WHOLE_TRANSFER_RATIO, 1.0)];
        let trials = [
            trial(0, Outcome::Measured, &metrics),
            trial(1, Outcome::Failed, &[]),
        ];
        let mean = |primary| {
            let described = descriptions(&trials.each_ref(), &bulk(), primary);
            described[id::WHOLE_TRANSFER_RATIO].mean
        };
        assert_eq!(mean(id::WHOLE_TRANSFER_RATIO), 0.5);
        assert_eq!(mean(id::GOODPUT_BPS), 1.0);
    }

    /// 500 of 1000 bytes in 1 s, twice.
    #[test]
    fn the_time_that_is_shown_is_the_one_that_is_compared() {
        let metrics = [(id::TRANSFER_TIME_NS, 1e9), (id::BYTES_DELIVERED, 500.0)];
        let trials = [stopped(0, &metrics), stopped(1, &metrics)];
        let described = descriptions(&trials.each_ref(), &bulk(), id::TRANSFER_TIME_NS);
        let time = &described[id::TRANSFER_TIME_NS];
        assert!((time.compared().0 / 2e9 - 1.0).abs() < 1e-9);
        assert_eq!((time.mean, time.min, time.max), (2e9, 2e9, 2e9));
    }

    #[test]
    fn half_a_transfer_is_not_whole() {
        let metric = regatta_model::metric::find(id::WHOLE_TRANSFER_RATIO).expect("a metric");
        let described = describe_metric(metric, &[0.5, 1.0], &[]).expect("values");
        let expected = binomial_interval(1, 2, CONFIDENCE);
        assert_eq!(described.ci95, Some(expected));
    }

    #[test]
    fn intervals_end_where_the_metric_does() {
        assert_eq!(possible(Unit::Ratio, [-0.2, 1.3]), [0.0, 1.0]);
        assert_eq!(possible(Unit::CoreRatio, [-0.2, 1.3]), [0.0, 1.3]);
        assert_eq!(possible(Unit::BitsPerSecond, [1.0, 2.0]), [1.0, 2.0]);
    }
}
