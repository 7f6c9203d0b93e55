//! Numbers for readers: SI units, one unit for a whole column or axis.

use jiff::Timestamp;
use regatta_model::Unit;

use crate::language::{self, decimal, tr};

/// Scale of the values of one column or axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    /// Divisor of a stored value.
    pub divisor: f64,
    /// Unit that is shown.
    pub unit: &'static str,
}

impl Scale {
    /// Returns the scale in which the largest of some values is read most easily.
    ///
    /// `largest` is in the stored unit; anything that is not finite counts as zero.
    #[must_use]
    pub fn for_largest(unit: Unit, largest: f64) -> Self {
        let largest = if largest.is_finite() {
            largest.abs()
        } else {
            0.0
        };
        // From which value on, divided by what, under which unit. Milliseconds go on to ten seconds:
        // `1800 ms` beside `300 ms` reads better than `1.8 s`.
        let steps: &[(f64, f64, &'static str)] = match unit {
            Unit::BitsPerSecond => &[
                (0.0, 1.0, "bit/s"),
                (1e3, 1e3, "kbit/s"),
                (1e6, 1e6, "Mbit/s"),
                (1e9, 1e9, "Gbit/s"),
            ],
            Unit::Nanoseconds => &[
                (0.0, 1.0, "ns"),
                (1e3, 1e3, "µs"),
                (1e6, 1e6, "ms"),
                (1e10, 1e9, "s"),
            ],
            Unit::NanosecondsPerByte => &[(0.0, 1.0, "ns/B")],
            Unit::Bytes => &[
                (0.0, 1.0, "B"),
                (1e3, 1e3, "kB"),
                (1e6, 1e6, "MB"),
                (1e9, 1e9, "GB"),
            ],
            // The titles of these say "per second" themselves.
            Unit::PerSecond => &[(0.0, 1.0, ""), (1e5, 1e3, "thousands")],
            Unit::Count => &[(0.0, 1.0, "")],
            Unit::Ratio => &[(0.0, 0.01, "%")],
            Unit::CoreRatio => &[(0.0, 0.01, "% of a core")],
        };
        let (_, divisor, unit) = steps
            .iter()
            .rev()
            .find(|(from, _, _)| largest >= *from)
            .unwrap_or(&steps[0]);
        Self {
            divisor: *divisor,
            unit: language::unit(unit),
        }
    }

    /// Converts a stored value to the shown unit.
    #[must_use]
    pub fn apply(self, value: f64) -> f64 {
        value / self.divisor
    }

    /// Formats a stored value in the shown unit, without the unit.
    #[must_use]
    pub fn text(self, value: f64) -> String {
        number(self.apply(value))
    }

    /// Formats a stored value in the shown unit, with the unit.
    #[must_use]
    pub fn quantity(self, value: f64) -> String {
        match self.unit {
            "" => self.text(value),
            unit => format!("{} {unit}", self.text(value)),
        }
    }

    /// Formats an estimate of `n` trials with its 95 % interval, on two lines.
    #[must_use]
    pub fn estimate(self, value: f64, interval: Option<[f64; 2]>, n: u64) -> String {
        let value = self.quantity(value);
        match interval {
            Some(ends) => {
                let [low, high] = ends.map(|end| self.text(end));
                tr!("{}\n95 % interval [{}, {}], n = {}", value, low, high, n)
            }
            None => format!("{value}\nn = {n}"),
        }
    }

    /// Returns `title, unit`, or the title only for plain counts.
    #[must_use]
    pub fn heading(self, title: &str) -> String {
        let title = language::text(title);
        if self.unit.is_empty() {
            title.to_owned()
        } else {
            format!("{title}, {}", self.unit)
        }
    }
}

/// Formats a stored value with its unit, in the scale that suits it: `91.2 Mbit/s`, `4.9 %`.
#[must_use]
pub fn quantity(unit: Unit, value: f64) -> String {
    let scale = Scale::for_largest(unit, value);
    let text = if unit == Unit::Count && value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        scale.text(value)
    };
    if scale.unit.is_empty() {
        text
    } else {
        format!("{text} {}", scale.unit)
    }
}

/// Formats a number with about three significant digits, thousands kept whole: `9431`, `93.4`,
/// `4.90`, `0.012`, `0`. From 1e15 on it is written as `1.2e15`.
#[must_use]
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let decimals = match value.abs() {
        0.0 => 0,
        v if v >= 1e15 => return decimal(format!("{value:.1e}")),
        v if v >= 999.95 => 0,
        v if v >= 9.995 => 1,
        v if v >= 0.9995 => 2,
        v if v >= 0.000_5 => 3,
        _ => return decimal(format!("{value:.1e}")),
    };
    let text = format!("{value:.decimals$}");
    decimal(if value.abs() < 1.0 && text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    })
}

/// Capitalises a title for the beginning of a sentence.
pub(crate) fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(characters).collect()
    })
}

/// Formats a ratio with decimals where it is near one, `1.02`, and fewer where it is large: `3.1`,
/// `94`.
pub fn ratio_number(ratio: f64) -> String {
    match ratio {
        // Two rounds that differ much can detect nothing that has a name.
        r if r >= 1e6 => tr!("more than a million"),
        r if r >= 100.0 => format!("{r:.0}"),
        r if r >= 2.0 => decimal(format!("{r:.1}")),
        r if (0.995..1.005).contains(&r) => decimal(format!("{r:.4}")),
        r if r >= 0.1 => decimal(format!("{r:.2}")),
        r => number(r),
    }
}

/// Formats a ratio as a signed percentage, with a real minus sign: `−9.8 %`, `+12.5 %`. What is beyond a
/// thousandfold reads `> +100000 %`.
#[must_use]
pub fn signed_percent(ratio: f64) -> String {
    let percent = ratio * 100.0;
    if !percent.is_finite() {
        return "–".to_owned();
    }
    // An interval of two rounds can reach any number of digits.
    if percent > 100_000.0 {
        return "> +100000 %".to_owned();
    }
    let sign = if percent < 0.0 { "−" } else { "+" };
    format!("{sign}{} %", number(percent.abs()))
}

/// Formats a p-value: three decimals, or `< 0.001`.
#[must_use]
pub fn p_value(p: f64) -> String {
    if !p.is_finite() {
        "–".to_owned()
    } else if p < 0.001 {
        decimal("< 0.001".to_owned())
    } else {
        decimal(format!("{p:.3}"))
    }
}

/// Formats a time in UTC to the second; `unknown` for one outside the calendar.
#[must_use]
pub fn moment(unix_ns: i64) -> String {
    Timestamp::from_nanosecond(i128::from(unix_ns)).map_or_else(
        |_| tr!("unknown"),
        |at| at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
    )
}

/// Joins items: `a`, `a and b`, `a, b and c`.
#[must_use]
pub fn list<T: AsRef<str>>(items: &[T]) -> String {
    match items {
        [] => String::new(),
        [one] => one.as_ref().to_owned(),
        [first @ .., last] => {
            let first: Vec<&str> = first.iter().map(AsRef::as_ref).collect();
            tr!("{} and {}", first.join(", "), last.as_ref())
        }
    }
}

/// Returns the first `most` characters, with an ellipsis if the text was cut.
#[must_use]
pub fn shorten(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(most.saturating_sub(1)).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_suits_the_largest_value() {
        assert_eq!(quantity(Unit::BitsPerSecond, 91_234_000.0), "91.2 Mbit/s");
        assert_eq!(quantity(Unit::Nanoseconds, 30_250_000.0), "30.2 ms");
        assert_eq!(quantity(Unit::Nanoseconds, 1.8e9), "1800 ms");
        assert_eq!(quantity(Unit::Nanoseconds, 20e9), "20.0 s");
        assert_eq!(quantity(Unit::Ratio, 0.0487), "4.87 %");
        assert_eq!(quantity(Unit::CoreRatio, 1.25), "125.0 % of a core");
        assert_eq!(quantity(Unit::Count, 12.0), "12");
        assert_eq!(quantity(Unit::PerSecond, 250_000.0), "250.0 thousands");
    }

    #[test]
    fn numbers_keep_about_three_digits() {
        assert_eq!(number(0.0), "0");
        assert_eq!(number(9431.4), "9431");
        assert_eq!(number(999.96), "1000");
        assert_eq!(number(99.96), "100.0");
        assert_eq!(number(9.996), "10.0");
        assert_eq!(number(0.5), "0.5");
        assert_eq!(number(-0.25), "-0.25");
        assert_eq!(number(f64::NAN), "–");
        assert_eq!(number(1e-7), "1.0e-7");
        assert_eq!(number(1e267), "1.0e267");
    }

    #[test]
    fn differences_carry_their_sign() {
        assert_eq!(signed_percent(-0.098), "−9.80 %");
        assert_eq!(signed_percent(0.125), "+12.5 %");
        assert_eq!(signed_percent(1e250), "> +100000 %");
        assert_eq!(list(&["a", "b", "c"]), "a, b and c");
        assert_eq!(shorten("größer", 4), "grö…");
        assert_eq!(moment(0), "1970-01-01 00:00:00 UTC");
    }
}
