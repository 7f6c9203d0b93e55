//! Sentences about a pair of runs, and the gate on regressions.

use itertools::Itertools as _;
use regatta_model::{
    Better,
    metric::{self, Place, shown_in},
};

use super::{
    CompareError,
    limit::{Direction, Limit},
    types::{CellPair, MetricPair, MoreFailures, PairOfRuns, RegressionGate},
};
use crate::{
    analysis::{Conclusion, better},
    format::{
        self, CommonUnit, difference, grouped, is_narrow, is_of_equals, list, ratio_number,
        with_interval,
    },
};

/// Number of cells that a sentence names; the others are counted.
const NAMED: usize = 5;

/// Number of cells that a clause about another metric than the ranking's names.
const NAMED_BESIDE: usize = 3;

/// Returns the verdict on a pair: what changed by the metrics of the rankings and by the others, and what is not comparable.
pub fn of_pair(pair: &PairOfRuns) -> String {
    let (total, to) = (pair.cells.len(), &pair.to);
    let cells = |of: &dyn Fn(&CellPair) -> bool| -> Vec<&CellPair> {
        pair.cells.iter().filter(|cell| of(cell)).collect()
    };
    let mut sentences = Vec::from_iter(by_metrics(pair));
    let lost = cells(&CellPair::is_lost);
    if !lost.is_empty() {
        sentences.push(format!(
            "{} not measured at all in {to}: {}",
            part(lost.len(), total),
            named(&lost, |cell| cell.name.text())
        ));
    }
    let is_named = |cell: &CellPair| {
        let mut detected = pair.more_failures.iter();
        detected.any(|it| it.cell.as_ref() == Some(&cell.name))
    };
    let failing = cells(&|cell| cell.fails_more && !is_named(cell));
    if !failing.is_empty() {
        sentences.push(format!(
            "More work failed in {to} than in {} in {} of {total} cells (counted, not tested): {}",
            pair.from,
            failing.len(),
            named(&failing, |cell| format!(
                "{} {}",
                cell.name.text(),
                list(&cell.failures[1])
            ))
        ));
    }
    let other = cells(&|cell| cell.settings_differ);
    if !other.is_empty() {
        let place = match total {
            1 => String::new(),
            _ => format!(" {}", place(pair, &other, NAMED)),
        };
        sentences.push(format!(
            "The settings differ under the same name{place}, see what changed"
        ));
    }
    if !pair.more_failures.is_empty() {
        let texts: Vec<String> = pair.more_failures.iter().map(MoreFailures::text).collect();
        let failed = format!(
            "More trials failed in {to} than in {}: {}",
            pair.from,
            some(&texts)
        );
        sentences.insert(0, failed);
    }
    let mut sentences = sentences.iter().map(|sentence| format!("{sentence}."));
    sentences.join(" ")
}

fn part(count: usize, total: usize) -> String {
    let are = if count == 1 { "is" } else { "are" };
    match total {
        1 => "The only cell is".to_owned(),
        _ => format!("{count} of {total} cells {are}"),
    }
}

fn named(cells: &[&CellPair], text: impl Fn(&CellPair) -> String) -> String {
    let texts: Vec<String> = cells.iter().map(|cell| text(cell)).collect();
    some(&texts)
}

/// Lists the first of some texts, and counts the others.
fn some(texts: &[String]) -> String {
    let shown = texts.iter().take(NAMED).join("; ");
    match texts.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}

/// Cell with its comparison by one metric.
type Compared<'a> = (&'a CellPair, &'a MetricPair);

fn of_cells<'a>(compared: &[Compared<'a>]) -> Vec<&'a CellPair> {
    compared.iter().map(|(cell, _)| *cell).collect()
}

/// Returns the sentence about the metrics: first those of the rankings, with every conclusion, then the others that are
/// better or worse. `None` if no cell was measured in both runs.
fn by_metrics(pair: &PairOfRuns) -> Option<String> {
    let clauses = |primary: bool| -> Vec<String> {
        let all = pair.cells.iter().filter(|cell| !cell.is_lost());
        let all = all.flat_map(|cell| cell.metrics.iter().map(move |it| (cell, it)));
        let all = all.filter(|(_, it)| it.primary == primary);
        let by_metric = grouped(all.map(|it| (it.1.metric.as_str(), it)));
        let clauses = by_metric.into_iter().filter_map(|(metric, all)| {
            let changes = match primary {
                true => of_ranking(pair, &all),
                false => differing(pair, &all, NAMED_BESIDE),
            };
            let changes = changes.join(", ");
            (!changes.is_empty()).then(|| format!("{} {changes}", words(metric)))
        });
        clauses.collect()
    };
    // A clause about several cells has commas itself.
    let separator = if pair.cells.len() == 1 { ", " } else { "; " };
    let (primary, others) = (clauses(true).join("; "), clauses(false).join(separator));
    let parts = [primary, others].into_iter().filter(|it| !it.is_empty());
    let text = parts.collect::<Vec<String>>().join("; ");
    (!text.is_empty()).then(|| format!("{} against {}: {text}", pair.to, pair.from))
}

/// Returns clauses about the change of a ranking's metric: cells that differ, then those that are the same, then
/// undecided ones.
fn of_ranking(pair: &PairOfRuns, all: &[Compared<'_>]) -> Vec<String> {
    let mut parts = differing(pair, all, NAMED);
    let with = |conclusion| -> Vec<Compared<'_>> {
        let all = all.iter().filter(|(_, it)| it.conclusion == conclusion);
        all.copied().collect()
    };
    let (same, undecided) = (with(Conclusion::Same), with(Conclusion::Undecided));
    let bounds = same
        .iter()
        .map(|(_, it)| it.interval.map_or(0.0, furthest_from_none));
    let bound = bounds.fold(0.0, f64::max);
    let mut groups = [
        (&same, format!("the same{}", within(bound))),
        (&undecided, format!("undecided{}", would_find(&undecided))),
    ];
    // The exceptions are named, and the rest is elsewhere.
    groups.sort_by_key(|(cells, _)| cells.len());
    for (position, (cells, text)) in groups.into_iter().enumerate() {
        match (cells.len(), parts.is_empty(), position) {
            (0, ..) => {}
            (count, ..) if count == all.len() => parts.push(text),
            (_, false, 1) => parts.push(format!("{text} elsewhere")),
            _ => parts.push(format!("{text} {}", place(pair, &of_cells(cells), NAMED))),
        }
    }
    parts
}

/// Returns by how much a metric is worse and better, with the cells where not all are.
fn differing(pair: &PairOfRuns, all: &[Compared<'_>], most_named: usize) -> Vec<String> {
    let of = |conclusion| {
        let mut cells = all.to_vec();
        cells.retain(|(_, it)| it.conclusion == conclusion);
        cells.sort_by(|(_, a), (_, b)| b.distance().total_cmp(&a.distance()));
        let change = range(&cells)?;
        Some(match cells.len() == all.len() {
            true => change,
            false => format!("{change} {}", place(pair, &of_cells(&cells), most_named)),
        })
    };
    let both = [Conclusion::Slower, Conclusion::Faster];
    both.into_iter().filter_map(of).collect()
}

/// Returns the smallest and the largest change of cells with the same conclusion, the one that changed most first.
fn range(cells: &[Compared<'_>]) -> Option<String> {
    let (_, metric) = cells.first()?;
    let word = direction(metric);
    let known = cells.iter().filter_map(|(_, it)| Amount::of(it));
    let known: Vec<Amount> = known.collect();
    Some(match (known.first(), known.last()) {
        (Some(most), Some(least)) if most == least => most.with(word),
        (Some(Amount::Percent(most)), Some(Amount::Percent(least))) => {
            Amount::Percent(format!("{least} to {most}")).with(word)
        }
        (Some(most), Some(_)) => format!("up to {}", most.with(word)),
        _ => word.to_owned(),
    })
}

/// Size of a change, for a sentence.
#[derive(PartialEq)]
enum Amount {
    /// Number of per cent of the value in the first run.
    Percent(String),
    /// Comparison with the value in the first run.
    Beside(String),
}

impl Amount {
    /// Returns the size of a change; `None` where the rounds are too few to tell it.
    fn of(metric: &MetricPair) -> Option<Self> {
        let Some(ratio) = metric.ratio else {
            let means = [metric.mean_to?, metric.mean_from?];
            let common_unit = CommonUnit::of(metric.unit, means);
            let [to, from] = means.map(|mean| match mean {
                0.0 => "none".to_owned(),
                mean => common_unit.quantity(mean),
            });
            return Some(Self::Beside(format!("{to} instead of {from}")));
        };
        metric.interval.filter(|ends| is_narrow(*ends))?;
        Some(match ratio < 2.0 {
            true => Self::Percent(two_digits((ratio - 1.0).abs() * 100.0)),
            false => Self::Beside(format!("{} times as much", ratio_number(ratio))),
        })
    }

    /// Returns `53 % better`, and `3.6 times as much (worse)`.
    fn with(&self, word: &str) -> String {
        match self {
            Self::Percent(number) => format!("{number} % {word}"),
            Self::Beside(text) => format!("{text} ({word})"),
        }
    }
}

/// Returns the word for the direction of a difference.
fn direction(metric: &MetricPair) -> &'static str {
    match (better(&metric.metric), metric.conclusion) {
        (Better::Neither, _) if metric.is_higher() => "higher",
        (Better::Neither, _) => "lower",
        (_, Conclusion::Slower) => "worse",
        _ => "better",
    }
}

/// Formats a positive number with two significant digits.
fn two_digits(value: f64) -> String {
    let rounded = format!("{value:.1e}").parse().unwrap_or(value);
    let decimals = (1.0 - f64::log10(rounded).floor()).clamp(0.0, 9.0) as usize;
    format!("{rounded:.decimals$}")
}

/// Returns the largest difference that an interval of a ratio includes, in either direction: 0.05 for 1.02 to 1.05.
fn furthest_from_none([low, high]: [f64; 2]) -> f64 {
    (high - 1.0).max(low.recip() - 1.0).max(0.0)
}

/// Formats the largest difference of what is the same, rounded up to one digit and to a tenth of a per cent; empty where
/// nothing differs at all.
fn within(share: f64) -> String {
    let percent = share * 100.0;
    if percent < 1e-6 {
        return String::new();
    }
    let digit = 10_f64.powf(percent.log10().floor()).max(0.1);
    // Not a digit more for a bound that is a digit but for rounding.
    let rounded = (percent / digit - 1e-9).ceil() * digit;
    format!(" within {}", format::percent(rounded / 100.0))
}

/// Returns the clause about the smallest difference that the rounds of all undecided cells would have detected.
fn would_find(cells: &[Compared<'_>]) -> String {
    let detectable = (cells.iter())
        .map(|(_, it)| it.detectable_ratio)
        .collect::<Option<Vec<f64>>>();
    let largest = detectable.map(|ratios| ratios.into_iter().fold(1.0, f64::max));
    match largest.filter(|ratio| *ratio > 1.0 && *ratio < 3.0) {
        Some(ratio) => format!(" (these rounds would find {})", difference(ratio)),
        None => " (too few rounds)".to_owned(),
    }
}

/// Names some cells of a pair, whole transports first: "with `tcp`", "with `tcp` under `wan`". The last of many are counted.
fn place(pair: &PairOfRuns, cells: &[&CellPair], most: usize) -> String {
    let transport = |cell: &CellPair| cell.name.transport.clone();
    let of_pair = grouped(pair.cells.iter().map(|cell| (transport(cell), ())));
    let count = |name: &str| {
        let mut all = of_pair.iter();
        all.find(|(known, _)| known == name)
            .map_or(0, |(_, cells)| cells.len())
    };
    let here = grouped(cells.iter().map(|cell| (transport(cell), *cell)));
    let is_single = of_pair.len() == 1;
    let (whole, parts): (Vec<_>, Vec<_>) =
        (here.into_iter()).partition(|(name, cells)| !is_single && cells.len() == count(name));
    let whole = whole.into_iter().map(|(name, _)| format!("`{name}`"));
    let parts = parts.into_iter().flat_map(|(name, cells)| {
        let of_cell = move |cell: &CellPair| match is_single {
            true => where_of(pair, cell),
            false => format!("`{name}` {}", where_of(pair, cell)),
        };
        cells.into_iter().map(of_cell).collect::<Vec<String>>()
    });
    let names: Vec<String> = whole.chain(parts).collect();
    let with = if is_single { "" } else { "with " };
    match names.len().saturating_sub(most) {
        0 => format!("{with}{}", list(&names)),
        more => format!("{with}{} and {more} more", names[..most].join(", ")),
    }
}

/// Names condition and workload of a cell, each where a pair has several.
fn where_of(pair: &PairOfRuns, cell: &CellPair) -> String {
    let several =
        |of: fn(&CellPair) -> &String| pair.cells.iter().any(|other| of(other) != of(cell));
    let condition =
        several(|cell| &cell.name.condition).then(|| format!("under `{}`", cell.name.condition));
    let workload =
        several(|cell| &cell.name.workload).then(|| format!("with `{}`", cell.name.workload));
    condition.into_iter().chain(workload).join(" ")
}

/// Name of a metric in a sentence: shorter than its title where readers know it by another one.
fn words(name: &str) -> String {
    let mut named = shown_in(|place| match place {
        Place::Runs(words) => Some(words),
        _ => None,
    });
    match named.find(|(metric, _)| metric.name == name) {
        Some((_, words)) => words.to_owned(),
        None => metric::find(name)
            .map_or("", |it| it.title)
            .replace(", ", " "),
    }
}

/// Returns the outcome by a metric for a table, with the interval that decided it: `52.8 % better [51.1, 54.2]`.
#[must_use]
pub fn outcome(metric: &MetricPair) -> String {
    let known = metric.interval.filter(|ends| is_narrow(*ends));
    match (metric.conclusion, metric.ratio.zip(known)) {
        (Conclusion::Same, _) => {
            let bound = metric.interval.map_or(0.0, furthest_from_none);
            format!("the same{}", within(bound))
        }
        (Conclusion::Undecided, Some((ratio, ends))) => {
            let percent = |ratio: f64| (ratio - 1.0) * 100.0;
            let texts = with_interval(percent(ratio), ends.map(percent));
            let signed = texts.map(|text| match text.starts_with('−') {
                true => text,
                false => format!("+{text}"),
            });
            let [change, low, high] = signed;
            format!("undecided: {change} % [{low},\u{a0}{high}]")
        }
        (Conclusion::Undecided, None) => "undecided: too few rounds".to_owned(),
        (Conclusion::Faster | Conclusion::Slower, Some((ratio, ends))) => {
            let is_factor = ratio >= 2.0;
            let shown = |ratio: f64| match is_factor {
                true => ratio,
                false => (ratio - 1.0).abs() * 100.0,
            };
            let mut ends = ends.map(shown);
            ends.sort_by(f64::total_cmp);
            let is_equal = metric.interval.is_some_and(is_of_equals);
            let [change, low, high] = with_interval(shown(ratio), ends);
            let amount = match is_factor {
                true => Amount::Beside(format!("{change} times as much")),
                false => Amount::Percent(change),
            };
            let amount = amount.with(direction(metric));
            match is_equal {
                true => format!("{amount} (equal in all rounds)"),
                false => format!("{amount} [{low},\u{a0}{high}]"),
            }
        }
        (Conclusion::Faster | Conclusion::Slower, None) => {
            let word = direction(metric);
            Amount::of(metric).map_or_else(
                || format!("{word}; too few rounds for a figure"),
                |amount| amount.with(word),
            )
        }
    }
}

/// Decides the gate over the pairs of the first run with each other one.
///
/// A cell misses it if more of its trials failed ([`MoreFailures`]), or if one of its metrics changed for certain, so
/// that the interval is wholly beyond no change, in the direction of one of `limits` and by as much. A cell that was measured
/// in the first run and not at all in the other one misses it too.
pub fn gate(pairs: &[PairOfRuns], baseline: &str, limits: &[Limit]) -> RegressionGate {
    let mut misses = Vec::new();
    for pair in pairs.iter().filter(|pair| pair.from == baseline) {
        let to = &pair.to;
        for cell in &pair.cells {
            let name = cell.name.text();
            if cell.is_lost() {
                misses.push(format!("not measured in {to}: {name}"));
                continue;
            }
            for limit in limits {
                let reached = cell.metrics.iter().filter(|it| limit.is_reached(it));
                misses.extend(reached.map(|it| {
                    let (limit, words, outcome) = (&limit.name, words(&it.metric), outcome(it));
                    format!("`{limit}` in {to}: {name}, {words} {outcome}")
                }));
            }
        }
        let failures = pair.more_failures.iter();
        misses.extend(failures.map(|it| format!("more failures in {to}: {}", it.text())));
    }
    RegressionGate {
        limits: limits.to_vec(),
        passed: misses.is_empty(),
        misses,
    }
}

impl RegressionGate {
    /// Returns the sentence about a gate that nothing missed.
    #[must_use]
    pub fn passed_text(&self) -> String {
        let limits = self.limits.iter().map(|limit| format!("`{}`", limit.name));
        let limits = limits.collect::<Vec<String>>().join(", ");
        match limits.is_empty() {
            true => "no more trials failed".to_owned(),
            false => format!("no cell misses {limits}, and no more trials failed"),
        }
    }
}

impl Limit {
    /// Whether the limit is about a metric of a cell.
    fn concerns(&self, metric: &MetricPair) -> bool {
        match &*self.metrics {
            [] => metric.primary,
            metrics => metrics.contains(&&*metric.metric),
        }
    }

    /// Whether a change is certain, goes in this direction, and is as large as the limit or larger.
    fn is_reached(&self, metric: &MetricPair) -> bool {
        let is_higher = match (self.direction, better(&metric.metric)) {
            (Direction::Higher, _)
            | (Direction::Worse, Better::Lower)
            | (Direction::Better, Better::Higher | Better::Neither) => true,
            (Direction::Lower, _) | (Direction::Worse | Direction::Better, _) => false,
        };
        let change = metric.ratio.map(|ratio| ratio - 1.0);
        self.concerns(metric)
            && metric.conclusion.is_difference()
            && metric.is_higher() == is_higher
            && change.is_none_or(|change| change.abs() >= self.least.0)
    }
}

/// Returns the first limit that no cell of a pair with the first run can miss, because no cell has the metric, or because
/// the rounds are too few for an interval.
pub fn cannot_judge(
    pairs: &[PairOfRuns],
    baseline: &str,
    limits: &[Limit],
) -> Option<CompareError> {
    let pairs = || pairs.iter().filter(|pair| pair.from == baseline);
    let of_limit = |limit: &Limit| {
        let error = |pair: &PairOfRuns| {
            let compared = pair.cells.iter().flat_map(|cell| &cell.metrics);
            let mut compared = compared.filter(|it| limit.concerns(it)).peekable();
            if pair.cells.iter().all(CellPair::is_lost) {
                return None;
            }
            if compared.peek().is_none() {
                return Some(CompareError::NoSuchMetric(limit.name.clone()));
            }
            // A metric that is zero in every round has neither a ratio nor an interval, and is judged.
            let is_judged = |it: &MetricPair| it.interval.is_some() || it.ratio.is_none();
            let mut judged = compared.filter(|it| is_judged(it) && it.n.iter().all(|n| *n > 1));
            judged
                .next()
                .is_none()
                .then_some(CompareError::TooFewRounds)
        };
        pairs().find_map(error)
    };
    limits.iter().find_map(of_limit)
}
