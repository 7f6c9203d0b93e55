//! Axes, the same for every panel, so that panels of one figure can be compared.

use std::ops::Range;

use itertools::Itertools as _;

use super::drawing::{Datum, DrawnPanel};
use super::svg::{Align, ColourRole, Point, Svg, Text, spread, width_of};
use crate::{
    format::{number, without_zeros},
    labels::Labels,
    language::{self, decimal},
};

/// Longest label beside a panel, in characters.
pub const LABEL_CHARACTERS: usize = 16;

/// Maximum number of ticks of an axis.
const X_TICKS: usize = 6;
const Y_TICKS: usize = 5;

/// Length of a tick, in CSS pixels.
const TICK: f64 = 4.0;

/// Distance above the end of a linear axis at which larger values are drawn, in CSS pixels.
const BEYOND: f64 = 3.0;

/// Value on an axis, and the text beside it.
pub type Tick = (f64, String);

/// Vertical axis.
pub enum YAxis {
    /// Rows from the top, without ticks; the grid stands on the horizontal axis.
    Rows(usize),
    /// From zero to this value.
    Linear(f64),
    /// Share of a whole, from 10 to the power of this to 1, as a percentage.
    Logarithmic(i32),
    /// From one value above zero to another, logarithmic.
    Decades(f64, f64),
}

/// Panel of a figure: a drawing of its own, with heading, axes and margins.
pub struct Panel<'a> {
    /// Identifier, unique on the page; letters, digits, hyphens.
    pub id: &'a str,
    /// Title for readers who do not see the panel.
    pub title: &'a str,
    /// Description for readers who do not see the panel.
    pub description: &'a str,
    /// Heading above the panel: the condition.
    pub heading: &'a str,
    /// Title of the vertical axis, with its unit; written above the axis.
    pub y_title: &'a str,
    /// Title of the horizontal axis, with its unit; written below the axis.
    pub x_title: &'a str,
    /// Height of the panel, in CSS pixels.
    pub height: f64,
    /// Margin left of the plot, in CSS pixels.
    pub left: f64,
    /// Margin right of the plot, in CSS pixels.
    pub right: f64,
    /// Labels of the lines, which are written right of the plot.
    pub labels: &'a Labels,
}

impl Panel<'_> {
    /// Width of every panel, in CSS pixels.
    pub const WIDTH: f64 = 420.0;
    /// Margin left of a plot with ticks.
    pub const LEFT: f64 = 44.0;
    /// Margin above the plot for a heading and the vertical axis's title, in CSS pixels.
    pub const TOP: f64 = 44.0;
    /// Margin above the plot for a heading only, in CSS pixels.
    pub const HEADING: f64 = 24.0;
    /// Margin below the plot, in CSS pixels.
    pub const BOTTOM: f64 = 40.0;

    /// Returns the height of a panel of rows of this height, in CSS pixels.
    pub fn height_of_rows(rows: usize, height: f64) -> f64 {
        Self::HEADING + Self::BOTTOM + height * rows as f64
    }

    /// Draws axes and grid, and what `paint` adds; returns the panel as an `svg` element.
    pub fn draw(
        &self,
        x: Range<f64>,
        y: YAxis,
        paint: impl FnOnce(&mut Svg, &Chart),
    ) -> DrawnPanel {
        self.element(x, None, y, paint)
    }

    /// Draws the panel as [`Panel::draw`] does, with these ticks on the horizontal axis.
    pub fn draw_with(
        &self,
        x: Range<f64>,
        x_ticks: &[Tick],
        y: YAxis,
        paint: impl FnOnce(&mut Svg, &Chart),
    ) -> DrawnPanel {
        self.element(x, Some(x_ticks), y, paint)
    }

    fn element(
        &self,
        x: Range<f64>,
        x_ticks: Option<&[Tick]>,
        y: YAxis,
        paint: impl FnOnce(&mut Svg, &Chart),
    ) -> DrawnPanel {
        let mut svg = Svg::default();
        let is_linear = x_ticks.is_none();
        let x_ticks = x_ticks.map_or_else(|| linear_ticks(&x), <[Tick]>::to_vec);
        let chart = self.draw_axes(&mut svg, x, &x_ticks, y);
        svg.group("plot", |svg| paint(svg, &chart));
        let size = [Self::WIDTH, self.height];
        let scales = match is_linear {
            true => chart.scales(),
            false => String::new(),
        };
        // Values of rows go along the horizontal axis.
        let axes = match chart.y {
            YAxis::Rows(_) => ["", self.x_title],
            _ => [self.x_title, self.y_title],
        };
        DrawnPanel {
            heading: self.heading.to_owned(),
            axes: axes.map(str::to_owned),
            ..svg.into_element(self.id, self.title, self.description, size, &scales)
        }
    }

    /// Draws axes and grid; the chart maps values to positions.
    fn draw_axes(&self, svg: &mut Svg, x: Range<f64>, x_ticks: &[Tick], y: YAxis) -> Chart {
        let chart = Chart {
            left: self.left,
            right: Self::WIDTH - self.right,
            top: match self.y_title {
                "" => Self::HEADING,
                _ => Self::TOP,
            },
            bottom: self.height - Self::BOTTOM,
            labels: self.labels.clone(),
            x,
            y,
        };
        let Chart {
            left,
            right,
            top,
            bottom,
            ..
        } = chart;
        let style = Text {
            size: 11.0,
            ..Text::NOTE.aligned(Align::Middle)
        };
        let x_ticks = x_ticks.iter().map(|(value, text)| (chart.x(*value), text));
        let (values, factor) = match chart.y {
            YAxis::Rows(_) => (Vec::new(), 1.0),
            YAxis::Linear(end) => (ticks(&(0.0..end), Y_TICKS), 1.0),
            YAxis::Logarithmic(floor) => (decades(floor).collect(), 100.0),
            YAxis::Decades(low, high) => (log_ticks(&(low..high), Y_TICKS), 1.0),
        };
        let tick_at = |value: &f64| (chart.y(*value), tick(value * factor));
        let y_ticks: Vec<(f64, String)> = values.iter().map(tick_at).collect();
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
        svg.text((0.0, 9.0), self.heading, Text::HEADING);
        if !self.y_title.is_empty() {
            svg.group("y-title", |svg| {
                svg.text((0.0, 29.0), self.y_title, Text::NOTE);
            });
        }
        let below = (right, self.height - 8.0);
        svg.group("x-title", |svg| {
            svg.text(below, self.x_title, Text::NOTE.aligned(Align::Right));
        });
        chart
    }
}

/// Plot with its axes.
pub struct Chart {
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
    labels: Labels,
    x: Range<f64>,
    y: YAxis,
}

impl Chart {
    /// Returns the horizontal position of a value, which is kept within the plot.
    pub fn x(&self, value: f64) -> f64 {
        let value = value.clamp(self.x.start, self.x.end);
        let share = (value - self.x.start) / (self.x.end - self.x.start);
        self.left + share * (self.right - self.left)
    }

    /// Whether a value lies within the horizontal axis.
    pub fn has_x(&self, value: f64) -> bool {
        (self.x.start..=self.x.end).contains(&value)
    }

    /// Whether a value lies within the vertical axis.
    pub fn has_y(&self, value: f64) -> bool {
        match self.y {
            YAxis::Rows(rows) => (0.0..=rows as f64).contains(&value),
            YAxis::Linear(end) => (0.0..=end).contains(&value),
            YAxis::Logarithmic(floor) => (10_f64.powi(floor)..=1.0).contains(&value),
            YAxis::Decades(low, high) => (low..=high).contains(&value),
        }
    }

    /// Returns the vertical position of a value, which is kept within the plot; one above a linear axis is
    /// [`BEYOND`] above its end.
    pub fn y(&self, value: f64) -> f64 {
        let share = match self.y {
            YAxis::Rows(rows) => 1.0 - value / rows as f64,
            YAxis::Linear(end) => value / end,
            YAxis::Logarithmic(floor) => 1.0 - value.log10() / f64::from(floor),
            YAxis::Decades(low, high) => (value.max(low) / low).ln() / (high / low).ln(),
        };
        let beyond = match self.y {
            YAxis::Linear(_) if share > 1.0 => BEYOND,
            _ => 0.0,
        };
        self.bottom - share.clamp(0.0, 1.0) * (self.bottom - self.top) - beyond
    }

    /// Returns the scales as attributes, with which the script of the pages converts positions to values and
    /// zooms: values at the ends of each axis, then their positions. Empty for rows.
    fn scales(&self) -> String {
        let (kind, from, to) = match self.y {
            YAxis::Rows(_) => return String::new(),
            YAxis::Linear(end) => ("linear", 0.0, end),
            YAxis::Logarithmic(floor) => ("share", f64::from(floor), 0.0),
            YAxis::Decades(low, high) => ("decades", low, high),
        };
        format!(
            " data-x=\"{} {} {} {}\" data-y=\"{from} {to} {} {} {kind}\"",
            self.x.start, self.x.end, self.left, self.right, self.bottom, self.top
        )
    }

    /// Returns the position of a pair of values.
    pub fn at(&self, (x, y): Point) -> Point {
        (self.x(x), self.y(y))
    }

    /// Returns the heights of labels right of the plot, near the preferred `heights`.
    pub fn heights_of_labels(&self, heights: impl Iterator<Item = f64>) -> Vec<f64> {
        let heights: Vec<f64> = heights.collect();
        spread(&heights, 15.0, Panel::TOP + 4.0, self.bottom - 4.0)
    }

    /// Draws an interval along the horizontal axis, with a cap of this size at either end. One that runs out of the panel
    /// has no cap there.
    pub fn interval(&self, svg: &mut Svg, ends: [f64; 2], y: f64, cap: f64, ink: ColourRole) {
        svg.line(&ends.map(|end| (self.x(end), y)), ink, 2.0);
        for end in ends.into_iter().filter(|end| self.has_x(*end)) {
            let x = self.x(end);
            svg.line(&[(x, y - cap), (x, y + cap)], ink, 2.0);
        }
    }

    /// Draws the lines of transports with their marks, and their labels at the right edge.
    pub fn curves(&self, svg: &mut Svg, curves: &[Curve<'_>], width: f64, marks: Marks) {
        let mut labels = Vec::new();
        for curve in curves {
            // A line does not lead over a point without a value.
            let parts = curve.points.split(|(_, y)| y.is_nan());
            let parts = parts.map(|part| part.iter().map(|point| self.at(*point)).collect());
            let parts: Vec<Vec<Point>> = parts.collect();
            let path = parts.concat();
            let Some(end) = path.last().copied() else {
                continue;
            };
            for (x, value) in curve.points.iter().filter(|(_, y)| !y.is_nan()) {
                svg.record(Datum {
                    label: curve.label.to_owned(),
                    kind: "line",
                    x: Some(*x),
                    value: Some(*value),
                    ..Datum::default()
                });
            }
            let (class, first, every) = match marks {
                // With very many trials the marks would hide one another.
                Marks::Each | Marks::Alone => ("points", 0, path.len().div_ceil(150)),
                // At other positions on each line, so that lines that lie together can be distinguished.
                Marks::Four => {
                    let every = path.len().div_ceil(4);
                    let first = (every * (2 * curve.series + 1) / 10) % every;
                    ("line", first, every)
                }
            };
            svg.of_transport(class, curve.label, |svg| {
                let has_line = !matches!(marks, Marks::Alone);
                for part in parts.iter().filter(|part| has_line && !part.is_empty()) {
                    svg.line(part, ColourRole::Dashed(curve.series), width);
                }
                for point in path.iter().skip(first).step_by(every) {
                    svg.mark(curve.series, *point, 3.2, false);
                }
            });
            labels.push((curve, end));
        }
        self.end_labels(svg, &labels);
    }

    /// Writes labels right of the plot at the height where their lines end, moved apart where they
    /// would collide, each with the transport's mark and a thin line from where its line ends.
    fn end_labels(&self, svg: &mut Svg, labels: &[(&Curve<'_>, Point)]) {
        let placed = self.heights_of_labels(labels.iter().map(|(_, (_, y))| *y));
        for ((curve, (x_end, y_end)), y) in labels.iter().zip(placed) {
            let elbow = (self.right - 2.0).max(*x_end);
            let leader = [(*x_end, *y_end), (elbow, *y_end), (self.right + 4.0, y)];
            svg.of_transport("end", curve.label, |svg| {
                svg.line(&leader, ColourRole::Leader, 0.8);
                svg.mark(curve.series, (self.right + 10.0, y), 4.0, false);
                let label = self.labels.get(curve.label);
                svg.text((self.right + 18.0, y), label, Text::LABEL);
            });
        }
    }
}

/// Line of a transport in the units of the axes.
pub struct Curve<'a> {
    /// Style of the transport.
    pub series: usize,
    /// Label of the transport.
    pub label: &'a str,
    /// Points from left to right.
    pub points: Vec<Point>,
}

impl Curve<'_> {
    /// Returns this line with converted points.
    pub fn map(&self, point: impl Fn(Point) -> Point) -> Self {
        Self {
            points: self.points.iter().copied().map(point).collect(),
            ..*self
        }
    }
}

/// Marks of the transports on their lines.
#[derive(Debug, Clone, Copy)]
pub enum Marks {
    /// On each point.
    Each,
    /// On each point, which are categories: no line joins them.
    Alone,
    /// Four on a line.
    Four,
}

/// Returns the finest ticks at multiples of 1, 2 or 5 times a power of ten of which at most `most` lie
/// within the range.
fn ticks(range: &Range<f64>, most: usize) -> Vec<f64> {
    let least_step = (range.end - range.start) / (most + 1) as f64;
    let decade = 10_f64.powf(least_step.log10().floor());
    // A tick at the very end of the range is there whatever the rounding.
    let multiples = |step: f64| {
        let [first, last] = [range.start / step - 1e-9, range.end / step + 1e-9];
        first.ceil() as i64..=last.floor() as i64
    };
    let mut steps = [1.0, 2.0, 5.0, 10.0, 20.0]
        .map(|factor| factor * decade)
        .into_iter();
    let step = steps.find(|step| multiples(*step).count() <= most);
    let ticks = step.map(|step| multiples(step).map(|n| n as f64 * step).collect());
    ticks.unwrap_or_default()
}

/// Returns the powers of ten from 10 to the power of `floor` to 1; every second one where there are many.
fn decades(floor: i32) -> impl Iterator<Item = f64> {
    let step = if floor < -(Y_TICKS as i32) { 2 } else { 1 };
    (floor..=0).step_by(step).map(|power| 10_f64.powi(power))
}

/// Returns the ticks of a range, with their texts.
pub fn linear_ticks(range: &Range<f64>) -> Vec<Tick> {
    let values = ticks(range, X_TICKS).into_iter();
    values.map(|value| (value, tick(value))).collect()
}

/// Returns the values of 1, 2 and 5 times powers of ten within a range above zero, or as many decades of
/// them as there is room for.
pub fn log_ticks(range: &Range<f64>, most: usize) -> Vec<f64> {
    let decades = range.start.log10().floor() as i32..=range.end.log10().ceil() as i32;
    let within = |factors: &[f64], every: usize| -> Vec<f64> {
        let powers = decades.clone().step_by(every);
        let values = powers.cartesian_product(factors);
        let values = values.map(|(power, factor)| factor * 10_f64.powi(power));
        let within = range.start * 0.999..=range.end * 1.001;
        values.filter(|value| within.contains(value)).collect()
    };
    let choices: [(&[f64], usize); 6] = [
        (&[1.0, 2.0, 5.0], 1),
        (&[1.0, 3.0], 1),
        (&[1.0], 1),
        (&[1.0], 2),
        (&[1.0], 3),
        (&[1.0], 6),
    ];
    let choices = choices.map(|(factors, every)| within(factors, every));
    let mut fitting = choices.into_iter().filter(|ticks| ticks.len() <= most);
    fitting.next().unwrap_or_default()
}

/// Formats a tick in the axis's own unit, without needless decimals.
pub fn tick(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let text = match value.abs() >= 1.0 {
        true => without_zeros(&format!("{value:.2}")).to_owned(),
        false => number(value),
    };
    decimal(text.replace('-', "−"))
}

/// Returns the end of an axis that starts at zero and shows `largest` with some space above.
pub fn axis_end(largest: f64) -> f64 {
    match largest.is_finite() && largest > 0.0 {
        true => largest * 1.06,
        false => 1.0,
    }
}

/// Returns the unit of an axis of time that shows this many seconds: its length in seconds, and its
/// name.
pub fn time_axis(seconds: f64) -> (f64, &'static str) {
    match seconds {
        s if s >= 7200.0 => (3600.0, language::unit("h")),
        s if s >= 180.0 => (60.0, language::unit("min")),
        _ => (1.0, language::unit("s")),
    }
}

/// Returns the largest of some values, or zero.
pub fn largest(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, f64::max)
}

/// Returns the width that labels need right of a plot, in CSS pixels.
pub fn room_for_labels(labels: &Labels) -> f64 {
    largest(labels.texts().map(|label| width_of(label) + 26.0)).clamp(40.0, 150.0)
}

/// Returns the width that the labels of rows need left of a plot, in CSS pixels.
pub fn room_for_rows(labels: &Labels) -> f64 {
    largest(labels.texts().map(|label| width_of(label) + 22.0)).max(60.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ticks(&(0.0..106.0), 5), [0.0, 50.0, 100.0]);
        assert_eq!(ticks(&(0.0..31.8), 6), [0.0, 10.0, 20.0, 30.0]);
        assert_eq!(ticks(&(-1.06..1.06), 6), [-1.0, -0.5, 0.0, 0.5, 1.0]);
        assert_eq!(ticks(&(0.0..10.0), 6), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(decades(-2).collect::<Vec<_>>(), [0.01, 0.1, 1.0]);
        assert_eq!(decades(-6).count(), 4);
        assert_eq!(
            log_ticks(&(0.9..60.0), 6),
            [1.0, 2.0, 5.0, 10.0, 20.0, 50.0]
        );
        assert_eq!(log_ticks(&(0.1..200.0), 5), [0.1, 1.0, 10.0, 100.0]);
    }
}
