//! Text that a run prints at its end: gates, one table for each condition, warnings with hints, and
//! the verdict last.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use comfy_table::{
    Attribute, Cell as TableCell, CellAlignment, Color, ContentArrangement, LineStyle, Table,
    TableStyle,
};
use regatta_model::{
    metric,
    metric::id,
    shell::{printable, quoted},
};
use regatta_results::{FILE_NAME, has_log, is_being_written};

use crate::{
    RunData, Summary,
    analysis::{Cell, CountedReason, SweepCell, SweepResult},
    format::{Scale, capital},
    labels::Labels,
    language::{self, plural, quantity, tr},
};

/// Options for terminal output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalOptions {
    /// Width of the terminal in columns.
    pub width: u16,
    /// Whether to use colour, which is never the only carrier of meaning.
    pub color: bool,
}

impl Default for TerminalOptions {
    fn default() -> Self {
        Self {
            width: 80,
            color: false,
        }
    }
}

/// Minimum width at which lines are broken; narrower text would be unreadable.
const NARROWEST: u16 = 40;
/// Columns of the tables: name of the metric, and its heading over several lines.
const COLUMNS: [(&str, &str); 9] = [
    (id::GOODPUT_BPS, "goodput"),
    (id::REQUESTS_PER_SECOND, "requests\nper second"),
    (id::MESSAGE_DELAY_P95_NS, "message\ndelay, 95th\npercentile"),
    (
        id::TIME_TO_FIRST_BYTE_P50_NS,
        "time to\nfirst byte,\nmedian",
    ),
    (
        id::TIME_TO_COMPLETION_P50_NS,
        "time to\ncompletion,\nmedian",
    ),
    (id::ROUND_TRIP_DELAY_NS, "round-trip\ndelay under\nload"),
    (
        id::STREAM_ROUND_TRIP_DELAY_NS,
        "round-trip\ndelay on a\nstream",
    ),
    (
        id::GOODPUT_PER_CORE_PERCENT_BPS,
        "goodput per\n1 % of a\ncore",
    ),
    (id::MESSAGE_LOSS_RATIO, "message\nloss"),
];
/// Style of the tables: a line under the header and nothing else.
pub(crate) const STYLE: TableStyle =
    TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// Width at which headings in other languages are broken.
const NARROW_HEADING: usize = 14;

/// Column that has values: its metric, its scale, its two headings.
struct Column {
    name: &'static str,
    scale: Scale,
    wide: &'static str,
    narrow: String,
}

/// Renders the whole output.
#[must_use]
pub fn render(summary: &Summary, data: &RunData, options: &TerminalOptions) -> String {
    let mut printer = Printer {
        out: String::new(),
        summary,
        options: *options,
        width: options.width.max(NARROWEST),
    };
    printer.gates();
    printer.tables(data);
    printer.sweeps();
    printer.warnings();
    printer.verdict(data);
    printer.out
}

/// Returns the last lines of a run: the place of the results, and the command that opens them.
#[must_use]
pub fn whereabouts(dir: &std::path::Path) -> String {
    let shown = dir.display().to_string();
    let mut out = tr!("Results: {}", printable(&shown)) + "\n";
    if has_log(&dir.join(FILE_NAME)) {
        let text = match is_being_written(dir) {
            Some(true) => tr!(
                "Part of them is in `{}-wal`, because the run is still going on.",
                FILE_NAME
            ),
            _ => tr!(
                "Part of them is in `{}-wal`, because the run has not ended in good order or another program is reading it: copy both files together.",
                FILE_NAME
            ),
        };
        let _ = writeln!(out, "{text}");
    }
    let page = dir.join("report.html");
    let text = tr!("Open the report: xdg-open {}", quoted(&page));
    let _ = writeln!(out, "{text}");
    out
}

/// Text under construction.
struct Printer<'a> {
    out: String,
    summary: &'a Summary,
    options: TerminalOptions,
    width: u16,
}

/// Breaks a text at spaces so that no line is wider than `width`. The first line begins at column
/// `indent`, after the caller's text; the others are indented as far.
pub(crate) fn wrap(text: &str, width: usize, indent: usize) -> String {
    let mut out = String::new();
    let mut column = indent;
    for (position, word) in text.split(' ').enumerate() {
        let length = word.chars().count();
        if position > 0 && column + 1 + length > width {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            column = indent;
        } else if position > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out
}

impl Printer<'_> {
    fn paint(&self, text: &str, code: &str) -> String {
        match self.options.color {
            true => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            false => text.to_owned(),
        }
    }

    /// Adds a line that begins with a word in a colour; its further lines are indented.
    fn line(&mut self, (word, code): (&str, &str), gap: &str, text: &str, indent: usize) {
        let text = wrap(&printable(text), usize::from(self.width), indent);
        let word = self.paint(word, code);
        self.out.push_str(&format!("{word}{gap}{text}\n"));
    }

    fn gates(&mut self) {
        for gate in &self.summary.gates {
            let (word, code) = match (gate.passed, gate.not_judged) {
                (_, true) => ("–".to_owned(), "33"),
                (true, _) => (tr!("pass"), "32"),
                (false, _) => (tr!("MISS"), "1;31"),
            };
            let name = gate.name.replace('_', " ");
            let line = format!("{}: {}", language::text(&name), gate.detail);
            let indent = word.chars().count() + 2;
            self.line((&word, code), "  ", &line, indent);
        }
    }

    fn tables(&mut self, data: &RunData) {
        let (summary, width) = (self.summary, usize::from(self.width));
        let (mut deadlines, mut doubted, mut any) = (false, false, false);
        for group in data.plain_groups() {
            let of_workload = |cell: &&Cell| cell.workload == group.workload.name;
            let of_workload: Vec<&Cell> = summary.cells.iter().filter(of_workload).collect();
            let columns = columns(summary, &of_workload);
            let mut cells = of_workload;
            cells.retain(|cell| cell.condition == group.condition.name);
            any |= !columns.is_empty();
            deadlines |= cells.iter().any(|cell| cell.deadline_reached > 0);
            doubted |= cells.iter().any(|cell| cell.path_doubted > 0);
            // Measured without colours, whose codes have no width.
            let natural = table(&columns, &cells, summary, true, false).to_string();
            let natural = natural.lines().map(|line| line.chars().count()).max();
            let wide = natural.unwrap_or(0) <= width;
            let mut table = table(&columns, &cells, summary, wide, self.options.color);
            if !wide {
                table
                    .set_content_arrangement(ContentArrangement::Dynamic)
                    .set_width(self.width);
            }
            let title = self.paint(&printable(&group.heading()), "1");
            self.out.push_str(&format!("\n{title}\n"));
            for line in table.to_string().lines() {
                self.out.push_str(&format!("{}\n", line.trim_end()));
            }
        }
        if !any {
            return;
        }
        let mut legend = tr!("geometric mean [95 % confidence interval], of loss the mean");
        let mut verdicts = summary.verdict.conditions.iter();
        if verdicts.any(|place| place.ranking.len() > 1) {
            legend.push_str(&tr!(
                "; group: transports that share a letter cannot be told apart, without one it is not ranked"
            ));
        }
        let of_clocks = |cell: &Cell| !cell.clock_errors_ns.is_empty();
        if summary.cells.iter().any(of_clocks) {
            legend.push_str(&tr!(
                "; ± largest error from the offset between the hosts' clocks"
            ));
        }
        if deadlines {
            legend.push_str(&tr!(
                "; * trials that the deadline stopped, measured on what was delivered"
            ));
        }
        if doubted {
            legend.push_str(&tr!(
                "; ! trials over a path that was not what was asked for, see the warnings"
            ));
        }
        let legend = self.paint(&wrap(&legend, width, 0), "2");
        self.out.push_str(&format!("\n{legend}\n"));
    }

    fn warnings(&mut self) {
        let mut reasons: Vec<(&Cell, &CountedReason, u64)> = Vec::new();
        for cell in &self.summary.cells {
            for reason in &cell.reasons {
                let known = reasons.iter_mut().find(|(other, known, _)| {
                    other.transport == cell.transport
                        && known.outcome == reason.outcome
                        && known.reasons == reason.reasons
                });
                match known {
                    Some((_, _, count)) => *count += reason.count,
                    None => reasons.push((cell, reason, reason.count)),
                }
            }
        }
        let reasons: Vec<String> = reasons
            .into_iter()
            .map(|(cell, reason, count)| {
                let outcome = reason.outcome.replace('_', " ");
                let causes = reason.reasons.iter().map(|cause| language::sentence(cause));
                let causes: Vec<String> = causes.collect();
                let text = plural!(
                    count,
                    "`{1}`: {0} trial {2}{3}",
                    "`{1}`: {0} trials {2}{3}",
                    cell.transport,
                    language::text(&outcome),
                    format!(": {}", causes.join(": "))
                );
                format!("{text}\n{}", language::sentence(&reason.hint))
            })
            .collect();
        let counted = self.summary.warnings.iter().map(|counted| {
            let trials = match counted.trials {
                0 => String::new(),
                // The sentence carries the figures of one trial.
                n => plural!(n, " ({} trial)", " (first of {} trials)"),
            };
            let warning = &counted.warning;
            format!("{}{trials}\n{}", warning.message, warning.hint)
        });
        let texts: Vec<String> = reasons.into_iter().chain(counted).collect();
        if !texts.is_empty() {
            self.out.push('\n');
        }
        for text in texts {
            let (message, hint) = text.split_once('\n').unwrap_or((&text, ""));
            let word = tr!("warning:");
            self.line((&word, "1;33"), " ", message, 9);
            if !hint.is_empty() {
                self.out.push_str("   ");
                let word = tr!("hint:");
                self.line((&word, "36"), " ", hint, 9);
            }
        }
    }

    /// Writes a table for each sweep, and the sentences about it.
    fn sweeps(&mut self) {
        let (summary, width) = (self.summary, usize::from(self.width));
        for sweep in summary.sweeps.iter().filter(|sweep| sweep.is_primary) {
            let Some(definition) = metric::find(&sweep.metric) else {
                continue;
            };
            let largest = sweep.cells.iter().filter_map(|cell| cell.value);
            let scale = Scale::for_largest(definition.unit, largest.fold(0.0, f64::max));
            let title = tr!(
                "{}: {} [95 % confidence interval]",
                sweep.heading(summary),
                scale.heading(definition.title)
            );
            let title = self.paint(&wrap(&printable(&title), width, 0), "1");
            self.out.push_str(&format!("\n{title}\n"));
            match sweep_table(sweep, scale, self.width) {
                Some(table) => {
                    for line in table.to_string().lines() {
                        self.out.push_str(&format!("{}\n", line.trim_end()));
                    }
                }
                None => {
                    let text = tr!(
                        "{} cells: their figures are in the report",
                        sweep.cells.len()
                    );
                    self.out.push_str(&format!("{text}\n"));
                }
            }
            for sentence in &sweep.sentences {
                let text = wrap(&printable(&capital(sentence)), width, 0);
                self.out.push_str(&format!("{text}.\n"));
            }
        }
    }

    fn verdict(&mut self, data: &RunData) {
        let width = usize::from(self.width);
        self.out.push('\n');
        let swept: BTreeSet<(&str, &str)> = (data.groups())
            .filter(|group| group.is_swept)
            .map(|group| (&*group.condition.name, &*group.workload.name))
            .collect();
        let verdicts = self.summary.verdict.conditions.iter();
        for part in verdicts.filter(|it| !swept.contains(&(&*it.condition, &*it.workload))) {
            self.out
                .push_str(&(wrap(&printable(&part.text), width, 0) + "\n"));
            if !part.stacks_differ_in.is_empty() {
                let titles = part.stacks_differ_in.iter();
                let titles: Vec<&str> = titles.map(|title| language::text(title)).collect();
                let differences = tr!("  stacks differ in: {}", titles.join(", "));
                self.out.push_str(&(wrap(&differences, width, 2) + "\n"));
            }
        }
        for sentence in &self.summary.verdict.workloads {
            self.out
                .push_str(&(wrap(&printable(sentence), width, 0) + "\n"));
        }
        let overall = wrap(&printable(&self.summary.verdict.overall), width, 0);
        self.out.push_str(&(self.paint(&overall, "1") + "\n"));
    }
}

/// Most rows of the table of a sweep.
const MOST_ROWS: usize = 40;

/// Returns the table of a sweep, values of the parameters down and transports across; `None` if it has too
/// many rows.
fn sweep_table(sweep: &SweepResult, scale: Scale, width: u16) -> Option<Table> {
    let cells: BTreeMap<(&[u32], &str), &SweepCell> = (sweep.cells.iter())
        .map(|cell| ((&cell.at[..], cell.line.as_str()), cell))
        .collect();
    let places: BTreeSet<&[u32]> = cells.keys().map(|(at, _)| *at).collect();
    if places.len() > MOST_ROWS {
        return None;
    }
    let right = |text: String| TableCell::new(text).set_alignment(CellAlignment::Right);
    let mut table = Table::new();
    table.load_style(STYLE).force_no_tty();
    table
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width);
    let axes = sweep
        .axes
        .iter()
        .map(|axis| TableCell::new(printable(language::text(&axis.title))));
    let lines = sweep.lines.iter().map(|line| right(printable(line)));
    table.set_header(axes.chain(lines));
    for at in places {
        let values = at.iter().zip(&sweep.axes).map(|(value, axis)| {
            let value = axis.values.get(*value as usize);
            let value = quantity(value.map_or("", |value| &value.text));
            TableCell::new(printable(&value))
        });
        let means = sweep.lines.iter().map(|line| {
            let cell = cells.get(&(at, line.as_str()));
            let shown = cell.and_then(|cell| Some((cell.value?, cell.ci95)));
            right(shown.map_or_else(
                || "–".to_owned(),
                |shown| mean(scale.text(shown.0), shown, scale, true),
            ))
        });
        table.add_row(values.chain(means));
    }
    for column in table.column_iter_mut() {
        column.set_padding((1, 0));
    }
    Some(table)
}

/// Returns the columns for which some of these cells have values.
fn columns(summary: &Summary, cells: &[&Cell]) -> Vec<Column> {
    let own = summary.rank_by.as_deref().and_then(metric::find);
    let own = own.filter(|own| COLUMNS.iter().all(|(name, _)| *name != own.name));
    let own = own.map(|own| (own.name, own.title));
    own.into_iter()
        .chain(COLUMNS)
        .filter_map(|(name, narrow)| {
            let means: Vec<f64> = cells
                .iter()
                .filter_map(|cell| Some(cell.shown(name)?.0))
                .collect();
            let largest = means
                .iter()
                .copied()
                .fold(None, |largest: Option<f64>, mean| {
                    Some(largest.map_or(mean, |largest| largest.max(mean)))
                })?;
            let metric = metric::find(name)?;
            Some(Column {
                name,
                scale: Scale::for_largest(metric.unit, largest),
                wide: metric.title,
                narrow: narrow_heading(metric.title, narrow),
            })
        })
        .collect()
}

/// Returns a heading over several lines: the English one, or the title of the language broken into short lines.
fn narrow_heading(title: &str, english: &'static str) -> String {
    match language::text(title) {
        translated if translated == title => english.to_owned(),
        translated => wrap(translated, NARROW_HEADING, 0),
    }
}

/// The letters of a cell in the ranking of its place; `None` where there is no order that it is part of.
fn letters<'a>(summary: &'a Summary, cell: &Cell) -> Option<&'a str> {
    (summary.verdict.conditions.iter())
        .find(|place| place.condition == cell.condition && place.workload == cell.workload)
        .and_then(|place| place.letters(&cell.transport))
}

/// Formats a mean with its interval; if every trial has the same value, as one without variation.
fn mean(
    text: String,
    (value, interval): (f64, Option<[f64; 2]>),
    scale: Scale,
    wide: bool,
) -> String {
    match interval {
        Some(ends) if ends[0] < ends[1] => {
            let gap = if wide { "\u{a0}" } else { "\n" };
            // No break within the brackets.
            let [low, high] = scale
                .ends(value, ends)
                .map(|end| end.replace(' ', "\u{a0}"));
            format!("{text}{gap}[{low},\u{a0}{high}]")
        }
        _ => text,
    }
}

fn table(columns: &[Column], cells: &[&Cell], summary: &Summary, wide: bool, color: bool) -> Table {
    let right = |text: String| TableCell::new(text).set_alignment(CellAlignment::Right);
    let mut table = Table::new();
    table.load_style(STYLE);
    if color {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    let grouped = cells.iter().any(|cell| letters(summary, cell).is_some());
    // Where there is no room for a column, the letters stand behind the name.
    let mut head: Vec<TableCell> = match (grouped, wide) {
        (true, true) => [tr!("transport"), tr!("group")].map(TableCell::new).into(),
        (true, false) => vec![TableCell::new(format!(
            "{},\n{}",
            tr!("transport"),
            tr!("group")
        ))],
        (false, _) => vec![TableCell::new(tr!("transport"))],
    };
    head.extend(columns.iter().map(|column| {
        right(if wide {
            column.scale.heading(column.wide)
        } else {
            column.scale.heading(&column.narrow)
        })
    }));
    head.push(right(match wide {
        true => tr!("trials"),
        false => "n".to_owned(),
    }));
    table.set_header(head);
    let labels = summary.cells.iter().map(|cell| cell.transport.as_str());
    let labels = Labels::new(labels, if wide { 24 } else { 14 });
    for cell in cells {
        let label = printable(labels.get(&cell.transport));
        let mut row = match letters(summary, cell) {
            letters if grouped && wide => vec![
                TableCell::new(label),
                TableCell::new(letters.unwrap_or("–")),
            ],
            Some(letters) => vec![TableCell::new(format!("{label} {letters}"))],
            None => vec![TableCell::new(label)],
        };
        for (position, column) in columns.iter().enumerate() {
            row.push(right(match cell.shown(column.name) {
                Some(shown) => {
                    let text = cell.text(column.name, shown.0, column.scale);
                    mean(text, shown, column.scale, wide)
                }
                None if cell.n == 0 && position == 0 => cell.outcome_words(),
                None => "–".to_owned(),
            }));
        }
        let star = if cell.deadline_reached > 0 { "*" } else { "" };
        let doubt = if cell.path_doubted > 0 { "!" } else { "" };
        let all = summary.trials_of(cell);
        let mut trials = right(format!("{}/{all}{star}{doubt}", cell.n));
        if color && cell.n < all {
            trials = trials.fg(Color::Yellow).add_attribute(Attribute::Bold);
        }
        row.push(trials);
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_padding((1, 0));
    }
    table
}
