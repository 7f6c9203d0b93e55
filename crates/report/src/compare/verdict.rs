//! Sentences about a pair of runs, and the gate on regressions.

use itertools::Itertools as _;
use regatta_model::metric;

use super::types::{CellPair, FailOn, MetricPair, MoreFailures, PairOfRuns, RegressionGate};
use crate::{
    analysis::Conclusion,
    format::{difference, grouped, is_narrow, list, percent, signed_percent, with_interval},
};

/// Number of cells that a sentence names; the others are counted.
const NAMED: usize = 5;

/// Returns the verdict on a pair: cells that are slower, faster, the same within `equivalence`, undecided, and not
/// comparable, by the metrics of their workloads' rankings.
pub fn of_pair(pair: &PairOfRuns, equivalence: f64) -> String {
    let (total, to) = (pair.cells.len(), &pair.to);
    let cells = |of: &dyn Fn(&CellPair) -> bool| -> Vec<&CellPair> {
        pair.cells.iter().filter(|cell| of(cell)).collect()
    };
    let with = |conclusion| cells(&|cell| cell.conclusion() == conclusion);
    let mut sentences = Vec::new();
    for (conclusion, label) in [
        (Conclusion::Slower, "slower"),
        (Conclusion::Faster, "faster"),
    ] {
        let mut cells = with(conclusion);
        if !cells.is_empty() {
            cells.sort_by(|a, b| b.distance().total_cmp(&a.distance()));
            sentences.push(format!(
                "{} {label} in {to}: {}",
                part(cells.len(), total),
                named(&cells, detail)
            ));
        }
    }
    let same = with(Conclusion::Same);
    if !same.is_empty() {
        sentences.push(format!(
            "{} the same within {}",
            part(same.len(), total),
            percent(equivalence)
        ));
    }
    let mut undecided = with(Conclusion::Undecided);
    undecided.retain(|cell| !cell.is_lost());
    if !undecided.is_empty() {
        let would_find = would_find(&undecided);
        sentences.push(format!(
            "{} undecided{would_find}: {}",
            part(undecided.len(), total),
            named(&undecided, detail)
        ));
    }
    sentences.extend(others(pair));
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
    let other = cells(&|cell| cell.settings_differ).len();
    if other > 0 {
        sentences.push(format!(
            "{} of other settings under the same name, see what changed",
            part(other, total)
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

/// Returns what the rounds of undecided cells would have found.
fn would_find(cells: &[&CellPair]) -> String {
    let detectable = (cells.iter())
        .map(|cell| cell.primary()?.detectable_ratio)
        .collect::<Option<Vec<f64>>>();
    let largest = detectable.map(|ratios| ratios.into_iter().fold(1.0, f64::max));
    match largest.filter(|ratio| *ratio > 1.0 && *ratio < 3.0) {
        Some(ratio) => format!(" (these rounds would find {})", difference(ratio)),
        None => " (too few rounds)".to_owned(),
    }
}

/// Returns the sentence about the other metrics that are better or worse for certain, most changed cell first.
fn others(pair: &PairOfRuns) -> Option<String> {
    let metrics = pair.cells.iter().flat_map(|cell| {
        let differing = cell
            .metrics
            .iter()
            .filter(|it| !it.primary && it.conclusion.is_difference());
        differing.map(|it| (it.metric.as_str(), it))
    });
    let largest = |all: Vec<&MetricPair>| {
        let distance = |it: &&MetricPair| it.ratio.map_or(0.0, |ratio| ratio.ln().abs());
        let count = all.len();
        let largest = all
            .into_iter()
            .max_by(|a, b| distance(a).total_cmp(&distance(b)))?;
        let direction = match largest.conclusion == Conclusion::Slower {
            true => "worse",
            false => "better",
        };
        let by = change_text(largest)?;
        let cells = match count {
            1 => String::new(),
            more => format!(" (largest of {more})"),
        };
        Some(format!(
            "{} {by} {direction}{cells}",
            metric::find(&largest.metric)?.title
        ))
    };
    let texts: Vec<String> = (grouped(metrics).into_iter())
        .filter_map(|(_, all)| largest(all))
        .collect();
    (!texts.is_empty()).then(|| format!("Besides, {}", some(&texts)))
}

fn detail(cell: &CellPair) -> String {
    let known = cell
        .primary()
        .filter(|it| it.interval.is_some_and(is_narrow));
    let by = known.and_then(|metric| {
        let change = change_text(metric)?;
        Some(format!(
            ", {} {change}",
            metric::find(&metric.metric)?.title
        ))
    });
    format!("{}{}", cell.name.text(), by.unwrap_or_default())
}

/// Formats the change of a metric with its interval: `−5.1 % [−6.0, −4.2]`.
#[must_use]
pub fn change_text(metric: &MetricPair) -> Option<String> {
    let ratio = metric.ratio?;
    let Some(interval) = metric.interval else {
        return Some(signed_percent(ratio - 1.0));
    };
    if !is_narrow(interval) {
        return Some("too few rounds".to_owned());
    }
    let change = |ratio: f64| (ratio - 1.0) * 100.0;
    let [change, low, high] = with_interval(change(ratio), interval.map(change)).map(|text| {
        let is_below = text.starts_with('−');
        if is_below { text } else { format!("+{text}") }
    });
    // No break within the brackets.
    Some(format!("{change} % [{low},\u{a0}{high}]"))
}

/// Decides the gate over the pairs of the first run with each other one.
///
/// A cell misses it if more of its trials failed ([`MoreFailures`]), or if its primary metric is worse for certain, so
/// that the interval is wholly beyond no change, and the estimated worsening is at least
/// `fail_on.slower`. A cell that was measured in the first run and not at all in the other one misses it too.
pub fn gate(pairs: &[PairOfRuns], baseline: &str, fail_on: FailOn) -> RegressionGate {
    let mut misses = Vec::new();
    for pair in pairs.iter().filter(|pair| pair.from == baseline) {
        let to = &pair.to;
        for cell in &pair.cells {
            let is_slower = cell.primary().is_some_and(|metric| {
                let worse = metric.worse_by().zip(fail_on.slower);
                metric.conclusion == Conclusion::Slower
                    && worse.is_some_and(|(worse, least)| worse >= least.0)
            });
            if is_slower {
                misses.push(format!("slower in {to}: {}", detail(cell)));
            } else if cell.is_lost() {
                misses.push(format!("not measured in {to}: {}", cell.name.text()));
            }
        }
        let failures = pair.more_failures.iter();
        misses.extend(failures.map(|it| format!("more failures in {to}: {}", it.text())));
    }
    RegressionGate {
        slower_ratio: fail_on.slower,
        passed: misses.is_empty(),
        misses,
    }
}

/// Whether some cell of the pairs with the first run has an interval, so that a gate can find
/// something.
pub fn can_judge(pairs: &[PairOfRuns], baseline: &str) -> bool {
    let mut pairs = pairs.iter().filter(|pair| pair.from == baseline);
    let has_interval = |cell: &CellPair| cell.primary().is_some_and(|it| it.interval.is_some());
    let can_judge = |cell: &CellPair| cell.is_lost() || has_interval(cell);
    pairs.all(|pair| pair.cells.iter().any(can_judge))
}
