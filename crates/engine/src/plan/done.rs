//! Trials of a plan that are done.

use std::{collections::BTreeMap, ops::Range};

use regatta_model::{Outcome, TrialRecord};
use serde::{Deserialize, Serialize};

use super::Plan;
use crate::series::SeriesDone;

/// Attempts made at one trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Attempts {
    /// Number of attempts.
    pub made: u32,
    /// Whether the last attempt was invalid.
    pub spoiled: bool,
    /// Value of the ranking's metric, if the last attempt was measured.
    value: Option<f64>,
    /// Whether the last attempt counts for the study's rule that ends a cell.
    #[serde(default)]
    pub counted: bool,
    /// Part of the record of the last attempt that the plan's [`StopRule`] reads, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    digest: Option<Box<TrialRecord>>,
}

/// Trials of a plan that have records, by position in the plan.
///
/// A trial is finished unless its last attempt was [`Outcome::Invalid`] and it has been attempted
/// less than [`Done::MAX_ATTEMPTS`] times: a trial that the machine spoiled is no evidence about a transport.
/// No other outcome is ever repeated.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Done {
    pub(super) attempts: BTreeMap<u32, Attempts>,
    /// Records of the flows of a competition until that of the last flow comes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    competing: Vec<TrialRecord>,
    /// State of the series after the trials, if the study is one.
    series: Option<SeriesDone>,
    /// Blocks of the plan that are to be run ([`Plan::block`]); all of them if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    blocks: Option<Range<u32>>,
}

impl Done {
    /// Maximum number of attempts at one trial.
    pub const MAX_ATTEMPTS: u32 = 3;

    /// Takes note of a record of this plan. Those of a competition's flows count once all have come, and are repeated
    /// only together: if one of them has failed, the others are invalid and stay so.
    pub fn add(&mut self, plan: &Plan, record: &TrialRecord) {
        let Some(flows) = plan.trial(record.index).map(|it| plan.flows(&it)) else {
            return;
        };
        if flows.len() == 1 {
            return self.add_attempt(plan, record, record.outcome == Outcome::Invalid);
        }
        self.competing.retain(|other| other.index != record.index);
        self.competing.push(record.clone());
        let is_beside = |it: &TrialRecord| flows.iter().any(|flow| flow.index == it.index);
        if self.competing.iter().filter(|it| is_beside(it)).count() == flows.len() {
            let held = std::mem::take(&mut self.competing).into_iter();
            let (records, others): (Vec<_>, Vec<_>) = held.partition(is_beside);
            self.competing = others;
            let spoiled = records.iter().all(|it| it.outcome == Outcome::Invalid);
            for record in records {
                self.add_attempt(plan, &record, spoiled);
            }
        }
    }

    fn add_attempt(&mut self, plan: &Plan, record: &TrialRecord, spoiled: bool) {
        let made = record.attempt;
        let attempts = Attempts {
            made,
            spoiled: spoiled && made < Self::MAX_ATTEMPTS,
            value: plan.ranked_by(record),
            counted: plan.study.counts(record),
            digest: (plan.rule_of_study()).map(|rule| Box::new((rule.digest)(&plan.study, record))),
        };
        let first = record.index % (plan.trials.len() as u32).max(1);
        let known = self.attempts.get(&first);
        if known.is_none_or(|known| known.made <= made) {
            self.attempts.insert(first, attempts);
        }
        self.series = SeriesDone::after(record).or(self.series);
    }

    /// Returns the state of the series after the last trial.
    pub(crate) fn series(&self) -> Option<SeriesDone> {
        self.series
    }

    /// Restricts the run to these blocks. Attempts at trials of other blocks stay known.
    #[must_use]
    pub(crate) fn within(self, blocks: Range<u32>) -> Self {
        Self {
            blocks: Some(blocks),
            ..self
        }
    }

    /// Restricts the run to these blocks, and forgets the attempts at trials of other blocks.
    #[must_use]
    pub(crate) fn only(mut self, plan: &Plan, blocks: Range<u32>) -> Self {
        self.attempts.retain(|index, _| {
            let trial = plan.trials.get(*index as usize);
            trial.is_some_and(|trial| blocks.contains(&plan.block(trial)))
        });
        self.within(blocks)
    }

    /// Whether there is a record of this attempt at a trial, or of a later one.
    pub(crate) fn has(&self, plan: &Plan, index: u32, attempt: u32) -> bool {
        let first = index % (plan.trials.len() as u32).max(1);
        let known = self.attempts.get(&first);
        known.is_some_and(|known| known.made >= attempt)
    }

    /// Returns the state in which a new guest with a virtual clock runs these blocks, from their first trial
    /// on. Only a run that may end early needs to know of the rounds before.
    pub(crate) fn anew(&self, plan: &Plan, blocks: Range<u32>) -> Self {
        let first = blocks.start / plan.conditions() * plan.cells() as u32;
        let known = match plan.study.may_end_early() {
            true => first,
            false => 0,
        };
        let attempts = self.attempts.range(..known);
        Self {
            attempts: attempts
                .map(|(index, made)| (*index, made.clone()))
                .collect(),
            competing: Vec::new(),
            series: None,
            blocks: Some(blocks),
        }
    }

    /// Returns the blocks of the plan that are to be run.
    pub(crate) fn blocks(&self, plan: &Plan) -> Range<u32> {
        self.blocks.clone().unwrap_or(0..plan.blocks())
    }

    /// Forgets the attempts at trials that are not finished, which are then run as if there were none.
    #[must_use]
    pub fn only_finished(mut self) -> Self {
        self.attempts.retain(|_, attempts| !attempts.spoiled);
        self
    }

    /// Returns the number of trials that are finished.
    #[must_use]
    pub fn finished(&self) -> usize {
        self.attempts.values().filter(|it| !it.spoiled).count()
    }

    /// Returns the values of the ranking's metric, by position in the plan, of the trials that were
    /// measured.
    pub(crate) fn values(&self) -> BTreeMap<u32, f64> {
        let value = |(index, attempts): (&u32, &Attempts)| Some((*index, attempts.value?));
        self.attempts.iter().filter_map(value).collect()
    }

    /// Returns the digests of the last attempts at the first `trials` trials of the plan.
    pub(crate) fn digests(&self, trials: u32) -> Vec<TrialRecord> {
        let attempts = self.attempts.range(..trials);
        attempts
            .filter_map(|(_, attempts)| attempts.digest.as_deref().cloned())
            .collect()
    }

    /// Returns the number of attempts made at all trials.
    pub(crate) fn attempts(&self) -> u32 {
        self.attempts.values().map(|it| it.made).sum()
    }
}
