//! Retransmission time-out of RFC 6298, for messages that may be lost.

use std::time::Duration;

use regatta_control::PathHints;

use crate::clock::MonotonicTime;

/// Least and first time that an answer is waited for where a study gives none (RFC 6298 §2.1 and §2.4): over a path of
/// any delay, no application that is there takes longer.
const MIN_PATIENCE: Duration = Duration::from_secs(1);

/// Time after which a message without an answer is taken to be lost: estimated from the round trips so far, doubled
/// after each loss until the next answer, and within bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RetransmissionTimeout {
    /// Time-out without losses: of the round trips so far, or the first one.
    estimated: Duration,
    /// Smoothed round trip and its mean deviation; absent before the first answer.
    smoothed: Option<[Duration; 2]>,
    /// Doublings since the last answer.
    doublings: u32,
    /// Moment of the last doubling: what left before it costs no further one.
    doubled_at: Option<MonotonicTime>,
    least: Duration,
    most: Duration,
}

impl RetransmissionTimeout {
    /// Makes a time-out that begins with `first` and stays between `least` and `most`.
    pub(crate) fn new(first: Duration, [least, most]: [Duration; 2]) -> Self {
        Self {
            estimated: first,
            smoothed: None,
            doublings: 0,
            doubled_at: None,
            least,
            most: most.max(least),
        }
    }

    /// Makes the time-out of messages that the other end's application answers, where a study gives none.
    pub(crate) fn of_applications(path: &PathHints) -> Self {
        let bounds = [MIN_PATIENCE, path.longest_round_trip()];
        Self::new(path.first_timeout(), bounds)
    }

    /// Whether the time-out never changes.
    pub(crate) fn is_fixed(&self) -> bool {
        self.least == self.most
    }

    /// Returns the time-out as it is now.
    pub(crate) fn get(&self) -> Duration {
        let doubled = 1u32.checked_shl(self.doublings).unwrap_or(u32::MAX);
        self.estimated
            .saturating_mul(doubled)
            .clamp(self.least, self.most)
    }

    /// Notes the round trip of a message that was sent once (RFC 6298 §2.2 and §2.3).
    pub(crate) fn answered(&mut self, round_trip: Duration) {
        let [mean, deviation] = match self.smoothed {
            None => [round_trip, round_trip / 2],
            Some([mean, deviation]) => [
                mean * 7 / 8 + round_trip / 8,
                deviation * 3 / 4 + mean.abs_diff(round_trip) / 4,
            ],
        };
        self.smoothed = Some([mean, deviation]);
        self.estimated = mean + 4 * deviation;
        self.doublings = 0;
    }

    /// Notes at `now` that a message which left at `left` is taken to be lost (RFC 6298 §5.5).
    pub(crate) fn lost(&mut self, left: MonotonicTime, now: MonotonicTime) {
        if self.doubled_at.is_none_or(|at| left >= at) {
            self.doublings = self.doublings.saturating_add(1);
            self.doubled_at = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn the_timeout_follows_round_trips_and_doubles_with_each_loss() {
        let mut timeout = RetransmissionTimeout::new(ms(300), [ms(25), ms(2000)]);
        assert_eq!(timeout.get(), ms(300));
        timeout.answered(ms(100));
        assert_eq!(timeout.get(), ms(100 + 4 * 50));
        timeout.answered(ms(180));
        // Mean 110, deviation 37.5 + 20.
        assert_eq!(timeout.get(), ms(340));
        let at = |milliseconds: i64| MonotonicTime(milliseconds * 1_000_000);
        timeout.lost(at(0), at(340));
        assert_eq!(timeout.get(), ms(680));
        // It left before the first doubling.
        timeout.lost(at(10), at(700));
        assert_eq!(timeout.get(), ms(680));
        for left in [1000, 2000, 4000] {
            timeout.lost(at(left), at(left + 900));
        }
        assert_eq!(timeout.get(), ms(2000));
        timeout.answered(ms(110));
        assert!(timeout.get() < ms(400), "{:?}", timeout.get());
    }

    #[test]
    fn a_fixed_timeout_does_not_change() {
        let mut timeout = RetransmissionTimeout::new(ms(50), [ms(50); 2]);
        timeout.answered(ms(900));
        timeout.lost(MonotonicTime(0), MonotonicTime(1));
        assert_eq!(timeout.get(), ms(50));
    }
}
