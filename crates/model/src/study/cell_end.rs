//! Rules that end a cell before the number of rounds.

use serde::{Deserialize, Serialize};

use super::Study;
use crate::{Outcome, TrialRecord};

/// Rule of `rounds = { successes = …, at_most = … }` or `rounds = { deadlines = …, at_most = … }`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CellEnd {
    /// Number of whole transfers ([`TrialRecord::is_whole`]) after which a cell has no further rounds.
    Successes(u32),
    /// Number of trials stopped by their deadline after which a cell has no further rounds.
    Deadlines(u32),
}

/// Rule of a number of trials.
type FromNumber = fn(u32) -> CellEnd;

impl CellEnd {
    /// Rules by their keys in study files.
    pub(super) const RULES: [(&str, FromNumber); 2] = [
        ("successes", Self::Successes),
        ("deadlines", Self::Deadlines),
    ];

    /// Returns the number of counted trials that end a cell.
    #[must_use]
    pub const fn enough(self) -> u32 {
        match self {
            Self::Successes(enough) | Self::Deadlines(enough) => enough,
        }
    }

    /// Returns the rule for a study of this number of rounds.
    pub(super) fn within(self, rounds: u32) -> Self {
        match self {
            Self::Successes(enough) => Self::Successes(enough.min(rounds)),
            Self::Deadlines(enough) => Self::Deadlines(enough.min(rounds)),
        }
    }
}

/// Numbers of trials done in a cell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CellTrials {
    /// Trials that count for the rule that ends the cell.
    pub counted: u32,
    /// All other trials.
    pub others: u32,
}

impl CellTrials {
    /// Adds a trial.
    pub fn add(&mut self, is_counted: bool) {
        match is_counted {
            true => self.counted += 1,
            false => self.others += 1,
        }
    }
}

impl Study {
    /// Whether a trial counts for the rule that ends its cell. Without a rule none does.
    #[must_use]
    pub fn counts(&self, trial: &TrialRecord) -> bool {
        match self.cell_end {
            None => false,
            Some(CellEnd::Successes(_)) => trial.is_whole(),
            Some(CellEnd::Deadlines(_)) => {
                trial.reached_deadline() || trial.outcome == Outcome::TimedOut
            }
        }
    }

    /// Whether a failed trial is an answer, as a cell is repeated until it has its successes.
    #[must_use]
    pub fn failures_are_answers(&self) -> bool {
        matches!(self.cell_end, Some(CellEnd::Successes(_)))
    }

    /// Returns the number of trials of a cell of which these are done, if its further ones are whole: the number of
    /// rounds, unless a rule ends the cell before.
    #[must_use]
    pub fn trials_of_cell(&self, done: CellTrials) -> u32 {
        let trials = match self.cell_end {
            Some(CellEnd::Successes(enough)) => enough.saturating_add(done.others),
            Some(CellEnd::Deadlines(enough)) if done.counted >= enough => {
                done.counted.saturating_add(done.others)
            }
            _ => self.rounds,
        };
        trials.min(self.rounds)
    }
}
