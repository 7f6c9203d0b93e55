//! Text that a run prints at its end, for a screen of 80 × 24: the headline, what failed, one table, what the comparison does
//! not show, and the warnings that change its meaning. [`terminal`](crate::terminal) has the whole.

use comfy_table::Cell as TableCell;
use itertools::Itertools as _;
use regatta_model::{shell::printable, warning_code};

use crate::{
    RunData, Summary,
    analysis::{Cell, ConditionVerdict, claims_line},
    answer::{self, Column, columns, lead_over_cell},
    data::CellGroup,
    labels::Labels,
    language::{self, plural, tr},
    outcomes::{missed_gates, reasons},
    text::{TerminalText, cut, natural_width, new_table, pad, right, wrap},
};

/// Maximum number of rows of the tables; a run with more shows the most telling comparisons instead.
const MAX_ROWS: usize = 12;

/// Lines of a screen.
const SCREEN: usize = 24;

/// Maximum number of warnings that are shown, one line each.
const MAX_WARNINGS: usize = 4;

/// Codes of the warnings that change the meaning of a figure or of a comparison, the gravest first.
const CHANGE_THE_MEANING: [&str; 18] = [
    warning_code::MESSAGES_CORRUPTED,
    warning_code::PATH_OUT_OF_TOLERANCE,
    warning_code::PATH_OVERRUN,
    "trials_invalid",
    "trials_timed_out",
    warning_code::CONNECTIONS_FAILED,
    "cpu_saturated",
    "nodes_disagree",
    "builds_differ",
    "debug_build",
    "rate_not_kept",
    "different_congestion_controls",
    "short_transfer",
    "slow_start_overflow",
    warning_code::WINDOW_LIMITED,
    warning_code::RECEIVE_BUFFER_ERRORS,
    warning_code::CLOCKS_NOT_KNOWN,
    "trend_over_rounds",
];

/// Writes the whole.
pub fn write(out: &mut TerminalText, summary: &Summary, data: &RunData) {
    for line in &summary.verdict.headline {
        let line = printable(&line.replace('`', ""));
        out.out += &(out.paint(&wrap(&line, out.width, 0), "1") + "\n");
    }
    if let Some(line) = claims_line(&summary.claims) {
        out.line("", &line, 0);
    }
    missed_gates(out, summary);
    let plain: Vec<CellGroup<'_>> = data.plain_groups().collect();
    let in_plain = |cell: &&Cell| {
        plain
            .iter()
            .any(|group| group.is(&cell.condition, &cell.workload))
    };
    let rows = summary.cells.iter().filter(in_plain).count();
    if rows > MAX_ROWS || plain.len() < data.groups().count() {
        most_telling(out, summary);
    } else {
        let is_measured = summary.cells.iter().any(|cell| cell.n > 0);
        let groups = if is_measured { &plain[..] } else { &[] };
        for groups in groups.chunk_by(|a, b| a.workload.name == b.workload.name) {
            table(out, summary, groups);
        }
    }
    for reason in reasons(summary) {
        for (label, text) in [tr!("warning:"), tr!("hint:")].iter().zip(reason.lines()) {
            let room = out.width.saturating_sub(label.chars().count() + 1);
            let label = out.paint(label, "1;33");
            out.out += &format!("{label} {}\n", cut(&printable(text), room));
        }
    }
    warnings(out, summary);
}

/// Writes the table of a workload: one row for each transport under each condition, the best first.
fn table(out: &mut TerminalText, summary: &Summary, groups: &[CellGroup<'_>]) {
    let verdict = |group: &CellGroup<'_>| {
        let mut verdicts = summary.verdict.conditions.iter();
        verdicts.find(|it| group.is(&it.condition, &it.workload))
    };
    let sorted: Vec<(CellGroup<'_>, Option<&ConditionVerdict>, Vec<&Cell>)> = (groups.iter())
        .map(|group| {
            let cells = summary.cells.iter();
            let mut cells: Vec<&Cell> = cells
                .filter(|it| group.is(&it.condition, &it.workload))
                .collect();
            let verdict = verdict(group);
            cells.sort_by_key(|cell| {
                verdict
                    .and_then(|it| it.rank(&cell.transport))
                    .unwrap_or(usize::MAX)
            });
            (*group, verdict, cells)
        })
        .collect();
    let cells: Vec<&Cell> = sorted
        .iter()
        .flat_map(|(.., cells)| cells.iter().copied())
        .collect();
    let Some(primary) = sorted
        .iter()
        .find_map(|(_, verdict, _)| Some(verdict.as_ref()?.metric.as_str()))
    else {
        return;
    };
    let mut columns = columns(&cells, primary);
    // What has no room is left out, the last column first; the details have all of them.
    let text = loop {
        let text = rendered(summary, &sorted, &columns, primary);
        if natural_width(&text) <= out.width || columns.len() <= 1 {
            break text;
        }
        columns.pop();
    };
    let lines = text.to_string();
    let mut lines = lines.lines().map(str::trim_end);
    out.out.push('\n');
    for line in lines
        .by_ref()
        .take_while_inclusive(|line| !line.starts_with('─'))
    {
        out.out += &format!("{}\n", cut(line, out.width));
    }
    for (group, verdict, cells) in &sorted {
        let heading = printable(&group.heading());
        // A name of several words describes the path itself.
        let path = verdict.filter(|_| !group.condition.name.contains(' '));
        let path = path.map_or_else(String::new, |it| printable(&format!(": {}", it.path)));
        let path = cut(&path, out.width.saturating_sub(heading.chars().count()));
        out.out += &format!("{}{path}\n", out.paint(&heading, "1"));
        for line in lines.by_ref().take(cells.len()) {
            out.out += &format!("{}\n", cut(line, out.width));
        }
        let limits = verdict.as_ref().map_or(&[][..], |it| it.limits.as_slice());
        if !limits.is_empty() {
            out.line("  ", &limits.join("; "), 2);
        }
    }
}

fn rendered(
    summary: &Summary,
    sorted: &[(CellGroup<'_>, Option<&ConditionVerdict>, Vec<&Cell>)],
    columns: &[Column],
    primary: &str,
) -> comfy_table::Table {
    let mut table = new_table();
    let is_compared = sorted
        .iter()
        .any(|(_, verdict, _)| verdict.is_some_and(|it| it.ranking.len() > 1));
    let cells = || sorted.iter().flat_map(|(.., cells)| cells.iter());
    let is_short = cells().any(|cell| cell.n < summary.trials_of(cell));
    let rounds = plural!(u64::from(summary.rounds), "{} round", "{} rounds");
    let mut head = vec![TableCell::new(format!("\n{rounds}"))];
    for column in columns {
        head.push(right(match column.scale.unit() {
            "" => format!("\n{}", language::text(column.heading)),
            unit => format!("{},\n{unit}", language::text(column.heading)),
        }));
        if column.metric == primary && is_compared {
            head.push(right(tr!("first ahead by\n[95 % for all]")));
        }
    }
    if is_short {
        head.push(right(format!("\n{}", tr!("trials"))));
    }
    table.set_header(head);
    let labels = Labels::new(cells().map(|cell| cell.transport.as_str()), 20);
    for (_, verdict, cells) in sorted {
        for cell in cells {
            let mut row = vec![TableCell::new(printable(labels.get(&cell.transport)))];
            for column in columns {
                row.push(right(column.text(cell, primary)));
                if column.metric == primary && is_compared {
                    row.push(right(lead_over_cell(*verdict, cell)));
                }
            }
            if is_short {
                row.push(right(format!("{}/{}", cell.n, summary.trials_of(cell))));
            }
            table.add_row(row);
        }
    }
    pad(&mut table, (1, 0));
    table
}

/// Writes the most telling comparisons of a run with many conditions and workloads.
fn most_telling(out: &mut TerminalText, summary: &Summary) {
    let (places, further) = answer::most_telling(summary);
    if places.is_empty() {
        return;
    }
    let mut table = new_table();
    let head = [tr!("the most telling")]
        .into_iter()
        .chain(answer::place_head());
    table.set_header(head.map(TableCell::new));
    for place in &places {
        let [lead, value, next, ratio] = place.texts();
        let short = |text: &str, width| TableCell::new(cut(&printable(text), width));
        table.add_row([
            short(&place.name, 24),
            short(&lead, 14),
            right(value),
            short(&next, 14),
            right(ratio),
        ]);
    }
    pad(&mut table, (1, 0));
    out.out.push('\n');
    for line in table.to_string().lines() {
        out.out += &format!("{}\n", cut(line.trim_end(), out.width));
    }
    if further > 0 {
        let text = plural!(
            further as u64,
            "{} further place: `regatta report DIR --details`",
            "{} further places: `regatta report DIR --details`"
        );
        out.line("", &text, 0);
    }
}

/// Writes the warnings that change the meaning of a figure, one line each, and how many others there are.
fn warnings(out: &mut TerminalText, summary: &Summary) {
    let grave = CHANGE_THE_MEANING.iter().filter_map(|code| {
        let mut warnings = summary.warnings.iter();
        warnings.find(|it| it.warning.code == *code)
    });
    let others = summary.warnings.iter();
    let others = others.filter(|it| !CHANGE_THE_MEANING.contains(&it.warning.code.as_str()));
    // Below them are the number of the others and the path of the report.
    let mut room = (SCREEN - 2).saturating_sub(out.out.lines().count());
    let shown: Vec<&str> = (grave.chain(others))
        .take(room.min(MAX_WARNINGS))
        .map(|it| it.warning.message.as_str())
        .collect();
    let label = tr!("warning:");
    let indent = label.chars().count() + 1;
    for (position, message) in shown.iter().enumerate() {
        let first = out.paint(&label, "1;33");
        let message = printable(message);
        let whole = wrap(&message, out.width, indent);
        // Each of those below takes a line at least.
        let lines = room.saturating_sub(shown.len() - position - 1);
        let text = match whole.lines().count() <= lines {
            true => whole,
            false => cut(&message, out.width.saturating_sub(indent)),
        };
        room = room.saturating_sub(text.lines().count());
        out.out += &format!("{first} {text}\n");
    }
    let further = summary.warnings.len() - shown.len();
    if further > 0 {
        let text = match shown.is_empty() {
            true => plural!(
                further as u64,
                "{} warning: `regatta report DIR --details`",
                "{} warnings: `regatta report DIR --details`"
            ),
            false => plural!(
                further as u64,
                "{} further warning: `regatta report DIR --details`",
                "{} further warnings: `regatta report DIR --details`"
            ),
        };
        out.line("", &text, 0);
    }
}
