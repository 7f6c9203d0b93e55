//! Marks that are no values: rules, ranges, steps, notes.

use super::super::{
    chart::Chart,
    svg::{ColourRole, Svg, Text, rectangle, width_of},
};

/// Dotted line across the plot.
pub struct Level {
    /// Ends on the horizontal axis; what lies beyond it is left out.
    pub x: [f64; 2],
    /// Value; a level beyond the axis is left out.
    pub y: f64,
    /// Text above the beginning; empty for none.
    pub label: String,
}

/// Text beside a rule.
const SMALL: Text = Text {
    size: 10.0,
    ..Text::NOTE
};

impl Chart<'_> {
    pub(super) fn draw_rule(&self, svg: &mut Svg, x: f64) {
        self.rule(svg, self.x(x), ColourRole::Axis, 1.0);
    }

    pub(super) fn draw_range(&self, svg: &mut Svg, at: f64, ends: [f64; 2]) {
        let band = rectangle(ends.map(|end| self.x(end)), [self.top, self.bottom]);
        svg.polygon(&band, ColourRole::Axis, 0.18);
        self.rule(svg, self.x(at), ColourRole::Leader, 1.2);
    }

    pub(super) fn draw_steps(&self, svg: &mut Svg, steps: &[(f64, String)]) {
        let end = self.x.range.end;
        for (number, (at, label)) in steps.iter().enumerate() {
            if self.x.position(*at) >= end {
                break;
            }
            let x = self.x(*at);
            if number > 0 {
                self.rule(svg, x, ColourRole::Leader, 1.0);
            }
            let next = steps
                .get(number + 1)
                .map_or(self.right, |(next, _)| self.x(*next));
            let from = x + 3.0;
            // That is how wide it is in 12 CSS pixels.
            let fits = |text: &str| from + width_of(text) * 10.0 / 12.0 <= next;
            let texts = [label.clone(), number.to_string()];
            let texts = &texts[..1 + usize::from(number > 0)];
            if let Some(text) = texts.iter().find(|text| fits(text)) {
                svg.text((from, self.top + 6.0), text, SMALL);
            }
        }
    }

    pub(super) fn draw_level(&self, svg: &mut Svg, level: &Level) {
        let [from, to] = level.x;
        if !self.has_y(level.y) || self.x.position(from) >= self.x.range.end {
            return;
        }
        let line = [from, to].map(|x| self.at((x, level.y)));
        svg.line(&line, ColourRole::Leader, 1.0);
        if !level.label.is_empty() {
            let (x, y) = line[0];
            svg.text((x + 4.0, y - 7.0), &level.label, SMALL);
        }
    }

    pub(super) fn draw_note(&self, svg: &mut Svg, text: &str) {
        svg.text((self.left + 6.0, self.top + 12.0), text, Text::NOTE);
    }

    /// Draws the span of a trial, at least 0.7 CSS pixels wide.
    pub(super) fn draw_span(&self, svg: &mut Svg, label: &str, series: usize, ends: [f64; 2]) {
        let [left, right] = ends.map(|end| self.x(end));
        let right = right.max(left + 0.7);
        let heights = [[self.top, self.bottom], [self.top - 4.0, self.top - 1.0]];
        let [over, above] = heights.map(|heights| rectangle([left, right], heights));
        let ink = ColourRole::Series(series);
        svg.of_transport("trial", label, |svg| {
            svg.polygon(&over, ink, 0.16);
            svg.polygon(&above, ink, 1.0);
        });
    }
}
