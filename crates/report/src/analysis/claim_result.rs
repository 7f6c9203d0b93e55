//! Types of the study's claims in `summary.json`.

use regatta_model::study::ClaimedCell;
use serde::{Deserialize, Serialize};

use crate::language::{plural, tr};

/// Outcome of a claim, the least grave first: that of several places is the gravest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimOutcome {
    /// The results show the relation.
    ComesOut,
    /// The intervals of this run do not decide it.
    Undecided,
    /// A cell of the claim has no value of the metric in this run.
    NotMeasured,
    /// The results contradict the relation.
    DoesNot,
    /// No run can show it, as the study says.
    NotSeen,
}

impl ClaimOutcome {
    /// Outcomes in the order of a summary.
    pub const ALL: [Self; 5] = [
        Self::ComesOut,
        Self::DoesNot,
        Self::Undecided,
        Self::NotMeasured,
        Self::NotSeen,
    ];

    /// Returns the outcome in words.
    #[must_use]
    pub fn text(self) -> String {
        match self {
            Self::ComesOut => tr!("comes out"),
            Self::DoesNot => tr!("does not come out"),
            Self::Undecided => tr!("undecided"),
            Self::NotMeasured => tr!("not measured here"),
            Self::NotSeen => tr!("cannot be seen here"),
        }
    }

    /// Returns the mark of the outcome.
    #[must_use]
    pub const fn mark(self) -> &'static str {
        match self {
            Self::ComesOut => "✓",
            Self::DoesNot => "✗",
            Self::Undecided => "?",
            Self::NotMeasured | Self::NotSeen => "–",
        }
    }
}

/// Claim of the study with what the run shows of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClaimResult {
    /// The statement.
    pub text: String,
    /// Place in the publication.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Explanation of the outcome, from the study.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Name of the relation: `order`, `crossing`, `same`, `ratio`, `value`, `trend` or `not_seen`.
    pub relation: String,
    /// Name of the metric; absent for a statement that no run can show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// Whether more than half of the places decide the outcome.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_most: bool,
    /// Outcome: the gravest of the checks, or that of most places.
    pub outcome: ClaimOutcome,
    /// Finding, in a sentence without its full stop; of several checks the number with this outcome, and the first of them.
    /// With `in_most`, the number of places, and a place with another outcome.
    pub found: String,
    /// Checks, one for each place at which the relation has to hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<ClaimCheck>,
}

/// Check of a claim at one place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClaimCheck {
    /// Outcome here.
    pub outcome: ClaimOutcome,
    /// Finding, with the figures that decide.
    pub text: String,
    /// Names of transport, condition and workload of each cell.
    pub cells: Vec<ClaimedCell>,
}

/// Returns the number of claims with an outcome.
#[must_use]
pub fn count(claims: &[ClaimResult], outcome: ClaimOutcome) -> usize {
    claims.iter().filter(|it| it.outcome == outcome).count()
}

/// Returns the line about all claims of a study; `None` without any.
#[must_use]
pub fn line(claims: &[ClaimResult]) -> Option<String> {
    let number = |outcome| count(claims, outcome) as u64;
    let seen = claims.len() as u64 - number(ClaimOutcome::NotSeen);
    if claims.is_empty() {
        return None;
    }
    let first = plural!(
        seen,
        "{1} of {0} claim comes out",
        "{1} of {0} claims come out",
        number(ClaimOutcome::ComesOut)
    );
    let further = [
        (
            ClaimOutcome::DoesNot,
            plural!(number(ClaimOutcome::DoesNot), "{} does not", "{} do not"),
        ),
        (
            ClaimOutcome::Undecided,
            tr!("{} undecided", number(ClaimOutcome::Undecided)),
        ),
        (
            ClaimOutcome::NotMeasured,
            tr!("{} not measured here", number(ClaimOutcome::NotMeasured)),
        ),
        (
            ClaimOutcome::NotSeen,
            tr!("{} more cannot be seen here", number(ClaimOutcome::NotSeen)),
        ),
    ];
    let further = further
        .into_iter()
        .filter(|(outcome, _)| number(*outcome) > 0);
    Some(further.fold(first, |line, (_, text)| format!("{line}, {text}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(outcomes: &[ClaimOutcome]) -> Vec<ClaimResult> {
        let claim = |outcome: &ClaimOutcome| ClaimResult {
            text: String::new(),
            place: None,
            note: None,
            relation: "order".to_owned(),
            metric: None,
            in_most: false,
            outcome: *outcome,
            found: String::new(),
            checks: Vec::new(),
        };
        outcomes.iter().map(claim).collect()
    }

    #[test]
    fn one_line_counts_the_claims_that_can_be_seen() {
        use ClaimOutcome::{ComesOut, DoesNot, NotMeasured, NotSeen, Undecided};
        let text = |outcomes: &[ClaimOutcome]| line(&claims(outcomes));
        assert_eq!(text(&[]), None);
        assert_eq!(text(&[ComesOut]).as_deref(), Some("1 of 1 claim comes out"));
        assert_eq!(
            text(&[ComesOut, DoesNot, Undecided, NotMeasured, NotSeen, NotSeen]).as_deref(),
            Some(
                "1 of 4 claims come out, 1 does not, 1 undecided, 1 not measured here, 2 more cannot be seen here"
            )
        );
    }
}
