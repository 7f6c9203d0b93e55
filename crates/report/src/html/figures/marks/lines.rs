//! Lines of a plot, with what stands around their values and the labels at their ends.

use super::super::{
    chart::Chart,
    drawing::Datum,
    svg::{ColourRole, Point, Svg, Text},
};
use crate::language::tr;

/// Line, from left to right.
#[derive(Debug, Clone)]
pub struct Line<'a> {
    /// Label of the line.
    pub label: &'a str,
    /// Style of the transport, or position of the dash of a line that belongs to none.
    pub style: usize,
    /// Values of the line.
    pub samples: Vec<Sample>,
    /// `(x, smallest, largest)` of the values behind the samples; drawn and not recorded.
    pub extremes: Vec<[f64; 3]>,
}

impl<'a> Line<'a> {
    /// Returns the line of some points; `None` if there are none.
    pub fn of(
        style: usize,
        label: &'a str,
        points: impl IntoIterator<Item = Point>,
    ) -> Option<Self> {
        let samples: Vec<Sample> = points.into_iter().map(Sample::from).collect();
        (!samples.is_empty()).then_some(Self {
            label,
            style,
            samples,
            extremes: Vec::new(),
        })
    }
}

/// Value of a line.
#[derive(Debug, Clone)]
pub struct Sample {
    /// Place and value; NaN where the line has none and is interrupted.
    pub at: Point,
    /// Interval around the value.
    pub interval: Option<[f64; 2]>,
    /// Number of trials behind the value.
    pub n: Option<u64>,
    /// Text that is shown while a pointer is on the value.
    pub text: String,
}

impl From<Point> for Sample {
    fn from(at: Point) -> Self {
        Self {
            at,
            interval: None,
            n: None,
            text: String::new(),
        }
    }
}

/// Look of the values of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// A mark on each value, with its interval as a bar.
    Points,
    /// The same of categories: no line joins the values.
    Apart,
    /// Four marks on a line, with its intervals as a band.
    Series,
}

/// Published value of a sweep.
pub struct PublishedMark<'a> {
    /// Label of the transport.
    pub label: &'a str,
    /// Style; `None` for a transport that the study does not run.
    pub series: Option<usize>,
    /// Place and value.
    pub at: Point,
}

/// Width of the sample of a line before its label, in CSS pixels.
pub const KEY: f64 = 16.0;

impl Chart<'_> {
    /// Records the values of a line.
    fn record(&self, svg: &mut Svg, kind: &'static str, line: &Line<'_>) {
        let scale = self.y_scale();
        for sample in line.samples.iter().filter(|sample| !sample.at.1.is_nan()) {
            svg.record(Datum {
                label: line.label.to_owned(),
                kind,
                x: Some(self.x.shown(sample.at.0)),
                value: Some(scale.apply(sample.at.1)),
                interval: sample.interval.map(|ends| ends.map(|end| scale.apply(end))),
                n: sample.n,
            });
        }
    }

    pub(super) fn draw_lines(&self, svg: &mut Svg, lines: &[Line<'_>], look: Look, width: f64) {
        for line in lines {
            self.record(svg, "line", line);
            match look {
                Look::Series => self.draw_band(svg, line),
                Look::Points | Look::Apart => self.draw_bars_of_line(svg, line),
            }
        }
        let ends = lines.iter();
        let ends = ends.filter_map(|line| Some((line, self.draw_line(svg, line, look, width)?)));
        let ends: Vec<(&Line<'_>, Point)> = ends.collect();
        self.end_labels(svg, &ends);
    }

    /// Draws a line with its marks; returns its end. A line does not lead over a point without a value.
    fn draw_line(&self, svg: &mut Svg, line: &Line<'_>, look: Look, width: f64) -> Option<Point> {
        let parts = line.samples.split(|sample| sample.at.1.is_nan());
        let parts = parts.map(|part| part.iter().map(|sample| self.at(sample.at)).collect());
        let parts: Vec<Vec<Point>> = parts.collect();
        let path = parts.concat();
        let end = path.last().copied()?;
        let (class, first, every) = match look {
            // With very many trials the marks would hide one another.
            Look::Points | Look::Apart => ("points", 0, path.len().div_ceil(150)),
            // At other positions on each line, so that lines that lie together can be distinguished.
            Look::Series => {
                let every = path.len().div_ceil(4);
                let first = (every * (2 * line.style + 1) / 10) % every;
                ("line", first, every)
            }
        };
        svg.of_transport(class, line.label, |svg| {
            let is_joined = look != Look::Apart;
            for part in parts.iter().filter(|part| is_joined && !part.is_empty()) {
                svg.line(part, ColourRole::Dashed(line.style), width);
            }
            for point in path.iter().skip(first).step_by(every) {
                svg.mark(line.style, *point, 3.2, false);
            }
        });
        Some(end)
    }

    /// Draws the band of the intervals of a line, behind it the paler one of the extremes.
    fn draw_band(&self, svg: &mut Svg, line: &Line<'_>) {
        let ink = ColourRole::Series(line.style);
        let extremes = line.extremes.iter();
        let extremes: Vec<(f64, [f64; 2])> =
            extremes.map(|&[x, low, high]| (x, [low, high])).collect();
        if !extremes.is_empty() {
            svg.polygon(&self.area(&extremes), ink, 0.07);
        }
        let samples = line.samples.iter();
        let band = samples.filter_map(|sample| Some((sample.at.0, sample.interval?)));
        let band: Vec<(f64, [f64; 2])> = band.collect();
        let n = line.samples.first().and_then(|sample| sample.n);
        if let Some(n) = n.filter(|_| !band.is_empty()) {
            svg.band(line.label, n, &self.area(&band), ink);
        }
    }

    /// Returns the corners of an area between low and high values: its upper edge, then its lower edge backwards.
    fn area(&self, ends: &[(f64, [f64; 2])]) -> Vec<Point> {
        let upper = ends.iter().map(|(x, [_, high])| (*x, *high));
        let lower = ends.iter().rev().map(|(x, [low, _])| (*x, *low));
        upper.chain(lower).map(|point| self.at(point)).collect()
    }

    /// Draws the intervals of the values of a line as bars, each under a pointer.
    fn draw_bars_of_line(&self, svg: &mut Svg, line: &Line<'_>) {
        let ink = ColourRole::Series(line.style);
        for sample in line.samples.iter().filter(|sample| !sample.text.is_empty()) {
            let at = |value: f64| self.at((sample.at.0, value));
            svg.value(line.label, &sample.text, |svg| {
                // The value's mark comes with its line; here it has room for a pointer.
                svg.dot(at(sample.at.1), 5.0, ink, 0.0);
                let Some(ends) = sample.interval else {
                    return;
                };
                svg.line(&ends.map(at), ink, 1.6);
                // An interval that runs out of the panel does not end there.
                for end in ends.into_iter().filter(|end| self.has_y(*end)) {
                    let (x, y) = at(end);
                    svg.line(&[(x - 3.0, y), (x + 3.0, y)], ink, 1.6);
                }
            });
        }
    }

    /// Writes labels right of the plot at the height where their lines end, moved apart where they
    /// would collide, each with the transport's mark and a thin line from where its line ends.
    fn end_labels(&self, svg: &mut Svg, ends: &[(&Line<'_>, Point)]) {
        let placed = self.heights_of_labels(ends.iter().map(|(_, (_, y))| *y));
        for ((line, (x_end, y_end)), y) in ends.iter().zip(placed) {
            let elbow = (self.right - 2.0).max(*x_end);
            let leader = [(*x_end, *y_end), (elbow, *y_end), (self.right + 4.0, y)];
            svg.of_transport("end", line.label, |svg| {
                svg.line(&leader, ColourRole::Leader, 0.8);
                self.transport_label(svg, line.style, line.label, y);
            });
        }
    }

    /// Writes the label of a transport right of the plot, with its mark.
    pub(super) fn transport_label(&self, svg: &mut Svg, style: usize, label: &str, y: f64) {
        svg.mark(style, (self.right + 10.0, y), 4.0, false);
        let label = self.labels.get(label);
        svg.text((self.right + 18.0, y), label, Text::LABEL);
    }

    /// Draws lines that belong to no transport, and right of the plot their labels, each with a sample of its line.
    pub(super) fn draw_plain_lines(&self, svg: &mut Svg, lines: &[Line<'_>]) {
        let ends = lines.iter().map(|line| {
            self.record(svg, "line", line);
            let mut end = None;
            svg.of_line("line", line.label, |svg| {
                end = self.draw_plain_line(svg, line)
            });
            end.unwrap_or(self.bottom)
        });
        let ends: Vec<f64> = ends.collect();
        svg.group("end", |svg| {
            let placed = self.heights_of_labels(ends.into_iter());
            for (line, y) in lines.iter().zip(placed) {
                let from = self.right + 6.0;
                let key = [(from, y), (from + KEY, y)];
                svg.line(&key, ColourRole::Plain(line.style), 1.3);
                let label = self.labels.get(line.label);
                svg.text((from + KEY + 4.0, y), label, Text::LABEL);
            }
        });
    }

    /// Draws one line in its parts between gaps; returns the height of its end.
    fn draw_plain_line(&self, svg: &mut Svg, line: &Line<'_>) -> Option<f64> {
        let mut end = None;
        for part in line.samples.split(|sample| sample.at.1.is_nan()) {
            let points: Vec<Point> = part.iter().map(|sample| self.at(sample.at)).collect();
            let Some(last) = points.last() else {
                continue;
            };
            end = Some(last.1);
            let ranges = part.iter();
            let ranges = ranges.filter_map(|sample| Some((sample.at.0, sample.interval?)));
            let ranges: Vec<(f64, [f64; 2])> = ranges.collect();
            let is_visible = |[low, high]: [f64; 2]| self.y(high) < self.y(low);
            if ranges.iter().any(|(_, ends)| is_visible(*ends)) {
                svg.polygon(&self.area(&ranges), ColourRole::Muted, 0.18);
            }
            svg.line(&points, ColourRole::Plain(line.style), 1.3);
        }
        end
    }

    /// Draws a formula as far as the axes have it, with its label above its beginning.
    pub(super) fn draw_formula(&self, svg: &mut Svg, line: &Line<'_>) {
        let mut line = line.clone();
        for sample in &mut line.samples {
            if !self.has_y(sample.at.1) {
                sample.at.1 = f64::NAN;
            }
        }
        self.record(svg, "formula", &line);
        let parts = line.samples.split(|sample| sample.at.1.is_nan());
        let parts: Vec<&[Sample]> = parts.collect();
        svg.of_line("line", line.label, |svg| {
            for part in parts.iter().filter(|part| part.len() > 1) {
                let part: Vec<Point> = part.iter().map(|sample| self.at(sample.at)).collect();
                svg.line(&part, ColourRole::Plain(line.style), 1.2);
            }
            if let Some(start) = parts.iter().copied().flatten().next() {
                let (x, y) = self.at(start.at);
                let place = (x + 6.0, (y - 8.0).max(self.top + 6.0));
                svg.text(place, line.label, Text::NOTE);
            }
        });
    }

    pub(super) fn draw_published(&self, svg: &mut Svg, mark: &PublishedMark<'_>) {
        let PublishedMark { label, series, at } = mark;
        let scale = self.y_scale();
        svg.record(Datum {
            label: (*label).to_owned(),
            kind: "published",
            x: Some(self.x.shown(at.0)),
            value: Some(scale.apply(at.1)),
            ..Datum::default()
        });
        let text = format!("{label}{}", tr!("\npublished: {}", scale.quantity(at.1)));
        svg.value(label, &text, |svg| {
            let place = self.at(*at);
            match series {
                Some(series) => svg.mark(*series, place, 5.0, true),
                None => {
                    svg.ring(place, 4.5, ColourRole::Muted, 1.5);
                    svg.text((place.0 + 8.0, place.1), label, Text::NOTE);
                }
            }
        });
    }
}
