//! A panel's plot: its axes and grid, and the positions of values, the same for every panel of a figure, so that panels can
//! be compared.

use super::{
    axis::{PLAIN, XAxis, YAxis, YRange},
    svg::{Align, ColourRole, Point, Svg, Text, spread},
};
use crate::{format::Scale, labels::Labels};

/// Length of a tick, in CSS pixels.
const TICK: f64 = 4.0;

/// Distance above the end of a linear axis at which larger values are drawn, in CSS pixels.
const BEYOND: f64 = 3.0;

/// Width of every panel, in CSS pixels.
pub const WIDTH: f64 = 420.0;
/// Margin above the plot for a heading and the vertical axis's title, in CSS pixels.
pub const TOP: f64 = 44.0;
/// Margin above the plot for a heading only, in CSS pixels.
pub const HEADING: f64 = 24.0;
/// Margin below the plot, in CSS pixels.
pub const BOTTOM: f64 = 40.0;

/// Plot with its axes. Values are stored ones.
pub struct Chart<'a> {
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
    /// Labels of the lines or rows.
    pub labels: &'a Labels,
    pub x: &'a XAxis,
    /// Vertical axis; `None` for rows from the top, which have no ticks: the grid stands on the horizontal axis.
    pub y: Option<&'a YAxis>,
    /// Number of rows.
    pub rows: usize,
}

impl Chart<'_> {
    /// Draws axes and grid with the heading of the panel.
    pub fn draw_axes(&self, svg: &mut Svg, heading: &str) {
        let Self {
            left,
            right,
            top,
            bottom,
            ..
        } = *self;
        let style = Text {
            size: 11.0,
            ..Text::NOTE.aligned(Align::Middle)
        };
        let x_ticks = self.x.ticks();
        let x_ticks = (x_ticks.iter()).map(|(position, text)| (self.at_position(*position), text));
        let y_ticks = self.y.map_or_else(Vec::new, YAxis::ticks).into_iter();
        let y_ticks: Vec<(f64, String)> = y_ticks
            .map(|(value, text)| (self.height_of(value), text))
            .collect();
        if y_ticks.is_empty() {
            for (x, _) in x_ticks.clone() {
                svg.line(&[(x, top), (x, bottom)], ColourRole::Grid, 1.0);
            }
        } else {
            for (y, _) in &y_ticks {
                svg.line(&[(left, *y), (right, *y)], ColourRole::Grid, 1.0);
            }
            svg.line(&[(left, top), (left, bottom)], ColourRole::Axis, 1.0);
        }
        svg.line(&[(left, bottom), (right, bottom)], ColourRole::Axis, 1.0);
        svg.group("x-ticks", |svg| {
            for (x, value) in x_ticks {
                svg.line(&[(x, bottom), (x, bottom + TICK)], ColourRole::Axis, 1.0);
                svg.text((x, bottom + 13.5), value, style);
            }
        });
        for (y, text) in &y_ticks {
            svg.line(&[(left - TICK, *y), (left, *y)], ColourRole::Axis, 1.0);
            svg.text((left - 2.0 * TICK, *y), text, style.aligned(Align::Right));
        }
        svg.text((0.0, 9.0), heading, Text::HEADING);
        if let Some(y) = self.y {
            svg.group("y-title", |svg| svg.text((0.0, 29.0), &y.title, Text::NOTE));
        }
        let below = (right, bottom + BOTTOM - 8.0);
        svg.group("x-title", |svg| {
            svg.text(below, &self.x.title, Text::NOTE.aligned(Align::Right));
        });
    }

    /// Returns the horizontal position of a value, which is kept within the plot.
    pub fn x(&self, value: f64) -> f64 {
        self.at_position(self.x.position(value))
    }

    fn at_position(&self, position: f64) -> f64 {
        let range = &self.x.range;
        let position = position.clamp(range.start, range.end);
        let share = (position - range.start) / (range.end - range.start);
        self.left + share * (self.right - self.left)
    }

    /// Whether a value lies within the horizontal axis.
    pub fn has_x(&self, value: f64) -> bool {
        let range = &self.x.range;
        (range.start..=range.end).contains(&self.x.position(value))
    }

    /// Whether a value lies within the vertical axis.
    pub fn has_y(&self, value: f64) -> bool {
        let Some(y) = self.y else {
            return (0.0..=self.rows as f64).contains(&value);
        };
        let (low, high) = match y.range {
            YRange::Linear(end) => (0.0, end),
            YRange::Logarithmic(floor) => (10_f64.powi(floor), 1.0),
            YRange::Decades(low, high) => (low, high),
        };
        (low..=high).contains(&y.scale.apply(value))
    }

    /// Returns the vertical position of a value, which is kept within the plot; one above a linear axis is
    /// [`BEYOND`] above its end. Of rows the value is their number from the top.
    pub fn y(&self, value: f64) -> f64 {
        self.height_of(self.y_scale().apply(value))
    }

    /// Returns the scale of the vertical axis.
    pub fn y_scale(&self) -> Scale {
        self.y.map_or(PLAIN, |y| y.scale)
    }

    /// Returns the vertical position of a value in the shown unit.
    fn height_of(&self, value: f64) -> f64 {
        let range = self.y.map(|y| y.range);
        let share = match range {
            None => 1.0 - value / self.rows as f64,
            Some(YRange::Linear(end)) => value / end,
            Some(YRange::Logarithmic(floor)) => 1.0 - value.log10() / f64::from(floor),
            Some(YRange::Decades(low, high)) => (value.max(low) / low).ln() / (high / low).ln(),
        };
        let beyond = match range {
            Some(YRange::Linear(_)) if share > 1.0 => BEYOND,
            _ => 0.0,
        };
        self.bottom - share.clamp(0.0, 1.0) * (self.bottom - self.top) - beyond
    }

    /// Returns the scales as attributes, with which the script of the pages converts positions to values and
    /// zooms: values at the ends of each axis, then their positions. Empty for rows, and where the ticks are not round
    /// values.
    pub fn scales(&self) -> String {
        let Some(y) = self.y.filter(|_| self.x.has_own_ticks()) else {
            return String::new();
        };
        let (kind, from, to) = match y.range {
            YRange::Linear(end) => ("linear", 0.0, end),
            YRange::Logarithmic(floor) => ("share", f64::from(floor), 0.0),
            YRange::Decades(low, high) => ("decades", low, high),
        };
        let x = &self.x.range;
        format!(
            " data-x=\"{} {} {} {}\" data-y=\"{from} {to} {} {} {kind}\"",
            x.start, x.end, self.left, self.right, self.bottom, self.top
        )
    }

    /// Returns the position of a pair of values.
    pub fn at(&self, (x, y): Point) -> Point {
        (self.x(x), self.y(y))
    }

    /// Returns the heights of labels right of the plot, near the preferred `heights`.
    pub fn heights_of_labels(&self, heights: impl Iterator<Item = f64>) -> Vec<f64> {
        let heights: Vec<f64> = heights.collect();
        spread(&heights, 15.0, TOP + 4.0, self.bottom - 4.0)
    }

    /// Draws a line from the top of the plot to its bottom.
    pub fn rule(&self, svg: &mut Svg, x: f64, ink: ColourRole, width: f64) {
        svg.line(&[(x, self.top), (x, self.bottom)], ink, width);
    }
}
