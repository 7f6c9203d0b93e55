//! Comparison of runs: the same study on other days, hosts, kernels, versions.
//!
//! Cells are matched by the names of transport, condition and workload. The rounds of two runs are
//! two independent samples: other than the transports of one round, they share neither the minute
//! nor the machine.

mod cells;
mod changes;
mod failures;
mod limit;
mod losses;
mod table;
mod types;
mod verdict;

use itertools::Itertools as _;
use regatta_model::Clock;

use self::cells::Indexed;
pub use self::{
    limit::{Direction, Limit},
    table::render,
    types::{
        CellName, CellPair, Change, ChangeKind, ComparedRun, MetricPair, MoreFailures, PairOfRuns,
        RegressionGate, RunComparison, SCHEMA_VERSION,
    },
};
pub(crate) use self::{
    table::{figures, left_out, listed, rows, title_with_mean},
    verdict::outcome,
};
use crate::{
    RunData,
    analysis::{CONFIDENCE, Statistics},
};

/// Largest number of runs in one comparison: one for each letter.
pub const MAX_RUNS: usize = 26;

/// Error of runs that cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// Two of the directories have the same run.
    #[error("`{0}` and `{1}` are the same run")]
    SameRun(String, String),
    /// Two of the runs have no cell of the same name.
    #[error("`{0}` and `{1}` have no cell in common")]
    NoSharedCell(String, String),
    /// A gate was requested, and no cell of two runs has an interval.
    #[error("no cell has enough rounds in both runs for `--fail-on` to find a difference")]
    TooFewRounds,
    /// A gate was requested by a metric that no cell of two runs has.
    #[error("no cell of both runs has the metric of `--fail-on {0}`")]
    NoSuchMetric(String),
}

impl CompareError {
    /// Returns a hint on what to type next.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::SameRun(..) => {
                "give the directories of different runs, such as `regatta compare BEFORE AFTER`"
            }
            Self::NoSharedCell(..) => {
                "cells are matched by the names of transport, condition and workload, and options of the command line name a condition by its values; run the same study file for both, or give the same names with `label` and `name`"
            }
            Self::NoSuchMetric(_) => {
                "name one that `trials.csv` of both has; virtual time has none of CPU, and a path without a probe under load none of delay"
            }
            Self::TooFewRounds => {
                "run the study with `--rounds 5` or more; `regatta plan --detect 5% STUDY` says how many"
            }
        }
    }
}

/// Compares runs, each with its directory, pair by pair; `fail_on` asks for a gate with these limits beside more failures.
///
/// # Errors
/// [`CompareError`] for runs that cannot be compared.
pub fn compare(
    runs: &[(String, RunData)],
    fail_on: Option<&[Limit]>,
) -> Result<RunComparison, CompareError> {
    let indexed: Vec<Indexed<'_>> = runs.iter().map(|(_, data)| Indexed::of(data)).collect();
    let positions = || (0..runs.len()).tuple_combinations();
    let limits = fail_on.unwrap_or_default();
    let of_limits: Vec<&'static str> = limits.iter().flat_map(|it| &it.metrics).copied().collect();
    let mut matched = Vec::new();
    for (a, b) in positions() {
        let [(from, a_run), (to, b_run)] = [&runs[a], &runs[b]];
        if a_run.header.run_id == b_run.header.run_id {
            return Err(CompareError::SameRun(from.clone(), to.clone()));
        }
        let pair = cells::matched(&indexed[a], &indexed[b], &of_limits);
        if pair.cells.is_empty() {
            return Err(CompareError::NoSharedCell(from.clone(), to.clone()));
        }
        matched.push(pair);
    }
    let equivalence = runs.iter().map(|(_, data)| data.header.study.equivalence.0);
    let equivalence = equivalence.fold(f64::INFINITY, f64::min);
    let mut clocks = runs.iter().map(|(_, data)| data.header.study.guest.clock);
    let is_virtual = clocks.all(|clock| clock == Clock::Virtual);
    let tests = cells::decide_all(&mut matched, 1.0 + equivalence, is_virtual);
    let of_runs: Vec<ComparedRun> = (runs.iter().zip(&indexed).enumerate())
        .map(|(position, ((directory, _), run))| compared(position, directory, run))
        .collect();
    let pairs: Vec<PairOfRuns> = (positions().zip(matched))
        .map(|((a, b), matched)| {
            let side = |position: usize| (indexed[position].data, &indexed[position].summary);
            let mut pair = PairOfRuns {
                from: of_runs[a].name.clone(),
                to: of_runs[b].name.clone(),
                changes: changes::between(side(a), side(b)),
                cells: matched.cells,
                only_from: matched.only_from,
                only_to: matched.only_to,
                more_failures: Vec::new(),
                verdict: String::new(),
            };
            let is_virtual = |at: usize| runs[at].1.header.study.guest.clock == Clock::Virtual;
            pair.more_failures = failures::detected(&pair.cells, is_virtual(a) && is_virtual(b));
            pair.verdict = verdict::of_pair(&pair);
            pair.verdict
                .extend(losses::apart(&pair, side(a), side(b)).map(|it| it.sentence()));
            pair
        })
        .collect();
    let baseline = of_runs.first().map_or("A", |run| run.name.as_str());
    if let Some(error) = verdict::cannot_judge(&pairs, baseline, limits) {
        return Err(error);
    }
    Ok(RunComparison {
        schema_version: SCHEMA_VERSION,
        statistics: Statistics {
            confidence: CONFIDENCE,
            equivalence,
            tests,
            method: method(),
        },
        gate: fail_on.map(|limits| verdict::gate(&pairs, baseline, limits)),
        runs: of_runs,
        pairs,
    })
}

fn compared(position: usize, directory: &str, run: &Indexed<'_>) -> ComparedRun {
    let (data, summary) = (run.data, &run.summary);
    ComparedRun {
        name: char::from(b'A' + (position % MAX_RUNS) as u8).to_string(),
        directory: directory.to_owned(),
        run_id: summary.run_id.clone(),
        study: summary.study.clone(),
        regatta_version: summary.regatta_version.clone(),
        builds: summary.builds.clone(),
        started_unix_ns: summary.started_unix_ns,
        bed: summary.bed.clone(),
        seed: summary.seed,
        rounds: data.rounds(),
        state: summary.state.clone(),
    }
}

fn method() -> Vec<String> {
    [
        "Each cell is compared by the metric of its workload's ranking and by goodput, round-trip delay under load, CPU per byte and of the host, retransmissions, set-up time, of flows of a competition also by share, harm, Jain's index and convergence time, and the metrics that `--fail-on` names: the ratio of geometric means over the rounds of each run, as two independent samples, tested by Welch's t-test of the logarithms (1947)",
        "A trial that failed, timed out or delivered nothing counts in the metric of the ranking and in goodput: as a rate of zero, or as a time without end. Means are then arithmetic ones of rates, or harmonic ones of times, and the logarithm of their ratio has its error from the delta method",
        "A metric that is zero in every round of one run has no ratio: the numbers of rounds above zero are compared by Fisher's exact test (1935), corrected by Holm's procedure over all of them; in virtual time one round is enough",
        "Failed trials are counted against those that were started, by Fisher's exact test (1935), one-sided, for each cell and for all cells of a transport, corrected by Holm's procedure at 5 %; in virtual time nothing fails by chance, and any further failed trial counts",
        "Where both runs have one seed, and the condition and the workload of a cell are the same in both, the rounds are paired: their paths lose the same packets. The ratio of each round is then tested by a paired t-test, with the autocorrelation of all of them",
        "The metrics of the rankings are one family: with a probability of 95 % all their claims and intervals hold together (Holm 1979; Guilbaud 2008). The other metrics are a second one: of the claims that are made of it, at most 5 % are false on average (Benjamini and Yekutieli 2001). An interval that leaves out 1 says which run is better; one within the study's `equivalence` that they are the same; any other leaves it undecided",
        "Where the rounds of a cell that are not paired show a positive lag-1 autocorrelation (Moran 1948; 1 %), its standard error is widened (Bayley and Hammersley 1946)",
        "The rounds of a run show how much rounds differ within it. What differs from one run to the next on the same machine without any change (its load, its temperature) shows as a difference: a second run before the change shows how much that is",
    ]
    .map(str::to_owned)
    .to_vec()
}
