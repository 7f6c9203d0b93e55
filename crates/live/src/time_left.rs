//! Time that a run still takes, from the trials that it has done.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use regatta_engine::Event;
use regatta_model::{Clock, Study, TrialRecord};

/// Number of trials of a run and of those done, and its speed.
#[derive(Debug, Default)]
pub struct Pace {
    /// Number of trials of the run, if no further one fails where cells end with their successes.
    pub trials: u32,
    /// Number of trials done, with those of earlier parts of the run.
    pub done: u32,
    /// Rule by which each failure of a cell costs a further trial, up to the number of rounds.
    rule: Option<Box<Study>>,
    /// Failures by cell.
    failures: BTreeMap<[String; 3], u32>,
    started: Option<Instant>,
    /// Number of trials done since `started`, on which the estimate is based.
    timed: u32,
    /// Period and number of the rounds of a series in real time.
    series: Option<(Duration, u32)>,
    /// Round under way, and its beginning.
    round: Option<(u32, Instant)>,
}

impl Pace {
    /// Takes note of an event, at the moment when it comes.
    pub fn on_event(&mut self, event: &Event) {
        match event {
            Event::RunStarted {
                header,
                trials,
                done,
            } => {
                (self.trials, self.done) = (*trials, *done);
                let study = &header.study;
                self.rule = study.successes.map(|_| Box::new(study.clone()));
                self.series = (study.guest.clock == Clock::Real)
                    .then_some(study.every)
                    .flatten()
                    .map(|every| (every, study.rounds));
            }
            Event::TrialStarted { round, .. } => {
                let now = Instant::now();
                self.started.get_or_insert(now);
                if self.round.is_none_or(|(of, _)| of != *round) {
                    self.round = Some((*round, now));
                }
            }
            Event::TrialEnded { trial } => {
                // The repeat of a trial is no further one.
                let first = u32::from(trial.attempt == 1);
                self.done += first;
                self.timed += first;
                self.note_failure(trial);
            }
            _ => {}
        }
    }

    /// Returns the time left, from the mean of the trials so far. In a series it is at least the time until its last
    /// round begins.
    #[must_use]
    pub fn left(&self) -> Option<Duration> {
        let elapsed = self.started?.elapsed();
        let left = self.trials.saturating_sub(self.done);
        let waits = match (self.series, self.round) {
            (Some((every, rounds)), Some((round, begun))) => {
                let until_last = every.saturating_mul(rounds.saturating_sub(round + 1));
                until_last.saturating_sub(begun.elapsed())
            }
            _ => Duration::ZERO,
        };
        (self.timed > 0 && left > 0).then(|| {
            let trials = elapsed.mul_f64(f64::from(left) / f64::from(self.timed));
            trials.max(waits)
        })
    }

    /// Takes note of a trial that makes a further one necessary.
    fn note_failure(&mut self, trial: &TrialRecord) {
        let Some(rule) = &self.rule else {
            return;
        };
        if trial.is_whole() || trial.attempt > 1 {
            return;
        }
        let TrialRecord {
            transport,
            condition,
            workload,
            ..
        } = trial;
        let cell = [transport, condition, workload].map(String::clone);
        let failures = self.failures.entry(cell).or_default();
        let before = rule.trials_of_cell(*failures);
        *failures += 1;
        self.trials += rule.trials_of_cell(*failures) - before;
    }
}

/// Formats a time in at most two units, since an estimate is not more exact.
#[must_use]
pub fn rough(time: Duration) -> String {
    let seconds = time.as_secs_f64().ceil() as u64;
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min {} s", seconds / 60, seconds % 60),
        7200..172_800 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} days {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_lasts_until_its_last_round() {
        let now = Instant::now();
        let pace = Pace {
            trials: 30,
            done: 15,
            timed: 15,
            started: Some(now),
            round: Some((1, now)),
            series: Some((Duration::from_secs(150), 3)),
            ..Pace::default()
        };
        assert_eq!(rough(pace.left().expect("a time")), "2 min 30 s");
    }

    #[test]
    fn times_left_are_rough() {
        assert_eq!(rough(Duration::from_millis(1_200)), "2 s");
        assert_eq!(rough(Duration::from_secs(124)), "2 min 4 s");
        assert_eq!(rough(Duration::from_secs(86_460)), "24 h 1 min");
        assert_eq!(rough(Duration::from_secs(266_400)), "3 days 2 h");
    }
}
