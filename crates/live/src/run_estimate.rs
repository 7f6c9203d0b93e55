//! Estimate of the remaining time of a run, from the trials that are done.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use regatta_engine::Event;
use regatta_model::{CellTrials, Clock, Name, Study, TrialRecord};

/// Numbers of trials of a run and of those done, and the estimate of the remaining time.
#[derive(Debug, Default)]
pub struct RunEstimate {
    /// Number of trials of the run, if the further ones are whole, where a rule ends cells.
    pub trials: u32,
    /// Number of trials done, with those of earlier parts of the run.
    pub done: u32,
    /// Study whose rule ends cells, if it has one.
    rule: Option<Box<Study>>,
    /// Trials that are done, by cell.
    cells: BTreeMap<[Name; 3], CellTrials>,
    started: Option<Instant>,
    /// Number of trials done since `started`, on which the estimate is based.
    timed: u32,
    /// Period and number of the rounds of a series in real time.
    series: Option<(Duration, u32)>,
    /// Round under way, and its beginning.
    round: Option<(u32, Instant)>,
}

impl RunEstimate {
    /// Updates the estimate by an event. To be called when the event arrives.
    pub fn on_event(&mut self, event: &Event) {
        match event {
            Event::RunStarted {
                header,
                trials,
                done,
            } => {
                (self.trials, self.done) = (*trials, *done);
                let study = &header.study;
                self.rule = study.cell_end.map(|_| Box::new(study.clone()));
                self.series = (study.guest.clock == Clock::Real)
                    .then_some(study.every)
                    .flatten()
                    .map(|every| (every, study.rounds));
            }
            Event::TrialStarted { round, .. } => {
                let now = Instant::now();
                self.started.get_or_insert(now);
                if self.round.is_none_or(|(current, _)| current != *round) {
                    self.round = Some((*round, now));
                }
            }
            Event::TrialEnded { trial, .. } => {
                // A repeated trial counts once.
                let first = u32::from(trial.attempt == 1);
                self.done += first;
                self.timed += first;
                self.update_trials(trial);
            }
            _ => {}
        }
    }

    /// Returns the remaining time, from the mean time of the trials done. In a series it is at least the time until its last
    /// round begins.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        let elapsed = self.started?.elapsed();
        let remaining = self.trials.saturating_sub(self.done);
        let until_last_round = match (self.series, self.round) {
            (Some((every, rounds)), Some((round, round_start))) => {
                let period = every.saturating_mul(rounds.saturating_sub(round + 1));
                period.saturating_sub(round_start.elapsed())
            }
            _ => Duration::ZERO,
        };
        (self.timed > 0 && remaining > 0).then(|| {
            let trials = elapsed.mul_f64(f64::from(remaining) / f64::from(self.timed));
            trials.max(until_last_round)
        })
    }

    /// Updates the number of trials of the run where a rule ends cells.
    fn update_trials(&mut self, trial: &TrialRecord) {
        let Some(rule) = &self.rule else {
            return;
        };
        if trial.attempt > 1 {
            return;
        }
        let TrialRecord {
            transport,
            condition,
            workload,
            ..
        } = trial;
        let cell = [transport, condition, workload].map(Name::clone);
        let done = self.cells.entry(cell).or_default();
        let before = rule.trials_of_cell(*done);
        done.add(rule.counts(trial));
        self.trials = (self.trials + rule.trials_of_cell(*done)).saturating_sub(before);
    }
}

/// Formats a time in at most two units, since an estimate is not more exact.
#[must_use]
pub fn coarse_duration(time: Duration) -> String {
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
    fn series_lasts_until_its_last_round() {
        let now = Instant::now();
        let estimate = RunEstimate {
            trials: 30,
            done: 15,
            timed: 15,
            started: Some(now),
            round: Some((1, now)),
            series: Some((Duration::from_secs(150), 3)),
            ..RunEstimate::default()
        };
        assert_eq!(
            coarse_duration(estimate.remaining().expect("a time")),
            "2 min 30 s"
        );
    }

    #[test]
    fn durations_have_at_most_two_units() {
        assert_eq!(coarse_duration(Duration::from_millis(1_200)), "2 s");
        assert_eq!(coarse_duration(Duration::from_secs(124)), "2 min 4 s");
        assert_eq!(coarse_duration(Duration::from_secs(86_460)), "24 h 1 min");
        assert_eq!(coarse_duration(Duration::from_secs(266_400)), "3 days 2 h");
    }
}
