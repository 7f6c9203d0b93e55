//! Bars of a plot in groups, one bar of a group for each transport.

use super::super::{
    chart::Chart,
    drawing::Datum,
    svg::{ColourRole, Svg, rectangle},
};
use crate::language::tr;

/// Share of the distance between two groups that the bars of one take.
const GROUP: f64 = 0.8;

/// Bar with interval and published value.
pub struct Bar {
    /// Number of the group.
    pub group: u32,
    /// The mean.
    pub value: Option<f64>,
    /// Its interval.
    pub interval: Option<[f64; 2]>,
    /// Number of trials.
    pub n: u64,
    /// Published value.
    pub published: Option<f64>,
}

impl Bar {
    /// Whether there is anything to draw.
    pub const fn has_values(&self) -> bool {
        self.value.is_some() || self.published.is_some()
    }
}

impl Chart<'_> {
    /// Draws the bars, and the labels right of the plot at the height of the last one.
    pub(super) fn draw_bars(&self, svg: &mut Svg, bars: &[(&str, usize, Vec<Bar>)]) {
        // Lines without any value have no room.
        let lines = bars.iter();
        let lines: Vec<_> = lines
            .filter(|(.., bars)| bars.iter().any(Bar::has_values))
            .collect();
        let width = GROUP / lines.len().max(1) as f64;
        let mut heights = Vec::new();
        for (position, (label, series, bars)) in lines.iter().enumerate() {
            let mut last = self.bottom;
            for bar in bars {
                let start = f64::from(bar.group) + (1.0 - GROUP) / 2.0 + width * position as f64;
                let ends = [start + 0.06 * width, start + 0.94 * width].map(|x| self.x(x));
                self.draw_bar(svg, label, *series, bar, ends);
                last = bar.value.map_or(last, |value| self.y(value));
            }
            heights.push(last);
        }
        let placed = self.heights_of_labels(heights.into_iter());
        for ((label, series, _), y) in lines.into_iter().zip(placed) {
            self.transport_label(svg, *series, label, y);
        }
    }

    /// Draws and records a bar between two horizontal positions.
    fn draw_bar(&self, svg: &mut Svg, label: &str, series: usize, bar: &Bar, ends: [f64; 2]) {
        let scale = self.y_scale();
        let datum = |kind, value: f64| Datum {
            label: label.to_owned(),
            kind,
            x: Some(f64::from(bar.group) + 0.5),
            value: Some(scale.apply(value)),
            ..Datum::default()
        };
        let mut text = label.to_owned();
        if let Some(value) = bar.value {
            text += &format!(": {}", scale.estimate(value, bar.interval, bar.n));
            svg.record(Datum {
                interval: bar.interval.map(|ends| ends.map(|end| scale.apply(end))),
                n: Some(bar.n),
                ..datum("mean", value)
            });
        }
        if let Some(value) = bar.published {
            text += &tr!("\npublished: {}", scale.quantity(value));
            svg.record(datum("published", value));
        }
        let middle = f64::midpoint(ends[0], ends[1]);
        svg.value(label, &text, |svg| {
            if let Some(value) = bar.value {
                let mut corners = rectangle(ends, [self.y(value), self.bottom]);
                corners.rotate_right(1);
                svg.polygon(&corners, ColourRole::Series(series), 0.85);
            }
            if let Some(ends) = bar.interval.filter(|[low, high]| low < high) {
                let line = ends.map(|end| (middle, self.y(end)));
                svg.line(&line, ColourRole::Text, 1.2);
            }
            if let Some(value) = bar.published {
                svg.mark(series, (middle, self.y(value)), 4.0, true);
            }
        });
    }
}
