//! Drawings of the report as SVG: colours that follow the page's theme, marks, labels.
//!
//! Coordinates and sizes are in CSS pixels. Colours are CSS variables, so that one drawing serves the light
//! page, the dark one and paper.

use std::fmt::{Arguments, Write as _};

use itertools::Itertools as _;

use super::drawing::{Datum, DrawnPanel};

/// Number of colours.
pub const COLOURS: usize = 12;
/// Number of marks.
pub const MARKS: usize = MARK_CORNERS.len();
/// Number of dash patterns.
pub const DASHES: usize = DASH_PATTERNS.len();
/// Dash patterns of the transports' lines; the first is a solid line.
const DASH_PATTERNS: [&str; 6] = ["", "7 4", "2 3.5", "11 3.5 2 3.5", "16 6", "9 3 2 3 2 3"];
/// Dash pattern of [`ColourRole::Leader`].
const DOTS: &str = "1 2";

/// Corners of the transports' marks, in units of the mark's radius; the first one is a circle.
const MARK_CORNERS: [&[Point]; 7] = [
    &[],
    &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
    &[(0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)],
    &[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)],
    &[(0.0, 1.2), (1.1, -0.8), (-1.1, -0.8)],
    &[
        (-0.4, -1.2),
        (0.4, -1.2),
        (0.4, -0.4),
        (1.2, -0.4),
        (1.2, 0.4),
        (0.4, 0.4),
        (0.4, 1.2),
        (-0.4, 1.2),
        (-0.4, 0.4),
        (-1.2, 0.4),
        (-1.2, -0.4),
        (-0.4, -0.4),
    ],
    &[(-1.4, -0.6), (1.4, -0.6), (1.4, 0.6), (-1.4, 0.6)],
];

/// Returns the number of a style: a colour, a mark and a dash. The templates of page and paper take it apart in the same way.
pub const fn style(colour: usize, mark: usize, dash: usize) -> usize {
    colour + COLOURS * (mark + MARKS * dash)
}

/// Returns the colour and the mark of a style.
pub const fn colour_and_mark(style: usize) -> [usize; 2] {
    [style % COLOURS, style / COLOURS % MARKS]
}

/// Position from the upper left corner.
pub type Point = (f64, f64);

/// Colour by its role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColourRole {
    /// Main text.
    Text,
    /// Secondary text: ticks, units.
    Muted,
    /// Lines of the grid.
    Grid,
    /// Axes.
    Axis,
    /// Line from the end of a curve to its label: dotted and grey, so that nobody takes it for
    /// data.
    Leader,
    /// Background of the page.
    Paper,
    /// Transport, by its style.
    Series(usize),
    /// Transport, drawn as a line with its dash.
    Dashed(usize),
    /// Line that belongs to no transport: in the colour of text, with the dash of its position.
    Plain(usize),
}

impl ColourRole {
    /// Returns the colour as a value of CSS.
    fn colour(self) -> String {
        match self {
            Self::Series(series) | Self::Dashed(series) => format!("var(--c{})", series % COLOURS),
            Self::Text | Self::Plain(_) => "var(--text)".to_owned(),
            Self::Muted => "var(--muted)".to_owned(),
            Self::Grid => "var(--grid)".to_owned(),
            Self::Axis | Self::Leader => "var(--axis)".to_owned(),
            Self::Paper => "var(--paper)".to_owned(),
        }
    }

    /// Returns the attributes of a line of this colour and `width`.
    fn stroke(self, width: f64) -> String {
        let dash = match self {
            Self::Dashed(style) => DASH_PATTERNS[style / (COLOURS * MARKS) % DASHES],
            Self::Plain(position) => DASH_PATTERNS[position % DASHES],
            Self::Leader => DOTS,
            _ => "",
        };
        let mut attributes = format!("stroke=\"{}\" stroke-width=\"{width}\"", self.colour());
        if !dash.is_empty() {
            let _ = write!(attributes, " stroke-dasharray=\"{dash}\"");
        }
        attributes
    }

    /// Returns the attributes of an area of this colour and `opacity`.
    fn fill(self, opacity: f64) -> String {
        format!("fill=\"{}\" opacity=\"{opacity}\"", self.colour())
    }
}

/// Alignment of a text relative to its point.
#[derive(Debug, Clone, Copy)]
pub enum Align {
    Left,
    Middle,
    Right,
}

/// Style of a text, which is vertically centred on its point.
#[derive(Debug, Clone, Copy)]
pub struct Text {
    pub size: f64,
    pub ink: ColourRole,
    pub align: Align,
    pub bold: bool,
}

impl Text {
    /// Label of a transport.
    pub const LABEL: Self = Self {
        size: 12.0,
        ink: ColourRole::Text,
        align: Align::Left,
        bold: false,
    };
    /// Title of an axis, and text instead of a value.
    pub const NOTE: Self = Self {
        ink: ColourRole::Muted,
        ..Self::LABEL
    };
    /// Heading of a panel.
    pub const HEADING: Self = Self {
        size: 13.0,
        bold: true,
        ..Self::LABEL
    };
    /// Figure at the end of a row.
    pub const VALUE: Self = Self {
        align: Align::Right,
        bold: true,
        ..Self::LABEL
    };

    /// Returns this style with another alignment.
    pub const fn aligned(self, align: Align) -> Self {
        Self { align, ..self }
    }
}

/// Figure under construction.
#[derive(Default)]
pub struct Svg {
    elements: String,
    data: Vec<Datum>,
}

impl Svg {
    fn element(&mut self, element: Arguments<'_>) {
        let _ = writeln!(self.elements, "<{element}/>");
    }

    /// Draws a line through points.
    pub fn line(&mut self, points: &[Point], ink: ColourRole, width: f64) {
        let (points, stroke) = (coordinates(points), ink.stroke(width));
        self.element(format_args!(
            "polyline fill=\"none\" {stroke} points=\"{points}\""
        ));
    }

    /// Fills a polygon.
    pub fn polygon(&mut self, corners: &[Point], ink: ColourRole, opacity: f64) {
        let (points, fill) = (coordinates(corners), ink.fill(opacity));
        self.element(format_args!("polygon {fill} points=\"{points}\""));
    }

    /// Fills a circle.
    pub fn dot(&mut self, centre: Point, radius: f64, ink: ColourRole, opacity: f64) {
        let (circle, fill) = (circle(centre, radius), ink.fill(opacity));
        self.element(format_args!("{circle} {fill}"));
    }

    /// Draws a circle as a line.
    pub fn ring(&mut self, centre: Point, radius: f64, ink: ColourRole, width: f64) {
        let (circle, stroke) = (circle(centre, radius), ink.stroke(width));
        self.element(format_args!("{circle} fill=\"none\" {stroke}"));
    }

    /// Draws a transport's mark, whose shape identifies the transport besides its colour.
    pub fn mark(&mut self, series: usize, at: Point, radius: f64, hollow: bool) {
        let (fill, outline, width) = match hollow {
            true => (ColourRole::Paper, ColourRole::Series(series), 1.5),
            false => (ColourRole::Series(series), ColourRole::Paper, 0.7),
        };
        let (fill, stroke) = (fill.colour(), outline.stroke(width));
        let placed = |(x, y): &Point| (at.0 + x * radius, at.1 + y * radius);
        let shape = match MARK_CORNERS[series / COLOURS % MARKS] {
            [] => circle(at, radius),
            corners => {
                let placed: Vec<Point> = corners.iter().map(placed).collect();
                format!("polygon points=\"{}\"", coordinates(&placed))
            }
        };
        self.element(format_args!(
            "{shape} class=\"mark\" fill=\"{fill}\" {stroke}"
        ));
    }

    /// Writes a text.
    pub fn text(&mut self, (x, y): Point, text: &str, style: Text) {
        let anchor = match style.align {
            Align::Left => "start",
            Align::Middle => "middle",
            Align::Right => "end",
        };
        let bold = match style.bold {
            true => " font-weight=\"bold\"",
            false => "",
        };
        let ([x, y], size, fill) = ([x, y].map(tenths), style.size, style.ink.colour());
        let _ = writeln!(
            self.elements,
            "<text x=\"{x}\" y=\"{y}\" dy=\"0.5ex\" text-anchor=\"{anchor}\" font-size=\"{size}\"{bold} \
             fill=\"{fill}\">{}</text>",
            escape(text)
        );
    }

    /// Groups what `paint` draws. The script of the pages finds groups by their class.
    pub fn group(&mut self, class: &str, paint: impl FnOnce(&mut Self)) {
        self.group_with(format_args!("class=\"{class}\""), paint);
    }

    /// Groups parts of the drawing of a line that is no transport, with its label.
    pub fn of_line(&mut self, class: &str, label: &str, paint: impl FnOnce(&mut Self)) {
        let label = escape(label);
        self.group_with(format_args!("class=\"{class}\" data-l=\"{label}\""), paint);
    }

    /// Groups parts of a transport's drawing, which disappear when a reader switches the transport off.
    pub fn of_transport(&mut self, class: &str, label: &str, paint: impl FnOnce(&mut Self)) {
        let label = escape(label);
        self.group_with(format_args!("class=\"{class}\" data-s=\"{label}\""), paint);
    }

    /// Groups the drawing of a transport's value; `text` is shown while a pointer is on it.
    pub fn value(&mut self, label: &str, text: &str, paint: impl FnOnce(&mut Self)) {
        self.of_transport("value", label, |svg| {
            let _ = writeln!(svg.elements, "<title>{}</title>", escape(text));
            paint(svg);
        });
    }

    /// Fills the band of quartiles around a transport's line: upper edge, then lower edge backwards, of `n` trials.
    pub fn band(&mut self, label: &str, n: u64, corners: &[Point], ink: ColourRole) {
        let label = escape(label);
        self.group_with(
            format_args!("class=\"band\" data-s=\"{label}\" data-n=\"{n}\""),
            |svg| svg.polygon(corners, ink, 0.16),
        );
    }

    fn group_with(&mut self, attributes: Arguments<'_>, paint: impl FnOnce(&mut Self)) {
        let _ = writeln!(self.elements, "<g {attributes}>");
        paint(self);
        self.elements.push_str("</g>\n");
    }

    /// Adds a value to those of the drawing.
    pub fn record(&mut self, datum: Datum) {
        self.data.push(datum);
    }

    /// Returns the drawing as an `svg` element. `id` is unique on the page; title and description are for
    /// readers who do not see it. `attributes` are further ones of the element.
    pub fn into_element(
        self,
        id: &str,
        title: &str,
        description: &str,
        [width, height]: [f64; 2],
        attributes: &str,
    ) -> DrawnPanel {
        let (title, description) = (escape(title), escape(description));
        let svg = format!(
            "<svg class=\"panel\"{attributes} viewBox=\"0 0 {width} {height}\" role=\"img\" \
             aria-labelledby=\"{id}-t {id}-d\"><title id=\"{id}-t\">{title}</title>\
             <desc id=\"{id}-d\">{description}</desc>\n{}</svg>\n",
            self.elements
        );
        DrawnPanel {
            svg,
            size: [width, height],
            heading: String::new(),
            axes: Default::default(),
            data: self.data,
        }
    }
}

/// Returns the corners of a rectangle, from the upper left one clockwise.
pub fn rectangle([left, right]: [f64; 2], [top, bottom]: [f64; 2]) -> [Point; 4] {
    [(left, top), (right, top), (right, bottom), (left, bottom)]
}

/// Rounds to a tenth of a pixel.
fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

fn coordinates(points: &[Point]) -> String {
    let point = |(x, y): &Point| format!("{},{}", tenths(*x), tenths(*y));
    points.iter().map(point).join(" ")
}

fn circle((x, y): Point, radius: f64) -> String {
    let [x, y] = [x, y].map(tenths);
    format!("circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\"")
}

/// Escapes text for an element or a quoted attribute.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}

/// Estimates the width of a text of 12 pixels. Fonts differ; the estimate is on the wide side.
pub fn width_of(text: &str) -> f64 {
    text.chars()
        .map(|c| match c {
            'i' | 'l' | 'j' | 't' | 'f' | '.' | ',' | '-' | ' ' | '\'' => 5.0,
            'm' | 'w' | 'M' | 'W' | '%' => 10.5,
            c if c.is_ascii_uppercase() => 8.5,
            c if c.is_ascii() => 7.7,
            _ => 12.0,
        })
        .sum()
}

/// Moves positions apart until neighbours are `gap` apart, within `low..=high` where there is
/// room, keeping their order. Returns the new positions in the order of the old ones.
pub fn spread(positions: &[f64], gap: f64, low: f64, high: f64) -> Vec<f64> {
    let order = (0..positions.len()).sorted_by(|&a, &b| positions[a].total_cmp(&positions[b]));
    let order: Vec<usize> = order.collect();
    let mut placed = vec![0.0; positions.len()];
    let mut next = low;
    for &i in &order {
        placed[i] = positions[i].max(next);
        next = placed[i] + gap;
    }
    let mut last = high;
    for &i in order.iter().rev() {
        placed[i] = placed[i].min(last);
        last = placed[i] - gap;
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_do_not_collide() {
        let spread = |positions: &[f64]| spread(positions, 10.0, 0.0, 100.0);
        assert_eq!(spread(&[50.0, 50.0, 52.0]), [50.0, 60.0, 70.0]);
        assert_eq!(spread(&[99.0, 98.0, 10.0]), [100.0, 90.0, 10.0]);
    }

    #[test]
    fn every_role_has_a_variable_and_text_is_escaped() {
        for ink in [
            ColourRole::Text,
            ColourRole::Muted,
            ColourRole::Grid,
            ColourRole::Axis,
            ColourRole::Paper,
            ColourRole::Leader,
            ColourRole::Series(9),
            ColourRole::Dashed(14),
        ] {
            assert!(ink.colour().starts_with("var(--"), "{ink:?}");
        }
        let mut svg = Svg::default();
        svg.line(
            &[(1.0, 2.04), (3.0, 4.0)],
            ColourRole::Dashed(style(11, 0, 5)),
            1.8,
        );
        svg.text((0.0, 9.0), "a<b", Text::HEADING);
        assert_eq!(
            svg.elements,
            "<polyline fill=\"none\" stroke=\"var(--c11)\" stroke-width=\"1.8\" \
             stroke-dasharray=\"9 3 2 3 2 3\" points=\"1,2 3,4\"/>\n\
             <text x=\"0\" y=\"9\" dy=\"0.5ex\" text-anchor=\"start\" font-size=\"13\" \
             font-weight=\"bold\" fill=\"var(--text)\">a&lt;b</text>\n"
        );
    }
}
