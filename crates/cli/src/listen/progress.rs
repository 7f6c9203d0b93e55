//! Progress on standard error: one bar on a terminal, one line per trial elsewhere.
//!
//! Nothing is drawn while a trial runs: the bar changes at the edges of trials, and nothing ticks
//! on a core that is being measured.

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use regatta_engine::{Event, Listener, ListenerError};
use regatta_model::{
    BitRate, Clock, Outcome, Study, TrialRecord, metric::id, shell::printable,
    units::format_duration, warning_code,
};

use crate::{charset, output};

/// Progress display of a run.
pub struct Progress {
    how: How,
    /// Number of trials of the run, if no further one fails where cells end with their successes.
    trials: u32,
    /// Rule by which each failure of a cell costs a further trial, up to the number of rounds.
    rule: Option<Box<Study>>,
    /// Failures by cell.
    failures: BTreeMap<[String; 3], u32>,
    done: u32,
    started: Option<Instant>,
    /// Number of trials done since `started`, on which the estimate is based.
    timed: u32,
    /// Period and number of the rounds of a series in real time.
    series: Option<(Duration, u32)>,
    /// Round under way, and its beginning.
    round: Option<(u32, Instant)>,
    /// What the whole run takes, in one line.
    estimate: String,
}

enum How {
    Silent,
    Lines,
    Bar(ProgressBar),
}

impl Progress {
    /// Creates a bar if standard error is a terminal, lines if not, and no output if `silent`.
    ///
    /// `estimate` says what the whole run takes, in one line.
    pub fn new(silent: bool, estimate: String) -> Self {
        let how = if silent {
            How::Silent
        } else if io::stderr().is_terminal() {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{wide_bar} {pos}/{len}  {msg}")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            bar.set_style(if charset::is_utf8() {
                style
            } else {
                style.progress_chars("#> ")
            });
            How::Bar(bar)
        } else {
            How::Lines
        };
        Self {
            how,
            trials: 0,
            rule: None,
            failures: BTreeMap::new(),
            done: 0,
            started: None,
            timed: 0,
            series: None,
            round: None,
            estimate,
        }
    }

    fn line(&self, line: &str) {
        match &self.how {
            How::Silent => {}
            How::Lines => output::err(line),
            How::Bar(bar) => bar.suspend(|| output::err(line)),
        }
    }

    /// Returns the time left, from the mean of the trials so far. In a series it is at least the time until its last
    /// round begins.
    fn left(&self) -> Option<Duration> {
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
        if let How::Bar(bar) = &self.how {
            bar.set_length(u64::from(self.trials));
        }
    }

    fn left_in_words(&self) -> String {
        match self.left() {
            Some(left) => format!(", about {} left", rough(left)),
            None => String::new(),
        }
    }
}

/// Formats a time in at most two units, since the estimate is not more exact.
pub fn rough(time: Duration) -> String {
    let seconds = time.as_secs_f64().ceil() as u64;
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min {} s", seconds / 60, seconds % 60),
        7200..172_800 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} days {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// Describes the outcome of a trial in a few words.
fn outcome(trial: &TrialRecord) -> String {
    match trial.outcome {
        Outcome::Measured => {
            let rate = trial
                .measurements
                .metrics
                .get(id::GOODPUT_BPS)
                .map(|rate| BitRate(*rate as u64));
            let mut text = match rate {
                Some(BitRate(rate)) => format!("{:.1} Mbit/s", rate as f64 / 1e6),
                None => "measured".to_owned(),
            };
            if let Some(loss) = trial.measurements.metrics.get(id::MESSAGE_LOSS_RATIO)
                && *loss > 0.0
            {
                text.push_str(&format!(", {:.2} % of the messages lost", loss * 100.0));
            }
            if trial
                .measurements
                .warnings
                .iter()
                .any(|warning| warning.code == warning_code::DEADLINE_REACHED)
            {
                text.push_str(", deadline reached");
            }
            text
        }
        other => {
            let name = other.name().replace('_', " ");
            match trial.reasons.as_slice() {
                [] => name,
                reasons => format!("{name}: {}", reasons.join(": ")),
            }
        }
    }
}

impl Listener for Progress {
    fn hear(&mut self, event: &Event) -> Result<(), ListenerError> {
        match event {
            Event::RunStarted {
                trials,
                done,
                header,
            } => {
                (self.trials, self.done) = (*trials, *done);
                let study = &header.study;
                self.rule = study.successes.map(|_| Box::new(study.clone()));
                self.series = (study.guest.clock == Clock::Real)
                    .then_some(study.every)
                    .flatten()
                    .map(|every| (every, study.rounds));
                if *done == 0 {
                    self.line(&self.estimate);
                }
                if let How::Bar(bar) = &self.how {
                    bar.set_length(u64::from(*trials));
                    bar.set_position(u64::from(*done));
                    bar.set_message("checking the path");
                } else {
                    self.line("checking the path");
                }
            }
            Event::PathChecked { check } => {
                let within = match &check.spoiled {
                    Some(why) => format!("not checked, {why}"),
                    None if check.within => "within its tolerance".to_owned(),
                    None => "OUTSIDE its tolerance".to_owned(),
                };
                let step = match check.step_at_ns {
                    0 => String::new(),
                    at => format!(" from {} on", format_duration(Duration::from_nanos(at))),
                };
                self.line(&format!("path of `{}`{step}: {within}", check.condition));
            }
            Event::RoundWaits { round, wait_ns } => {
                let wait = Duration::from_nanos(*wait_ns);
                let text = format!("round {} begins in {}", round + 1, rough(wait));
                match &self.how {
                    How::Bar(bar) => bar.set_message(text),
                    How::Silent | How::Lines => self.line(&text),
                }
            }
            Event::TrialStarted {
                transport,
                condition,
                round,
                ..
            } => {
                let now = Instant::now();
                self.started.get_or_insert(now);
                if self.round.is_none_or(|(of, _)| of != *round) {
                    self.round = Some((*round, now));
                }
                if let How::Bar(bar) = &self.how {
                    let message = format!("{transport} · {condition}{}", self.left_in_words());
                    bar.set_message(charset::encoded(&printable(&message)).into_owned());
                }
            }
            Event::TrialEnded { trial } => {
                // The repeat of a trial is no further one.
                let first = u32::from(trial.attempt == 1);
                self.done += first;
                self.timed += first;
                self.note_failure(trial);
                match &self.how {
                    How::Silent => {}
                    How::Bar(bar) => bar.set_position(u64::from(self.done)),
                    How::Lines => self.line(&format!(
                        "[{}/{}] round {}{}, {} · {}: {}{}",
                        self.done,
                        self.trials,
                        trial.round + 1,
                        match trial.attempt {
                            1 => String::new(),
                            attempt => format!(", attempt {attempt}"),
                        },
                        trial.transport,
                        trial.condition,
                        outcome(trial),
                        self.left_in_words()
                    )),
                }
                if let How::Bar(_) = &self.how
                    && matches!(
                        trial.outcome,
                        Outcome::Failed | Outcome::TimedOut | Outcome::Invalid
                    )
                {
                    self.line(&format!(
                        "{} · {}: {}",
                        trial.transport,
                        trial.condition,
                        outcome(trial)
                    ));
                }
            }
            Event::HostsSampled { .. } => {}
            Event::Warning { warning } => {
                self.line(&format!("warning: {}", warning.message));
                if !warning.hint.is_empty() {
                    self.line(&format!("hint: {}", warning.hint));
                }
            }
            Event::RunEnded { .. } => {
                if let How::Bar(bar) = &self.how {
                    bar.finish_and_clear();
                }
            }
        }
        Ok(())
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let How::Bar(bar) = &self.how {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_lasts_until_its_last_round() {
        let mut progress = Progress::new(true, String::new());
        (progress.trials, progress.done, progress.timed) = (30, 15, 15);
        let now = Instant::now();
        (progress.started, progress.round) = (Some(now), Some((1, now)));
        progress.series = Some((Duration::from_secs(150), 3));
        assert_eq!(rough(progress.left().expect("a time")), "2 min 30 s");
    }

    #[test]
    fn times_left_are_rough() {
        assert_eq!(rough(Duration::from_millis(1_200)), "2 s");
        assert_eq!(rough(Duration::from_secs(124)), "2 min 4 s");
        assert_eq!(rough(Duration::from_secs(86_460)), "24 h 1 min");
        assert_eq!(rough(Duration::from_secs(266_400)), "3 days 2 h");
    }
}
