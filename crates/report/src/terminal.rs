//! Text that a run prints at its end: gates, one table for each condition, warnings with hints, and
//! the verdict last.

use std::{collections::BTreeSet, fmt::Write as _};

use comfy_table::{Attribute, Cell as TableCell, Color, Table};
use itertools::Itertools as _;
use regatta_model::{
    MetricDefinition,
    metric::{self, Place, shown_in},
    shell::{printable, quoted},
};
use regatta_results::{FILE_NAME, has_log, is_being_written};

use crate::{
    RunData, Summary,
    analysis::{Cell, ClaimOutcome, SweepResult, beside, claims_line, other_means},
    brief,
    format::{Scale, capital, is_of_equals},
    labels::Labels,
    language::{self, plural, swept, tr},
    outcomes::{reasons, write_gates},
    text::{TerminalText, fit, natural_width, new_table, pad, right, wrap},
};

pub use crate::text::TerminalOptions;

/// Width at which headings in other languages are broken.
const NARROW_HEADING: usize = 14;

/// Column that has values: its metric, its scale, its two headings.
struct Column {
    name: &'static str,
    scale: Scale,
    wide: &'static str,
    narrow: String,
}

/// Renders what fits on one screen, or with `details` everything: the verdict, then gates, tables and warnings.
#[must_use]
pub fn render(summary: &Summary, data: &RunData, options: &TerminalOptions) -> String {
    let mut text = TerminalText::new(options);
    if !options.details {
        brief::write(&mut text, summary, data);
        return text.out;
    }
    verdict(&mut text, summary, data);
    claims(&mut text, summary);
    gates(&mut text, summary);
    tables(&mut text, summary, data);
    sweeps(&mut text, summary);
    hinted(&mut text, reasons(summary));
    warnings(&mut text, summary);
    text.out
}

/// Returns the last lines of a run: the path of the results, and the command that opens them.
#[must_use]
pub fn whereabouts(dir: &std::path::Path) -> String {
    let mut out = String::new();
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
    let text = tr!("Report: xdg-open {}", quoted(&page));
    let _ = writeln!(out, "{text}");
    out
}

/// Writes the claims of the study, each with its outcome and what was found.
fn claims(out: &mut TerminalText, summary: &Summary) {
    let Some(line) = claims_line(&summary.claims) else {
        return;
    };
    out.paragraph(&line, "1");
    for claim in &summary.claims {
        let code = match claim.outcome {
            ClaimOutcome::ComesOut => "32",
            ClaimOutcome::DoesNot => "1;31",
            _ => "33",
        };
        let first = out.paint(claim.outcome.mark(), code) + "  ";
        let place = claim.place.as_ref();
        let place = place.map_or_else(String::new, |place| format!(" ({place})"));
        let outcome = claim.outcome.text();
        let text = format!("{}{place}: {outcome}: {}", claim.text, claim.found);
        out.line(&first, &text, 3);
        if let Some(note) = &claim.note {
            out.line("   ", note, 3);
        }
    }
}

fn gates(out: &mut TerminalText, summary: &Summary) {
    out.out.push('\n');
    write_gates(out, summary.gates.iter());
}

fn tables(out: &mut TerminalText, summary: &Summary, data: &RunData) {
    let (mut deadlines, mut doubted, mut any) = (false, false, false);
    for group in data.plain_groups() {
        let of_workload = |cell: &&Cell| cell.workload == group.workload.name;
        let mut cells: Vec<&Cell> = summary.cells.iter().filter(of_workload).collect();
        let columns = columns(&cells);
        cells.retain(|cell| cell.condition == group.condition.name);
        any |= !columns.is_empty();
        deadlines |= cells.iter().any(|cell| cell.deadline_reached > 0);
        doubted |= cells.iter().any(|cell| cell.path_doubted > 0);
        // Measured without colours, whose codes have no width.
        let wide = natural_width(&table(&columns, &cells, summary, true, false)) <= out.width;
        let mut table = table(&columns, &cells, summary, wide, out.color);
        if !wide {
            fit(&mut table, out.width);
        }
        out.heading(&group.heading());
        out.table(&table);
    }
    if !any {
        return;
    }
    let mut legend = tr!(
        "geometric mean [95 % confidence interval of each alone, not for comparisons], of loss the mean"
    );
    let mut verdicts = summary.verdict.conditions.iter();
    if verdicts.any(|verdict| verdict.ranking.len() > 1) {
        legend += &tr!(
            "; group: transports that share a letter cannot be told apart, without one it is not ranked"
        );
    }
    let of_clocks = |cell: &Cell| !cell.clock_errors_ns.is_empty();
    if summary.cells.iter().any(of_clocks) {
        legend += &tr!("; ± largest error from the offset between the hosts' clocks");
    }
    let all: Vec<&Cell> = summary.cells.iter().collect();
    legend += &other_means(&all).unwrap_or_default();
    if deadlines {
        legend += &tr!("; * trials that the deadline stopped, measured on what was delivered");
    }
    if doubted {
        legend += &tr!("; ! trials over a path that was not what was asked for, see the warnings");
    }
    out.paragraph(&legend, "2");
}

fn warnings(out: &mut TerminalText, summary: &Summary) {
    let counted = summary.warnings.iter().map(|counted| {
        let trials = match counted.trials {
            0 => String::new(),
            // The sentence carries the figures of one trial.
            n => plural!(n, " ({} trial)", " (first of {} trials)"),
        };
        let warning = &counted.warning;
        format!("{}{trials}\n{}", warning.message, warning.hint)
    });
    hinted(out, counted.collect());
}

/// Writes warnings, each with the hint on its second line.
fn hinted(out: &mut TerminalText, texts: Vec<String>) {
    if !texts.is_empty() {
        out.out.push('\n');
    }
    let labels = [(tr!("warning:"), "1;33"), (tr!("hint:"), "36")];
    let [warning, hint] = labels.map(|(label, code)| out.paint(&label, code));
    for text in texts {
        let (message, further) = text.split_once('\n').unwrap_or((&text, ""));
        out.line(&format!("{warning} "), message, 9);
        if !further.is_empty() {
            out.line(&format!("   {hint} "), further, 9);
        }
    }
}

/// Writes a table for each sweep, and the sentences about it.
fn sweeps(out: &mut TerminalText, summary: &Summary) {
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
        out.paragraph(&title, "1");
        match sweep_table(sweep, scale, out.width) {
            Some(table) => out.table(&table),
            None => {
                out.out += &tr!(
                    "{} cells: their figures are in the report",
                    sweep.cells.len()
                );
                out.out.push('\n');
            }
        }
        for sentence in &sweep.sentences {
            let text = wrap(&printable(&capital(sentence)), out.width, 0);
            out.out += &format!("{text}.\n");
        }
    }
}

fn verdict(out: &mut TerminalText, summary: &Summary, data: &RunData) {
    for line in &summary.verdict.headline {
        let line = wrap(&printable(line), out.width, 2);
        out.out += &(out.paint(&line, "1") + "\n");
    }
    out.out.push('\n');
    for part in summary.verdict.outside_of_sweeps(data) {
        out.line("", &part.text, 0);
        if let Some(price) = &part.price {
            out.line("  ", price, 2);
        }
        if !part.stacks_differ_in.is_empty() {
            let titles = part.stacks_differ_in.iter();
            let titles = titles.map(|title| language::text(title)).join(", ");
            out.line("", &tr!("  stacks differ in: {}", titles), 2);
        }
    }
    for sentence in &summary.verdict.workloads {
        out.line("", sentence, 0);
    }
    out.line("", &summary.verdict.overall, 0);
}

/// Maximum number of rows of the table of a sweep.
const MAX_ROWS: usize = 40;

/// Returns the table of a sweep, values of the parameters down and transports across; `None` if it has too
/// many rows.
fn sweep_table(sweep: &SweepResult, scale: Scale, width: usize) -> Option<Table> {
    let cells = sweep.by_position();
    let rows: BTreeSet<&[u32]> = cells.keys().map(|(at, _)| *at).collect();
    if rows.len() > MAX_ROWS {
        return None;
    }
    let mut table = new_table();
    fit(&mut table, width);
    let axes = sweep.axes.iter();
    let axes = axes.map(|axis| TableCell::new(printable(language::text(&axis.title))));
    let lines = sweep.lines.iter().map(|line| right(printable(line)));
    table.set_header(axes.chain(lines));
    for at in rows {
        let values = at
            .iter()
            .zip(&sweep.axes)
            .map(|(value, axis)| TableCell::new(printable(&swept(axis.text_of(*value)))));
        let means = sweep.lines.iter().map(|line| {
            let cell = cells.get(&(at, line.as_str()));
            let shown = cell.and_then(|cell| Some((cell.value?, cell.ci95)));
            let text = shown.map(|shown| mean(scale.text(shown.0), shown, scale, true));
            right(text.unwrap_or_else(|| "–".to_owned()))
        });
        table.add_row(values.chain(means));
    }
    pad(&mut table, (1, 0));
    Some(table)
}

/// Returns the columns for which some of these cells have values.
fn columns(cells: &[&Cell]) -> Vec<Column> {
    let own = cells
        .iter()
        .find_map(|cell| metric::find(cell.ranked_by.as_deref()?));
    let listed = shown_in(|place| match place {
        Place::Column(narrow) => Some(narrow),
        _ => None,
    });
    let listed = Vec::from_iter(listed);
    let own = own.filter(|own| listed.iter().all(|(metric, _)| metric.name != own.name));
    let own = own.map(|own| (own, own.title));
    let column = |(metric, narrow): (&MetricDefinition, &'static str)| {
        let means = cells
            .iter()
            .filter_map(|cell| Some(cell.shown(metric.name)?.0));
        let largest = means.reduce(f64::max)?;
        Some(Column {
            name: metric.name,
            scale: Scale::for_largest(metric.unit, largest),
            wide: metric.title,
            narrow: narrow_heading(metric.title, narrow),
        })
    };
    own.into_iter().chain(listed).filter_map(column).collect()
}

/// Returns a heading over several lines: the English one, or the title of the language broken into short lines.
fn narrow_heading(title: &str, english: &'static str) -> String {
    match language::text(title) {
        translated if translated == title => english.to_owned(),
        translated => wrap(translated, NARROW_HEADING, 0),
    }
}

/// Returns the letters of a cell in the ranking of its group; `None` where there is no order that it is part of.
fn letters<'a>(summary: &'a Summary, cell: &Cell) -> Option<&'a str> {
    (summary.verdict.conditions.iter())
        .find(|verdict| verdict.condition == cell.condition && verdict.workload == cell.workload)
        .and_then(|verdict| verdict.letters(&cell.transport))
}

/// Formats a mean with its interval; if the trials have equal values, as one without variation.
fn mean(
    text: String,
    (value, interval): (f64, Option<[f64; 2]>),
    scale: Scale,
    wide: bool,
) -> String {
    match interval {
        Some(ends) if !is_of_equals(ends) => {
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

/// Whether a metric stands beside a median, without an interval.
fn is_beside(metric: &str) -> bool {
    beside().any(|(percentile, _)| percentile.name == metric)
}

/// Returns the line of a cell under a median, in a table that has no room for the column of its percentile.
fn beside_median(cell: &Cell, column: &Column) -> Option<String> {
    let (percentile, _) = beside().find(|(_, median)| *median == column.name)?;
    let (value, _) = cell.shown(percentile.name)?;
    Some(format!("\np95\u{a0}{}", column.scale.text(value)))
}

fn table(columns: &[Column], cells: &[&Cell], summary: &Summary, wide: bool, color: bool) -> Table {
    let columns = columns
        .iter()
        .filter(|column| wide || !is_beside(column.name));
    let columns: Vec<&Column> = columns.collect();
    let mut table = new_table();
    if color {
        table.enforce_styling();
    }
    let grouped = cells.iter().any(|cell| letters(summary, cell).is_some());
    // Where there is no room for a column, the letters follow the name.
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
        let title = if wide { column.wide } else { &column.narrow };
        right(column.scale.heading(title))
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
                    let kind = cell.kind_of_mean(column.name);
                    let kind = kind
                        .map(|kind| format!("\n{}", kind.replace(", ", ",\n")))
                        .unwrap_or_default();
                    let beside = beside_median(cell, column).filter(|_| !wide);
                    match is_beside(column.name) {
                        true => text,
                        false => {
                            mean(text, shown, column.scale, wide)
                                + &kind
                                + &beside.unwrap_or_default()
                        }
                    }
                }
                None if cell.n == 0 && position == 0 => cell.outcomes_text(),
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
    pad(&mut table, (1, 0));
    table
}
