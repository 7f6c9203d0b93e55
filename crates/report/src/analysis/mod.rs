//! From trials to figures and sentences.
//!
//! Only measured trials enter a figure; those that the deadline stopped are among them, and it is
//! said. Everything here is a pure function of the saved run.

mod cells;
mod comparisons;
mod differences;
mod gates;
mod published;
mod summary;
mod verdict;
mod warnings;

use regatta_results::RunState;

use crate::RunData;
pub use summary::{
    Cell, Comparison, Conclusion, ConditionVerdict, CountedReason, CountedWarning, Difference,
    Gate, MetricSummary, PublishedBeside, SCHEMA_VERSION, State, Statistics, Summary, Verdict,
    out_of_tolerance,
};

/// Level of the intervals of means, and simultaneous level of each family of comparisons.
pub const CONFIDENCE: f64 = 0.95;

/// The metrics that transports are compared by.
pub const HEADLINE_METRICS: [&str; 7] = [
    "goodput_bps",
    "requests_per_second",
    "message_delay_p95_ns",
    "time_to_first_byte_p50_ns",
    "time_to_completion_p50_ns",
    "round_trip_delay_ns",
    "goodput_per_core_percent_bps",
];

/// Everything that the trials of a run say together.
#[must_use]
pub fn summarise(data: &RunData) -> Summary {
    let study = &data.header.study;
    let mut summary = Summary {
        schema_version: SCHEMA_VERSION,
        run_id: data.header.run_id.clone(),
        regatta_version: data.header.regatta_version.clone(),
        started_unix_ns: data.header.started_unix_ns,
        study: study.name.clone(),
        title: study.title.clone(),
        bed: data.header.bed.clone(),
        seed: study.seed,
        rounds: study.rounds,
        state: state(data),
        statistics: Statistics {
            confidence: CONFIDENCE,
            method: method(),
        },
        verdict: Verdict {
            overall: String::new(),
            conditions: Vec::new(),
        },
        gates: Vec::new(),
        cells: cells::all(data),
        comparisons: comparisons::all(data),
        differences: differences::all(data),
        published: Vec::new(),
        path_checks: data.path_checks.clone(),
        warnings: warnings::all(data),
    };
    summary.gates = gates::all(data, &summary);
    summary.published = published::all(data, &summary);
    summary.verdict = verdict::all(data, &summary);
    summary
}

fn state(data: &RunData) -> State {
    let (name, reason) = match &data.state {
        RunState::Running => ("running", None),
        RunState::Complete => ("complete", None),
        RunState::Interrupted { reason } => ("interrupted", Some(reason.clone())),
    };
    State {
        name: name.to_owned(),
        reason,
        trials_planned: data.planned(),
        trials_saved: data.trials.len() as u64,
    }
}

fn method() -> Vec<String> {
    [
        "Mean, sample standard deviation, coefficient of variation, and a 95 % confidence interval of the mean by Student's t over the measured trials of a cell, cut at zero and, for parts of a whole, at 100 %",
        "Median and quartiles by linear interpolation (Hyndman and Fan, type 7)",
        "Each pair of transports is compared by round: both ran in the same round, over a path with the same seed. The ratio of geometric means comes with an interval from a paired t-test on logarithms",
        "The intervals of all pairs under one condition, for one workload and one metric, hold together at 95 % (Bonferroni); their p-values are adjusted by Holm's method",
        "What a condition changes is the ratio of two means with Fieller's 95 % interval, the conditions taken as independent",
        "A difference is claimed only where the corrected interval does not hold equality. `No difference detected` does not mean that there is none: the width of the interval says how large a difference could have gone unseen",
        "Only measured trials enter a figure. A trial that reached its deadline is measured on what had been delivered by then",
    ]
    .map(str::to_owned)
    .to_vec()
}
