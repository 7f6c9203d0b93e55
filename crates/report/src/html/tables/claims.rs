//! Table of the study's claims.

use std::collections::BTreeMap;

use itertools::Itertools as _;
use regatta_model::study::ClaimedCell;

use super::{Entry, Link, Table, results::cell_anchor, row, sweeps::sweep_anchor, text_cell};
use crate::{RunData, Summary, analysis::ClaimResult, data::CellKey, language::tr};

/// Maximum number of cells of a claim that have a link.
const MAX_LINKS: usize = 6;

/// Returns the table of the claims, with links to the cells that decide each; none without claims.
pub fn claims(data: &RunData, summary: &Summary) -> Vec<Table> {
    if summary.claims.is_empty() {
        return Vec::new();
    }
    let anchors = anchors(data, summary);
    let has_places = summary.claims.iter().any(|claim| claim.place.is_some());
    let place = has_places.then(|| tr!("place")).into_iter();
    let head = [tr!("claim")].into_iter().chain(place);
    let head = head.chain([tr!("outcome"), tr!("found")]);
    let rows = summary.claims.iter().map(|claim| {
        let place = claim.place.clone().unwrap_or_default();
        let place = has_places.then(|| text_cell(place)).into_iter();
        let outcome = format!("{} {}", claim.outcome.mark(), claim.outcome.text());
        let found = Entry {
            sub: claim.note.clone().unwrap_or_default(),
            links: links(claim, &anchors),
            ..text_cell(claim.found.clone())
        };
        row(claim.text.clone(), place.chain([text_cell(outcome), found]))
    });
    let source = data.header.study.source.as_ref();
    let caption = match source {
        Some(_) => tr!("What the publication states, and what this run shows of it"),
        None => tr!("What the study states, and what this run shows of it"),
    };
    vec![Table::new(caption, head, rows)]
}

/// Returns the names of the rows and tables in which each cell is.
fn anchors<'a>(data: &RunData, summary: &'a Summary) -> BTreeMap<CellKey<'a>, String> {
    let mut anchors = BTreeMap::new();
    for (position, sweep) in summary.sweeps.iter().enumerate() {
        for cell in &sweep.cells {
            let key = [&*cell.transport, &*cell.condition, &*cell.workload];
            anchors.entry(key).or_insert_with(|| sweep_anchor(position));
        }
    }
    for group in data.plain_groups() {
        let cells = summary.cells.iter();
        for cell in cells.filter(|cell| group.is(&cell.condition, &cell.workload)) {
            anchors.insert(cell.key(), cell_anchor(summary, cell));
        }
    }
    anchors
}

/// Returns the links to the cells of the checks that decide a claim.
fn links(claim: &ClaimResult, anchors: &BTreeMap<CellKey<'_>, String>) -> Vec<Link> {
    let decisive = claim
        .checks
        .iter()
        .filter(|check| check.outcome == claim.outcome);
    let cells = decisive.flat_map(|check| &check.cells).unique();
    let link = |cell: &ClaimedCell| {
        let anchor = anchors.get(&cell.each_ref().map(String::as_str))?;
        Some(Link {
            anchor: anchor.clone(),
            text: cell.join(", "),
        })
    };
    cells.filter_map(link).take(MAX_LINKS).collect()
}
