//! Tables of the sweeps: values of the parameters down, transports across.

use itertools::Itertools as _;
use regatta_model::metric;

use super::{Entry, Row, Table, figure_over, interval, none, row, scale};
use crate::{
    RunData, Summary,
    analysis::{SweepCell, SweepResult},
    format::is_of_equals,
    language::{self, quantity, tr},
};

/// Rows from which a table is folded.
const MANY: usize = 24;

/// Maximum number of rows of a table.
const MAX_ROWS: usize = 1000;

/// Returns a table for each sweep and metric.
pub fn sweeps(data: &RunData, summary: &Summary) -> Vec<Table> {
    let sweeps = summary.sweeps.iter().enumerate();
    let tables = sweeps.filter_map(|(position, sweep)| {
        Some(table(data, summary, sweep)?.anchored(sweep_anchor(position)))
    });
    tables.collect()
}

/// Returns the name of the table of the sweep at a position, to which links lead.
pub fn sweep_anchor(position: usize) -> String {
    format!("sweep-{position}")
}

fn table(data: &RunData, summary: &Summary, sweep: &SweepResult) -> Option<Table> {
    let definition = metric::find(&sweep.metric)?;
    let scale = scale(summary, definition);
    let cells = sweep.by_position();
    // The further parameters change slowest, as the panels of the figure do.
    let positions = cells.keys().map(|(at, _)| *at).dedup();
    let positions: Vec<&[u32]> = positions
        .sorted_by_key(|at| (at.get(1..), at.first()))
        .collect();
    let entry = |cell: Option<&&SweepCell>| -> Entry {
        let Some(cell) = cell else {
            return none();
        };
        let trials = match cell.n == cell.trials {
            true => String::new(),
            false => tr!(" ({} of {} trials)", cell.n, cell.trials),
        };
        let Some(value) = cell.value else {
            return figure_over("–", trials);
        };
        let ends = cell.ci95.filter(|ends| !is_of_equals(*ends));
        let ends = interval(ends.map(|ends| scale.ends(value, ends)));
        figure_over(scale.text(value), ends + &trials)
    };
    let rows: Vec<Row> = (positions.iter().take(MAX_ROWS))
        .map(|at| {
            let texts = sweep
                .axes
                .iter()
                .zip(*at)
                .map(|(axis, at)| axis.text_of(*at));
            let heading = texts.map(quantity).join(", ");
            let entries = (sweep.lines.iter()).map(|line| entry(cells.get(&(*at, line.as_str()))));
            row(heading, entries)
        })
        .collect();
    let mut titles = sweep.axes.iter().map(|axis| language::text(&axis.title));
    let head = [titles.join(", ")].into_iter().chain(sweep.lines.clone());
    let cut = match positions.len() > MAX_ROWS {
        true => tr!(
            "; the first {} of {} rows, all are in `summary.json`",
            MAX_ROWS,
            positions.len()
        ),
        false => String::new(),
    };
    let caption = tr!(
        "{} of {}, with its 95 % confidence interval{}",
        scale.heading(definition.title),
        sweep.heading(summary),
        cut
    );
    let is_folded = rows.len() > MANY || !sweep.is_primary || data.trials.is_empty();
    Some(Table::new(caption, head, rows).folded(is_folded))
}
