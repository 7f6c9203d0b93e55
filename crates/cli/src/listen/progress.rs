//! Progress on standard error: one bar on a terminal, one line per trial elsewhere.
//!
//! Nothing is drawn while a trial runs: the bar changes at the edges of trials, and nothing ticks
//! on a core that is being measured.

use std::{
    io::{self, IsTerminal},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use regatta_engine::{Event, Listener, ListenerError};
use regatta_live::{RunEstimate, coarse_duration};
use regatta_model::{
    Outcome, TrialRecord, metric::id, shell::printable, units::format_duration, warning_code,
};

use crate::output::{self, charset};

/// Progress display of a run.
pub struct Progress {
    how: How,
    run_estimate: RunEstimate,
    /// Estimate of the whole run.
    estimate: String,
    /// Whether lines name the workload of a trial: the study has several workloads.
    names_workloads: bool,
}

enum How {
    Silent,
    Lines,
    Bar(ProgressBar),
}

impl Progress {
    /// Creates a bar if standard error is a terminal, lines if not, and no output if `silent`.
    ///
    /// `estimate` is the estimate of the whole run, in a line or more.
    pub fn new(silent: bool, estimate: String) -> Self {
        let how = match (silent, io::stderr().is_terminal()) {
            (true, _) => How::Silent,
            (false, true) => How::Bar(bar("{wide_bar} {pos}/{len}  {msg}")),
            (false, false) => How::Lines,
        };
        Self {
            how,
            run_estimate: RunEstimate::default(),
            estimate,
            names_workloads: false,
        }
    }

    /// Returns the name of a trial's cell.
    fn cell(&self, transport: &str, condition: &str, workload: &str) -> String {
        match self.names_workloads {
            true => format!("{transport} · {condition} · {workload}"),
            false => format!("{transport} · {condition}"),
        }
    }

    fn line(&self, line: &str) {
        match &self.how {
            How::Silent => {}
            How::Lines => output::err(line),
            How::Bar(bar) => bar.suspend(|| output::err(line)),
        }
    }

    fn clear(&self) {
        if let How::Bar(bar) = &self.how {
            bar.finish_and_clear();
        }
    }

    /// Shows what the run waits for, beside the bar if there is one.
    fn state(&self, text: String) {
        match &self.how {
            How::Bar(bar) => bar.set_message(text),
            How::Silent | How::Lines => self.line(&text),
        }
    }

    fn remaining_text(&self) -> String {
        let remaining = self.run_estimate.remaining();
        remaining.map_or_else(String::new, |time| {
            format!(", about {} left", coarse_duration(time))
        })
    }
}

/// Creates a bar on standard error.
pub fn bar(template: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template(template);
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.set_style(match charset::is_utf8() {
        true => style,
        false => style.progress_chars("#> "),
    });
    bar
}

/// Describes the outcome of a trial in one line.
fn outcome(trial: &TrialRecord) -> String {
    let measurements = &trial.measurements;
    if trial.outcome != Outcome::Measured {
        return format!("{}: {}", trial.outcome.label(), trial.reasons.join(": "));
    }
    let mut text = match measurements.metrics.get(id::GOODPUT_BPS) {
        Some(rate) => format!("{:.1} Mbit/s", rate.trunc() / 1e6),
        None => "measured".to_owned(),
    };
    if let Some(loss) = measurements.metrics.get(id::MESSAGE_LOSS_RATIO)
        && *loss > 0.0
    {
        text.push_str(&format!(", {:.2} % of the messages lost", loss * 100.0));
    }
    let mut warnings = measurements.warnings.iter();
    if warnings.any(|warning| warning.code == warning_code::DEADLINE_REACHED) {
        text.push_str(", deadline reached");
    }
    text
}

impl Listener for Progress {
    fn on_event(&mut self, event: &Event) -> Result<(), ListenerError> {
        self.run_estimate.on_event(event);
        match event {
            Event::RunStarted {
                header,
                trials,
                done,
            } => {
                self.names_workloads = header.study.workloads.len() > 1;
                if *done == 0 {
                    self.line(&self.estimate);
                }
                if let How::Bar(bar) = &self.how {
                    bar.set_length(u64::from(*trials));
                    bar.set_position(u64::from(*done));
                }
                self.state("checking the path".to_owned());
            }
            Event::PathChecked { check } => {
                let within = match &check.spoiled {
                    Some(reason) => format!("not checked, {reason}"),
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
                self.state(format!(
                    "round {} begins in {}",
                    round + 1,
                    coarse_duration(wait)
                ));
            }
            Event::TrialStarted {
                transport,
                condition,
                workload,
                ..
            } => {
                if let How::Bar(bar) = &self.how {
                    let cell = self.cell(transport, condition, workload);
                    let message = format!("{cell}{}", self.remaining_text());
                    bar.set_message(charset::encoded(&printable(&message)).into_owned());
                }
            }
            Event::TrialEnded { trial, .. } => {
                let cell = self.cell(&trial.transport, &trial.condition, &trial.workload);
                match &self.how {
                    How::Silent => {}
                    How::Bar(bar) => {
                        bar.set_length(u64::from(self.run_estimate.trials));
                        bar.set_position(u64::from(self.run_estimate.done));
                    }
                    How::Lines => self.line(&format!(
                        "[{}/{}] round {}{}, {cell}: {}{}",
                        self.run_estimate.done,
                        self.run_estimate.trials,
                        trial.round + 1,
                        match trial.attempt {
                            1 => String::new(),
                            attempt => format!(", attempt {attempt}"),
                        },
                        outcome(trial),
                        self.remaining_text()
                    )),
                }
                let is_printed = matches!(
                    trial.outcome,
                    Outcome::Failed | Outcome::TimedOut | Outcome::Invalid
                );
                if let (How::Bar(_), true) = (&self.how, is_printed) {
                    self.line(&format!("{cell}: {}", outcome(trial)));
                }
            }
            Event::HostsSampled { .. } => {}
            Event::Warning { warning } => self.line(&output::in_lines(warning)),
            Event::RunEnded { .. } => self.clear(),
        }
        Ok(())
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_is_named_with_its_workload_where_there_are_several() {
        let mut progress = Progress::new(true, String::new());
        assert_eq!(progress.cell("tcp", "30 ms", "bulk 1 MB"), "tcp · 30 ms");
        progress.names_workloads = true;
        assert_eq!(
            progress.cell("tcp", "30 ms", "bulk 1 MB"),
            "tcp · 30 ms · bulk 1 MB"
        );
    }
}
