//! Wording of the margin by which one transport is faster than another.

use crate::{
    format::{at_least, is_narrow, is_of_equals, percent, times_form, two_digits, with_interval},
    language::{plural, tr},
};

/// Ratio of two rates or times with its interval; above 1 the first is faster.
#[derive(Debug, Clone, Copy)]
pub struct Margin {
    /// The ratio.
    pub ratio: f64,
    /// Interval by which the claim was decided.
    pub interval: [f64; 2],
}

impl Margin {
    /// Describes the margin without its interval, for a headline.
    pub fn headline(self, other: &str) -> String {
        if !is_narrow(self.interval) {
            return self.at_least(other);
        }
        match self.ratio >= 2.0 {
            true => times_as_fast(self.ratio, &two_digits(self.ratio), other),
            false => {
                let by = two_digits((self.ratio - 1.0) * 100.0);
                tr!("{} % faster than `{}`", by, other)
            }
        }
    }

    /// Describes a margin whose interval is too wide: the end that is nearer to no difference, if it is a factor of two away.
    fn at_least(self, other: &str) -> String {
        match self.interval {
            [low, _] if low >= 2.0 => plural!(
                times_form(low),
                "at least {1} times as fast as `{2}`",
                "at least {1} times as fast as `{2}`",
                at_least(low),
                other
            ),
            [_, high] if high <= 0.5 => tr!(
                "slower than `{}` by a factor of at least {}",
                other,
                at_least(1.0 / high)
            ),
            [_, high] if high < 1.0 => tr!("slower than `{}`", other),
            _ => tr!("faster than `{}`", other),
        }
    }

    /// Describes the margin: `2.2 % faster than` and its interval, from a factor of two on `3.6 times as fast as`. Where
    /// the interval lies within `equivalence`, a ratio less 1, that is said. Of an interval that is too wide, which a claim
    /// of few rounds has, the end that is nearer to no difference is shown.
    pub fn than(self, other: &str, rounds: u64, equivalence: f64) -> String {
        let [low, high] = self.interval;
        if !is_narrow(self.interval) {
            return tr!(
                "{} ({} rounds, too few to say more)",
                self.at_least(other),
                rounds
            );
        }
        if is_of_equals(self.interval) {
            let margin = match self.ratio < 1.0 {
                true => {
                    let by = two_digits((1.0 - self.ratio) * 100.0);
                    tr!("{} % slower than `{}`", by, other)
                }
                false => self.headline(other),
            };
            return tr!("{} (equal in all {} rounds)", margin, rounds);
        }
        if self.ratio >= 2.0 {
            let [ratio, low, high] = with_interval(self.ratio, self.interval);
            let text = times_as_fast(self.ratio, &ratio, other);
            return tr!("{} (interval {} to {}, {} rounds)", text, low, high, rounds);
        }
        let within = match high <= 1.0 + equivalence && low * (1.0 + equivalence) >= 1.0 {
            true => tr!(", less than {}", percent(equivalence)),
            false => String::new(),
        };
        let change = |ratio: f64| (ratio - 1.0) * 100.0;
        if self.ratio >= 1.0 {
            let [by, low, high] = with_interval(change(self.ratio), self.interval.map(change));
            return tr!(
                "{} % faster than `{}` (interval {} to {} %, {} rounds{})",
                by,
                other,
                low,
                high,
                rounds,
                within
            );
        }
        let slower = |ratio: f64| -change(ratio);
        let [by, low, high] = with_interval(slower(self.ratio), [slower(high), slower(low)]);
        tr!(
            "{} % slower than `{}` (interval {} to {} %, {} rounds{})",
            by,
            other,
            low,
            high,
            rounds,
            within
        )
    }
}

/// Describes a ratio of two or more, of which `shown` is the text.
fn times_as_fast(ratio: f64, shown: &str, other: &str) -> String {
    plural!(
        times_form(ratio),
        "{1} times as fast as `{2}`",
        "{1} times as fast as `{2}`",
        shown,
        other
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_margin_is_a_percentage_below_a_factor_of_two() {
        let cases = [
            (
                1.022,
                [1.0198, 1.0242],
                "2.20 % faster than `b` (interval 1.98 to 2.42 %, 5 rounds, less than 3 %)",
            ),
            (
                1.0065,
                [1.0062, 1.0068],
                "0.650 % faster than `b` (interval 0.620 to 0.680 %, 5 rounds, less than 3 %)",
            ),
            (
                1.5,
                [1.3, 1.7],
                "50 % faster than `b` (interval 30 to 70 %, 5 rounds)",
            ),
            (
                3.6,
                [3.1, 4.2],
                "3.6 times as fast as `b` (interval 3.1 to 4.2, 5 rounds)",
            ),
            (
                0.95,
                [0.9, 1.001],
                "5.00 % slower than `b` (interval −0.10 to 10.00 %, 5 rounds)",
            ),
            (
                29.0,
                [12.0, 70.0],
                "at least 12 times as fast as `b` (5 rounds, too few to say more)",
            ),
            (
                4.0,
                [1.1, 14.0],
                "faster than `b` (5 rounds, too few to say more)",
            ),
            (
                0.035,
                [0.012, 0.102],
                "slower than `b` by a factor of at least 9.8 (5 rounds, too few to say more)",
            ),
            (
                0.3,
                [0.1, 0.9],
                "slower than `b` (5 rounds, too few to say more)",
            ),
            (
                2.0,
                [1.9, 2.1],
                "2.00 times as fast as `b` (interval 1.90 to 2.10, 5 rounds)",
            ),
            (
                1.0,
                [0.98, 1.03],
                "0.0 % faster than `b` (interval −2.0 to 3.0 %, 5 rounds, less than 3 %)",
            ),
            (
                0.99,
                [0.98, 1.0],
                "1.0 % slower than `b` (interval 0.0 to 2.0 %, 5 rounds, less than 3 %)",
            ),
        ];
        for (ratio, interval, text) in cases {
            assert_eq!(Margin { ratio, interval }.than("b", 5, 0.03), text);
        }
    }

    /// As in virtual time: an interval of some millionths would look like an estimate.
    #[test]
    fn a_margin_of_equal_repeats_has_no_interval() {
        let margin = |ratio: f64, width: f64| {
            let interval = [ratio - width, ratio + width];
            Margin { ratio, interval }.than("b", 5, 0.03)
        };
        let equal = "22 % faster than `b` (equal in all 5 rounds)";
        assert_eq!(margin(1.22, 0.0), equal);
        let slower = "5.0 % slower than `b` (equal in all 5 rounds)";
        assert_eq!(margin(0.95, 0.0), slower);
        assert_eq!(margin(1.22, 2e-5), equal);
        assert!(margin(1.22, 2e-4).contains("interval"));
        let times = "3.6 times as fast as `b` (equal in all 5 rounds)";
        assert_eq!(margin(3.6, 0.0), times);
    }

    #[test]
    fn a_headline_has_two_digits_and_no_interval() {
        for (ratio, interval, text) in [
            (1.022, [1.02, 1.024], "2.2 % faster than `b`"),
            (1.99, [1.9, 2.1], "99 % faster than `b`"),
            (2.0, [1.9, 2.1], "2.0 times as fast as `b`"),
            (29.0, [12.0, 70.0], "at least 12 times as fast as `b`"),
            (6.0, [2.0, 40.0], "at least 2.0 times as fast as `b`"),
            (6.0, [1.9, 40.0], "faster than `b`"),
        ] {
            assert_eq!(Margin { ratio, interval }.headline("b"), text);
        }
    }
}
