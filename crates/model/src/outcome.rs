//! How a trial ended.

use serde::{Deserialize, Serialize};

/// How a trial ended. A trial that was not measured carries a reason beside this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Both ends agreed on what was delivered. A trial that reached its deadline is measured on
    /// what was delivered by then, and is flagged.
    Measured,
    /// The transport cannot run here; the reason says why. Never reported as zero.
    Unsupported,
    /// Something broke; the reason says what.
    Failed,
    /// An end gave no answer in time, so there is nothing to measure.
    TimedOut,
    /// Ran, but its figures must not be used: the path was outside its tolerance.
    Invalid,
}

impl Outcome {
    /// Every outcome, in the order of a table.
    pub const ALL: [Self; 5] = [
        Self::Measured,
        Self::Unsupported,
        Self::Failed,
        Self::TimedOut,
        Self::Invalid,
    ];

    /// The name in files and tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Unsupported => "unsupported",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Invalid => "invalid",
        }
    }
}
