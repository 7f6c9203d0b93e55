//! Events of a run. Terminal, JSON lines and the results file listen.

use std::borrow::Cow;

use regatta_model::{HostSamples, PathCheck, RunHeader, Text, TrialRecord, Warning, reason};
use serde::{Deserialize, Serialize};

/// Event of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The bed is up and both agents have sent their hello. First event of a run.
    RunStarted {
        /// Settings and host facts of the run.
        header: Box<RunHeader>,
        /// Trials of the plan; where a rule ends cells, those of a run in which all are whole
        /// from now on.
        trials: u32,
        /// Trials of the plan that were finished before, by an earlier part of this run.
        done: u32,
    },
    /// The bed has measured its own path under one condition.
    PathChecked {
        /// Asked and achieved values.
        check: PathCheck,
    },
    /// A round of a series waits for its time. Sent if it waits for more than a second of a real
    /// clock.
    RoundWaits {
        /// Round, from 0.
        round: u32,
        /// Time to wait.
        wait_ns: u64,
    },
    /// A trial begins.
    TrialStarted {
        /// Number of its record.
        index: u32,
        /// Attempt at this trial, from 1.
        attempt: u32,
        /// Round, from 0.
        round: u32,
        /// Label of the transport.
        transport: String,
        /// Name of the condition.
        condition: String,
        /// Name of the workload.
        workload: String,
    },
    /// A trial has ended, whatever its outcome.
    TrialEnded {
        /// Record of the trial.
        trial: Box<TrialRecord>,
        /// Whether records of other flows of the same competition follow, with which it is stored.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        more: bool,
    },
    /// Samples of the hosts since the last such event, on a bed that monitors its hosts. Sent at the
    /// edges of trials and path checks, every 10 s at most, and before the end of the run.
    HostsSampled {
        /// Samples, divided by host, by trial and where their names changed.
        samples: Vec<HostSamples>,
    },
    /// Warning that concerns the whole run.
    Warning {
        /// The warning.
        warning: Warning,
    },
    /// Last event of a run.
    RunEnded {
        /// Completeness of the run, and the reason if it was interrupted.
        ending: Ending,
    },
}

impl Event {
    /// Returns the event with texts in English alone, as machine outputs have it.
    #[must_use]
    pub fn in_english(&self) -> Cow<'_, Self> {
        let mut event = Cow::Borrowed(self);
        match self {
            Self::RunStarted { .. }
            | Self::PathChecked { .. }
            | Self::TrialEnded { .. }
            | Self::RunEnded { .. } => {}
            _ => return event,
        }
        match event.to_mut() {
            Self::RunStarted { header, .. } => header.bed = header.bed.in_english(),
            Self::PathChecked { check } => {
                check.spoiled = check.spoiled.as_ref().map(Text::in_english)
            }
            Self::TrialEnded { trial, .. } => {
                let facts = trial.measurements.facts.values_mut();
                for text in facts.chain(&mut trial.reasons).chain([&mut trial.hint]) {
                    *text = text.in_english();
                }
            }
            Self::RunEnded {
                ending: Ending::Interrupted { reason },
            } => *reason = reason.in_english(),
            _ => {}
        }
        event
    }
}

/// Manner in which a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Ending {
    /// Every trial of the plan is done.
    Complete,
    /// Some trials are left; `regatta resume` does them.
    Interrupted {
        /// Reason in one sentence without a full stop.
        reason: Text,
    },
}

impl Ending {
    /// Returns the ending of a run that the user stopped.
    pub(crate) fn interrupted() -> Self {
        Self::Interrupted {
            reason: reason::stopped_by_user().into(),
        }
    }
}

/// Receiver of a run's events.
pub trait Listener {
    /// Takes note of an event. Called between trials and at their edges, never while something is
    /// measured.
    ///
    /// # Errors
    /// Any error that keeps the listener from doing its work, such as a full disk. The run then
    /// stops: it does not measure what it cannot keep.
    fn on_event(&mut self, event: &Event) -> Result<(), ListenerError>;
}

/// Error that keeps a listener from taking note of an event.
pub type ListenerError = Box<dyn std::error::Error + Send + Sync>;
