//! Values of a sweep as quantities, and ranges of them.

use std::fmt::Write as _;

use super::Spacing;
use crate::{metric::Unit, units::split};

/// Significant digits of the values of a range; more where these do not distinguish the values.
const DIGITS: usize = 3;

/// Maximum number of significant digits of the values of a range.
const MAX_DIGITS: usize = 9;

/// Unit in which a value is written.
#[derive(Debug, Clone, PartialEq)]
pub enum Written {
    /// A quantity of a unit that has prefixes.
    Unit(Unit),
    /// A number with a suffix, such as `packets`; empty for a whole number without quotes.
    Number(String),
}

/// Writes a value as names show it: with a space between number and unit.
pub fn shown(text: &str) -> String {
    match split(text) {
        Some((_, rest)) if !rest.is_empty() => {
            let number = text.trim().strip_suffix(rest).unwrap_or(text).trim_end();
            format!("{number} {rest}")
        }
        _ => text.trim().to_owned(),
    }
}

/// Reads a value as a quantity; `None` if it is none.
pub fn measure(text: &str) -> Option<(Written, f64)> {
    let (number, rest) = split(text)?;
    if rest.is_empty() {
        return Some((Written::Number(String::new()), number));
    }
    let units = [
        Unit::Ratio,
        Unit::Bytes,
        Unit::BitsPerSecond,
        Unit::Nanoseconds,
    ];
    let mut read = units.into_iter().map(|unit| (unit, unit.read(text)));
    Some(
        read.find_map(|(unit, value)| Some((Written::Unit(unit), value.ok()?)))
            .unwrap_or_else(|| (Written::Number(rest.to_owned()), number)),
    )
}

/// Reads a value as a number in the unit of a sweep; a bare zero needs no unit. `None` if the value is no such number.
pub fn number_in(unit: Option<Unit>, text: &str) -> Option<f64> {
    let (written, number) = measure(text)?;
    let fits = match written {
        Written::Unit(of_text) => unit == Some(of_text),
        Written::Number(_) => unit == Some(Unit::Count) || number == 0.0,
    };
    fits.then_some(number)
}

/// Reads values as quantities of one unit; `None` if they are not. A bare zero is one of every unit.
pub fn measure_all<'t>(texts: impl Iterator<Item = &'t str>) -> Option<(Written, Vec<f64>)> {
    let mut common = None;
    let mut zeros = None;
    let mut values = Vec::new();
    for text in texts {
        let (written, value) = measure(text)?;
        values.push(value);
        if value == 0.0 && written == Written::Number(String::new()) {
            zeros = Some(written);
        } else if *common.get_or_insert_with(|| written.clone()) != written {
            return None;
        }
    }
    Some((common.or(zeros)?, values))
}

/// Returns the texts of evenly spaced values, in quotes as in a study unless they are bare numbers.
/// The first and the last one are the given texts. `None` if the values cannot be distinguished.
pub fn texts(
    ends: [(&str, f64); 2],
    points: usize,
    scale: Spacing,
    written: &Written,
) -> Option<Vec<String>> {
    let [from, to] = ends.map(|(_, value)| value);
    let value = |point: usize| {
        let part = point as f64 / (points - 1) as f64;
        match scale {
            Spacing::Linear => from + (to - from) * part,
            Spacing::Log => from * (to / from).powf(part),
        }
    };
    (DIGITS..=MAX_DIGITS).find_map(|digits| {
        let mut texts = vec![ends[0].0.to_owned()];
        texts.extend((1..points - 1).map(|point| text(value(point), digits, written)));
        texts.push(ends[1].0.to_owned());
        let mut values: Vec<f64> = measure_all(texts.iter().map(String::as_str))?.1;
        values.sort_by(f64::total_cmp);
        let are_distinct = values.windows(2).all(|pair| pair[0] < pair[1]);
        are_distinct.then_some(texts)
    })
}

/// Rounds to significant digits.
fn rounded(value: f64, digits: usize) -> f64 {
    format!("{value:.*e}", digits - 1).parse().unwrap_or(value)
}

/// Writes a value in the unit and with the prefix that a user would take.
fn text(value: f64, digits: usize, written: &Written) -> String {
    let whole = |value: f64| rounded(value.round(), digits).round();
    let scaled = |steps: &[(f64, &str)]| {
        let value = whole(value);
        let step = steps.iter().rev().find(|(factor, _)| value >= *factor);
        let (factor, unit) = step.unwrap_or(&steps[0]);
        format!("{}{unit}", value / factor)
    };
    match written {
        Written::Unit(Unit::Bytes) => scaled(&[(1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB")]),
        Written::Unit(Unit::BitsPerSecond) => scaled(&[
            (1.0, "bit/s"),
            (1e3, "kbit/s"),
            (1e6, "Mbit/s"),
            (1e9, "Gbit/s"),
        ]),
        Written::Unit(Unit::Nanoseconds) => {
            scaled(&[(1.0, "ns"), (1e3, "us"), (1e6, "ms"), (1e9, "s")])
        }
        Written::Unit(_) => format!("{}%", rounded(value * 100.0, digits)),
        Written::Number(suffix) => {
            let is_whole = suffix.is_empty() || suffix.starts_with("packet");
            let number = if is_whole {
                whole(value)
            } else {
                rounded(value, digits)
            };
            let mut text = number.to_string();
            if !suffix.is_empty() {
                let _ = write!(text, " {suffix}");
            }
            text
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(from: &str, to: &str, points: usize, scale: Spacing) -> Vec<String> {
        let (written, values) = measure_all([from, to].into_iter()).expect("quantities");
        let ends = [(from, values[0]), (to, values[1])];
        texts(ends, points, scale, &written).expect("distinct values")
    }

    #[test]
    fn ranges_have_readable_values() {
        assert_eq!(
            range("0.1%", "10%", 5, Spacing::Log),
            ["0.1%", "0.316%", "1%", "3.16%", "10%"]
        );
        assert_eq!(
            range("1kB", "1MB", 4, Spacing::Log),
            ["1kB", "10kB", "100kB", "1MB"]
        );
        assert_eq!(
            range("0ms", "300ms", 4, Spacing::Linear),
            ["0ms", "100ms", "200ms", "300ms"]
        );
        assert_eq!(range("1", "64", 4, Spacing::Log), ["1", "4", "16", "64"]);
        assert_eq!(
            range("0.5 BDP", "2 BDP", 4, Spacing::Linear),
            ["0.5 BDP", "1 BDP", "1.5 BDP", "2 BDP"]
        );
        // Three digits do not distinguish these.
        assert_eq!(
            range("100ms", "100.2ms", 3, Spacing::Linear),
            ["100ms", "100.1ms", "100.2ms"]
        );
        // Falling ranges fall.
        assert_eq!(
            range("100Mbit/s", "1Mbit/s", 3, Spacing::Log),
            ["100Mbit/s", "10Mbit/s", "1Mbit/s"]
        );
    }

    #[test]
    fn ranges_with_too_few_whole_numbers_are_refused() {
        let (written, values) = measure_all(["1", "3"].into_iter()).expect("quantities");
        let ends = [("1", values[0]), ("3", values[1])];
        assert_eq!(texts(ends, 5, Spacing::Linear, &written), None);
    }

    #[test]
    fn values_are_shown_with_a_space() {
        assert_eq!(shown("0.5%"), "0.5 %");
        assert_eq!(shown(" 10  Mbit/s"), "10 Mbit/s");
        assert_eq!(shown("cubic"), "cubic");
        assert_eq!(shown("7"), "7");
    }
}
