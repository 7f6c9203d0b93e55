//! Contents of a plot: what a figure says of its values, drawn and recorded in one place.

mod bars;
mod cells;
mod lines;
mod rows;
mod rules;

use super::{chart::Chart, svg::Svg};
pub use bars::Bar;
pub use cells::{Cell, CellAxis, draw_cells};
pub use lines::{Line, Look, PublishedMark, Sample};
pub use rows::{BoxRow, Mean, Row, RowHead};
pub use rules::Level;

/// Part of a plot, in stored values.
pub enum Mark<'a> {
    /// Line from top to bottom at this value of the horizontal axis.
    Rule(f64),
    /// Grey range of the horizontal axis, with a dotted line at the value within it.
    Range(f64, [f64; 2]),
    /// Dotted lines from top to bottom at these values, each with the text about what is right of it, or its number
    /// where that has no room. The first is the beginning of the axis and has no line.
    Steps(Vec<(f64, String)>),
    /// Dotted line across.
    Level(Level),
    /// Text instead of values.
    Note(String),
    /// Range of the horizontal axis in the colour of a transport: its label, its style, the range.
    Span(&'a str, usize, [f64; 2]),
    /// Lines of transports, with their labels right of the plot: their look, and their width in CSS pixels.
    Lines(Vec<Line<'a>>, Look, f64),
    /// Lines that belong to no transport; their styles are dashes.
    PlainLines(Vec<Line<'a>>),
    /// Line of a formula, as far as the axes have it; its style is a dash.
    Formula(Line<'a>),
    /// Published value.
    Published(PublishedMark<'a>),
    /// Bars in groups: label and style of each transport, and its bars.
    Bars(Vec<(&'a str, usize, Vec<Bar>)>),
    /// Row of a mean.
    Row(Row<'a>),
    /// Row of a box.
    Box(BoxRow<'a>),
    /// Cell of a map.
    Cell(Cell),
}

impl Mark<'_> {
    /// Whether the mark takes a row.
    pub const fn is_row(&self) -> bool {
        matches!(self, Self::Row(_) | Self::Box(_))
    }

    /// Returns the width of what stands before the label of a line, beside the mark of a transport.
    pub const fn key(&self) -> f64 {
        match self {
            Self::PlainLines(_) => lines::KEY,
            _ => 0.0,
        }
    }

    /// Whether the mark is worth a panel: it has values, or says why there are none.
    pub const fn is_content(&self) -> bool {
        match self {
            Self::Lines(lines, ..) | Self::PlainLines(lines) => !lines.is_empty(),
            Self::Rule(_) | Self::Range(..) | Self::Steps(_) | Self::Level(_) => false,
            Self::Span(..) | Self::Formula(_) => false,
            Self::Note(_) | Self::Published(_) | Self::Bars(_) => true,
            Self::Row(_) | Self::Box(_) | Self::Cell(_) => true,
        }
    }
}

impl Chart<'_> {
    /// Draws marks one after the other, and records their values.
    pub fn draw(&self, svg: &mut Svg, marks: &[Mark<'_>]) {
        let mut row = 0.0;
        for mark in marks {
            match mark {
                Mark::Rule(x) => self.draw_rule(svg, *x),
                Mark::Range(at, ends) => self.draw_range(svg, *at, *ends),
                Mark::Steps(steps) => self.draw_steps(svg, steps),
                Mark::Level(level) => self.draw_level(svg, level),
                Mark::Note(text) => self.draw_note(svg, text),
                Mark::Span(label, series, ends) => self.draw_span(svg, label, *series, *ends),
                Mark::Lines(lines, look, width) => self.draw_lines(svg, lines, *look, *width),
                Mark::PlainLines(lines) => self.draw_plain_lines(svg, lines),
                Mark::Formula(line) => self.draw_formula(svg, line),
                Mark::Published(mark) => self.draw_published(svg, mark),
                Mark::Bars(bars) => self.draw_bars(svg, bars),
                Mark::Row(mean) => self.draw_row(svg, row, mean),
                Mark::Box(spread) => self.draw_box(svg, row, spread),
                // A map has no chart: see `draw_cells`.
                Mark::Cell(_) => {}
            }
            row += f64::from(u8::from(mark.is_row()));
        }
    }
}
