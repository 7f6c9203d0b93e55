//! Warnings of a run, equal ones once with their number.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use regatta_model::{Clock, Outcome, TrialRecord, Warning, metric::id, units::format_duration};

use super::{
    builds,
    index::Index,
    summary::{Cell, CountedWarning},
};
use crate::{
    RunData,
    format::{grouped, number, signed_percent},
    language::{self, tr},
};

/// Lists the warnings of the run first, then those of trials, in order of appearance, then those
/// about the rounds.
///
/// Warnings of trials are equal if they are of one kind, whatever their arguments. Those of the run are listed once for each
/// kind, with the number of the others. A trial's warning with the very text of one of the run is counted with that: a
/// failed path check marks its trials so.
pub fn all(index: &Index<'_>, cells: &[Cell]) -> Vec<CountedWarning> {
    let data = index.data;
    let of_run = data.warnings.iter().cloned();
    let of_run = of_run.chain(builds::warnings(&data.header));
    let of_run = grouped(of_run.chain(data.header.warnings()).map(|it| (it, ())));
    let of_run = of_run.into_iter().map(|(warning, _)| warning);
    let of_run = of_run.map(|it| (it.kind().map(str::to_owned), it));
    let of_run: Vec<Vec<Warning>> = (grouped(of_run).into_iter())
        .map(|(_, alike)| alike)
        .collect();
    let mut counted: Vec<CountedWarning> = (of_run.iter())
        .map(|alike| CountedWarning::of_run(alike[0].clone(), Vec::new()))
        .collect();
    // Transports and conditions of each warning, which `cells` names.
    let mut seen: BTreeSet<(usize, [&str; 2])> = BTreeSet::new();
    for trial in &data.trials {
        let key = [&*trial.transport, &*trial.condition];
        let cell = || named(&trial.transport, &trial.condition);
        for (position, warning) in trial.measurements.warnings.iter().enumerate() {
            // One trial may carry a code twice, once for each end: it counts once.
            let alike = |other: &Warning| other.kind() == warning.kind();
            if trial.measurements.warnings[..position].iter().any(alike) {
                continue;
            }
            let known = counted.iter_mut().enumerate().find(|(position, counted)| {
                let of_run = of_run.get(*position);
                of_run.map_or_else(|| alike(&counted.warning), |all| all.contains(warning))
            });
            match known {
                Some((position, known)) => {
                    if position >= of_run.len() {
                        known.trials += 1;
                    }
                    if seen.insert((position, key)) {
                        known.cells.push(cell());
                    }
                }
                None => {
                    seen.insert((counted.len(), key));
                    counted.push(CountedWarning {
                        warning: warning.clone(),
                        trials: 1,
                        cells: vec![cell()],
                    });
                }
            }
        }
    }
    for (position, counted) in counted.iter_mut().enumerate() {
        counted.warning = language::warning(&counted.warning);
        let alike = of_run.get(position).map_or(1, Vec::len);
        if alike > 1 {
            let message = &mut counted.warning.message;
            *message = tr!("{} (and {} alike)", message, alike - 1);
        }
    }
    counted.extend(outcomes(data));
    counted.extend(series(data));
    counted.extend(correlated(data.header.study.guest.clock, cells));
    counted.extend(drifting(cells));
    counted.extend(nodes_disagree(index));
    counted
}

/// Returns warnings about trials that were spoiled by the machine or reached no end, each kind
/// once.
fn outcomes(data: &RunData) -> Vec<CountedWarning> {
    let ended = |outcome: Outcome| -> Vec<&TrialRecord> {
        let trials = data.trials.iter();
        trials.filter(|trial| trial.outcome == outcome).collect()
    };
    let kinds: [(&str, Vec<&TrialRecord>, String, String); 3] = [
        (
            "trials_repeated",
            data.repeated.iter().filter(|t| t.attempt == 1).collect(),
            tr!(
                "the machine, or somebody on it, spoiled some trials, which were repeated at the end of their round; the last attempt counts"
            ),
            tr!("leave the machine alone during the run"),
        ),
        (
            "trials_invalid",
            ended(Outcome::Invalid),
            tr!(
                "the machine, or somebody on it, spoiled some trials at every attempt, so they enter no figure"
            ),
            tr!("leave the machine alone during the run, or ask for a lower `--rate`"),
        ),
        (
            "trials_timed_out",
            ended(Outcome::TimedOut),
            tr!(
                "some trials came to no end in time, which is a result of their transports: where transports and runs are compared they count, as a rate of zero or a time without end, and other figures leave them out"
            ),
            tr!(
                "the reasons are in the report; allow more time with `--connect-deadline` or `--deadline`"
            ),
        ),
    ];
    let kinds = kinds.into_iter();
    let occurred = kinds.filter(|(_, trials, ..)| !trials.is_empty());
    let warnings = occurred.map(|(code, trials, message, hint)| {
        let cells = trials.iter().map(|it| named(&it.transport, &it.condition));
        CountedWarning {
            warning: Warning::of_texts(code, message, hint),
            trials: trials.len() as u64,
            cells: BTreeSet::from_iter(cells).into_iter().collect(),
        }
    });
    warnings.collect()
}

/// Lateness of a round, as a part of its period, above which it was late.
const LATE: f64 = 0.01;

/// Returns warnings about the rounds of a series that began late, and about periods that were missed.
fn series(data: &RunData) -> Vec<CountedWarning> {
    let Some(every) = data.header.study.every else {
        return Vec::new();
    };
    let metric = |trial: &TrialRecord, name| trial.measurements.metrics.get(name).copied();
    // By round: the largest lateness, and the periods that were missed before it.
    let mut rounds: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    for trial in &data.trials {
        let late = metric(trial, id::SERIES_LATENESS_NS);
        let Some((late, period)) = late.zip(metric(trial, id::SERIES_PERIOD)) else {
            continue;
        };
        let round = rounds.entry(trial.round).or_default();
        round.0 = round.0.max(late);
        round.1 = round.1.max(period - f64::from(trial.round));
    }
    let of = |code: &str, message: String, hint: String| {
        CountedWarning::of_run(Warning::of_texts(code, message, hint), Vec::new())
    };
    let every_ns = every.as_nanos() as f64;
    let duration_text = |time: Duration| language::quantity(format_duration(time));
    let of_ns = |ns: f64| duration_text(Duration::from_millis((ns / 1e6).round() as u64));
    let late = rounds.values().filter(|round| round.0 > every_ns * LATE);
    let (number, largest) = late.fold((0, 0.0_f64), |(n, most), round| (n + 1, most.max(round.0)));
    let missed = (rounds.values()).fold(0.0_f64, |most, round| most.max(round.1));
    let late = (number > 0).then(|| {
        of(
            "series_late",
            tr!(
                "{} of {} rounds of the series began late, by {} at most",
                number,
                rounds.len(),
                of_ns(largest)
            ),
            tr!(
                "the metric `series_lateness_ns` has the lateness of each trial; a longer `every`, a shorter `deadline` or fewer cells leave more room"
            ),
        )
    });
    let missed = (missed > 0.0).then(|| {
        of(
            "series_periods_missed",
            tr!(
                "{} periods of {} passed without a round, because the run was interrupted or its rounds took longer; no round was left out, so the series ended later by {}",
                missed,
                duration_text(every),
                of_ns(missed * every_ns)
            ),
            tr!("the metric `series_period` has the period of each trial"),
        )
    });
    late.into_iter().chain(missed).collect()
}

/// Returns a warning about rounds that depend on the rounds before, by the metrics of the rankings.
fn correlated(clock: Clock, cells: &[Cell]) -> Option<CountedWarning> {
    let cells = cells.iter();
    let cells = cells.map(|it| (named(&it.transport, &it.condition), it.autocorrelation));
    let correlated = grouped(cells.filter(|(_, rho)| *rho > 0.0));
    // Each cell with the first of its coefficients.
    let largest = (correlated.iter()).fold(0.0, |most, (_, all)| all[0].max(most));
    let hint = match clock {
        Clock::Real => tr!(
            "find what drifts, such as the load or the temperature of the machine, or run more rounds; of 100 places without any correlation, one is named here"
        ),
        Clock::Virtual => tr!(
            "in virtual time the machine is no cause, and it is chance: of 100 places without any correlation one is named here; run more rounds"
        ),
    };
    let warning = Warning::of_texts(
        "rounds_correlated",
        tr!(
            "neighbouring rounds are alike (lag-1 autocorrelation up to {}), so their intervals are wider than independent rounds would give",
            number(largest)
        ),
        hint,
    );
    let cells: Vec<String> = correlated.into_iter().map(|(cell, _)| cell).collect();
    (!cells.is_empty()).then(|| CountedWarning::of_run(warning, cells))
}

/// Returns a warning about pairs whose ratio depends on the machine.
fn nodes_disagree(index: &Index<'_>) -> Option<CountedWarning> {
    let cells = index.disagreements();
    let warning = Warning::of_texts(
        "nodes_disagree",
        tr!(
            "the ratio of some pairs differs between the nodes that ran the rounds (F test, 1 % for all pairs together): their intervals hold for these nodes, not for others"
        ),
        tr!(
            "read the results of each node by themselves: `part_trial` in the results file names it"
        ),
    );
    (!cells.is_empty()).then(|| CountedWarning::of_run(warning, cells))
}

/// Returns a warning about cells whose values rise or fall over the rounds.
fn drifting(cells: &[Cell]) -> Option<CountedWarning> {
    let changes: Vec<(&Cell, f64)> = (cells.iter())
        .filter_map(|cell| Some((cell, cell.trend_ratio?)))
        .collect();
    let largest = (changes.iter()).max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
    let warning = Warning::of_texts(
        "trend_over_rounds",
        tr!(
            "{} changed by {} from the first round to the last",
            named(&largest.0.transport, &largest.0.condition),
            signed_percent(largest.1)
        ),
        tr!(
            "read its interval as one of a changing quantity; comparisons within rounds hold if all transports changed alike"
        ),
    );
    let cells = (changes.iter()).map(|(cell, _)| named(&cell.transport, &cell.condition));
    Some(CountedWarning::of_run(warning, cells.collect()))
}

fn named(transport: &str, condition: &str) -> String {
    tr!("`{}` under `{}`", transport, condition)
}
