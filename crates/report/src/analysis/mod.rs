//! From trials to figures and sentences.
//!
//! Only measured trials enter a figure; those that the deadline stopped are included and marked.
//! Everything in this module is a pure function of the saved run.

mod builds;
mod cells;
mod claim_result;
mod claims;
mod comparison;
mod competition;
mod decided;
mod failures;
#[cfg(test)]
mod fixture;
mod gates;
mod headline;
mod index;
mod loss_response;
mod margin;
mod mean;
mod next_step;
mod noise;
mod path_limits;
mod percentiles;
mod price;
mod published;
mod ranking;
mod stacks;
mod study_claims;
mod summary;
mod summary_index;
mod sweep_crossings;
mod sweep_family;
mod sweep_places;
mod sweep_result;
mod sweeps;
#[cfg(test)]
mod tests;
mod values;
mod verdict;
mod warnings;
mod workloads;

use itertools::Itertools as _;
use regatta_model::{
    MetricDefinition, PathCheck, Study, Text, Until,
    metric::{Place, is_in, names_in, shown_in},
};
use regatta_results::RunState;
use regatta_stats::MAX_RESAMPLED_ROUNDS;

use crate::{
    RunData,
    format::percent,
    language::{self, tr},
};
pub use cells::describe_metric;
pub use claim_result::{ClaimCheck, ClaimOutcome, ClaimResult, count, line as claims_line};
pub use claims::{POWER, PairSpread, pair_spreads, run_spreads, simultaneous_confidence};
pub(crate) use claims::{Tested, decide};
pub(crate) use comparison::better;
pub use decided::{digest, is_decided};
pub(crate) use failures::started_and_failed;
pub(crate) use index::{ByCell, Shared, trials_by_cell, values_by_metric};
pub(crate) use loss_response::{Apart, Stack, apart};
pub(crate) use mean::CORRELATED_CELL;
pub use mean::{MeanKind, MeanOfAll};
pub use summary::{
    Build, Cell, Claim, Comparison, Conclusion, ConditionVerdict, CountedReason, CountedWarning,
    Difference, Failure, FailureKind, Gate, MetricSummary, NoiseFloor, NotRanked, PublishedBeside,
    Ranked, SCHEMA_VERSION, StackRow, State, Statistics, Summary, Verdict, WorkloadDifference,
    out_of_tolerance,
};
pub(crate) use summary::{other_means, path_quantity};
pub(crate) use summary_index::SummaryIndex;
pub(crate) use sweep_family::line_label;
pub use sweep_result::{SweepAxis, SweepCell, SweepCrossing, SweepResult, SweepValue};
pub use values::value_of;

/// Level of the intervals of means, and of all claims of a run together.
pub const CONFIDENCE: f64 = 0.95;

/// Iterates over the percentiles that tables show beside a median, each with the name of this.
pub(crate) fn beside() -> impl Iterator<Item = (&'static MetricDefinition, &'static str)> {
    shown_in(|place| match place {
        Place::Beside(median) => Some(median),
        _ => None,
    })
}

/// Returns the metrics of the rankings that are not among those of every study: that of the study, or those of its scripts.
pub(crate) fn own_metrics(study: &Study) -> impl Iterator<Item = &str> {
    let primary = study.workloads.iter().map(|it| study.primary_metric(it));
    let own = primary.filter(|metric| !is_in(Place::Compared, metric));
    own.unique()
}

/// Returns the metrics by which transports are compared: the study's own first.
pub(crate) fn compared_metrics(study: &Study) -> Vec<&str> {
    own_metrics(study)
        .chain(names_in(Place::Compared))
        .collect()
}

/// Returns the metrics of all pairs: those by which transports are compared, and those of their prices.
pub(crate) fn claimed_metrics(study: &Study) -> Vec<&str> {
    let prices = price::metrics().map(|(metric, _)| metric.name);
    let metrics = compared_metrics(study).into_iter().chain(prices);
    metrics.unique().collect()
}

/// Whether transports or conditions are compared by this metric, or it stands beside one, so that its
/// geometric mean is shown.
fn is_compared(metric: &str) -> bool {
    is_in(Place::Compared, metric)
        || is_in(Place::Differences, metric)
        || beside().any(|(percentile, _)| percentile.name == metric)
}

/// Summarises the trials of a run.
#[must_use]
pub fn summarise(data: &RunData) -> Summary {
    let study = &data.header.study;
    let trials = index::trials_by_cell(data);
    let index = index::Index::of(data, &trials);
    let cells = cells::all(&index, &trials);
    let (comparisons, differences, workload_differences) = claims::all(&index);
    let claims = (comparisons.iter().map(|c| &c.claim))
        .chain(differences.iter().map(|d| &d.claim))
        .chain(workload_differences.iter().map(|d| &d.claim));
    let mut summary = Summary {
        schema_version: SCHEMA_VERSION,
        run_id: data.header.run_id.clone(),
        regatta_version: data.header.regatta_version.clone(),
        builds: builds::all(&data.header),
        stacks: stacks::all(data),
        started_unix_ns: data.header.started_unix_ns,
        study: study.name.clone(),
        title: study.title.clone(),
        bed: data.header.bed.to_string(),
        seed: study.seed,
        rounds: data.rounds(),
        cell_end: study.cell_end,
        rank_by: study.rank_by.clone(),
        state: state(data),
        statistics: Statistics {
            confidence: CONFIDENCE,
            equivalence: study.equivalence.0,
            tests: claims.filter(|claim| claim.p_value.is_some()).count() as u64,
            method: method(data),
        },
        verdict: Verdict {
            headline: Vec::new(),
            overall: String::new(),
            noise_floor: None,
            conditions: Vec::new(),
            workloads: Vec::new(),
        },
        gates: Vec::new(),
        claims: study_claims::all(&index, &cells, &comparisons),
        warnings: warnings::all(&index, &cells),
        sweeps: sweeps::all(&index, &cells, &comparisons),
        cells,
        comparisons,
        differences,
        workload_differences,
        published: Vec::new(),
        path_checks: data.path_checks.iter().map(in_english).collect(),
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
        RunState::Interrupted { reason } => ("interrupted", Some(language::shown(reason))),
    };
    State {
        name: name.to_owned(),
        reason,
        trials_planned: data.planned(),
        trials_saved: data.trials.len() as u64,
    }
}

/// Returns the sentences about the statistical method.
fn method(data: &RunData) -> Vec<String> {
    let mut sentences = vec![
        tr!(
            "What transports and conditions are compared by is shown as its geometric mean, with a 95 % confidence interval by Student's t of the logarithms; every other metric as its mean, with Student's interval cut at zero and, for parts of a whole, at 100 %"
        ),
        tr!(
            "A trial that failed, timed out, or delivered nothing, or by its deadline little, counts in the metric of the ranking and in goodput: as a rate of zero, or as a time without end. The mean is then the arithmetic one of rates, or the harmonic one of times, over every trial that was started, and its row says so; intervals of such means and of their ratios are by the delta method"
        ),
        tr!(
            "Percentiles are those of RFC 2330, 11.3: the smallest value that this part of the values does not exceed; the median of an even number of values is the mean of the middle two. A 99th percentile is given of 100 values or more"
        ),
        tr!(
            "Each pair of transports is compared by round: both ran in the same round, over a path with the same seed. The ratio of geometric means over the rounds that both have is tested by a paired t-test of the logarithms"
        ),
        tr!(
            "What a condition changes, or another workload of the same kind, is the ratio of a transport's geometric means, tested in the same way"
        ),
        tr!(
            "The pairs by the metric that their work is ranked by are one family: with a probability of 95 % all their claims and intervals hold together (Holm 1979; Guilbaud 2008). An interval that leaves out 1 says which is faster; one that lies within {} of it that they are the same; any other leaves it undecided",
            percent(data.header.study.equivalence.0)
        ),
        tr!(
            "The pairs by other metrics, and what a condition or a workload changes, are a second family: of the claims that are made of it, at most 5 % are false on average (Benjamini and Yekutieli 2001), and their intervals have the level that belongs to the number of claims (Benjamini and Yekutieli 2005)"
        ),
        tr!(
            "Transports are ordered by their mean log ratio to the others over shared rounds; two of them share a letter exactly where neither is faster for certain (compact letter display, Piepho 2004)"
        ),
        tr!(
            "A transport that does not retransmit, or delivered nothing in a trial, or by its deadline little, which is less than a tenth of the goodput of its best trial, or failed more than 1 % of its trials, connections, requests or messages, is not ranked by what worked"
        ),
        tr!(
            "Of what is undecided, the smallest detectable ratio is the one that these rounds would show with a probability of 80 %, by the noncentral t distribution, were the spread exactly the one that was seen"
        ),
        tr!(
            "The lag-1 autocorrelation of the rounds is that of all pairs of the run by a metric, corrected for the bias of short series (Marriott and Pope 1954); intervals of pairs are widened by the variance inflation of a first-order autoregressive series (Bayley and Hammersley 1946). Within a round the order is random, so that a drift of the machine needs no widening. A cell whose rounds are correlated (Moran 1948, 1 %) or drift (Mann and Kendall, 1 %) has a warning"
        ),
        tr!(
            "Only measured trials enter any other figure. A trial that reached its deadline is measured on what had been delivered by then; the time of a transfer by size is that of the whole at the rate until then"
        ),
    ];
    if data.header.study.until == Some(Until::Decided) {
        sentences.push(tr!(
            "The run was judged after every whole round from the third on, and ended when the leader of each condition and workload was decided against every other transport, or when it had spent its rounds or its time. So the p-values and intervals of the pairs by the metric of the ranking hold at any stop: they are those of the Bayes factor of t against a normal distribution of the difference (Rouder and others 2009; Lai 1976). Such a run may go on"
        ));
    } else {
        sentences.push(tr!(
            "More rounds of this run until it pleases would not be a test: a new run is"
        ));
    }
    if !data.header.study.claims.is_empty() {
        sentences.push(tr!(
            "A claim of the study comes out, or does not, where the interval of the run decides it: an order by the comparison of the pair, a ratio and a trend by the interval of the ratio, a value by the interval of its cell. Pairs of cells that are not compared otherwise, as of two conditions, are one more family, whose intervals hold together with a probability of 95 %. What no interval decides is undecided"
        ));
    }
    if !data.nodes.is_empty() {
        sentences.push(tr!("The rounds ran on several nodes. Each pair is compared with the node as a fixed block (Box, Hunter and Hunter 2005, 4.2), so that differences between nodes are no part of the error; an F test at 1 % for all pairs together tells whether the nodes disagree"));
    }
    if !data.header.study.sweeps.is_empty() {
        sentences.push(tr!("In a sweep, a transport overtakes another where the interpolated mean log ratio of their metric crosses 1 between values at which either is ahead for certain (95 % for each value). The interval of that value is made by resampling whole rounds 2000 times (expanded percentiles, Hesterberg 2015); these intervals are not corrected for their number"));
        if data.rounds() as usize > MAX_RESAMPLED_ROUNDS {
            sentences.push(tr!(
                "Of more than {} rounds, the means of the resamples are drawn from the normal distribution that they then have, with the covariances between the values of the sweep",
                MAX_RESAMPLED_ROUNDS
            ));
        }
    }
    sentences
}

/// Returns a path check whose reason is text alone, as JSON has it.
fn in_english(check: &PathCheck) -> PathCheck {
    let mut check = check.clone();
    check.spoiled = check.spoiled.as_ref().map(Text::in_english);
    check
}
