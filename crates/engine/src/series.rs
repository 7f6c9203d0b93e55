//! Times at which the rounds of a series begin.
//!
//! The rounds of a study with `every` begin in periods of that length, counted from the beginning of
//! its first round. A round that is late begins at once if its own period is not over yet, and in the
//! next period otherwise. So no two rounds begin in one period, none is left out, and an interrupted
//! series goes on in the periods in which it would have gone on anyway. It ends later by the periods
//! that were missed.

use std::time::{Duration, Instant};

use regatta_model::{Clock, Study, TrialRecord, metric::id};
use serde::{Deserialize, Serialize};

/// Schedule of a series: a pure function of the times at which its rounds could begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Schedule {
    every: Duration,
    /// Periods so far in which no round began.
    missed: u32,
}

/// Beginning of a round, as time since the beginning of the series.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Slot {
    /// Number of the period, from 0.
    period: u32,
    /// Time at which the period begins.
    at: Duration,
    /// Time by which the round begins later than that.
    lateness: Duration,
}

impl Schedule {
    /// Returns the beginning of a round that could begin now; periods that are over are missed.
    fn next(&mut self, round: u32, now: Duration) -> Slot {
        let mut period = round.saturating_add(self.missed);
        let mut late = now.saturating_sub(self.every.saturating_mul(period));
        if late >= self.every {
            let over = late.as_nanos().div_ceil(self.every.as_nanos().max(1));
            let over = u32::try_from(over).unwrap_or(u32::MAX);
            period = period.saturating_add(over);
            self.missed = self.missed.saturating_add(over);
            late = Duration::ZERO;
        }
        Slot {
            period,
            at: self.every.saturating_mul(period),
            lateness: late,
        }
    }
}

/// State of a series after the trials that earlier parts of its run have done.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct SeriesDone {
    /// Beginning of the series by the clock of the machine that stores the results.
    origin_unix_ns: i64,
    /// Periods so far in which no round began.
    missed: u32,
}

impl SeriesDone {
    /// Returns the state after a trial; `None` for one that was in no series.
    pub(crate) fn after(record: &TrialRecord) -> Option<Self> {
        let metric = |name| record.measurements.metrics.get(name).copied();
        let period = metric(id::SERIES_PERIOD)? as u32;
        let time_ns = metric(id::SERIES_TIME_NS)? as i64;
        Some(Self {
            origin_unix_ns: record.started_unix_ns.saturating_sub(time_ns),
            missed: period.saturating_sub(record.round),
        })
    }
}

/// Series under way.
pub(crate) struct Series {
    schedule: Schedule,
    /// Moment in this part of the run, and the time of the series at that moment.
    origin: (Instant, Duration),
    slot: Slot,
}

impl Series {
    /// Begins or continues a series whose next round is `round`; `None` for a study without `every`.
    ///
    /// A virtual clock begins anew with each guest, and nothing is missed while it does not run: a
    /// series in virtual time goes on where it was.
    pub(crate) fn begin(
        study: &Study,
        done: Option<SeriesDone>,
        round: u32,
        unix_ns: i64,
    ) -> Option<Self> {
        let every = study.every?;
        let schedule = Schedule {
            every,
            missed: done.map_or(0, |done| done.missed),
        };
        let begin = |round: u32| every.saturating_mul(round.saturating_add(schedule.missed));
        let elapsed = match (study.guest.clock, done) {
            (Clock::Real, Some(done)) => {
                let elapsed = unix_ns.saturating_sub(done.origin_unix_ns);
                // A clock that was set back must not make the series wait for itself.
                Duration::from_nanos(elapsed.max(0) as u64).max(begin(round.saturating_sub(1)))
            }
            (Clock::Real, None) => Duration::ZERO,
            (Clock::Virtual, _) => begin(round),
        };
        Some(Self {
            schedule,
            origin: (Instant::now(), elapsed),
            slot: Slot::default(),
        })
    }

    fn now(&self) -> Duration {
        self.origin.1 + self.origin.0.elapsed()
    }

    /// Chooses the beginning of a round; returns the time to wait for it.
    pub(crate) fn next(&mut self, round: u32) -> Duration {
        let now = self.now();
        self.slot = self.schedule.next(round, now);
        self.slot.at.saturating_sub(now)
    }

    /// Takes note that the round begins now.
    pub(crate) fn begin_round(&mut self) {
        self.slot.lateness = self.now().saturating_sub(self.slot.at);
    }

    /// Returns the metrics of a trial that begins now.
    pub(crate) fn metrics(&self) -> [(&'static str, f64); 3] {
        [
            (id::SERIES_TIME_NS, self.now().as_nanos() as f64),
            (id::SERIES_PERIOD, f64::from(self.slot.period)),
            (id::SERIES_LATENESS_NS, self.slot.lateness.as_nanos() as f64),
        ]
    }
}

#[cfg(test)]
mod tests {
    use regatta_model::Measurements;

    use super::*;

    const EVERY: Duration = Duration::from_secs(150);

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Returns period, begin and lateness of each round that could begin at these times.
    fn slots(schedule: &mut Schedule, times: &[(u32, u64)]) -> Vec<(u32, u64, u64)> {
        let slot = |(round, now): &(u32, u64)| {
            let slot = schedule.next(*round, s(*now));
            (slot.period, slot.at.as_secs(), slot.lateness.as_secs())
        };
        times.iter().map(slot).collect()
    }

    fn schedule(missed: u32) -> Schedule {
        Schedule {
            every: EVERY,
            missed,
        }
    }

    #[test]
    fn rounds_begin_in_their_periods() {
        let mut schedule = schedule(0);
        let found = slots(&mut schedule, &[(0, 0), (1, 90), (2, 160), (3, 450)]);
        assert_eq!(found, [(0, 0, 0), (1, 150, 0), (2, 300, 0), (3, 450, 0)]);
    }

    #[test]
    fn a_round_that_is_late_begins_at_once_and_the_next_ones_catch_up() {
        let mut schedule = schedule(0);
        let found = slots(&mut schedule, &[(1, 200), (2, 320), (3, 400)]);
        assert_eq!(found, [(1, 150, 50), (2, 300, 20), (3, 450, 0)]);
        assert_eq!(schedule.missed, 0);
    }

    /// The machine was off from 300 s to 1000 s: rounds 2, 3, 4 and so on take the periods from 7 on.
    #[test]
    fn past_periods_are_skipped_but_no_round_is() {
        let mut schedule = schedule(0);
        let found = slots(&mut schedule, &[(2, 1000), (3, 1100), (4, 1215)]);
        assert_eq!(found, [(7, 1050, 0), (8, 1200, 0), (9, 1350, 0)]);
        assert_eq!(schedule.missed, 5);
    }

    #[test]
    fn a_round_due_at_the_start_of_a_period_begins_then() {
        assert_eq!(slots(&mut schedule(0), &[(1, 300)]), [(2, 300, 0)]);
        assert_eq!(slots(&mut schedule(3), &[(1, 0)]), [(4, 600, 0)]);
    }

    fn study(clock: Clock) -> Study {
        let mut study = crate::tests::fake_bed::study(1, 1, 10);
        study.every = Some(EVERY);
        study.guest.clock = clock;
        study
    }

    fn record(period: f64, time: Duration, started_unix_ns: i64) -> TrialRecord {
        let plan = crate::Plan::new(&study(Clock::Real)).expect("few trials");
        let outcome = (
            regatta_model::Outcome::Measured,
            Vec::new(),
            regatta_model::Text::default(),
        );
        let mut record = plan.record(&plan.trials()[2], started_unix_ns, outcome);
        record.measurements = Measurements {
            metrics: [
                (id::SERIES_PERIOD.to_owned(), period),
                (id::SERIES_TIME_NS.to_owned(), time.as_nanos() as f64),
            ]
            .into(),
            ..Measurements::default()
        };
        record
    }

    /// Round 2 began in period 3, 460 s after the beginning. An hour later round 3 would be in period 4;
    /// now the period 27 is under way, so that it waits for 28.
    #[test]
    fn a_resumed_series_continues_in_its_periods() {
        let began = 1_000_000_000_000_000_i64;
        let at = |seconds: u64| began + s(seconds).as_nanos() as i64;
        let done = SeriesDone::after(&record(3.0, s(460), at(460)));
        let mut series = Series::begin(&study(Clock::Real), done, 3, at(4100)).expect("a series");
        let wait = series.next(3);
        assert!(wait <= s(100) && wait > s(90), "{wait:?}");
        assert_eq!((series.slot.period, series.slot.at), (28, s(4200)));
    }

    #[test]
    fn a_resumed_series_in_virtual_time_misses_nothing() {
        let done = SeriesDone::after(&record(2.0, s(310), 5));
        let series = Series::begin(&study(Clock::Virtual), done, 3, i64::MAX);
        let mut series = series.expect("a series");
        // The clock of the test is real, so that the round is late by what the test takes.
        assert_eq!(series.next(3), Duration::ZERO);
        assert_eq!((series.slot.period, series.slot.at), (3, s(450)));
    }

    #[test]
    fn a_clock_set_back_delays_a_round_by_at_most_two_periods() {
        let done = SeriesDone::after(&record(2.0, s(310), i64::MAX));
        let series = Series::begin(&study(Clock::Real), done, 3, 0);
        assert!(series.expect("a series").next(3) <= EVERY);
    }

    #[test]
    fn other_studies_have_no_series() {
        let mut study = study(Clock::Real);
        study.every = None;
        assert!(Series::begin(&study, None, 0, 0).is_none());
    }
}
