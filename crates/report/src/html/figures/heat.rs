//! Heat maps over two parameters of a sweep: the metric of each transport, and the ratio of two.

use std::collections::{BTreeMap, BTreeSet};

use regatta_model::{Better, MetricDefinition, metric};

use super::{
    Datum, DrawnPanel, Figure, anchor, defined,
    frame::{Panel, largest},
    parameter_axis::{LONGEST_VALUE, ParameterAxis, number_of, unit_of},
    style::Styles,
    svg::{Align, COLOURS, ColourRole, Svg, Text, rectangle, width_of},
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

/// Most lines that have maps.
const MAX_LINES: usize = 6;

/// Most combinations of further parameters that have maps.
const MAX_COMBINATIONS: usize = 4;

/// Smallest width and height of a cell with text, in CSS pixels.
const ROOM: [f64; 2] = [30.0, 14.0];

/// Largest opacity, on which the text can still be read.
const MAX_OPAQUE: f64 = 0.6;

/// Most cells of a map that have a text each.
const MAX_DESCRIBED: usize = 500;

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

/// Cell of a map.
struct Tile {
    at: At,
    ink: ColourRole,
    opacity: f64,
    text: String,
    style: Text,
    /// The value, in the unit of the map.
    value: Option<f64>,
}

/// Draws the maps of the metric of the ranking, or nothing for a sweep of one parameter.
pub fn draw(
    summary: &Summary,
    styles: &Styles,
    sweep: &SweepResult,
    number: usize,
) -> Option<Figure> {
    let definition = metric::find(&sweep.metric)?;
    let [x, y, ..] = &sweep.axes[..] else {
        return None;
    };
    let id = format!("heat-{number}-{}", anchor(&sweep.metric));
    let highest = largest(sweep.cells.iter().filter_map(|cell| cell.value));
    let scale = Scale::for_largest(definition.unit, highest);
    let shown = &sweep.lines[..sweep.lines.len().min(MAX_LINES)];
    let mut maps: Vec<(String, Vec<Tile>)> = Vec::new();
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
    let drawn = maps.iter().enumerate().map(|(position, (heading, tiles))| {
        let (id, heading) = (format!("{id}-{position}"), headings.get(heading));
        map(&id, heading, definition, [x, y], tiles)
    });
    let cut = match shown.len() < sweep.lines.len() {
        true => tr!(" Only the first transports have maps."),
        false => String::new(),
    };
    Some(Figure {
        id: format!("figure-{id}"),
        title: tr!(
            "{} over {} and {}",
            title_of(definition),
            language::text(&x.title),
            language::text(&y.title)
        ),
        caption: tr!(
            "Ratio: in the colour of the transport that is ahead, the denser the further; pale, with grey figures, where neither is ahead for certain. Metric of one transport: the denser, the larger.{}",
            cut
        ),
        definition: defined(definition),
        panels: drawn.collect(),
    })
}

/// Returns the combinations of the parameters after the second that have maps.
fn combinations(sweep: &SweepResult) -> Vec<Vec<u32>> {
    let combinations = sweep.cells.iter().filter_map(|cell| cell.at.get(2..));
    let combinations: BTreeSet<Vec<u32>> = combinations.map(<[u32]>::to_vec).collect();
    let every = combinations.len().div_ceil(MAX_COMBINATIONS).max(1);
    combinations.into_iter().step_by(every).collect()
}

fn means(cells: &BTreeMap<At, &SweepCell>, ink: ColourRole, scale: Scale) -> Vec<Tile> {
    let highest = largest(cells.values().filter_map(|cell| cell.value));
    let tile = |(at, cell): (&At, &&SweepCell)| match cell.value {
        Some(value) => Tile {
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

fn missing(at: At) -> Tile {
    Tile {
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
) -> Vec<Tile> {
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
        Tile {
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

/// Draws one map: values of the first axis across, of the second from the bottom up.
fn map(
    id: &str,
    heading: &str,
    definition: &MetricDefinition,
    [x, y]: [&SweepAxis; 2],
    tiles: &[Tile],
) -> DrawnPanel {
    let [columns, rows] = [x, y].map(|axis| axis.values.len().max(1));
    let row_texts = texts(y);
    let left = largest(row_texts.iter().map(|text| width_of(text))).clamp(24.0, 90.0) + 10.0;
    let top = Panel::TOP;
    let height_of_row = (200.0 / rows as f64).clamp(4.0, 34.0);
    let bottom = top + height_of_row * rows as f64;
    let width = (Panel::WIDTH - left - 2.0) / columns as f64;
    let mut svg = Svg::default();
    svg.text((0.0, 9.0), heading, Text::HEADING);
    svg.text((0.0, 29.0), &title(y), Text::NOTE);
    let has_room = width >= ROOM[0] && height_of_row >= ROOM[1];
    for tile in tiles {
        let [column, row] = tile.at;
        let [x0, y1] = [
            left + width * column as f64,
            bottom - height_of_row * row as f64,
        ];
        let [x1, y0] = [x0 + width, y1 - height_of_row];
        // A gap of a pixel, unless the cells are small.
        let gap = if has_room { 0.5 } else { 0.0 };
        let corners = rectangle([x0 + gap, x1 - gap], [y0 + gap, y1 - gap]);
        let paint = |svg: &mut Svg| {
            if tile.opacity > 0.0 {
                svg.polygon(&corners, tile.ink, (tile.opacity * 1000.0).round() / 1000.0);
            }
            if has_room {
                let style = tile.style.aligned(Align::Middle);
                svg.text(((x0 + x1) / 2.0, (y0 + y1) / 2.0), &tile.text, style);
            }
        };
        svg.record(Datum {
            label: tile_at([x, y], tile).join(", "),
            kind: "tile",
            value: tile.value,
            ..Datum::default()
        });
        match tiles.len() <= MAX_DESCRIBED {
            true => svg.value("", &tile_label([x, y], tile), paint),
            false => paint(&mut svg),
        }
    }
    let outline = rectangle([left, left + width * columns as f64], [top, bottom]);
    svg.line(
        &[&outline[..], &outline[..1]].concat(),
        ColourRole::Axis,
        1.0,
    );
    let style = Text {
        size: 11.0,
        ..Text::NOTE
    };
    let every = |room: f64, size: f64| (room / size).ceil().max(1.0) as usize;
    let column_texts = texts(x);
    let widest = largest(column_texts.iter().map(|text| width_of(text))) + 6.0;
    let columns = column_texts.iter().enumerate();
    for (column, text) in columns.step_by(every(widest, width)) {
        let x = left + width * (column as f64 + 0.5);
        svg.text((x, bottom + 11.0), text, style.aligned(Align::Middle));
    }
    let rows = row_texts.iter().enumerate();
    for (row, text) in rows.step_by(every(13.0, height_of_row)) {
        let y = bottom - height_of_row * (row as f64 + 0.5);
        svg.text((left - 6.0, y), text, style.aligned(Align::Right));
    }
    let below = (Panel::WIDTH - 2.0, bottom + 29.0);
    svg.text(below, &title(x), Text::NOTE.aligned(Align::Right));
    let description = tr!(
        "{} cells: {} across, {} up.",
        tiles.len(),
        language::text(&x.title),
        language::text(&y.title)
    );
    let name = format!("{}: {heading}", title_of(definition));
    DrawnPanel {
        heading: heading.to_owned(),
        axes: [String::new(), name.clone()],
        ..svg.into_element(id, &name, &description, [Panel::WIDTH, bottom + 38.0], "")
    }
}

/// Describes a tile: its value, and those of both parameters.
fn tile_label(axes: [&SweepAxis; 2], tile: &Tile) -> String {
    format!("{}\n{}", tile.text, tile_at(axes, tile).join("\n"))
}

/// Names the values of both parameters of a tile.
fn tile_at(axes: [&SweepAxis; 2], tile: &Tile) -> [String; 2] {
    [0, 1].map(|number| {
        let axis = axes[number];
        let value = swept(axis.text_of(tile.at[number] as u32));
        format!("{}: {value}", language::text(&axis.title))
    })
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

fn title(axis: &SweepAxis) -> String {
    ParameterAxis::of(axis).title
}
