//! Cells of a map over two axes of categories.

use super::super::{
    axis::largest,
    chart::{TOP, WIDTH},
    drawing::Datum,
    svg::{Align, ColourRole, Svg, Text, rectangle, width_of},
};
use super::Mark;

/// Smallest width and height of a cell with text, in CSS pixels.
const ROOM: [f64; 2] = [30.0, 14.0];

/// Maximum number of cells of a map that have a text each.
const MAX_DESCRIBED: usize = 500;

/// Cell of a map.
pub struct Cell {
    /// Position on both axes.
    pub at: [usize; 2],
    /// Colour.
    pub ink: ColourRole,
    /// Density of the colour; 0 for a cell without one.
    pub opacity: f64,
    /// Text in the cell.
    pub text: String,
    /// Style of the text.
    pub style: Text,
    /// The value, in the unit of the map.
    pub value: Option<f64>,
}

/// Axis of categories of a map.
#[derive(Debug, Clone)]
pub struct CellAxis {
    /// Title with its unit.
    pub title: String,
    /// Texts of the categories beside the map.
    pub texts: Vec<String>,
    /// Texts of the categories in descriptions of cells.
    pub names: Vec<String>,
}

/// Draws the cells among some marks, values of the first axis across and of the second from the bottom up. Returns the
/// drawing and its height.
pub fn draw_cells([x, y]: &[CellAxis; 2], heading: &str, marks: &[Mark<'_>]) -> (Svg, f64) {
    let [columns, rows] = [x, y].map(|axis| axis.texts.len().max(1) as f64);
    let left = largest(y.texts.iter().map(|text| width_of(text))).clamp(24.0, 90.0) + 10.0;
    let height = (200.0 / rows).clamp(4.0, 34.0);
    let bottom = TOP + height * rows;
    let width = (WIDTH - left - 2.0) / columns;
    let mut svg = Svg::default();
    svg.text((0.0, 9.0), heading, Text::HEADING);
    svg.text((0.0, 29.0), &y.title, Text::NOTE);
    let has_room = width >= ROOM[0] && height >= ROOM[1];
    for mark in marks {
        let Mark::Cell(cell) = mark else { continue };
        let [column, row] = cell.at;
        let [x0, y1] = [left + width * column as f64, bottom - height * row as f64];
        let [x1, y0] = [x0 + width, y1 - height];
        // A gap of a pixel, unless the cells are small.
        let gap = if has_room { 0.5 } else { 0.0 };
        let corners = rectangle([x0 + gap, x1 - gap], [y0 + gap, y1 - gap]);
        let paint = |svg: &mut Svg| {
            if cell.opacity > 0.0 {
                svg.polygon(&corners, cell.ink, (cell.opacity * 1000.0).round() / 1000.0);
            }
            if has_room {
                let style = cell.style.aligned(Align::Middle);
                svg.text(((x0 + x1) / 2.0, (y0 + y1) / 2.0), &cell.text, style);
            }
        };
        let names = [x.names.get(column), y.names.get(row)];
        let names = names.map(|name| name.map_or("", String::as_str));
        svg.record(Datum {
            label: names.join(", "),
            kind: "tile",
            value: cell.value,
            ..Datum::default()
        });
        match marks.len() <= MAX_DESCRIBED {
            true => svg.value("", &format!("{}\n{}", cell.text, names.join("\n")), paint),
            false => paint(&mut svg),
        }
    }
    let outline = rectangle([left, left + width * columns], [TOP, bottom]);
    svg.line(
        &[&outline[..], &outline[..1]].concat(),
        ColourRole::Axis,
        1.0,
    );
    let style = Text {
        size: 11.0,
        ..Text::NOTE
    };
    // Every second text or fewer, where there is no room for each.
    let every = |room: f64, size: f64| (room / size).ceil().max(1.0) as usize;
    let widest = largest(x.texts.iter().map(|text| width_of(text))) + 6.0;
    for (column, text) in x.texts.iter().enumerate().step_by(every(widest, width)) {
        let x = left + width * (column as f64 + 0.5);
        svg.text((x, bottom + 11.0), text, style.aligned(Align::Middle));
    }
    for (row, text) in y.texts.iter().enumerate().step_by(every(13.0, height)) {
        let y = bottom - height * (row as f64 + 0.5);
        svg.text((left - 6.0, y), text, style.aligned(Align::Right));
    }
    let below = (WIDTH - 2.0, bottom + 29.0);
    svg.text(below, &x.title, Text::NOTE.aligned(Align::Right));
    (svg, bottom + 38.0)
}
