//! Heat maps over two parameters of a sweep: the metric of each transport, and the ratio of two.

use std::collections::{BTreeMap, BTreeSet};

use regatta_model::{Better, MetricDefinition, metric};

use super::{
    Figure, Source, anchor,
    axis::largest,
    defined,
    marks::{Cell, CellAxis, Mark},
    parameter_axis::{LONGEST_VALUE, ParameterAxis, number_of, unit_of},
    plot::{Axes, Panel, Plot},
    svg::{COLOURS, ColourRole, Text},
    sweep::combination_label,
    title_of,
};
use crate::{
    Summary,
    analysis::{SweepAxis, SweepCell, SweepResult},
    format::{Scale, ratio_number},
    labels::Labels,
    language::{self, swept, tr},
};

/// Maximum number of lines that have maps.
const MAX_LINES: usize = 6;

/// Maximum number of combinations of further parameters that have maps.
const MAX_COMBINATIONS: usize = 4;

/// Largest opacity, on which the text can still be read.
const MAX_OPAQUE: f64 = 0.6;

/// Longest heading of a map, in characters.
const LONGEST_HEADING: usize = 52;

/// Positions of a cell on both axes.
type At = [usize; 2];

/// Ratio of two lines in one cell.
#[derive(Clone, Copy)]
struct Ratio {
    value: f64,
    /// Whether the difference was detected.
    is_detected: bool,
}

/// Opacity of a ratio that was not detected, relative to one that was.
const PALE: f64 = 0.2;

/// Draws the maps of the metric of the ranking, or nothing for a sweep of one parameter.
pub fn draw(source: &Source<'_>, sweep: &SweepResult, number: usize) -> Option<Figure> {
    let (summary, styles) = (source.summary, &source.styles);
    let definition = metric::find(&sweep.metric)?;
    let [x, y, ..] = &sweep.axes[..] else {
        return None;
    };
    let highest = largest(sweep.cells.iter().filter_map(|cell| cell.value));
    let scale = Scale::for_largest(definition.unit, highest);
    let shown = &sweep.lines[..sweep.lines.len().min(MAX_LINES)];
    let mut maps: Vec<(String, Vec<Cell>)> = Vec::new();
    for combination in combinations(sweep) {
        let suffix = match combination_label(sweep, 2, &combination) {
            suffix if suffix.is_empty() => suffix,
            suffix => format!(", {suffix}"),
        };
        let cells = |line: &str| -> BTreeMap<At, &SweepCell> {
            let cells = sweep.cells.iter().filter(|cell| cell.line == line);
            let here = cells.filter(|cell| cell.at.get(2..) == Some(&combination[..]));
            let at = |cell: &SweepCell| [cell.at[0] as usize, cell.at[1] as usize];
            here.map(|cell| (at(cell), cell)).collect()
        };
        if let Some((first, others)) = shown.split_first() {
            for other in others {
                let inks = inks([other, first].map(|line| styles.get(line)));
                let tiles = ratios(summary, definition, inks, [&cells(other), &cells(first)]);
                maps.push((format!("{other} ÷ {first}{suffix}"), tiles));
            }
        }
        for line in shown {
            let tiles = means(&cells(line), ColourRole::Series(styles.get(line)), scale);
            maps.push((format!("{line}, {}{suffix}", scale.unit), tiles));
        }
    }
    let headings = Labels::new(maps.iter().map(|(heading, _)| heading), LONGEST_HEADING);
    let (title, titles) = (
        title_of(definition),
        [x, y].map(|it| language::text(&it.title)),
    );
    let panels = maps.into_iter().map(|(heading, cells)| {
        let heading = headings.get(&heading).to_owned();
        Panel {
            title: format!("{title}: {heading}"),
            description: tr!(
                "{} cells: {} across, {} up.",
                cells.len(),
                titles[0],
                titles[1]
            ),
            heading,
            marks: cells.into_iter().map(Mark::Cell).collect(),
            ..Panel::default()
        }
    });
    let cut = match shown.len() < sweep.lines.len() {
        true => tr!(" Only the first transports have maps."),
        false => String::new(),
    };
    Plot {
        id: format!("heat-{number}-{}", anchor(&sweep.metric)),
        title: tr!("{} over {} and {}", title, titles[0], titles[1]),
        caption: tr!(
            "Ratio: in the colour of the transport that is ahead, the denser the further; pale, with grey figures, where neither is ahead for certain. Metric of one transport: the denser, the larger.{}",
            cut
        ),
        definition: defined(definition),
        labels: Labels::default(),
        panels: panels.collect(),
        axes: Axes::Cells([x, y].map(axis)),
    }
    .draw()
}

/// Returns the combinations of the parameters after the second that have maps.
fn combinations(sweep: &SweepResult) -> Vec<Vec<u32>> {
    let combinations = sweep.cells.iter().filter_map(|cell| cell.at.get(2..));
    let combinations: BTreeSet<Vec<u32>> = combinations.map(<[u32]>::to_vec).collect();
    let every = combinations.len().div_ceil(MAX_COMBINATIONS).max(1);
    combinations.into_iter().step_by(every).collect()
}

fn means(cells: &BTreeMap<At, &SweepCell>, ink: ColourRole, scale: Scale) -> Vec<Cell> {
    let highest = largest(cells.values().filter_map(|cell| cell.value));
    let tile = |(at, cell): (&At, &&SweepCell)| match cell.value {
        Some(value) => Cell {
            at: *at,
            ink,
            opacity: 0.04 + (MAX_OPAQUE - 0.04) * (value / highest.max(f64::MIN_POSITIVE)),
            text: scale.text(value),
            style: Text::LABEL,
            value: Some(scale.apply(value)),
        },
        None => missing(*at),
    };
    cells.iter().map(tile).collect()
}

fn missing(at: At) -> Cell {
    Cell {
        at,
        ink: ColourRole::Grid,
        opacity: 0.0,
        text: "–".to_owned(),
        style: Text::NOTE,
        value: None,
    }
}

/// Returns the inks of two transports of these styles; two of the same colour have that of text for the second.
fn inks([first, second]: [usize; 2]) -> [ColourRole; 2] {
    match first % COLOURS == second % COLOURS {
        true => [ColourRole::Series(first), ColourRole::Text],
        false => [first, second].map(ColourRole::Series),
    }
}

/// Returns the tiles of the ratio of the first line to the second.
fn ratios(
    summary: &Summary,
    definition: &MetricDefinition,
    [first, second]: [ColourRole; 2],
    [a, b]: [&BTreeMap<At, &SweepCell>; 2],
) -> Vec<Cell> {
    let comparisons: BTreeMap<[&str; 4], Ratio> = (summary.comparisons.iter())
        .filter(|it| it.metric == definition.name)
        .filter_map(|it| {
            let key = [&it.a, &it.b, &it.condition, &it.workload].map(String::as_str);
            let ratio = Ratio {
                value: it.claim.ratio?,
                is_detected: it.claim.conclusion.is_difference(),
            };
            Some((key, ratio))
        })
        .collect();
    let known = |a: &SweepCell, b: &SweepCell| {
        let key = [&a.transport, &b.transport, &a.condition, &a.workload].map(String::as_str);
        comparisons.get(&key).copied()
    };
    let ratio = |at: &At, cell: &SweepCell| {
        let other = b.get(at)?;
        let inverse = |ratio: Ratio| Ratio {
            value: 1.0 / ratio.value,
            ..ratio
        };
        known(cell, other).or_else(|| known(other, cell).map(inverse))
    };
    let found = a.iter().map(|(at, cell)| (*at, ratio(at, cell)));
    let found: Vec<(At, Option<Ratio>)> = found.collect();
    let ratios = found.iter().filter_map(|(_, ratio)| *ratio);
    let furthest = largest(ratios.map(|ratio| ratio.value.ln().abs()));
    let tile = |(at, found): (At, Option<Ratio>)| {
        let Some(Ratio { value, is_detected }) = found else {
            return missing(at);
        };
        let is_ahead = (value > 1.0) == (definition.better != Better::Lower);
        let density = value.ln().abs() / furthest.max(1e-9);
        Cell {
            at,
            ink: if is_ahead { first } else { second },
            opacity: (0.12 + (MAX_OPAQUE - 0.12) * density) * if is_detected { 1.0 } else { PALE },
            text: number_text(value),
            style: if is_detected { Text::LABEL } else { Text::NOTE },
            value: Some(value),
        }
    };
    found.into_iter().map(tile).collect()
}

/// Formats a ratio in a tile, shorter than in sentences.
fn number_text(ratio: f64) -> String {
    match ratio {
        r if (0.995..1.005).contains(&r) => "1.00".to_owned(),
        r => ratio_number(r),
    }
}

/// Returns the axis of a parameter.
fn axis(parameter: &SweepAxis) -> CellAxis {
    let title = language::text(&parameter.title);
    let names = parameter.values.iter();
    let names = names.map(|value| format!("{title}: {}", swept(&value.text)));
    CellAxis {
        title: ParameterAxis::of(parameter).axis.title,
        texts: texts(parameter),
        names: names.collect(),
    }
}

/// Returns the values of an axis as texts, in the unit of its title.
fn texts(axis: &SweepAxis) -> Vec<String> {
    let values: Option<Vec<f64>> = axis.values.iter().map(|value| value.value).collect();
    let unit = axis.unit.as_deref().and_then(unit_of);
    match (values, unit) {
        (Some(values), Some(unit)) => {
            let scale = Scale::for_largest(unit, largest(values.iter().copied()));
            let texts = values.iter().map(|value| number_of(scale.apply(*value)));
            texts.collect()
        }
        _ => {
            let texts = || axis.values.iter().map(|value| value.text.as_str());
            let shown = Labels::new(texts(), LONGEST_VALUE);
            texts().map(|text| shown.get(text).to_owned()).collect()
        }
    }
}
