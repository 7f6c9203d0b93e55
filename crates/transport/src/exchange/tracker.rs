//! Tracker of requests and responses: decides when requests leave and when they are given up. It
//! uses no clock and no transport.

use std::{collections::VecDeque, time::Duration};

use regatta_model::Arrivals;

use crate::{
    clock::MonotonicTime, content::BitSet, timeout::RetransmissionTimeout,
    trial::distribution::Distribution,
};

/// The rules by which requests leave and are given up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rules {
    /// Number of requests.
    pub count: u64,
    /// Departures of the requests: at a rate, or whenever fewer than a number are outstanding.
    pub arrivals: Arrivals,
    /// Time after which a request without an answer is given up; `None` where an answer cannot be
    /// lost.
    pub patience: Option<RetransmissionTimeout>,
    /// Minimum time between departures.
    pub gap: Duration,
}

/// A request that waits for its answer.
#[derive(Debug, Clone, Copy)]
struct Departure {
    /// Moment from which the delay counts.
    counted_from: MonotonicTime,
    /// Moment of departure.
    left: MonotonicTime,
}

/// Kind of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answered {
    /// First answer to its request, in time.
    InTime,
    /// First answer to its request, after the request was given up.
    Late,
    /// Answer to a request that has one already, or to none.
    Stray,
}

/// The requests of one trial.
#[derive(Debug)]
pub(crate) struct RequestTracker {
    rules: Rules,
    begun: MonotonicTime,
    /// Number of requests that have left.
    pub sent: u64,
    /// Requests from the oldest that waits on, in order of departure; `None` for one that waits no
    /// longer.
    waiting: VecDeque<Option<Departure>>,
    /// Number of requests that wait for their answer.
    pub unanswered: u64,
    answered: BitSet,
    /// Delays of the answers in time.
    pub delays: Distribution,
    /// Number of answers that came after their request was given up.
    pub late: u64,
    /// Number of requests that were given up.
    pub given_up: u64,
    /// Departure of the first request.
    first: Option<Departure>,
    last_left: MonotonicTime,
    last_answer: MonotonicTime,
}

impl RequestTracker {
    /// Makes a tracker of requests none of which has left; the schedule begins at `begun`.
    pub(crate) fn new(rules: Rules, begun: MonotonicTime) -> Self {
        Self {
            rules,
            begun,
            sent: 0,
            waiting: VecDeque::new(),
            unanswered: 0,
            answered: BitSet::default(),
            delays: Distribution::default(),
            late: 0,
            given_up: 0,
            first: None,
            last_left: begun,
            last_answer: begun,
        }
    }

    /// Returns the moment at which request `number` is due at `requests_per_second`.
    fn scheduled(&self, number: u64, requests_per_second: f64) -> MonotonicTime {
        self.begun + Duration::from_nanos((number as f64 * 1e9 / requests_per_second) as u64)
    }

    /// Returns the earliest departure of the next request that keeps its distance from the one
    /// before.
    fn spaced(&self) -> MonotonicTime {
        if self.sent == 0 {
            self.begun
        } else {
            self.last_left + self.rules.gap
        }
    }

    /// Returns the number of requests that may leave at `now`, capped at `most`.
    pub(crate) fn due(&self, now: MonotonicTime, most: u64) -> u64 {
        let mut most = most.min(self.rules.count - self.sent);
        if !self.rules.gap.is_zero() {
            most = most.min(u64::from(self.spaced() <= now));
        }
        match self.rules.arrivals {
            Arrivals::Closed { outstanding } => {
                most.min(u64::from(outstanding).saturating_sub(self.unanswered))
            }
            Arrivals::Open {
                requests_per_second,
            } => (0..most)
                .take_while(|ahead| self.scheduled(self.sent + ahead, requests_per_second) <= now)
                .count() as u64,
        }
    }

    /// Returns the moment at which the next request may leave, if no answer comes first.
    pub(crate) fn next_due(&self) -> MonotonicTime {
        if self.sent == self.rules.count {
            return MonotonicTime::NEVER;
        }
        match self.rules.arrivals {
            Arrivals::Closed { outstanding } if self.unanswered >= u64::from(outstanding) => {
                MonotonicTime::NEVER
            }
            Arrivals::Closed { .. } => self.spaced(),
            Arrivals::Open {
                requests_per_second,
            } => {
                let scheduled = self.scheduled(self.sent, requests_per_second);
                if self.rules.gap.is_zero() {
                    scheduled
                } else {
                    scheduled.max(self.spaced())
                }
            }
        }
    }

    /// Returns the earliest departure that the rules allow the next request, if the others are answered: after those
    /// before, and not before its time in the schedule.
    pub(crate) fn earliest(&self) -> MonotonicTime {
        let before = self.last_left;
        match self.rules.arrivals {
            Arrivals::Closed { .. } => before,
            Arrivals::Open {
                requests_per_second,
            } => before.max(self.scheduled(self.sent, requests_per_second)),
        }
    }

    /// Whether the next request was due by its schedule before `moment`, if there is a schedule.
    pub(crate) fn is_due_before(&self, moment: MonotonicTime) -> bool {
        match self.rules.arrivals {
            Arrivals::Closed { .. } => false,
            Arrivals::Open {
                requests_per_second,
            } => self.scheduled(self.sent, requests_per_second) < moment,
        }
    }

    /// Notes that the next request leaves; returns its number.
    pub(crate) fn depart(&mut self, now: MonotonicTime) -> u64 {
        let number = self.sent;
        let counted_from = match self.rules.arrivals {
            Arrivals::Closed { .. } => now,
            Arrivals::Open {
                requests_per_second,
            } => self.scheduled(number, requests_per_second),
        };
        let departure = Departure {
            counted_from,
            left: now,
        };
        self.first.get_or_insert(departure);
        self.last_left = now;
        self.sent += 1;
        self.unanswered += 1;
        self.waiting.push_back(Some(departure));
        number
    }

    /// Notes an answer to request `number`; returns its kind.
    pub(crate) fn answer(&mut self, number: u64, now: MonotonicTime) -> Answered {
        if number >= self.sent || !self.answered.mark(number) {
            return Answered::Stray;
        }
        self.last_answer = now;
        let oldest = self.sent - self.waiting.len() as u64;
        let slot = number
            .checked_sub(oldest)
            .and_then(|index| self.waiting.get_mut(usize::try_from(index).ok()?));
        let Some(departure) = slot.and_then(Option::take) else {
            self.late += 1;
            return Answered::Late;
        };
        self.unanswered -= 1;
        self.delays.add(departure.counted_from, now);
        if let Some(patience) = &mut self.rules.patience {
            let round_trip = u64::try_from(now - departure.left).unwrap_or(0);
            patience.answered(Duration::from_nanos(round_trip));
        }
        self.forget_answered();
        Answered::InTime
    }

    /// Returns the moment at which the oldest request that waits is given up.
    pub(crate) fn next_given_up(&self) -> MonotonicTime {
        match (&self.rules.patience, self.waiting.front()) {
            (Some(patience), Some(Some(oldest))) => oldest.left + patience.get(),
            _ => MonotonicTime::NEVER,
        }
    }

    /// Gives up the requests that have waited too long at `now`.
    pub(crate) fn give_up(&mut self, now: MonotonicTime) {
        while let (Some(patience), Some(Some(oldest))) =
            (&mut self.rules.patience, self.waiting.front())
            && oldest.left + patience.get() <= now
        {
            patience.lost(oldest.left, now);
            self.waiting.pop_front();
            self.unanswered -= 1;
            self.given_up += 1;
            self.forget_answered();
        }
    }

    /// Forgets the oldest requests that wait no longer.
    fn forget_answered(&mut self) {
        while let Some(None) = self.waiting.front() {
            self.waiting.pop_front();
        }
    }

    /// Whether all requests have left and none waits.
    pub(crate) const fn is_over(&self) -> bool {
        self.sent == self.rules.count && self.unanswered == 0
    }

    /// Returns the answers in time over the time from the first departure, as counted, to the last
    /// answer.
    pub(crate) fn answers_per_second(&self) -> Option<f64> {
        let span = self.last_answer - self.first?.counted_from;
        Some(if span > 0 {
            self.delays.len() as f64 * 1e9 / span as f64
        } else {
            0.0
        })
    }

    /// Returns the rate of departures over the configured one; `None` without one, and
    /// for a single departure.
    pub(crate) fn rate_ratio(&self) -> Option<f64> {
        let Arrivals::Open {
            requests_per_second,
        } = self.rules.arrivals
        else {
            return None;
        };
        let span = self.last_left - self.first?.left;
        (self.sent > 1 && span > 0)
            .then(|| (self.sent - 1) as f64 * 1e9 / requests_per_second / span as f64)
    }
}

#[cfg(test)]
mod tests {
    use regatta_model::metric::DelayMetrics;

    use super::*;

    const MS: i64 = 1_000_000;

    fn at(ms: i64) -> MonotonicTime {
        MonotonicTime(1_000 * MS + ms * MS)
    }

    fn tracker(count: u64, arrivals: Arrivals, patience_ms: Option<u64>) -> RequestTracker {
        let rules = Rules {
            count,
            arrivals,
            patience: patience_ms.map(|ms| {
                let patience = Duration::from_millis(ms);
                RetransmissionTimeout::new(patience, [patience; 2])
            }),
            gap: Duration::ZERO,
        };
        RequestTracker::new(rules, at(0))
    }

    const HUNDRED_A_SECOND: Arrivals = Arrivals::Open {
        requests_per_second: 100.0,
    };

    #[test]
    fn open_loop_keeps_its_schedule_and_includes_waiting_in_delays() {
        let mut tracker = tracker(4, HUNDRED_A_SECOND, None);
        assert_eq!(tracker.due(at(0), 9), 1);
        assert_eq!(tracker.depart(at(0)), 0);
        assert_eq!(tracker.due(at(9), 9), 0);
        assert_eq!(tracker.next_due(), at(10));
        // The transport held the sender up until 25 ms: two are due, and both count from when they
        // were to leave.
        assert_eq!(tracker.due(at(25), 9), 2);
        assert_eq!(tracker.due(at(25), 1), 1);
        tracker.depart(at(25));
        tracker.depart(at(25));
        for number in 0..3 {
            assert_eq!(tracker.answer(number, at(30)), Answered::InTime);
        }
        assert_eq!(tracker.next_due(), at(30));
        tracker.depart(at(30));
        assert_eq!(tracker.next_due(), MonotonicTime::NEVER);
        assert!(!tracker.is_over());
        assert_eq!(tracker.answer(3, at(40)), Answered::InTime);
        assert!(tracker.is_over());
        let mut findings = crate::trial::findings::Findings::default();
        tracker
            .delays
            .report(DelayMetrics::MESSAGE, "sender", &mut findings);
        // 30, 20, 10 and 10 ms.
        assert_eq!(
            findings.0.measurements.metrics["message_delay_mean_ns"],
            17.5e6
        );
        assert_eq!(
            findings.0.measurements.metrics["message_delay_max_ns"],
            30e6
        );
        assert_eq!(tracker.answers_per_second(), Some(100.0));
        assert_eq!(tracker.rate_ratio(), Some(1.0));
    }

    #[test]
    fn delayed_sender_reports_a_rate_below_its_target() {
        let mut tracker = tracker(11, HUNDRED_A_SECOND, None);
        for number in 0..11 {
            tracker.depart(at(number * 20));
        }
        assert_eq!(tracker.rate_ratio(), Some(0.5));
    }

    #[test]
    fn closed_loop_limits_outstanding_requests() {
        let mut tracker = tracker(4, Arrivals::Closed { outstanding: 2 }, None);
        assert_eq!(tracker.due(at(0), 9), 2);
        assert_eq!((tracker.depart(at(0)), tracker.depart(at(1))), (0, 1));
        assert_eq!(tracker.due(at(5), 9), 0);
        assert_eq!(tracker.next_due(), MonotonicTime::NEVER);
        // Answers may change their order.
        assert_eq!(tracker.answer(1, at(6)), Answered::InTime);
        assert_eq!(tracker.due(at(6), 9), 1);
        tracker.depart(at(6));
        assert_eq!(tracker.answer(0, at(7)), Answered::InTime);
        tracker.depart(at(7));
        assert_eq!(tracker.due(at(7), 9), 0, "all have left");
        assert!(!tracker.is_over());
        tracker.answer(3, at(8));
        tracker.answer(2, at(9));
        assert!(tracker.is_over());
        assert_eq!(tracker.rate_ratio(), None);
        assert_eq!(tracker.next_given_up(), MonotonicTime::NEVER);
    }

    #[test]
    fn late_and_stray_answers_are_distinguished_and_not_counted() {
        let mut tracker = tracker(3, Arrivals::Closed { outstanding: 1 }, Some(100));
        tracker.depart(at(0));
        assert_eq!(tracker.next_given_up(), at(100));
        tracker.give_up(at(99));
        assert_eq!((tracker.given_up, tracker.due(at(99), 9)), (0, 0));
        tracker.give_up(at(100));
        assert_eq!((tracker.given_up, tracker.due(at(100), 9)), (1, 1));
        tracker.depart(at(100));
        // The first one's answer must not be taken for the second one's.
        assert_eq!(tracker.answer(0, at(120)), Answered::Late);
        assert_eq!(tracker.unanswered, 1);
        assert_eq!(tracker.answer(0, at(121)), Answered::Stray);
        assert_eq!(tracker.answer(7, at(122)), Answered::Stray);
        assert_eq!(tracker.answer(1, at(130)), Answered::InTime);
        tracker.depart(at(130));
        tracker.give_up(at(230));
        assert!(tracker.is_over());
        assert_eq!((tracker.late, tracker.given_up), (1, 2));
        assert_eq!(tracker.delays.len(), 1);
    }

    #[test]
    fn requests_time_out_in_order_skipping_answered_ones() {
        let mut tracker = tracker(4, HUNDRED_A_SECOND, Some(50));
        for number in 0..4 {
            tracker.depart(at(number * 10));
        }
        tracker.answer(1, at(35));
        assert_eq!(tracker.next_given_up(), at(50));
        tracker.give_up(at(65));
        assert_eq!((tracker.given_up, tracker.unanswered), (1, 2));
        assert_eq!(tracker.next_given_up(), at(70));
        tracker.answer(2, at(66));
        assert_eq!(tracker.next_given_up(), at(80));
    }

    #[test]
    fn gap_spaces_departures() {
        let rules = Rules {
            count: 3,
            arrivals: Arrivals::Closed { outstanding: 3 },
            patience: None,
            gap: Duration::from_millis(5),
        };
        let mut tracker = RequestTracker::new(rules, at(0));
        assert_eq!(tracker.due(at(0), 9), 1);
        tracker.depart(at(0));
        assert_eq!(tracker.due(at(4), 9), 0);
        assert_eq!(tracker.next_due(), at(5));
        assert_eq!(tracker.due(at(5), 9), 1);
    }
}
