//! Messages between the controller and the run in a guest.

use std::time::Duration;

use regatta_model::{Problem, Study};
use serde::{Deserialize, Serialize};

use crate::{TrialProgress, event::Event, plan::Done};

/// Run that a guest carries out.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct RunOrder {
    /// The whole study.
    pub study: Study,
    /// Text of the study for the header of the results.
    pub study_text: String,
    /// Identifier of the run for agents and path daemon.
    pub run_id: String,
    /// Trials that are finished, and attempts at others.
    pub done: Done,
    /// Whether transports may write files.
    pub files: bool,
    /// Time between two reports of an end of a trial under way; `None` if nobody reads them.
    pub progress_interval: Option<Duration>,
}

/// Messages of a guest.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum FromGuest {
    /// Event of the run.
    Event {
        /// The event.
        event: Box<Event>,
    },
    /// Report of an end of the trial under way.
    Progress {
        /// The report.
        progress: TrialProgress,
    },
    /// The run cannot start or go on.
    Failed {
        /// The reason.
        problem: Problem,
        /// Whether the cause is a guest that no longer answers: others can go on with the run.
        guest_gone: bool,
    },
}
