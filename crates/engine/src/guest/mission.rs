//! What outside and inside say to one another.

use std::collections::{BTreeMap, BTreeSet};

use regatta_model::Study;
use serde::{Deserialize, Serialize};

use crate::event::Event;

/// What a guest is to run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Mission {
    /// All of the study.
    pub study: Study,
    /// As the user wrote it.
    pub study_text: String,
    /// Identifier of the run as agents and path keeper are to know it.
    pub run_id: String,
    /// Trials that are not to be run.
    pub done: BTreeSet<u32>,
    /// The metric of the ranking of those of them that were measured.
    #[serde(default)]
    pub values: BTreeMap<u32, f64>,
    /// Whether transports may leave files.
    pub files: bool,
}

/// What a guest tells.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Word {
    /// Something of the run.
    Event {
        /// What.
        event: Box<Event>,
    },
    /// The run cannot start or go on.
    Broken {
        /// The causes, outermost first.
        reasons: Vec<String>,
        /// What to type next; may be empty.
        hint: String,
        /// Whether it is what this machine cannot do, rather than something that failed.
        unsupported: bool,
        /// Whether it is a guest that no longer answers: others can go on with the run.
        guest_gone: bool,
    },
}
