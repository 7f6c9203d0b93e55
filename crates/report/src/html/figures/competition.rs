//! Figure of competitions of two flows: what each transport takes beside each other one.

use std::collections::BTreeMap;

use itertools::Itertools as _;
use regatta_model::{
    CompetitionFlow, Unit,
    metric::{self, id},
};

use super::{
    Figure, Source, defined,
    marks::{Cell, CellAxis, Mark},
    parameter_axis::LONGEST_VALUE,
    plot::{Axes, Panel, Plot},
    svg::{ColourRole, Text},
};
use crate::{format::Scale, labels::Labels, language::tr};

/// Minimum number of competitions under a condition that make a matrix.
const FEWEST: usize = 3;

/// Largest opacity, on which the text can still be read.
const MAX_OPAQUE: f64 = 0.6;

/// Share of a transport, by its label and that of the other one.
type Shares<'a> = BTreeMap<[&'a str; 2], f64>;

/// Draws the matrix of each condition with several competitions of two flows.
pub fn matrix(source: &Source<'_>) -> Vec<Figure> {
    let Some(definition) = metric::find(id::GOODPUT_SHARE_RATIO) else {
        return Vec::new();
    };
    let mut conditions: BTreeMap<&str, Shares<'_>> = BTreeMap::new();
    for group in source.data.groups() {
        let competition = group.workload.competition.as_ref();
        let Some([first, second]) = competition.map(|it| &it.flows[..]) else {
            continue;
        };
        let of_group = conditions.entry(&group.condition.name).or_default();
        for [flow, other] in [[first, second], [second, first]] {
            let mut cells = source.summary.cells.iter();
            let cell = cells.find(|cell| {
                cell.transport == flow.transport && group.is(&cell.condition, &cell.workload)
            });
            if let Some(share) = cell.and_then(|it| it.metrics.get(id::GOODPUT_SHARE_RATIO)) {
                // Of a transport with itself the first flow's.
                let key = [flow, other].map(base);
                of_group.entry(key).or_insert(share.mean);
            }
        }
    }
    conditions.retain(|_, shares| shares.len() >= FEWEST);
    let all: Vec<&str> = (conditions.values())
        .flat_map(|shares| shares.keys().flatten().copied())
        .unique()
        .collect();
    let labels: Vec<&str> = (source.data.header.study.transports.iter())
        .map(|it| it.label.as_str())
        .filter(|label| all.contains(label))
        .collect();
    let names = Labels::new(labels.iter().copied(), LONGEST_VALUE);
    let texts: Vec<String> = labels.iter().map(|it| names.get(it).to_owned()).collect();
    let axis = |title: String| CellAxis {
        names: labels
            .iter()
            .map(|label| format!("{title} {label}"))
            .collect(),
        texts: texts.clone(),
        title,
    };
    let panels = conditions.iter().map(|(condition, shares)| Panel {
        title: tr!("Share of the goodput: {}", condition),
        description: tr!("{} shares.", shares.len()),
        heading: (*condition).to_owned(),
        marks: cells(&labels, shares).into_iter().map(Mark::Cell).collect(),
        ..Panel::default()
    });
    let plot = Plot {
        id: "competition-matrix".to_owned(),
        title: tr!("Who takes what beside whom"),
        caption: tr!(
            "Share of the transport of the row, beside that of the column, in per cent of the goodput of both; the denser, the larger."
        ),
        definition: defined(definition),
        labels: Labels::default(),
        panels: panels.collect(),
        axes: Axes::Cells([axis(tr!("beside")), axis(tr!("share of"))]),
    };
    plot.draw().into_iter().collect()
}

/// Returns the label of a flow's transport.
fn base(flow: &CompetitionFlow) -> &str {
    flow.copy_of.as_ref().unwrap_or(&flow.transport)
}

fn cells(labels: &[&str], shares: &Shares<'_>) -> Vec<Cell> {
    let scale = Scale::for_largest(Unit::Ratio, 1.0);
    let places = labels
        .iter()
        .enumerate()
        .cartesian_product(labels.iter().enumerate());
    places
        .filter_map(|((row, label), (column, other))| {
            let share = *shares.get(&[*label, *other])?;
            Some(Cell {
                at: [column, row],
                ink: ColourRole::Series(0),
                opacity: 0.04 + (MAX_OPAQUE - 0.04) * share,
                text: scale.text(share),
                style: Text::LABEL,
                value: Some(scale.apply(share)),
            })
        })
        .collect()
}
