//! Text of a comparison for a terminal.

use comfy_table::{Cell as TableCell, CellAlignment, ContentArrangement, Table};
use regatta_model::{metric, shell::printable};

use super::{
    types::{
        CellName, CellPair, Change, ChangeKind, ComparedRun, MetricPair, PairOfRuns, RunComparison,
    },
    verdict::change_in_words,
};
use crate::{
    analysis::Conclusion,
    format::{list, moment, quantity},
    labels::Labels,
    terminal::{STYLE, TerminalOptions, wrap},
};

/// Number of cells up to which each is shown; of more, those with a difference or a failure.
const MOST_CELLS: usize = 60;

/// Number of changes of one kind that are listed.
const MOST_CHANGES: usize = 12;

/// Longest label of a transport, in characters.
const LONGEST_LABEL: usize = 24;

/// Number of characters of a value of a change.
const MOST_VALUE: usize = 60;

/// Renders a comparison: the runs, and of each pair what changed, its cells and the verdict.
#[must_use]
pub fn render(comparison: &RunComparison, options: &TerminalOptions) -> String {
    let mut printer = Printer {
        out: String::new(),
        width: usize::from(options.width.max(40)),
        color: options.color,
    };
    for run in &comparison.runs {
        printer.line(&format!("{}  ", run.name), &run_in_words(run));
    }
    for pair in &comparison.pairs {
        printer.pair(pair);
    }
    if let Some(gate) = &comparison.gate {
        printer.out.push('\n');
        let least = quantity(regatta_model::Unit::Ratio, gate.slower_ratio.0);
        match gate.passed {
            true => printer.line("pass  ", &format!("no cell is slower by {least} or more")),
            false => {
                for miss in gate.misses.iter().take(MOST_CELLS) {
                    printer.line("MISS  ", miss);
                }
                if gate.misses.len() > MOST_CELLS {
                    let more = gate.misses.len() - MOST_CELLS;
                    printer.line("MISS  ", &format!("and {more} more; `--json` has all"));
                }
            }
        }
    }
    printer.out
}

fn run_in_words(run: &ComparedRun) -> String {
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
const LEGEND: &str = "geometric means; change with the interval that belongs to the decision; – no difference detected";

struct Printer {
    out: String,
    width: usize,
    color: bool,
}

impl Printer {
    /// Adds a text behind a first word, wrapped and indented as far.
    fn line(&mut self, first: &str, text: &str) {
        let text = wrap(&printable(text), self.width, first.chars().count());
        self.out.push_str(&format!("{first}{text}\n"));
    }

    fn bold(&self, text: &str) -> String {
        match self.color {
            true => format!("\u{1b}[1m{text}\u{1b}[0m"),
            false => text.to_owned(),
        }
    }

    fn pair(&mut self, pair: &PairOfRuns) {
        let heading = self.bold(&format!("{} to {}: what changed", pair.from, pair.to));
        self.out.push_str(&format!("\n{heading}\n"));
        if pair.changes.is_empty() {
            self.line("  ", "nothing that the results record");
        }
        self.changes(&pair.changes);
        for (run, cells) in [(&pair.from, &pair.only_from), (&pair.to, &pair.only_to)] {
            let names: Vec<String> = cells.iter().map(CellName::in_words).collect();
            let shown = &names[..names.len().min(MOST_CHANGES)];
            if !names.is_empty() {
                let text = format!("{} cells in {run} alone: {}", names.len(), list(shown));
                self.line("  ", &text);
            }
        }
        self.tables(pair);
        self.out.push('\n');
        self.line("", LEGEND);
        let verdict = wrap(&printable(&pair.verdict), self.width, 0);
        let verdict = self.bold(&verdict);
        self.out.push_str(&format!("\n{verdict}\n"));
    }

    fn changes(&mut self, changes: &[Change]) {
        let kinds = [
            (ChangeKind::Run, "run"),
            (ChangeKind::Program, "program"),
            (ChangeKind::Study, "study"),
            (ChangeKind::Host, "host"),
            (ChangeKind::Stack, "stack"),
        ];
        for (kind, word) in kinds {
            let of_kind: Vec<&Change> = changes.iter().filter(|it| it.kind == kind).collect();
            for change in of_kind.iter().take(MOST_CHANGES) {
                self.line(&format!("  {word:8} "), &change_of(change));
            }
            if of_kind.len() > MOST_CHANGES {
                let more = of_kind.len() - MOST_CHANGES;
                self.line(
                    "           ",
                    &format!("and {more} more; `--json` lists them all"),
                );
            }
        }
    }

    fn tables(&mut self, pair: &PairOfRuns) {
        let shown = listed(pair, MOST_CELLS);
        let mut places: Vec<(&str, &str)> = Vec::new();
        for cell in &shown {
            let place = (cell.name.condition.as_str(), cell.name.workload.as_str());
            if !places.contains(&place) {
                places.push(place);
            }
        }
        for (condition, workload) in places {
            let heading = printable(&format!("{condition}, {workload}"));
            let heading = self.bold(&heading);
            self.out.push_str(&format!("\n{heading}\n"));
            let cells = shown
                .iter()
                .filter(|cell| cell.name.condition == condition && cell.name.workload == workload);
            let mut table = table(pair, cells.copied());
            let wide = |table: &Table| {
                let lines = table.to_string();
                lines
                    .lines()
                    .map(|line| line.chars().count())
                    .max()
                    .unwrap_or(0)
            };
            if wide(&table) > self.width {
                table
                    .set_content_arrangement(ContentArrangement::Dynamic)
                    .set_width(u16::try_from(self.width).unwrap_or(u16::MAX));
            }
            for line in table.to_string().lines() {
                self.out.push_str(&format!("{}\n", line.trim_end()));
            }
        }
        if let Some(text) = left_out(pair, shown.len()) {
            self.out.push('\n');
            self.line("", &text);
        }
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
    cell.fails_more || cell.is_lost() || cell.metrics.iter().any(is_difference)
}

/// Returns how much the primary metric of a cell changed; infinite for a cell that was lost or fails more.
fn change(cell: &CellPair) -> f64 {
    if cell.fails_more || cell.is_lost() {
        return f64::INFINITY;
    }
    let primary = cell.metrics.iter().find(|metric| metric.primary);
    let ratio = primary.and_then(|metric| metric.ratio);
    ratio.map_or(0.0, |ratio| ratio.ln().abs())
}

fn is_difference(metric: &MetricPair) -> bool {
    matches!(metric.conclusion, Conclusion::Faster | Conclusion::Slower)
}

fn change_of(change: &Change) -> String {
    let of = match change.of.is_empty() {
        true => String::new(),
        false => format!(" ({})", list(&change.of)),
    };
    let [from, to] = [&change.from, &change.to].map(|it| it.as_deref().unwrap_or("none"));
    let values = Labels::new([from, to], MOST_VALUE);
    format!(
        "{}{of}: {} → {}",
        change.name,
        values.get(from),
        values.get(to)
    )
}

/// Returns the table of one place: each cell's primary metric, and others with a difference.
fn table<'a>(pair: &PairOfRuns, cells: impl Iterator<Item = &'a CellPair>) -> Table {
    let transports = pair.cells.iter().map(|cell| cell.name.transport.as_str());
    let transports = Labels::new(transports, LONGEST_LABEL);
    let right = |text: String| TableCell::new(text).set_alignment(CellAlignment::Right);
    let mut table = Table::new();
    table.load_style(STYLE);
    table.force_no_tty();
    table.set_header(vec![
        TableCell::new("transport"),
        TableCell::new("metric"),
        right(pair.from.clone()),
        right(pair.to.clone()),
        right("change".to_owned()),
        TableCell::new(format!("{} is", pair.to)),
    ]);
    for cell in cells {
        let name = printable(transports.get(&cell.name.transport));
        let metrics: Vec<&MetricPair> = (cell.metrics.iter())
            .filter(|metric| metric.primary || is_difference(metric))
            .collect();
        if metrics.is_empty() {
            table.add_row(vec![
                name,
                "–".into(),
                "–".into(),
                "–".into(),
                "–".into(),
                "not measured".into(),
            ]);
            continue;
        }
        for (position, metric) in metrics.into_iter().enumerate() {
            let title = metric::find(&metric.metric).map_or("", |metric| metric.title);
            let value = |value: Option<f64>| {
                right(value.map_or_else(|| "–".to_owned(), |value| quantity(metric.unit, value)))
            };
            table.add_row(vec![
                TableCell::new(if position == 0 { &name } else { "" }),
                TableCell::new(title),
                value(metric.geometric_mean_from),
                value(metric.geometric_mean_to),
                right(change_in_words(metric).unwrap_or_else(|| "–".to_owned())),
                TableCell::new(conclusion(metric)),
            ]);
        }
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
}

/// Returns the conclusion in a word: a delay is not slower, but worse. [`LEGEND`] says what a dash is.
#[must_use]
pub fn conclusion(metric: &MetricPair) -> &'static str {
    match (metric.conclusion, metric.primary) {
        (Conclusion::Slower, true) => "slower",
        (Conclusion::Faster, true) => "faster",
        (Conclusion::Slower, false) => "worse",
        (Conclusion::Faster, false) => "better",
        (Conclusion::NoDifferenceDetected, _) => "–",
        (Conclusion::NotEnoughRounds, _) => "not decided",
    }
}
