//! Trials of a plan that are left to be run.

use std::collections::{BTreeMap, BTreeSet};

use regatta_model::CellTrials;

use super::{Cell, Done, Plan, PlannedTrial, done::Attempts};

impl Plan {
    /// Returns the trials of a round that are to be run next: those without a record, or, if there
    /// are none, those whose last attempt was invalid. Cells that the study's rule has ended in the rounds before
    /// have none.
    #[must_use]
    pub fn next_of_round(&self, round: u32, done: &Done) -> Vec<PlannedTrial> {
        let first = round as usize * self.cells();
        let blocks = done.blocks(self);
        let attempts = |trial: &PlannedTrial| done.attempts.get(&trial.index);
        let ended = self.ended(round, done);
        let of_round = self.trials.iter().skip(first).take(self.cells());
        let of_round = of_round
            .filter(|trial| blocks.contains(&self.block(trial)) && !ended.contains(&trial.cell));
        let new = of_round.clone().filter(|trial| attempts(trial).is_none());
        let new: Vec<PlannedTrial> = new.copied().collect();
        if !new.is_empty() {
            return new;
        }
        of_round
            .filter_map(|trial| match attempts(trial) {
                Some(Attempts {
                    made,
                    spoiled: true,
                    ..
                }) => self.trial(trial.index + *made * self.trials.len() as u32),
                _ => None,
            })
            .collect()
    }

    /// Returns the cells that the study's rule has ended in the rounds before this one.
    fn ended(&self, round: u32, done: &Done) -> BTreeSet<Cell> {
        let Some(rule) = self.study.cell_end else {
            return BTreeSet::new();
        };
        let before = round as usize * self.cells();
        let mut cells = self.done_by_cell(before, done);
        cells.retain(|_, trials| trials.counted >= rule.enough());
        let ended: BTreeSet<Cell> = cells.into_keys().collect();
        // Flows of a competition run together, until all have enough.
        let first = self.trials.iter().skip(before).take(self.cells);
        let have_all = first.filter(|trial| {
            let flows = self.flows(trial);
            flows.iter().all(|flow| ended.contains(&flow.cell))
        });
        have_all.map(|trial| trial.cell).collect()
    }

    /// Returns what is done in each cell of the first `trials` trials.
    fn done_by_cell(&self, trials: usize, done: &Done) -> BTreeMap<Cell, CellTrials> {
        let mut cells: BTreeMap<Cell, CellTrials> = BTreeMap::new();
        for trial in self.trials.iter().take(trials) {
            let of_cell = cells.entry(trial.cell).or_default();
            if let Some(attempts) = done.attempts.get(&trial.index) {
                of_cell.add(attempts.counted);
            }
        }
        cells
    }

    /// Returns the number of trials of the run if those that are not done yet are whole. It is the number
    /// of trials of the blocks that are to be run, unless a rule of the study ends cells.
    #[must_use]
    pub fn expected_trials(&self, done: &Done) -> usize {
        if self.study.cell_end.is_none() {
            return self.trials_of(done) as usize;
        }
        let cells = self.done_by_cell(self.trials.len(), done).into_values();
        let trials = cells.map(|it| self.study.trials_of_cell(it));
        trials.sum::<u32>() as usize
    }

    /// Returns the trials that are left to be run, in their order.
    #[must_use]
    pub fn remaining_trials(&self, done: &Done) -> Vec<PlannedTrial> {
        let rounds = self.remaining_rounds(done).into_iter();
        let trials = rounds.flat_map(|round| self.next_of_round(round, done));
        trials.collect()
    }

    /// Returns the rounds in which a trial is left to be run.
    #[must_use]
    pub fn remaining_rounds(&self, done: &Done) -> Vec<u32> {
        let blocks = done.blocks(self);
        let conditions = self.conditions();
        (blocks.start / conditions..blocks.end.div_ceil(conditions))
            .filter(|round| !self.next_of_round(*round, done).is_empty())
            .collect()
    }

    /// Whether no further round is to be run: none is left, or those before are enough by the study's `until`.
    #[must_use]
    pub fn is_over(&self, done: &Done) -> bool {
        let next = self.remaining_rounds(done).into_iter().next();
        next.is_none_or(|round| self.has_enough(round, done))
    }
}
