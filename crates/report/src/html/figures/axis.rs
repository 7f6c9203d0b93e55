//! Axes: from stored values to positions, and their ticks.

use std::ops::Range;

use itertools::Itertools as _;
use regatta_model::Unit;

use crate::{
    format::{Scale, number, without_zeros},
    language::{self, decimal},
};

/// Maximum number of ticks of a horizontal axis.
const X_TICKS: usize = 6;

/// Maximum number of ticks of a vertical axis.
const Y_TICKS: usize = 5;

/// Scale of values that are shown as they are.
pub const PLAIN: Scale = Scale {
    divisor: 1.0,
    unit: "",
};

/// Value on an axis, and the text beside it.
pub type Tick = (f64, String);

/// Kind of the values of a horizontal axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum XKind {
    Linear,
    Logarithmic,
    Categories,
}

/// Horizontal axis.
#[derive(Debug, Clone)]
pub struct XAxis {
    /// Title with its unit; written below the axis.
    pub title: String,
    /// Scale of the values.
    pub scale: Scale,
    /// First and last position.
    pub range: Range<f64>,
    kind: XKind,
    /// Positions and texts of the ticks; `None` for round values at equal distances.
    ticks: Option<Vec<Tick>>,
}

impl XAxis {
    /// Returns a linear axis, whose range is in the shown unit.
    pub fn linear(title: String, scale: Scale, range: Range<f64>) -> Self {
        Self {
            title,
            scale,
            range,
            kind: XKind::Linear,
            ticks: None,
        }
    }

    /// Returns an axis from zero to a value, in the shown unit.
    pub fn to(title: String, scale: Scale, end: f64) -> Self {
        Self::linear(title, scale, 0.0..axis_end(end))
    }

    /// Returns an axis of categories, whose values are their positions.
    pub fn categories(title: String, range: Range<f64>, ticks: Vec<Tick>) -> Self {
        Self {
            kind: XKind::Categories,
            ticks: Some(ticks),
            ..Self::linear(title, PLAIN, range)
        }
    }

    /// Returns a logarithmic axis. Range and ticks are in the shown unit.
    pub fn logarithmic(title: String, scale: Scale, range: &Range<f64>, ticks: Vec<Tick>) -> Self {
        let ticks = ticks.into_iter().map(|(value, text)| (value.ln(), text));
        Self {
            kind: XKind::Logarithmic,
            ticks: Some(ticks.collect()),
            ..Self::linear(title, scale, range.start.ln()..range.end.ln())
        }
    }

    /// Returns the axis with these ticks, in the shown unit.
    pub fn with_ticks(mut self, ticks: Vec<Tick>) -> Self {
        self.ticks = Some(ticks);
        self
    }

    /// Returns the axis with a margin at both ends, in positions.
    pub fn with_margin(mut self, margin: f64) -> Self {
        self.range = self.range.start - margin..self.range.end + margin;
        self
    }

    /// Whether positions are logarithms.
    pub fn is_logarithmic(&self) -> bool {
        self.kind == XKind::Logarithmic
    }

    /// Whether the values are categories: no quantities, so that nothing lies between them.
    pub fn has_categories(&self) -> bool {
        self.kind == XKind::Categories
    }

    /// Whether ticks are round values at equal distances, so that a zoom can make new ones.
    pub fn has_own_ticks(&self) -> bool {
        self.ticks.is_none()
    }

    /// Returns the position of a value, above zero on a logarithmic axis.
    pub fn position(&self, value: f64) -> f64 {
        let shown = self.scale.apply(value);
        match self.kind {
            XKind::Logarithmic => shown.max(f64::MIN_POSITIVE).ln(),
            _ => shown,
        }
    }

    /// Returns the value whose position lies at this share of the way from one to another.
    pub fn between(&self, [from, to]: [f64; 2], share: f64) -> f64 {
        match self.kind {
            XKind::Logarithmic => (from.ln() + (to.ln() - from.ln()) * share).exp(),
            _ => from + (to - from) * share,
        }
    }

    /// Returns a value in the shown unit; of categories, whose marks may lie beside one another, the category.
    pub fn shown(&self, value: f64) -> f64 {
        match self.kind {
            XKind::Categories => value.round(),
            _ => self.scale.apply(value),
        }
    }

    /// Returns positions and texts of the ticks.
    pub fn ticks(&self) -> Vec<Tick> {
        let own = || linear_ticks(&self.range);
        self.ticks.clone().unwrap_or_else(own)
    }
}

/// Vertical axis of values.
#[derive(Debug, Clone)]
pub struct YAxis {
    /// Title with its unit; written above the axis.
    pub title: String,
    /// Scale of the values.
    pub scale: Scale,
    /// Range, in the shown unit.
    pub range: YRange,
}

/// Range of a vertical axis.
#[derive(Debug, Clone, Copy)]
pub enum YRange {
    /// From zero to this value.
    Linear(f64),
    /// Share of a whole, from 10 to the power of this to 1, as a percentage.
    Logarithmic(i32),
    /// From one value above zero to another, logarithmic.
    Decades(f64, f64),
}

impl YAxis {
    /// Returns the axis of a quantity from zero on that shows this stored value.
    pub fn from_zero(unit: Unit, title: &str, highest: f64) -> Self {
        let scale = Scale::for_largest(unit, highest);
        Self {
            title: scale.heading(title),
            scale,
            range: YRange::Linear(axis_end(scale.apply(highest))),
        }
    }

    /// Returns the ticks, in the shown unit.
    pub fn ticks(&self) -> Vec<Tick> {
        let (values, factor) = match self.range {
            YRange::Linear(end) => (ticks(&(0.0..end), Y_TICKS), 1.0),
            YRange::Logarithmic(floor) => (decades(floor).collect(), 100.0),
            YRange::Decades(low, high) => (log_ticks(&(low..high), Y_TICKS), 1.0),
        };
        let values = values.into_iter();
        values.map(|value| (value, tick(value * factor))).collect()
    }
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

/// Returns the ticks of a logarithmic axis over a positive `range`, at most `most`: 1, 2 and 5 times powers of ten, or
/// else 1 and 3 times, or every, every second, third or sixth power of ten. Empty if even those are more.
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

/// Returns the scale of an axis of time that shows this many seconds.
pub fn time_scale(seconds: f64) -> Scale {
    let (divisor, unit) = match seconds {
        s if s >= 7200.0 => (3600.0, "h"),
        s if s >= 180.0 => (60.0, "min"),
        _ => (1.0, "s"),
    };
    Scale {
        divisor,
        unit: language::unit(unit),
    }
}

/// Returns the largest of some values, or zero.
pub fn largest(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, f64::max)
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
