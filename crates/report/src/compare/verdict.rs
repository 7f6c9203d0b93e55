//! Sentences about a pair of runs, and the gate on regressions.

use itertools::Itertools as _;
use regatta_model::metric;

use super::types::{CellPair, FailOn, MetricPair, MoreFailures, PairOfRuns, RegressionGate};
use crate::{
    analysis::Conclusion,
    format::{list, ratio_end, ratio_number, signed, signed_percent},
};

/// Number of cells that a sentence names; the others are counted.
const NAMED: usize = 5;

/// Returns the verdict on a pair: cells that are slower, faster, without a detected difference, and
/// not comparable, by the metrics of their workloads' rankings.
pub fn of_pair(pair: &PairOfRuns) -> String {
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
    let same = with(Conclusion::NoDifferenceDetected);
    if !same.is_empty() {
        sentences.push(undetected(&same, total, sentences.is_empty()));
    }
    let mut few = with(Conclusion::NotEnoughRounds);
    few.retain(|cell| !cell.is_lost());
    if !few.is_empty() {
        sentences.push(format!(
            "{} not decided, with too few rounds for an interval",
            part(few.len(), total)
        ));
    }
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

/// Returns the sentence about cells without a detected difference, with what they could have shown.
fn undetected(cells: &[&CellPair], total: usize, alone: bool) -> String {
    let detectable = (cells.iter())
        .map(|cell| cell.primary()?.detectable_ratio)
        .collect::<Option<Vec<f64>>>();
    let largest = detectable.map(|ratios| ratios.into_iter().fold(1.0, f64::max));
    let could = match largest {
        Some(ratio) if ratio > 1.0 => format!(
            "; a ratio of {} would have been detected in each with a probability of 80 %",
            ratio_end(ratio, ratio_number)
        ),
        _ => String::new(),
    };
    match alone && cells.len() == total {
        true => format!("No difference was detected in any of {total} cells{could}"),
        false => format!("No difference was detected in {}{could}", cells.len()),
    }
}

fn detail(cell: &CellPair) -> String {
    let by = cell.primary().and_then(|metric| {
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
    let change = signed_percent(metric.ratio? - 1.0);
    let Some(interval) = metric.interval else {
        return Some(change);
    };
    // No break within the brackets.
    let [low, high] = interval.map(|end| signed(end - 1.0).replace(' ', "\u{a0}"));
    Some(format!("{change} [{low},\u{a0}{high}]"))
}

/// Decides the gate over the pairs of the first run with each other one.
///
/// A cell misses it if more of its trials failed ([`MoreFailures`]), or if its primary metric is worse after Holm's
/// correction, so that the interval is wholly beyond no change, and the estimated worsening is at least
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
    let can_judge =
        |cell: &CellPair| cell.is_lost() || cell.conclusion() != Conclusion::NotEnoughRounds;
    pairs.all(|pair| pair.cells.iter().any(can_judge))
}
