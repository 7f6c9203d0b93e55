//! Rows of a plot: a transport's values along the horizontal axis.

use std::borrow::Cow;

use regatta_stats::Description;

use super::super::{
    chart::{Chart, WIDTH},
    drawing::Datum,
    svg::{ColourRole, Svg, Text},
};

/// Common part of all rows: label at the left, value at the right.
pub struct RowHead<'a> {
    /// Transport, with which a reader switches the row off.
    pub transport: &'a str,
    /// Label of the row.
    pub label: Cow<'a, str>,
    /// Style of the transport; `None` for one that is only in a publication.
    pub series: Option<usize>,
    /// Text that is shown while a pointer is on the row.
    pub text: String,
    /// Text at the right.
    pub value: String,
}

/// Row of a mean, with every trial and the published value.
pub struct Row<'a> {
    /// Label and value.
    pub head: RowHead<'a>,
    /// The mean, if there is one.
    pub mean: Option<Mean>,
    /// Text instead of the mean.
    pub note: String,
    /// Values of the trials.
    pub trials: Vec<f64>,
    /// Published value.
    pub published: Option<f64>,
}

/// Mean with its interval.
pub struct Mean {
    /// Kind of the value: `mean`, `change`.
    pub kind: &'static str,
    /// The mean.
    pub value: f64,
    /// Its interval.
    pub interval: Option<[f64; 2]>,
    /// Number of trials.
    pub n: Option<u64>,
    /// Whether the mark is hollow.
    pub is_hollow: bool,
    /// Half of the height of the ends of the interval, in CSS pixels.
    pub cap: f64,
}

/// Row of a box with its whiskers and every trial.
pub struct BoxRow<'a> {
    /// Label and value.
    pub head: RowHead<'a>,
    /// Description of the values; a single one has no box.
    pub description: Description,
    /// The values.
    pub trials: Vec<f64>,
}

impl RowHead<'_> {
    fn ink(&self) -> ColourRole {
        self.series.map_or(ColourRole::Muted, ColourRole::Series)
    }

    /// Draws the label with the mark of the transport.
    fn draw(&self, svg: &mut Svg, chart: &Chart<'_>, y: f64) {
        if let Some(series) = self.series {
            svg.mark(series, (7.0, y), 4.5, false);
        }
        svg.text((17.0, y), chart.labels.get(&self.label), Text::LABEL);
    }

    fn draw_value(&self, svg: &mut Svg, y: f64) {
        if !self.value.is_empty() {
            svg.text((WIDTH - 1.0, y), &self.value, Text::VALUE);
        }
    }

    /// Records values of this row.
    fn record(&self, svg: &mut Svg, chart: &Chart<'_>, kind: &'static str, values: &[f64]) {
        for value in values {
            svg.record(Datum {
                label: self.label.to_string(),
                kind,
                value: Some(chart.x.shown(*value)),
                ..Datum::default()
            });
        }
    }

    /// Records an estimate of this row.
    fn record_estimate(
        &self,
        svg: &mut Svg,
        chart: &Chart<'_>,
        (kind, value): (&'static str, f64),
        interval: Option<[f64; 2]>,
        n: Option<u64>,
    ) {
        svg.record(Datum {
            label: self.label.to_string(),
            kind,
            x: None,
            value: Some(chart.x.shown(value)),
            interval: interval.map(|ends| ends.map(|end| chart.x.shown(end))),
            n,
        });
    }
}

impl Chart<'_> {
    /// Draws the row of this number from the top.
    pub(super) fn draw_row(&self, svg: &mut Svg, number: f64, row: &Row<'_>) {
        let head = &row.head;
        let y = self.y(number + 0.5);
        if let Some(mean) = &row.mean {
            let estimate = (mean.kind, mean.value);
            head.record_estimate(svg, self, estimate, mean.interval, mean.n);
        }
        head.record(svg, self, "trial", &row.trials);
        head.record(svg, self, "published", row.published.as_slice());
        svg.value(head.transport, &head.text, |svg| {
            head.draw(svg, self, y);
            for value in &row.trials {
                svg.dot((self.x(*value), y + 9.0), 2.0, head.ink(), 0.65);
            }
            match (row.published, head.series) {
                (Some(value), Some(series)) => svg.mark(series, (self.x(value), y), 7.0, true),
                (Some(value), None) => svg.ring((self.x(value), y), 6.0, head.ink(), 1.5),
                (None, _) => {}
            }
            match (&row.mean, head.series) {
                (Some(mean), Some(series)) => {
                    self.draw_mean(svg, mean, series, y);
                    head.draw_value(svg, y);
                }
                _ if !row.note.is_empty() => {
                    svg.text((self.left + 6.0, y), &row.note, Text::NOTE);
                }
                _ => {}
            }
        });
    }

    /// Draws a mean with its interval, which has no cap where it runs out of the panel.
    fn draw_mean(&self, svg: &mut Svg, mean: &Mean, series: usize, y: f64) {
        if let Some(ends) = mean.interval {
            let ink = ColourRole::Series(series);
            svg.line(&ends.map(|end| (self.x(end), y)), ink, 2.0);
            for end in ends.into_iter().filter(|end| self.has_x(*end)) {
                let x = self.x(end);
                svg.line(&[(x, y - mean.cap), (x, y + mean.cap)], ink, 2.0);
            }
        }
        svg.mark(series, (self.x(mean.value), y), 5.0, mean.is_hollow);
    }

    /// Draws the box of the row of this number from the top.
    pub(super) fn draw_box(&self, svg: &mut Svg, number: f64, row: &BoxRow<'_>) {
        let (head, d) = (&row.head, &row.description);
        let n = Some(row.trials.len() as u64);
        head.record_estimate(svg, self, ("median", d.median), Some([d.q1, d.q3]), n);
        head.record(svg, self, "trial", &row.trials);
        let y = self.y(number) + 14.0;
        let ink = head.ink();
        let (upper, lower, middle) = (y - 6.0, y + 6.0, y + 4.0);
        svg.value(head.transport, &head.text, |svg| {
            head.draw(svg, self, middle);
            head.draw_value(svg, middle);
            if row.trials.len() > 1 {
                let [least, q1, median, q3, most] =
                    [d.min, d.q1, d.median, d.q3, d.max].map(|value| self.x(value));
                let corners = [(q1, upper), (q3, upper), (q3, lower), (q1, lower)];
                svg.polygon(&corners, ink, 0.2);
                let closed: Vec<_> = corners.iter().chain(&corners[..2]).copied().collect();
                svg.line(&closed, ink, 1.2);
                svg.line(&[(least, y), (q1, y)], ink, 1.2);
                svg.line(&[(q3, y), (most, y)], ink, 1.2);
                svg.line(&[(median, upper), (median, lower)], ink, 3.0);
            }
            for (number, value) in row.trials.iter().enumerate() {
                // Points alternate between three heights, so that equal trials stay visible.
                let y = y + 11.0 + 3.0 * (number % 3) as f64;
                svg.dot((self.x(*value), y), 2.0, ink, 0.7);
            }
        });
    }
}
