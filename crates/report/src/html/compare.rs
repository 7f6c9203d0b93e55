//! `compare.html`: a comparison of runs as one self-contained page.

use super::{
    Shown,
    figures::{Styles, changes},
};
use crate::{
    ReportError,
    compare::{self, CellPair, PairOfRuns, RunComparison, left_out, listed},
    format,
};
use minijinja::{
    context,
    value::{Serde, Value},
};

/// Maximum number of cells of a pair that are shown, see [`listed`].
const MAX_CELLS: usize = 300;

/// Renders the page.
///
/// # Errors
/// [`ReportError::Page`] if the template does not fit its data: a fault of this crate.
pub fn render(comparison: &RunComparison) -> Result<String, ReportError> {
    let page = context! {
        shown => Serde(shown(comparison)),
        version => env!("CARGO_PKG_VERSION"),
        comparison => Serde(comparison),
        started => (comparison.runs.iter())
            .map(|run| format::moment(run.started_unix_ns))
            .collect::<Vec<String>>(),
        builds => (comparison.runs.iter())
            .map(|run| run.builds.iter().map(|build| build.text()).collect())
            .collect::<Vec<Vec<String>>>(),
        passed => comparison.gate.as_ref().map(|gate| gate.passed_text()),
        pairs => comparison.pairs.iter().map(pair).collect::<Vec<Value>>(),
    };
    super::fill(include_str!("compare.html"), page)
}

fn shown(comparison: &RunComparison) -> Shown<'_> {
    let cells = || comparison.pairs.iter().flat_map(|pair| &pair.cells);
    let transports = || cells().map(|cell| cell.name.transport.as_str());
    let styles = Styles::new(transports());
    Shown::new(
        transports().map(|label| (styles.get(label) as i64, label)),
        cells().map(|cell| cell.name.condition.as_str()),
    )
}

fn pair(pair: &PairOfRuns) -> Value {
    let cells = listed(pair, MAX_CELLS);
    let rows: Vec<Value> = cells.iter().flat_map(|cell| rows(cell)).collect();
    context! {
        id => format!("{}-{}", pair.from, pair.to),
        figure => changes::draw(pair, &cells).map(Serde),
        left_out => left_out(pair, cells.len()),
        rows,
    }
}

/// Returns the rows of a cell, one for each metric.
fn rows(cell: &CellPair) -> impl Iterator<Item = Value> {
    let rows = compare::rows(cell, |_| true).into_iter();
    rows.map(|[metric, from, to, outcome]| {
        context! {
            transport => &*cell.name.transport,
            condition => &*cell.name.condition,
            place => format!("{}, {}", cell.name.condition, cell.name.workload),
            metric,
            columns => [from, to, outcome].to_vec(),
        }
    })
}
