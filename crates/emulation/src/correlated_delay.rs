//! Random number that changes steadily in time, for a correlated delay.

use crate::rng::{LinkRng, Purpose};

/// Random number as a function of time: at any moment a whole number, all of 64 bits equally
/// likely, that moves steadily and is independent of its value one span before and earlier.
///
/// At each multiple of the span there is a draw, independent of the others, on a circle of 2^64
/// positions. Between two of them the number moves evenly along the shorter arc, and the circle is
/// folded upon a half of it, so that its ends meet. As the first draw and the way to the next are
/// independent, the position is equally likely anywhere at every moment, and so is the number: it
/// moves by the whole of its range in one span at most.
#[derive(Debug, Clone)]
pub(crate) struct CorrelatedDelay {
    span: u64,
    /// Time of the first draw, in nanoseconds.
    begun: u64,
    seed: (u64, u64),
    /// Draws that belong to earlier settings.
    skipped: u64,
    draws: LinkRng,
    /// Number of the span that lies between the two `endpoints`.
    number: u64,
    endpoints: [u64; 2],
}

impl CorrelatedDelay {
    /// Creates a number that begins at `now`, for the direction `seed.1`, with other draws than those of
    /// `before`.
    pub(crate) fn after(before: Option<&Self>, span: u64, now: u64, seed: (u64, u64)) -> Self {
        let skipped = before.map_or(0, |before| before.skipped + before.number + 2);
        let mut correlated_delay = Self {
            span: span.max(1),
            begun: now,
            seed,
            skipped,
            draws: LinkRng::new(seed, Purpose::Jitter, skipped),
            number: 0,
            endpoints: [0; 2],
        };
        correlated_delay.seek(0);
        correlated_delay
    }

    fn seek(&mut self, number: u64) {
        self.draws = LinkRng::new(self.seed, Purpose::Jitter, self.skipped + number);
        self.endpoints = [self.draws.next(), self.draws.next()];
        self.number = number;
    }

    /// Returns the number at `now`. Times may not go back by more than the span under way.
    #[inline]
    pub(crate) fn at(&mut self, now: u64) -> u64 {
        let since = now.saturating_sub(self.begun);
        let number = since / self.span;
        if number == self.number + 1 {
            self.endpoints = [self.endpoints[1], self.draws.next()];
            self.number = number;
        } else if number > self.number {
            self.seek(number);
        }
        let [from, to] = self.endpoints;
        let distance = i128::from(to.wrapping_sub(from).cast_signed());
        let part = since.saturating_sub(self.number * self.span).min(self.span);
        let moved = distance * i128::from(part) / i128::from(self.span);
        let position = from.wrapping_add_signed(moved as i64);
        // The second half of the circle returns through the same values.
        let reflected = if position < 1 << 63 {
            position
        } else {
            !position
        };
        reflected << 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: u64 = 1_000;

    fn unit(draw: u64) -> f64 {
        draw as f64 / 2f64.powi(64)
    }

    #[test]
    fn values_are_uniform_and_independent_after_a_span() {
        // 40 000 spans with the phase of a quarter, and pairs that lie one span apart. The mean of
        // independent even numbers has the deviation 0.289/200 = 0.0014; four of them are passed by
        // chance once in 16 000 seeds, and the seed is fixed.
        for phase in [0, 250, 500, 999] {
            let mut correlated_delay = CorrelatedDelay::after(None, SPAN, 77, (5, 1));
            let values: Vec<f64> = (0..40_000)
                .map(|span| unit(correlated_delay.at(77 + span * SPAN + phase)))
                .collect();
            let n = values.len() as f64;
            let mean = values.iter().sum::<f64>() / n;
            let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
            let next = values.windows(2).map(|w| (w[0] - mean) * (w[1] - mean));
            let correlation = next.sum::<f64>() / n / variance;
            assert!((mean - 0.5).abs() < 0.006, "{phase}: {mean}");
            assert!((variance * 12.0 - 1.0).abs() < 0.02, "{phase}: {variance}");
            assert!(correlation.abs() < 0.02 || phase != 0, "{correlation}");
            let below = values.iter().filter(|x| **x < 0.1).count() as f64 / n;
            assert!((below - 0.1).abs() < 0.006, "{phase}: {below}");
        }
    }

    #[test]
    fn values_change_by_at_most_their_range_in_a_span() {
        let mut correlated_delay = CorrelatedDelay::after(None, SPAN, 0, (6, 0));
        let mut last = unit(correlated_delay.at(0));
        for now in 1..200_000 {
            let value = unit(correlated_delay.at(now));
            assert!((value - last).abs() <= 1.0001 / SPAN as f64, "at {now}");
            last = value;
        }
    }

    /// The fold of the circle: half way round is the largest number.
    #[test]
    fn the_circle_is_folded_at_its_half() {
        let at = |position| {
            let begun = CorrelatedDelay::after(None, SPAN, 0, (7, 0));
            let mut there = CorrelatedDelay {
                endpoints: [position; 2],
                ..begun
            };
            there.at(0)
        };
        assert_eq!(at(0), 0);
        assert_eq!(at((1 << 63) - 1), u64::MAX - 1);
        assert_eq!(at(1 << 63), u64::MAX - 1);
        assert_eq!(at(u64::MAX), 0);
    }

    /// The spans 0 to 5 have used the draws 0 to 6, the next settings those from 7 on.
    #[test]
    fn other_settings_take_draws_that_were_not_used() {
        let draws =
            |first| [first, first + 1].map(|n| LinkRng::new((7, 0), Purpose::Jitter, n).next());
        let mut first = CorrelatedDelay::after(None, SPAN, 0, (7, 0));
        first.at(5 * SPAN);
        assert_eq!(first.endpoints, draws(5));
        let mut second = CorrelatedDelay::after(Some(&first), SPAN, 0, (7, 0));
        assert_eq!(second.endpoints, draws(7));
        second.at(3 * SPAN);
        let third = CorrelatedDelay::after(Some(&second), SPAN, 0, (7, 0));
        assert_eq!(third.endpoints, draws(12));
    }

    #[test]
    fn values_do_not_depend_on_earlier_calls() {
        let moments = [0, 10, 999, 1000, 2500, 2501, 90_000, 1 << 50];
        let sequential: Vec<u64> = {
            let mut correlated_delay = CorrelatedDelay::after(None, SPAN, 0, (7, 0));
            moments
                .iter()
                .map(|now| correlated_delay.at(*now))
                .collect()
        };
        for (now, value) in moments.iter().zip(sequential) {
            assert_eq!(
                CorrelatedDelay::after(None, SPAN, 0, (7, 0)).at(*now),
                value
            );
        }
    }
}
