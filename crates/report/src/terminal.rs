//! What a run prints at its end: gates, one table for each condition, warnings with remedies, and
//! the verdict last.

use std::fmt::Write as _;

use comfy_table::{Attribute, Cell as TableCell, CellAlignment, Color, ContentArrangement, Table, presets};
use regatta_model::{MetricDefinition, Outcome, metric};

use crate::{
    RunData, Summary,
    analysis::Cell,
    format::{Scale, shorten},
};

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalOptions {
    /// Columns of the terminal.
    pub width: u16,
    /// Whether to colour; colour is never the only carrier of meaning.
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

/// Below this the lines are not broken further: nothing would be readable.
const NARROWEST: u16 = 40;
const COLUMNS: [&str; 4] = [
    "goodput_bps",
    "round_trip_delay_ns",
    "goodput_per_core_percent_bps",
    "message_loss_ratio",
];
/// Shorter headings than the metric table's, for columns.
const SHORT_TITLES: [(&str, &str); 4] = [
    ("goodput_bps", "goodput"),
    ("round_trip_delay_ns", "round-trip delay under load"),
    ("goodput_per_core_percent_bps", "goodput per 1 % of a core"),
    ("message_loss_ratio", "message loss"),
];

/// Renders the whole.
#[must_use]
pub fn render(summary: &Summary, data: &RunData, options: &TerminalOptions) -> String {
    let width = options.width.max(NARROWEST);
    let mut out = String::new();
    gates(&mut out, summary, options, usize::from(width));
    tables(&mut out, summary, data, options, width);
    warnings(&mut out, summary, options, usize::from(width));
    verdict(&mut out, summary, options, usize::from(width));
    out
}

/// Where the results are, and the command that opens them: the last lines of a run.
#[must_use]
pub fn whereabouts(dir: &std::path::Path) -> String {
    let page = dir.join("report.html");
    format!(
        "Results: {}\nOpen the report: xdg-open {}\n",
        dir.display(),
        quoted(&page.display().to_string())
    )
}

/// As a shell reads it back.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@%,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// Terminals obey control characters, so none of what a user or a peer wrote gets through.
fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

fn paint(text: &str, code: &str, options: &TerminalOptions) -> String {
    if options.color {
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    } else {
        text.to_owned()
    }
}

/// Breaks a text at spaces; later lines are indented.
fn wrap(text: &str, width: usize, indent: usize) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > width {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            column = indent;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out
}

fn gates(out: &mut String, summary: &Summary, options: &TerminalOptions, width: usize) {
    for gate in &summary.gates {
        let (word, code) = if gate.passed {
            ("pass", "32")
        } else {
            ("MISS", "1;31")
        };
        let line = format!("{}: {}", gate.name.replace('_', " "), plain(&gate.detail));
        let _ = writeln!(
            out,
            "{}  {}",
            paint(word, code, options),
            wrap(&line, width.saturating_sub(6), 6)
        );
    }
}

fn scale(summary: &Summary, definition: &MetricDefinition) -> Scale {
    let largest = summary
        .cells
        .iter()
        .filter_map(|cell| cell.mean(definition.name))
        .fold(0.0, f64::max);
    Scale::for_largest(definition.unit, largest)
}

fn tables(out: &mut String, summary: &Summary, data: &RunData, options: &TerminalOptions, width: u16) {
    let columns: Vec<(&MetricDefinition, Scale)> = COLUMNS
        .iter()
        .filter_map(|name| metric::find(name))
        .filter(|column| summary.cells.iter().any(|c| c.metrics.contains_key(column.name)))
        .map(|column| (column, scale(summary, column)))
        .collect();
    let study = &data.header.study;
    for workload in &study.workloads {
        for condition in &study.conditions {
            let title = if study.workloads.len() > 1 {
                format!("{}, {}", condition.name, workload.name)
            } else {
                condition.name.clone()
            };
            let cells: Vec<&Cell> = summary
                .cells
                .iter()
                .filter(|cell| cell.condition == condition.name && cell.workload == workload.name)
                .collect();
            // An interval stands behind its mean where there is room, and below it where not.
            let wide = table(&columns, &cells, summary, " ", options);
            let natural = wide.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            let narrow;
            let rendered = if natural <= usize::from(width) && !options.color {
                wide.to_string()
            } else if natural <= usize::from(width) {
                wide.to_string()
            } else {
                let mut table = table(&columns, &cells, summary, "\n", options);
                table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
                narrow = table.to_string();
                narrow
            };
            let _ = writeln!(out, "\n{}", paint(&plain(&title), "1", options));
            for line in rendered.lines() {
                let _ = writeln!(out, "{}", line.trim_end());
            }
        }
    }
    let _ = writeln!(out, "{}", paint("mean [95 % confidence interval]", "2", options));
}

fn table(
    columns: &[(&MetricDefinition, Scale)],
    cells: &[&Cell],
    summary: &Summary,
    joint: &str,
    options: &TerminalOptions,
) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    if options.color {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    let mut head = vec![TableCell::new("transport")];
    for (column, scale) in columns {
        let title = SHORT_TITLES
            .iter()
            .find(|(name, _)| *name == column.name)
            .map_or(column.title, |(_, title)| title);
        head.push(
            TableCell::new(scale.heading(title)).set_alignment(CellAlignment::Right),
        );
    }
    head.push(TableCell::new("trials").set_alignment(CellAlignment::Right));
    table.set_header(head);
    for cell in cells {
        let mut row = vec![TableCell::new(plain(&shorten(&cell.transport, 24)))];
        for (column, scale) in columns {
            let text = match cell.metrics.get(column.name) {
                Some(m) => match m.ci95 {
                    Some([low, high]) => {
                        format!("{}{joint}[{}, {}]", scale.text(m.mean), scale.text(low), scale.text(high))
                    }
                    None => scale.text(m.mean),
                },
                None => "–".to_owned(),
            };
            row.push(TableCell::new(text).set_alignment(CellAlignment::Right));
        }
        let mut trials = format!("{}/{}", cell.n, summary.rounds);
        let mut worst = None;
        for outcome in Outcome::ALL {
            let count = cell.outcome(outcome);
            if outcome != Outcome::Measured && count > 0 {
                let _ = write!(trials, "\n{count} {}", outcome.name().replace('_', " "));
                worst = Some(outcome);
            }
        }
        if cell.deadline_reached > 0 {
            let _ = write!(trials, "\n{} at deadline", cell.deadline_reached);
        }
        let mut trials = TableCell::new(trials).set_alignment(CellAlignment::Right);
        if options.color && worst.is_some() {
            trials = trials.fg(Color::Yellow).add_attribute(Attribute::Bold);
        }
        row.push(trials);
        table.add_row(row);
    }
    table
}

fn warnings(out: &mut String, summary: &Summary, options: &TerminalOptions, width: usize) {
    let reasons: Vec<String> = summary
        .cells
        .iter()
        .flat_map(|cell| {
            cell.reasons.iter().map(move |reason| {
                format!(
                    "{} trials of `{}` under `{}` {}: {}\n{}",
                    reason.count,
                    cell.transport,
                    cell.condition,
                    reason.outcome.replace('_', " "),
                    reason.reasons.join(": "),
                    reason.hint
                )
            })
        })
        .collect();
    let counted = summary.warnings.iter().map(|warning| {
        let trials = match warning.trials {
            0 => String::new(),
            1 => " (1 trial)".to_owned(),
            n => format!(" ({n} trials)"),
        };
        format!("{}{trials}\n{}", warning.message, warning.hint)
    });
    let mut first = true;
    for text in reasons.into_iter().chain(counted) {
        if first {
            out.push('\n');
            first = false;
        }
        let (message, hint) = text.split_once('\n').unwrap_or((&text, ""));
        let _ = writeln!(
            out,
            "{} {}",
            paint("warning:", "1;33", options),
            wrap(&plain(message), width.saturating_sub(9), 9)
        );
        if !hint.is_empty() {
            let _ = writeln!(
                out,
                "   {} {}",
                paint("hint:", "36", options),
                wrap(&plain(hint), width.saturating_sub(9), 9)
            );
        }
    }
}

fn verdict(out: &mut String, summary: &Summary, options: &TerminalOptions, width: usize) {
    out.push('\n');
    for part in &summary.verdict.conditions {
        let _ = writeln!(out, "{}", wrap(&plain(&part.text), width, 0));
    }
    let overall = wrap(&plain(&summary.verdict.overall), width, 0);
    let _ = writeln!(out, "{}", paint(&overall, "1", options));
}
