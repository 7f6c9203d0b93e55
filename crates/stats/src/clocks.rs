//! Offset between the clocks of two hosts, bounded by exchanges of messages.
//!
//! A message that leaves host a when a's clock shows `x` and arrives at host b when b's clock shows `y` bounds the
//! offset of b's clock against a's from above: it is at most `y - x`, as no message arrives before it was sent. A
//! message back bounds it from below. Nothing is assumed about the time that messages take, nor that both ways are
//! equally fast.
//!
//! Between exchanges the offset changes by drift. The rates of two clocks are taken to differ by at most
//! [`LARGEST_DRIFT`]; exchanges that contradict this give no bound.

/// Largest difference between the rates of two hosts' clocks: twice the correction of frequency that Linux allows
/// (500 ppm, `MAXFREQ` of adjtimex).
pub const LARGEST_DRIFT: f64 = 1000e-6;

/// Largest bound of the error of a delay, as a share of the delay, with which the delay is still reported.
pub const LARGEST_BOUND_RATIO: f64 = 0.1;

/// Interval in which the offset between two clocks lies, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OffsetInterval {
    /// Lower end.
    pub lowest_ns: f64,
    /// Upper end.
    pub highest_ns: f64,
}

impl OffsetInterval {
    /// Clocks that are one and the same.
    pub const SAME: Self = Self {
        lowest_ns: 0.0,
        highest_ns: 0.0,
    };

    /// Returns the interval that one exchange gives: a message that left host a at `sent_ns`, was at host b from
    /// `arrived_ns` to `answered_ns`, and whose answer reached host a at `received_ns`, each by the host's own clock.
    #[must_use]
    pub fn of_exchange([sent_ns, arrived_ns, answered_ns, received_ns]: [i64; 4]) -> Self {
        Self {
            lowest_ns: answered_ns.saturating_sub(received_ns) as f64,
            highest_ns: arrived_ns.saturating_sub(sent_ns) as f64,
        }
    }

    /// Returns the middle: the offset if the bound is equally far on both sides.
    #[must_use]
    pub fn middle_ns(self) -> f64 {
        f64::midpoint(self.lowest_ns, self.highest_ns)
    }

    /// Returns the largest error of the middle: half of the interval's length.
    #[must_use]
    pub fn bound_ns(self) -> f64 {
        (self.highest_ns - self.lowest_ns) / 2.0
    }

    /// Whether the interval is not empty: bounds that contradict one another leave no offset.
    #[must_use]
    pub fn is_possible(self) -> bool {
        self.lowest_ns <= self.highest_ns
    }

    /// Returns the offsets that lie in both.
    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        Self {
            lowest_ns: self.lowest_ns.max(other.lowest_ns),
            highest_ns: self.highest_ns.min(other.highest_ns),
        }
    }

    /// Returns the offset of host b's clock against host a's. `self` is the offset of b against a third clock, `a` that of
    /// a against the same one; the bounds add up.
    #[must_use]
    pub fn against(self, a: Self) -> Self {
        Self {
            lowest_ns: self.lowest_ns - a.highest_ns,
            highest_ns: self.highest_ns - a.lowest_ns,
        }
    }

    /// Returns the interval that holds `time_ns` later or earlier: wider by the largest drift in that time, which is not
    /// negative.
    #[must_use]
    pub fn after(self, time_ns: f64) -> Self {
        let drift_ns = LARGEST_DRIFT * time_ns.max(0.0);
        Self {
            lowest_ns: self.lowest_ns - drift_ns,
            highest_ns: self.highest_ns + drift_ns,
        }
    }
}

/// Offset at every moment of a span of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OffsetReading {
    /// Beginning and end of the span by one clock, in nanoseconds.
    pub span_ns: [i64; 2],
    /// Interval that holds at every moment of the span.
    pub offset: OffsetInterval,
}

impl OffsetReading {
    /// Combines exchanges made somewhere within a span into an offset that holds throughout; `None` without exchanges.
    #[must_use]
    pub fn of_exchanges(
        span_ns: [i64; 2],
        exchanges: impl IntoIterator<Item = OffsetInterval>,
    ) -> Option<Self> {
        let span = (span_ns[1] - span_ns[0]) as f64;
        let held = exchanges.into_iter().map(|exchange| exchange.after(span));
        Some(Self {
            span_ns,
            offset: held.reduce(OffsetInterval::intersection)?,
        })
    }
}

/// Offset and drift of two clocks over the time between the first and the last of several readings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockBound {
    /// Interval in which the offset was at every moment.
    pub offset: OffsetInterval,
    /// Minimum and maximum mean drift, in seconds per second; `None` if all readings are of one moment.
    pub drift: Option<[f64; 2]>,
}

impl ClockBound {
    /// Bounds offset and drift by readings in the order of time; `None` without readings, or if they contradict one
    /// another: a clock was set or steered faster than [`LARGEST_DRIFT`].
    #[must_use]
    pub fn over(readings: &[OffsetReading]) -> Option<Self> {
        let mut held: Vec<OffsetReading> = readings.to_vec();
        // Each reading bounds its neighbours, too, by what the clocks can have drifted in between.
        for at in 1..held.len() {
            let before = held[at - 1];
            let time_ns = (held[at].span_ns[1] - before.span_ns[1]) as f64;
            held[at].offset = held[at].offset.intersection(before.offset.after(time_ns));
        }
        for at in (1..held.len()).rev() {
            let after = held[at];
            let time_ns = (after.span_ns[0] - held[at - 1].span_ns[0]) as f64;
            held[at - 1].offset = held[at - 1]
                .offset
                .intersection(after.offset.after(time_ns));
        }
        if !held.iter().all(|reading| reading.offset.is_possible()) {
            return None;
        }
        let mut offset = held.first()?.offset;
        for pair in held.windows(2) {
            let [before, after] = [pair[0], pair[1]];
            // The offset can be furthest away where the bounds of both readings, growing by drift, meet.
            let drift_ns = LARGEST_DRIFT * ((after.span_ns[0] - before.span_ns[1]) as f64).max(0.0);
            let lowest = (before.offset.lowest_ns + after.offset.lowest_ns - drift_ns) / 2.0;
            let highest = (before.offset.highest_ns + after.offset.highest_ns + drift_ns) / 2.0;
            let ends = [before.offset.lowest_ns, after.offset.lowest_ns, lowest];
            offset.lowest_ns = ends.into_iter().fold(offset.lowest_ns, f64::min);
            let ends = [before.offset.highest_ns, after.offset.highest_ns, highest];
            offset.highest_ns = ends.into_iter().fold(offset.highest_ns, f64::max);
        }
        let [first, last] = [held.first()?, held.last()?];
        let time_ns = (last.span_ns[0] - first.span_ns[1]) as f64;
        let change = last.offset.against(first.offset);
        Some(Self {
            offset,
            drift: (time_ns > 0.0)
                .then(|| [change.lowest_ns / time_ns, change.highest_ns / time_ns]),
        })
    }
}

/// Whether a one-way delay is reported with this bound of its error: the bound is at most a tenth of the delay.
#[must_use]
pub fn is_reportable(delay_ns: f64, bound_ns: f64) -> bool {
    bound_ns <= LARGEST_BOUND_RATIO * delay_ns
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: i64 = 1_000_000;

    fn reading(from_ms: i64, until_ms: i64, lowest_ns: f64, highest_ns: f64) -> OffsetReading {
        OffsetReading {
            span_ns: [from_ms * MS, until_ms * MS],
            offset: OffsetInterval {
                lowest_ns,
                highest_ns,
            },
        }
    }

    #[test]
    fn an_exchange_bounds_the_offset_by_the_delay_in_each_direction() {
        // Host b's clock is 1000 ns ahead. The ways take 300 and 100 ns; b holds the message for 50 ns.
        let exchange = OffsetInterval::of_exchange([0, 1300, 1350, 450]);
        assert_eq!((exchange.lowest_ns, exchange.highest_ns), (900.0, 1300.0));
        assert_eq!((exchange.middle_ns(), exchange.bound_ns()), (1100.0, 200.0));
        let other = OffsetInterval::of_exchange([1000, 2100, 2100, 1600]);
        let both = exchange.intersection(other);
        assert_eq!((both.lowest_ns, both.highest_ns), (900.0, 1100.0));
    }

    #[test]
    fn bounds_against_a_third_clock_add_up() {
        let of = |middle: f64, bound: f64| OffsetInterval {
            lowest_ns: middle - bound,
            highest_ns: middle + bound,
        };
        let between = of(700.0, 30.0).against(of(-200.0, 50.0));
        assert_eq!((between.middle_ns(), between.bound_ns()), (900.0, 80.0));
        assert_eq!(of(5.0, 1.0).against(OffsetInterval::SAME), of(5.0, 1.0));
    }

    #[test]
    fn bounds_of_a_span_hold_throughout_it() {
        let exchange = |lowest_ns, highest_ns| OffsetInterval {
            lowest_ns,
            highest_ns,
        };
        let found =
            OffsetReading::of_exchanges([0, MS], [exchange(0.0, 300.0), exchange(-100.0, 200.0)]);
        // 1000 ppm of 1 ms are 1000 ns.
        assert_eq!(found.unwrap().offset, exchange(-1000.0, 1200.0));
        let later = OffsetReading::of_exchanges([5 * MS, 6 * MS], [exchange(0.0, 300.0)]);
        assert_eq!(later.unwrap().offset, exchange(-1000.0, 1300.0));
        assert_eq!(OffsetReading::of_exchanges([0, MS], []), None);
    }

    #[test]
    fn between_readings_the_offset_may_have_drifted() {
        // Ten milliseconds apart: at most 10 µs, half of it up and half of it down again.
        let readings = [reading(0, 0, -500.0, 500.0), reading(10, 10, -500.0, 500.0)];
        let found = ClockBound::over(&readings).unwrap();
        assert_eq!(
            (found.offset.lowest_ns, found.offset.highest_ns),
            (-5500.0, 5500.0)
        );
        // 1000 ns in 10 ms are 100 ppm.
        let [least, largest] = found.drift.unwrap();
        assert!((least + 100e-6).abs() < 1e-12 && (largest - 100e-6).abs() < 1e-12);
    }

    #[test]
    fn a_good_reading_bounds_a_poor_one_beside_it() {
        let readings = [
            reading(0, 0, -500.0, 500.0),
            reading(1, 1, -1e6, 1e6),
            reading(2, 2, -500.0, 500.0),
        ];
        let found = ClockBound::over(&readings).unwrap();
        assert_eq!(
            (found.offset.lowest_ns, found.offset.highest_ns),
            (-1500.0, 1500.0)
        );
    }

    /// By hand: from 101 to 111 ms 10 µs. Down: (−300 − 100 − 10000) / 2, up: (200 + 600 + 10000) / 2 ns. The offset
    /// changes by −100 − 200 to 600 + 300 ns in 10 ms.
    #[test]
    fn drift_grows_between_the_spans_of_readings() {
        let readings = [
            reading(100, 101, -300.0, 200.0),
            reading(111, 113, -100.0, 600.0),
        ];
        let found = ClockBound::over(&readings).unwrap();
        assert_eq!(
            (found.offset.lowest_ns, found.offset.highest_ns),
            (-5200.0, 5400.0)
        );
        let [least, largest] = found.drift.unwrap();
        assert!((least + 30e-6).abs() < 1e-12 && (largest - 90e-6).abs() < 1e-12);
        // Readings that touch leave no time between them.
        let touching = [reading(100, 101, -5.0, 5.0), reading(101, 102, -5.0, 5.0)];
        assert_eq!(ClockBound::over(&touching).unwrap().drift, None);
    }

    /// By hand: from the end of the good reading to that of the poor one 3 ms, from the beginning of the poor one to that
    /// of the good one 2 ms, at 1000 ppm.
    #[test]
    fn a_reading_bounds_the_next_and_the_one_before() {
        let bound = |readings: [OffsetReading; 2]| {
            let found = ClockBound::over(&readings).unwrap();
            (found.offset.lowest_ns, found.offset.highest_ns)
        };
        let [good, poor] = [500.0, 1e6];
        let of = |bounds: [f64; 2]| {
            bound([
                reading(100, 101, -bounds[0], bounds[0]),
                reading(102, 104, -bounds[1], bounds[1]),
            ])
        };
        assert_eq!(of([good, poor]), (-3500.0, 3500.0));
        assert_eq!(of([poor, good]), (-2500.0, 2500.0));
    }

    #[test]
    fn a_clock_that_jumps_gives_no_bound() {
        let readings = [reading(0, 1, 0.0, 500.0), reading(2, 3, 1e6, 1.1e6)];
        assert_eq!(ClockBound::over(&readings), None);
        assert_eq!(ClockBound::over(&[]), None);
        let one = ClockBound::over(&readings[..1]).unwrap();
        assert_eq!((one.offset, one.drift), (readings[0].offset, None));
    }

    #[test]
    fn a_bound_above_a_tenth_of_the_delay_is_too_large() {
        assert!(is_reportable(15e6, 1.5e6));
        assert!(!is_reportable(15e6, 1.5e6 + 1.0));
        assert!(is_reportable(0.0, 0.0));
        assert!(!is_reportable(-1.0, 0.0));
    }

    proptest! {
        /// Whatever the messages take and however the clock drifts within its limit, the true offset is in the
        /// bound at every moment, and the true drift is, too.
        #[test]
        fn the_truth_is_always_within_the_bound(
            start_ns in -1_000_000_000_000_i64..1_000_000_000_000,
            steps in prop::collection::vec(
                (1..50 * MS, -1.0..1.0_f64, 1_000..5 * MS, 1_000..5 * MS, 0..MS),
                1..30,
            ),
        ) {
            // Host a's clock is true time. Host b's drifts at a rate that each step sets.
            let (mut now, mut offset) = (0_i64, start_ns as f64);
            let mut truth = vec![(now, offset)];
            let mut readings = Vec::new();
            for (pause, rate, there, back, held) in steps {
                let rate = rate * LARGEST_DRIFT;
                let mut advance = |time: i64| {
                    now += time;
                    offset += rate * time as f64;
                    truth.push((now, offset));
                    (now, offset)
                };
                advance(pause);
                let (sent, _) = advance(0);
                let (at, o) = advance(there);
                let arrived = at + o.ceil() as i64;
                let (at, o) = advance(held);
                let answered = at + o.floor() as i64;
                let (received, _) = advance(back);
                let exchange = OffsetInterval::of_exchange([sent, arrived, answered, received]);
                readings.extend(OffsetReading::of_exchanges([sent, received], [exchange]));
            }
            let found = ClockBound::over(&readings).expect("clocks within their limit");
            let [from, until] = [readings[0].span_ns[0], readings[readings.len() - 1].span_ns[1]];
            for (at, offset) in truth.iter().filter(|(at, _)| (from..=until).contains(at)) {
                let within = found.offset.lowest_ns - 2.0 <= *offset
                    && *offset <= found.offset.highest_ns + 2.0;
                prop_assert!(within, "{offset} at {at} is not in {:?}", found.offset);
            }
            let ends = [readings[0].span_ns[1], readings[readings.len() - 1].span_ns[0]];
            if let Some([least, largest]) = found.drift {
                let at = |moment| truth.iter().rfind(|(at, _)| *at == moment).expect("a moment").1;
                let time = (ends[1] - ends[0]) as f64;
                let drift = (at(ends[1]) - at(ends[0])) / time;
                let rounding = 2.0 / time;
                prop_assert!(least - rounding <= drift && drift <= largest + rounding);
            }
        }
    }
}
