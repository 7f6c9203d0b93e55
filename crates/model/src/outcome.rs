//! Outcome of a trial.

use crate::named::{Named as _, named};

/// Outcome of a trial. A trial that was not measured has reasons too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// Measured: both ends agreed on what was delivered. A trial that reached its deadline is
    /// measured on what was delivered by then, and is flagged.
    Measured,
    /// Transport not available here; the reason says why. Never reported as zero.
    Unsupported,
    /// Failed; the reason says how.
    Failed,
    /// Timed out: an end did not answer in time, so there is nothing to measure.
    TimedOut,
    /// Spoiled by the machine or by somebody outside, whatever the transport did: the path left its tolerance, an agent was
    /// killed or stopped, an interface or a host was lost. The figures are not used, and the trial is repeated.
    Invalid,
}

named!(Outcome:
    "measured" => Measured, "unsupported" => Unsupported, "failed" => Failed, "timed_out" => TimedOut,
    "invalid" => Invalid);

impl Outcome {
    /// All outcomes, in the order of a table.
    pub const ALL: [Self; 5] = [
        Self::Measured,
        Self::Unsupported,
        Self::Failed,
        Self::TimedOut,
        Self::Invalid,
    ];

    /// Returns the name in files and tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.as_str()
    }

    /// Returns the name for readers, without underscores.
    #[must_use]
    pub fn label(self) -> String {
        self.name().replace('_', " ")
    }
}
