//! Numbers for readers: SI units, one unit for a whole column or axis.

use std::{fmt::Display, time::Duration};

use jiff::Timestamp;
use regatta_model::{Unit, units::format_duration};

use crate::language::{self, decimal, tr};

/// Ratio of the end of an interval to its estimate beyond which the end is no number, but `> 1000`: an interval of
/// two rounds can have ends of any number of digits.
const FURTHEST: f64 = 1000.0;

/// Duration in nanoseconds from which sentences have it in two units.
const LONG_NS: f64 = 120e9;

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
        let largest = Some(largest.abs())
            .filter(|it| it.is_finite())
            .unwrap_or(0.0);
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
        let mut reached = steps.iter().rev().filter(|(from, ..)| largest >= *from);
        let (_, divisor, unit) = reached.next().unwrap_or(&steps[0]);
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

    /// Formats the ends of the interval of an estimate, in stored values, without the unit. An end that is further from
    /// an estimate above zero than a thousandfold reads `> 5000` or `< 0.005`.
    #[must_use]
    pub fn ends(self, estimate: f64, [low, high]: [f64; 2]) -> [String; 2] {
        let [least, most] = [estimate / FURTHEST, estimate * FURTHEST];
        let is_below = low > 0.0 && low < least;
        let is_beyond = estimate > 0.0 && high > most;
        // One digit, to the safe side.
        let digit = |value: f64| 10_f64.powf(self.apply(value).log10().floor());
        let ceiling = |value: f64| (self.apply(value) / digit(value)).ceil() * digit(value);
        let floor = |value: f64| (self.apply(value) / digit(value)).floor() * digit(value);
        [
            match is_below {
                true => format!("< {}", number(ceiling(least))),
                false => self.text(low),
            },
            match is_beyond {
                true => format!("> {}", number(floor(most))),
                false => self.text(high),
            },
        ]
    }

    /// Formats an estimate of `n` trials with its 95 % interval, on two lines.
    #[must_use]
    pub fn estimate(self, value: f64, interval: Option<[f64; 2]>, n: u64) -> String {
        let shown = self.quantity(value);
        match interval {
            Some(ends) if is_of_equals(ends) => tr!("{}\nequal in all {} trials", shown, n),
            Some(ends) => {
                let [low, high] = self.ends(value, ends);
                tr!("{}\n95 % interval [{}, {}], n = {}", shown, low, high, n)
            }
            None => format!("{shown}\nn = {n}"),
        }
    }

    /// Returns the unit, empty of plain counts.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        self.unit
    }

    /// Returns `title, unit`, or the title only for plain counts.
    #[must_use]
    pub fn heading(self, title: &str) -> String {
        let title = language::text(title);
        match self.unit {
            "" => title.to_owned(),
            unit => format!("{title}, {unit}"),
        }
    }
}

/// Formats a stored value with its unit, in the scale that suits it: `91.2 Mbit/s`, `4.9 %`, `1200/s`, `2 min 5 s`.
#[must_use]
pub fn quantity(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Nanoseconds if value >= LONG_NS => {
            let seconds = Duration::from_secs((value / 1e9).round() as u64);
            return language::quantity(format_duration(seconds));
        }
        Unit::PerSecond => return tr!("{}/s", number(value)),
        _ => {}
    }
    match unit == Unit::Count && value.fract() == 0.0 {
        true => format!("{value:.0}"),
        false => Scale::for_largest(unit, value).quantity(value),
    }
}

/// Common unit of the values of one sentence, so that they can be compared at sight: `9.67 s` beside `13.4 s`.
#[derive(Debug, Clone, Copy)]
pub struct CommonUnit {
    unit: Unit,
    /// Absent where the values differ too much for one, and where each has units of its own.
    scale: Option<Scale>,
}

impl CommonUnit {
    /// Returns the unit that suits some stored values.
    #[must_use]
    pub fn of(unit: Unit, values: impl IntoIterator<Item = f64>) -> Self {
        let sizes = values.into_iter().filter(|it| it.is_finite() && *it > 0.0);
        let [least, most] = sizes.fold([f64::INFINITY, 0.0], |[least, most], it| {
            [least.min(it), most.max(it)]
        });
        let suits = |scale: &Scale| scale.apply(least) >= 0.1 && scale.apply(most) < 1e4;
        let has_own = match unit {
            Unit::Nanoseconds => least >= LONG_NS,
            Unit::PerSecond | Unit::Count => true,
            _ => false,
        };
        let scales = [most, least].map(|size| Self::scale(unit, size));
        Self {
            unit,
            scale: (scales.into_iter()).find(|scale| !has_own && suits(scale)),
        }
    }

    /// Returns the scale of one value: a time is in seconds from one on.
    fn scale(unit: Unit, value: f64) -> Scale {
        let size = match unit {
            Unit::Nanoseconds if value >= 1e9 => value.max(1e10),
            _ => value,
        };
        Scale::for_largest(unit, size)
    }

    /// Formats a stored value with its unit.
    #[must_use]
    pub fn quantity(&self, value: f64) -> String {
        match (self.scale, self.unit) {
            (Some(scale), _) => scale.quantity(value),
            (None, Unit::Nanoseconds) if value < LONG_NS => {
                Self::scale(self.unit, value).quantity(value)
            }
            (None, unit) => quantity(unit, value),
        }
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
        without_zeros(&text).to_owned()
    } else {
        text
    })
}

/// Returns a number with decimals without the zeros at its end.
pub(crate) fn without_zeros(number: &str) -> &str {
    number.trim_end_matches('0').trim_end_matches('.')
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

/// Returns the number that decides on the form of "times" beside a ratio: one with decimals takes the form of two in
/// Russian.
pub fn times_form(ratio: f64) -> u64 {
    match ratio {
        r if r < 100.0 => 2,
        r => r.round() as u64,
    }
}

/// Ratio of the ends of an interval above which it says too little to be shown: the rounds are too few.
const WIDEST: f64 = 3.0;

/// Largest width of an interval of equal repeats, as a part of its ends: those of virtual time differ by single packets.
const EQUAL: f64 = 1e-4;

/// Whether an interval is that of repeats without a spread: it shows that they did not vary, and is no estimate of
/// how much they could.
#[must_use]
pub fn is_of_equals([low, high]: [f64; 2]) -> bool {
    high - low <= EQUAL * low.abs().min(high.abs())
}

/// Whether the interval of a ratio says enough to be shown.
#[must_use]
pub fn is_narrow([low, high]: [f64; 2]) -> bool {
    high <= WIDEST * low
}

/// Formats an estimate and the ends of its interval with the same decimals: two digits of the interval's width, and as
/// many as it takes to distinguish its ends from zero. The estimate thus lies in the interval as printed.
#[must_use]
pub fn with_interval(estimate: f64, ends: [f64; 2]) -> [String; 3] {
    with_decimals(estimate, ends, 9)
}

/// Formats an estimate and its interval as [`with_interval`] does, with `most` decimals at most.
fn with_decimals(estimate: f64, ends: [f64; 2], most: usize) -> [String; 3] {
    let digits = |of: f64, count: f64| match of > 0.0 && of.is_finite() {
        true => (count - 1.0 - of.log10().floor()).clamp(0.0, 9.0) as usize,
        false => 0,
    };
    let least = ends.into_iter().map(f64::abs).filter(|end| *end > 0.0);
    let decimals = digits((ends[1] - ends[0]).abs(), 2.0)
        .max(least.map(|end| digits(end, 1.0)).max().unwrap_or(0));
    let decimals = match ends[0] == ends[1] {
        true => digits(estimate.abs(), 3.0),
        false => decimals,
    };
    let decimals = decimals.min(most);
    [estimate, ends[0], ends[1]].map(|value| {
        let text = format!("{:.decimals$}", value.abs());
        let is_zero = !text.contains(|digit| ('1'..='9').contains(&digit));
        let sign = if value < 0.0 && !is_zero { "−" } else { "" };
        decimal(format!("{sign}{text}"))
    })
}

/// Formats the lower end of an interval of a ratio, rounded down to two digits: `2.8`, `15`.
pub fn at_least(low: f64) -> String {
    let unit = if low < 10.0 { 10.0 } else { 1.0 };
    two_digits((low * unit).floor() / unit)
}

/// Change in per cent below which an interval is shown as none: of constant values in virtual time.
const NEGLIGIBLE_PERCENT: f64 = 0.001;

/// Formats how far one side is ahead of another by their ratio with its interval: `2.20 % [2.00, 2.40]`, from a factor of two
/// on `3.6 × [3.1, 4.2]`. An interval that is narrower than the digits is left out; of one that is too wide, only the end that is
/// nearer to no difference is shown, if it is a factor of two away.
#[must_use]
pub fn ahead(ratio: f64, interval: Option<[f64; 2]>) -> String {
    let Some(ends) = interval else {
        return tr!("too few rounds");
    };
    if !is_narrow(ends) {
        return match ends {
            [low, _] if low >= 2.0 => format!("> {} ×", at_least(low)),
            _ => tr!("too few rounds"),
        };
    }
    let (unit, value, ends) = match ratio < 2.0 {
        true => {
            let change = |ratio: f64| (ratio - 1.0) * 100.0;
            ("%", change(ratio), ends.map(change))
        }
        false => ("×", ratio, ends),
    };
    if unit == "%" && ends.iter().all(|end| end.abs() < NEGLIGIBLE_PERCENT) {
        return "0 %".to_owned();
    }
    let most = if value.abs() < 10.0 { 2 } else { 1 };
    let [value, low, high] = with_decimals(value, ends, most);
    match low == high {
        true => format!("{value} {unit}"),
        false => format!("{value} {unit} [{low}, {high}]"),
    }
}

/// Formats a positive number with two significant digits, and whole from 10 on: `0.89`, `2.2`, `51`, `132`.
#[must_use]
pub fn two_digits(value: f64) -> String {
    let decimals = match value > 0.0 {
        true => (1.0 - value.log10().floor()).clamp(0.0, 9.0) as usize,
        false => 0,
    };
    decimal(format!("{value:.decimals$}"))
}

/// Formats a share in per cent without a sign or zeros at its end: `3 %`.
#[must_use]
pub fn percent(share: f64) -> String {
    format!(
        "{} %",
        decimal(without_zeros(&format!("{:.2}", share * 100.0)).to_owned())
    )
}

/// Formats how far a ratio above 1 is from no difference: `2.2 %`, from a factor of two on `3.6 times`.
#[must_use]
pub fn difference(ratio: f64) -> String {
    match ratio < 2.0 {
        true => format!("{} %", number((ratio - 1.0) * 100.0)),
        false => tr!("{} times", ratio_number(ratio)),
    }
}

/// Formats the end of an interval of a ratio by `text`; beyond a thousandfold as `> 1000` or `< 0.001`.
#[must_use]
pub fn ratio_end(ratio: f64, text: impl Fn(f64) -> String) -> String {
    match ratio {
        r if r > FURTHEST => "> 1000".to_owned(),
        r if r < 1.0 / FURTHEST => decimal("< 0.001".to_owned()),
        r => text(r),
    }
}

/// Formats a change as a signed percentage, with a real minus sign: `−9.8 %`, `+12.5 %`. What is beyond a
/// thousandfold reads `> +100000 %` or `< −99.9 %`.
#[must_use]
pub fn signed_percent(change: f64) -> String {
    if !change.is_finite() {
        return "–".to_owned();
    }
    format!("{} %", signed(change))
}

/// Formats a change in per cent as [`signed_percent`] does, without the unit.
#[must_use]
pub fn signed(change: f64) -> String {
    let percent = change * 100.0;
    match percent {
        p if !p.is_finite() => "–".to_owned(),
        p if p > FURTHEST * 100.0 => "> +100000".to_owned(),
        p if p < 100.0 / FURTHEST - 100.0 => format!("< −{}", decimal("99.9".to_owned())),
        p if p < 0.0 => format!("−{}", number(-p)),
        p => format!("+{}", number(p)),
    }
}

/// Formats a p-value: three decimals, or `< 0.001`.
#[must_use]
pub fn p_value(p: f64) -> String {
    match p {
        p if !p.is_finite() => "–".to_owned(),
        p if p < 0.001 => decimal("< 0.001".to_owned()),
        p => decimal(format!("{p:.3}")),
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
pub fn list(items: impl IntoIterator<Item = impl Display>) -> String {
    let mut items: Vec<String> = items.into_iter().map(|it| it.to_string()).collect();
    match items.pop() {
        Some(last) if !items.is_empty() => tr!("{} and {}", items.join(", "), last),
        last => last.unwrap_or_default(),
    }
}

/// Joins the first items, and counts the others: `a, b and 5 more`.
pub(crate) fn first_of(items: &[String], most: usize) -> String {
    match items.len().saturating_sub(most) {
        0 => list(items),
        more => tr!("{} and {} more", items[..most].join(", "), more),
    }
}

/// Collects values by their keys, in the order in which the keys first occur.
pub(crate) fn grouped<K: PartialEq, V>(
    items: impl IntoIterator<Item = (K, V)>,
) -> Vec<(K, Vec<V>)> {
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    for (key, value) in items {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values.push(value),
            None => groups.push((key, vec![value])),
        }
    }
    groups
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
        assert_eq!(quantity(Unit::PerSecond, 250_000.0), "250000/s");
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
        assert_eq!(list(["a", "b", "c"]), "a, b and c");
        assert_eq!(moment(0), "1970-01-01 00:00:00 UTC");
    }

    #[test]
    fn long_times_have_two_units() {
        let seconds = |s: f64| quantity(Unit::Nanoseconds, s * 1e9);
        assert_eq!(
            [20.0, 119.0, 125.4, 5400.0, 23_400.0].map(seconds),
            ["20.0 s", "119.0 s", "2 min 5 s", "90 min", "6 h 30 min"]
        );
    }

    #[test]
    fn the_values_of_a_sentence_have_one_unit() {
        let formatted = |unit, values: &[f64]| {
            let common_unit = CommonUnit::of(unit, values.iter().copied());
            let formatted = values.iter().map(|value| common_unit.quantity(*value));
            formatted.collect::<Vec<_>>().join(", ")
        };
        let times = |seconds: &[f64]| {
            let ns = Vec::from_iter(seconds.iter().map(|it| it * 1e9));
            formatted(Unit::Nanoseconds, &ns)
        };
        assert_eq!(times(&[9.673, 13.4]), "9.67 s, 13.4 s");
        assert_eq!(times(&[1.8]), "1.80 s");
        assert_eq!(times(&[0.05, 1.8]), "50.0 ms, 1800 ms");
        assert_eq!(times(&[0.0, 0.02]), "0 ms, 20.0 ms");
        assert_eq!(times(&[0.005, 13.4]), "5.00 ms, 13.4 s");
        assert_eq!(times(&[13.4, 125.4]), "13.4 s, 125.4 s");
        assert_eq!(times(&[125.4, 5400.0]), "2 min 5 s, 90 min");
        let rates = |rates: &[f64]| formatted(Unit::BitsPerSecond, rates);
        assert_eq!(rates(&[0.95e6, 91.2e6]), "0.95 Mbit/s, 91.2 Mbit/s");
        assert_eq!(rates(&[95e6, 1.2e9]), "95.0 Mbit/s, 1200 Mbit/s");
        assert_eq!(formatted(Unit::Ratio, &[0.0001, 0.5]), "0.01 %, 50.0 %");
        assert_eq!(formatted(Unit::PerSecond, &[250.0]), "250.0/s");
        assert_eq!(formatted(Unit::Count, &[]), "");
    }

    #[test]
    fn an_estimate_lies_within_its_interval_as_printed() {
        for (estimate, ends, printed) in [
            (1.0096, [1.0043, 1.0146], ["1.010", "1.004", "1.015"]),
            (0.99, [0.986, 0.994], ["0.9900", "0.9860", "0.9940"]),
            (3.12, [2.9, 3.4], ["3.12", "2.90", "3.40"]),
            (94.0, [90.0, 100.0], ["94", "90", "100"]),
            (2.0, [2.0, 2.0], ["2.00", "2.00", "2.00"]),
            (
                1.5,
                [1.499_99, 1.500_01],
                ["1.500000", "1.499990", "1.500010"],
            ),
            // An end that is not zero is not printed as zero.
            (2.1, [0.03, 4.2], ["2.10", "0.03", "4.20"]),
            (-3.0, [-4.5, -1.5], ["−3.0", "−4.5", "−1.5"]),
            (-0.2, [-9.0, 9.0], ["0", "−9", "9"]),
        ] {
            assert_eq!(with_interval(estimate, ends), printed);
        }
    }

    #[test]
    fn two_digits_are_shown_of_a_small_number() {
        let texts = [0.0, 0.0123, 0.888, 2.24, 51.02, 132.4].map(two_digits);
        assert_eq!(texts, ["0", "0.012", "0.89", "2.2", "51", "132"]);
    }

    #[test]
    fn a_lead_is_a_change_or_a_factor() {
        for (ratio, ends, text) in [
            (1.022, [1.02, 1.024], "2.20 % [2.00, 2.40]"),
            (1.2, [1.1, 1.3], "20 % [10, 30]"),
            (1.05, [0.98, 1.12], "5 % [−2, 12]"),
            (1.0, [0.999_999, 1.000_001], "0 %"),
            (1.321_95, [1.321_94, 1.321_96], "32.2 %"),
            (3.6, [3.1, 4.2], "3.6 × [3.1, 4.2]"),
            (1.1, [0.2, 4.0], "too few rounds"),
            (30.0, [15.97, 900.0], "> 15 ×"),
        ] {
            assert_eq!(ahead(ratio, Some(ends)), text);
        }
        assert_eq!(ahead(1.0, None), "too few rounds");
    }

    #[test]
    fn ends_beyond_a_thousandfold_are_no_numbers() {
        assert_eq!(signed_percent(-1.0 + 1e-250), "< −99.9 %");
        assert_eq!(signed(1e250), "> +100000");
        assert_eq!(signed(0.125), "+12.5");
        let end = |ratio: f64| ratio_end(ratio, ratio_number);
        assert_eq!(
            [1e-267, 0.5, 1000.0, 1e267].map(end),
            ["< 0.001", "0.50", "1000", "> 1000"]
        );
        let scale = Scale::for_largest(Unit::BitsPerSecond, 5e6);
        assert_eq!(scale.ends(5e6, [4.9e6, 5.1e6]), ["4.90", "5.10"]);
        assert_eq!(scale.ends(5e6, [1e-267, 1e267]), ["< 0.005", "> 5000"]);
        assert_eq!(scale.ends(26.8e6, [1e3, 1e12]), ["< 0.03", "> 20000"]);
        assert_eq!(scale.ends(0.0, [0.0, 1e6]), ["0", "1.00"]);
    }
}
