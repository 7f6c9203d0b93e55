//! Rule by which a run ends when its ranking is decided.

use regatta_model::{Study, TrialRecord};

/// Rule of `until = "decided"`. Only the report knows how a run is judged, which this crate does not depend on.
#[derive(Debug, Clone, Copy)]
pub struct StopRule {
    /// Returns the part of a record that the rule reads.
    pub digest: fn(&Study, &TrialRecord) -> TrialRecord,
    /// Whether a run with these digests, of whole rounds in the order of the plan, is decided.
    pub is_decided: fn(&Study, Vec<TrialRecord>) -> bool,
}
