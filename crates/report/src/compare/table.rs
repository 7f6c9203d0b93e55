//! Text of a comparison for a terminal.

use comfy_table::{Cell as TableCell, Table};
use regatta_model::{metric, shell::printable};

use super::{
    types::{
        CellName, CellPair, Change, ChangeKind, ComparedRun, MetricPair, PairOfRuns, RunComparison,
    },
    verdict::outcome,
};
use crate::{
    analysis::MeanKind,
    format::{CommonUnit, grouped, list, moment},
    labels::Labels,
    text::{TerminalOptions, TerminalText, fit, natural_width, new_table, pad, right},
};

/// Number of cells up to which each is shown; of more, those with a difference or a failure.
const MAX_CELLS: usize = 60;

/// Number of changes of one kind that are listed.
const MAX_CHANGES: usize = 12;

/// Longest label of a transport, in characters.
const LONGEST_LABEL: usize = 24;

/// Number of characters of a value of a change.
const MAX_VALUE: usize = 60;

/// Renders a comparison: the runs, and of each pair the verdict, what changed, and its cells.
#[must_use]
pub fn render(comparison: &RunComparison, options: &TerminalOptions) -> String {
    let mut text = TerminalText::new(options);
    for run in &comparison.runs {
        add_line(&mut text, &format!("{}  ", run.name), &run_text(run));
    }
    for pair in &comparison.pairs {
        add_pair(&mut text, pair);
    }
    if let Some(gate) = &comparison.gate {
        text.out.push('\n');
        if gate.passed {
            add_line(&mut text, "pass  ", &gate.passed_text());
        }
        for miss in gate.misses.iter().take(MAX_CELLS) {
            add_line(&mut text, "MISS  ", miss);
        }
        if gate.misses.len() > MAX_CELLS {
            let more = gate.misses.len() - MAX_CELLS;
            add_line(
                &mut text,
                "MISS  ",
                &format!("and {more} more; `--json` has all"),
            );
        }
    }
    text.out
}

fn run_text(run: &ComparedRun) -> String {
    let state = match run.state.name.as_str() {
        "complete" => String::new(),
        other => format!(", {other}"),
    };
    format!(
        "{}: `{}`, {}, Regatta {}, {}, rounds: {}{state}",
        run.directory,
        run.study,
        moment(run.started_unix_ns),
        run.regatta_version,
        run.bed,
        run.rounds
    )
}

/// Legend of the tables.
const LEGEND: &str = "geometric means, where a row says nothing else; arithmetic and harmonic ones are over every trial that was started, a failed one as a rate of 0 or a time without end; a difference with the interval by which it was decided";

/// Adds a text after a first word, wrapped and indented as far.
fn add_line(out: &mut TerminalText, first: &str, text: &str) {
    out.line(first, text, first.chars().count());
}

fn add_pair(out: &mut TerminalText, pair: &PairOfRuns) {
    out.paragraph(&pair.verdict, "1");
    out.heading(&format!("{} to {}: what changed", pair.from, pair.to));
    if pair.changes.is_empty() {
        add_line(out, "  ", "nothing that the results record");
    }
    add_changes(out, &pair.changes);
    for (run, cells) in [(&pair.from, &pair.only_from), (&pair.to, &pair.only_to)] {
        if !cells.is_empty() {
            let shown = list(cells.iter().take(MAX_CHANGES).map(CellName::text));
            let word = if cells.len() == 1 { "cell" } else { "cells" };
            let text = format!("{} {word} in {run} alone: {shown}", cells.len());
            add_line(out, "  ", &text);
        }
    }
    add_tables(out, pair);
    out.out.push('\n');
    add_line(out, "", LEGEND);
}

fn add_changes(out: &mut TerminalText, changes: &[Change]) {
    let kinds = [
        (ChangeKind::Run, "run"),
        (ChangeKind::Program, "program"),
        (ChangeKind::Study, "study"),
        (ChangeKind::Host, "host"),
        (ChangeKind::Stack, "stack"),
    ];
    for (kind, label) in kinds {
        let of_kind: Vec<&Change> = changes.iter().filter(|it| it.kind == kind).collect();
        for change in of_kind.iter().take(MAX_CHANGES) {
            add_line(out, &format!("  {label:8} "), &change_of(change));
        }
        if of_kind.len() > MAX_CHANGES {
            let more = of_kind.len() - MAX_CHANGES;
            let text = format!("and {more} more; `--json` lists them all");
            add_line(out, "           ", &text);
        }
    }
}

fn add_tables(out: &mut TerminalText, pair: &PairOfRuns) {
    let shown = listed(pair, MAX_CELLS);
    let cells = (shown.iter()).map(|cell| ((&cell.name.condition, &cell.name.workload), *cell));
    for ((condition, workload), cells) in grouped(cells) {
        out.heading(&format!("{condition}, {workload}"));
        let mut table = table(pair, &cells);
        if natural_width(&table) > out.width {
            fit(&mut table, out.width);
        }
        out.table(&table);
    }
    if let Some(text) = left_out(pair, shown.len()) {
        out.out.push('\n');
        add_line(out, "", &text);
    }
}

/// Returns the cells that are shown, in the order of the study: all of up to `most`; of more, those with a difference
/// or a failure, and of too many of these the ones whose primary metric changed most.
#[must_use]
pub fn listed(pair: &PairOfRuns, most: usize) -> Vec<&CellPair> {
    if pair.cells.len() <= most {
        return pair.cells.iter().collect();
    }
    let mut shown: Vec<(usize, &CellPair)> = (pair.cells.iter().enumerate())
        .filter(|(_, cell)| matters(cell))
        .collect();
    if shown.len() > most {
        shown.sort_by(|(_, a), (_, b)| change(b).total_cmp(&change(a)));
        shown.truncate(most);
        shown.sort_by_key(|(position, _)| *position);
    }
    shown.into_iter().map(|(_, cell)| cell).collect()
}

/// Returns the sentence about the cells that are not shown, if there are any.
#[must_use]
pub fn left_out(pair: &PairOfRuns, shown: usize) -> Option<String> {
    let all = pair.cells.len();
    let differing = pair.cells.iter().filter(|cell| matters(cell)).count();
    let of = match shown < differing {
        true => format!(
            "those that changed most of {differing} with a detected difference or more failures"
        ),
        false => "those with a detected difference or more failures".to_owned(),
    };
    (shown < all).then(|| {
        format!("{shown} of {all} cells are shown: {of}; `regatta compare --json` has all")
    })
}

/// Whether a cell is shown where there are many.
fn matters(cell: &CellPair) -> bool {
    let mut metrics = cell.metrics.iter();
    cell.fails_more || cell.is_lost() || metrics.any(|it| it.conclusion.is_difference())
}

/// Returns how much the primary metric of a cell changed; infinite for a cell that was lost or fails more.
fn change(cell: &CellPair) -> f64 {
    if cell.fails_more || cell.is_lost() {
        return f64::INFINITY;
    }
    cell.distance()
}

fn change_of(change: &Change) -> String {
    let of = match change.of.is_empty() {
        true => String::new(),
        false => format!(" ({})", list(&change.of)),
    };
    let [from, to] = [&change.from, &change.to].map(|it| it.as_deref().unwrap_or("none"));
    let values = Labels::new([from, to], MAX_VALUE);
    format!(
        "{}{of}: {} → {}",
        change.name,
        values.get(from),
        values.get(to)
    )
}

/// Returns the table of one condition and workload: each cell's primary metric, and others with a difference.
fn table(pair: &PairOfRuns, cells: &[&CellPair]) -> Table {
    let transports = pair.cells.iter().map(|cell| cell.name.transport.as_str());
    let transports = Labels::new(transports, LONGEST_LABEL);
    let mut table = new_table();
    table.set_header(vec![
        TableCell::new("transport"),
        TableCell::new("metric"),
        right(&pair.from),
        right(&pair.to),
        TableCell::new(format!("{} is", pair.to)),
    ]);
    for cell in cells {
        let name = printable(transports.get(&cell.name.transport));
        let is_shown = |it: &MetricPair| it.primary || it.conclusion.is_difference();
        for (position, [metric, from, to, outcome]) in rows(cell, is_shown).into_iter().enumerate()
        {
            let name = if position == 0 { &*name } else { "" };
            let [name, metric, outcome] = [name, &metric, &outcome].map(TableCell::new);
            table.add_row(vec![name, metric, right(from), right(to), outcome]);
        }
    }
    pad(&mut table, (0, 2));
    table
}

/// Returns the rows of a cell in tables, one for each metric that is shown: its title, both means, the outcome. A cell
/// without any has one that says so.
pub fn rows(cell: &CellPair, is_shown: impl Fn(&MetricPair) -> bool) -> Vec<[String; 4]> {
    let shown = cell.metrics.iter().filter(|metric| is_shown(metric));
    let of_metric = |metric: &MetricPair| {
        let [from, to] = figures(metric);
        [title_with_mean(metric), from, to, outcome(metric)]
    };
    let rows: Vec<[String; 4]> = shown.map(of_metric).collect();
    match rows.is_empty() {
        true => vec![["–", "–", "–", "not measured"].map(str::to_owned)],
        false => rows,
    }
}

/// Returns the title of a metric; empty for one that is not known.
pub fn title(metric: &MetricPair) -> &'static str {
    metric::find(&metric.metric).map_or("", |metric| metric.title)
}

/// Returns the title of a metric, with the kind of its means where that is not the geometric one.
pub fn title_with_mean(metric: &MetricPair) -> String {
    let mean = match metric.mean_kind {
        MeanKind::Geometric => "",
        MeanKind::Arithmetic => ", arithmetic mean",
        MeanKind::Harmonic => ", harmonic mean",
    };
    format!("{}{mean}", title(metric))
}

/// Returns both means, each a dash where there is none.
pub fn figures(metric: &MetricPair) -> [String; 2] {
    let means = [metric.mean_from, metric.mean_to];
    let common_unit = CommonUnit::of(metric.unit, means.into_iter().flatten());
    let means = means.map(|mean| mean.map(|mean| common_unit.quantity(mean)));
    means.map(|text| text.unwrap_or_else(|| "–".to_owned()))
}
