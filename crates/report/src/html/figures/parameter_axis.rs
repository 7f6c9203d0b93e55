//! Horizontal axis of the figures of a sweep, and the cells along it.

use regatta_model::Unit;

use super::{
    DrawnPanel,
    frame::{Tick, largest, linear_ticks, log_ticks},
};
use crate::{
    analysis::{SweepAxis, SweepCell, SweepResult},
    format::{Scale, number, without_zeros},
    labels::Labels,
};

/// Most ticks with text on the axis of a parameter.
const MAX_TICKS: usize = 7;

/// Longest text of a value on an axis, in characters.
pub const LONGEST_VALUE: usize = 10;

/// Share of the distance between two categories over which the marks of the lines are spread.
const SPREAD: f64 = 0.5;

/// Horizontal axis of a parameter.
pub struct ParameterAxis {
    /// Positions of the values.
    pub positions: Vec<f64>,
    /// Ticks with their texts.
    pub ticks: Vec<Tick>,
    /// Title with its unit.
    pub title: String,
    scale: Option<(Scale, bool)>,
}

impl ParameterAxis {
    pub fn of(axis: &SweepAxis) -> Self {
        let values: Option<Vec<f64>> = axis.values.iter().map(|value| value.value).collect();
        let unit = axis.unit.as_deref().and_then(unit_of);
        let (Some(values), Some(unit)) = (values, unit) else {
            return Self::words(axis);
        };
        let scale = Scale::for_largest(unit, largest(values.iter().copied()));
        let on_axis = |value: f64| match axis.logarithmic {
            true => scale.apply(value).ln(),
            false => scale.apply(value),
        };
        let positions: Vec<f64> = values.iter().map(|value| on_axis(*value)).collect();
        let texts = values.iter().map(|value| number_of(scale.apply(*value)));
        let all: Vec<Tick> = positions.iter().copied().zip(texts).collect();
        let ends =
            [values.first(), values.last()].map(|end| end.map_or(1.0, |end| scale.apply(*end)));
        let ticks = if all.len() <= MAX_TICKS && are_apart(&all) {
            all
        } else if axis.logarithmic {
            let values = log_ticks(&(ends[0]..ends[1]), MAX_TICKS).into_iter();
            values.map(|value| (value.ln(), number_of(value))).collect()
        } else {
            linear_ticks(&(ends[0]..ends[1]))
        };
        Self {
            positions,
            ticks,
            title: scale.heading(&axis.title),
            scale: Some((scale, axis.logarithmic)),
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
        Self {
            positions: all.iter().map(|(position, _)| *position).collect(),
            ticks: all.into_iter().step_by(every.max(1)).collect(),
            title: axis.title.clone(),
            scale: None,
        }
    }

    /// Whether positions are logarithms.
    pub const fn is_logarithmic(&self) -> bool {
        matches!(self.scale, Some((_, true)))
    }

    /// Whether the values are categories: no quantities, so that nothing lies between them.
    pub const fn has_categories(&self) -> bool {
        self.scale.is_none()
    }

    /// Returns the distance from a category at which the mark of a line is drawn, so that marks do not hide one another;
    /// 0 for quantities.
    pub fn offset(&self, line: usize, lines: usize) -> f64 {
        match self.has_categories() {
            true => SPREAD * ((line as f64 + 0.5) / lines as f64 - 0.5),
            false => 0.0,
        }
    }

    /// Returns the position of a value in the parameter's unit.
    pub fn position(&self, value: f64) -> Option<f64> {
        let (scale, is_log) = self.scale?;
        let shown = scale.apply(value);
        Some(if is_log { shown.ln() } else { shown })
    }

    /// Returns a panel whose data have the parameter's values instead of positions on this axis.
    pub fn with_values(&self, mut panel: DrawnPanel) -> DrawnPanel {
        for x in panel.data.iter_mut().filter_map(|datum| datum.x.as_mut()) {
            *x = match self.scale {
                Some((_, true)) => x.exp(),
                Some((_, false)) => *x,
                None => x.round(),
            };
        }
        panel
    }

    /// Returns the range of the axis, with a margin.
    pub fn range(&self) -> std::ops::Range<f64> {
        let ends =
            [self.positions.first(), self.positions.last()].map(|end| end.copied().unwrap_or(0.0));
        let margin = match self.has_categories() {
            true => 0.5,
            false => ((ends[1] - ends[0]) * 0.03).max(1e-9),
        };
        ends[0] - margin..ends[1] + margin
    }
}

/// Whether the ticks of all values have room for their texts.
fn are_apart(ticks: &[Tick]) -> bool {
    let ends = [ticks.first(), ticks.last()].map(|end| end.map_or(0.0, |(position, _)| *position));
    let least = (ends[1] - ends[0]) / 10.0;
    ticks.windows(2).all(|pair| pair[1].0 - pair[0].0 >= least)
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
