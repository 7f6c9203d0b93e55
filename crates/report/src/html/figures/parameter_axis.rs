//! Horizontal axis of the figures of a sweep, and the cells along it.

use regatta_model::Unit;

use super::axis::{Tick, XAxis, largest, linear_ticks, log_ticks};
use crate::{
    analysis::{SweepAxis, SweepCell, SweepResult},
    format::{Scale, number, without_zeros},
    labels::Labels,
};

/// Maximum number of ticks with text on the axis of a parameter.
const MAX_TICKS: usize = 7;

/// Longest text of a value on an axis, in characters.
pub const LONGEST_VALUE: usize = 10;

/// Share of the distance between two categories over which the marks of the lines are spread.
const SPREAD: f64 = 0.5;

/// Horizontal axis of a parameter.
pub struct ParameterAxis {
    /// The axis.
    pub axis: XAxis,
    /// Values of the parameter; of categories their positions.
    pub values: Vec<f64>,
}

impl ParameterAxis {
    pub fn of(axis: &SweepAxis) -> Self {
        let values: Option<Vec<f64>> = axis.values.iter().map(|value| value.value).collect();
        let unit = axis.unit.as_deref().and_then(unit_of);
        let (Some(values), Some(unit)) = (values, unit) else {
            return Self::words(axis);
        };
        let scale = Scale::for_largest(unit, largest(values.iter().copied()));
        let ends =
            [values.first(), values.last()].map(|end| end.map_or(1.0, |end| scale.apply(*end)));
        let title = scale.heading(&axis.title);
        let on_axis = |value: f64| if axis.logarithmic { value.ln() } else { value };
        let shown = || values.iter().map(|value| scale.apply(*value));
        let all: Vec<Tick> = shown().map(|value| (value, number_of(value))).collect();
        let ticks = if all.len() <= MAX_TICKS && are_apart(shown().map(on_axis)) {
            all
        } else if axis.logarithmic {
            let values = log_ticks(&(ends[0]..ends[1]), MAX_TICKS).into_iter();
            values.map(|value| (value, number_of(value))).collect()
        } else {
            linear_ticks(&(ends[0]..ends[1]))
        };
        let ends = ends[0]..ends[1];
        let axis = match axis.logarithmic {
            true => XAxis::logarithmic(title, scale, &ends, ticks),
            false => XAxis::linear(title, scale, ends).with_ticks(ticks),
        };
        let range = &axis.range;
        let margin = ((range.end - range.start) * 0.03).max(1e-9);
        Self {
            axis: axis.with_margin(margin),
            values,
        }
    }

    /// Returns the axis of values that are no quantities, at equal distances.
    fn words(axis: &SweepAxis) -> Self {
        let texts = || axis.values.iter().map(|value| value.text.as_str());
        let shown = Labels::new(texts(), LONGEST_VALUE);
        let all: Vec<Tick> = (texts().enumerate())
            .map(|(position, text)| (position as f64, shown.get(text).to_owned()))
            .collect();
        let every = all.len().div_ceil(MAX_TICKS);
        let values: Vec<f64> = all.iter().map(|(position, _)| *position).collect();
        let end = values.last().copied().unwrap_or(0.0);
        let ticks = all.into_iter().step_by(every.max(1)).collect();
        Self {
            axis: XAxis::categories(axis.title.clone(), 0.0..end, ticks).with_margin(0.5),
            values,
        }
    }

    /// Returns the place of a line's value on the axis: the value, of categories beside it, so that marks do not hide one
    /// another.
    pub fn place(&self, value: u32, line: usize, lines: usize) -> Option<f64> {
        let offset = match self.axis.has_categories() {
            true => SPREAD * ((line as f64 + 0.5) / lines as f64 - 0.5),
            false => 0.0,
        };
        Some(*self.values.get(value as usize)? + offset)
    }
}

/// Whether ticks at these positions have room for their texts.
fn are_apart(positions: impl Iterator<Item = f64>) -> bool {
    let positions: Vec<f64> = positions.collect();
    let ends = [positions.first(), positions.last()].map(|end| end.copied().unwrap_or(0.0));
    let least = (ends[1] - ends[0]) / 10.0;
    positions.windows(2).all(|pair| pair[1] - pair[0] >= least)
}

/// Formats a value without needless zeros.
pub fn number_of(value: f64) -> String {
    let text = number(value);
    match text.contains('.') && !text.contains('e') {
        true => without_zeros(&text).to_owned(),
        false => text,
    }
}

/// Returns the unit with this name.
pub fn unit_of(name: &str) -> Option<Unit> {
    let units = [
        Unit::BitsPerSecond,
        Unit::Nanoseconds,
        Unit::Bytes,
        Unit::Count,
        Unit::Ratio,
    ];
    units.into_iter().find(|unit| unit.name() == name)
}

/// Returns the cells of a combination of the further parameters.
pub fn cells_at<'a>(
    sweep: &'a SweepResult,
    combination: &[u32],
) -> impl Iterator<Item = &'a SweepCell> + Clone {
    let cells = sweep.cells.iter();
    cells.filter(move |cell| cell.at.get(1..) == Some(combination))
}
