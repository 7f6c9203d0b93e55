//! Order of the trials of guests that run at once, for a run that ends by a rule.
//!
//! A guest may be rounds ahead of another. The rule looks at whole rounds, one after another, and the trials of rounds
//! behind the last one are discarded, so that the run is the same whatever the number of guests.

use std::collections::BTreeMap;

use crate::{
    event::Event,
    plan::{Done, Plan},
};

/// Events of trials that wait for the rounds before theirs.
pub(super) struct InOrder<'a> {
    plan: &'a Plan,
    done: Done,
    /// First round that is not whole.
    round: u32,
    held: BTreeMap<u32, Vec<Event>>,
    is_over: bool,
}

impl<'a> InOrder<'a> {
    /// Returns the state of a run of which `done` was run before.
    pub(super) fn new(plan: &'a Plan, done: Done) -> Self {
        let mut this = Self {
            plan,
            done,
            round: 0,
            held: BTreeMap::new(),
            is_over: false,
        };
        this.advance();
        this
    }

    /// Whether the rounds whose events were returned are enough.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Takes an event; returns those that are next.
    pub(super) fn take(&mut self, event: Event) -> Vec<Event> {
        let round = match &event {
            Event::TrialStarted { round, .. } => *round,
            Event::TrialEnded { trial, .. } => trial.round,
            _ => return vec![event],
        };
        self.held.entry(round).or_default().push(event);
        let mut next = Vec::new();
        while !self.is_over
            && let Some(events) = self.held.remove(&self.round)
        {
            for event in &events {
                if let Event::TrialEnded { trial, .. } = event {
                    self.done.add(self.plan, trial);
                }
            }
            next.extend(events);
            self.advance();
        }
        next
    }

    /// Goes on to the first round that is not whole, or to the one after the last.
    fn advance(&mut self) {
        let rounds = self.plan.study().rounds;
        while !self.is_over
            && self.round < rounds
            && self.plan.next_of_round(self.round, &self.done).is_empty()
        {
            self.round += 1;
            self.is_over = self.plan.has_enough(self.round, &self.done);
        }
    }
}

#[cfg(test)]
mod tests {
    use regatta_model::{Outcome, Until};

    use super::*;
    use crate::tests::{AFTER_FOUR_ROUNDS, fake_bed::study};

    /// Returns the indices of the trials that pass, of a run whose trials end in this order of the plan's.
    fn passed(order: impl IntoIterator<Item = usize>) -> (Vec<u32>, bool) {
        let mut study = study(2, 1, 10);
        study.until = Some(Until::Decided);
        let plan = Plan::new(&study).expect("few trials");
        let plan = plan.with_stop_rule(AFTER_FOUR_ROUNDS);
        let mut in_order = InOrder::new(&plan, Done::default());
        let mut passed = Vec::new();
        for position in order {
            let trial = plan.trials()[position];
            let record = plan.record(
                &trial,
                0,
                (
                    Outcome::Measured,
                    Vec::new(),
                    regatta_model::Text::default(),
                ),
            );
            let trial = Box::new(record);
            for event in in_order.take(Event::TrialEnded { trial, more: false }) {
                if let Event::TrialEnded { trial, .. } = event {
                    passed.push(trial.index);
                }
            }
        }
        (passed, in_order.is_over())
    }

    #[test]
    fn a_run_ends_with_the_same_round_whoever_is_ahead() {
        let by_rounds = passed(0..20);
        assert_eq!(by_rounds, (Vec::from_iter(0..8), true));
        // Two guests have half of the rounds each, and the second one is ahead.
        let halves = (0..10).flat_map(|it| [10 + it, it]);
        assert_eq!(passed(halves), by_rounds);
        let (mut backwards, is_over) = passed((0..20).rev());
        backwards.sort_unstable();
        assert_eq!((backwards, is_over), by_rounds);
    }

    #[test]
    fn rounds_after_one_that_is_not_whole_wait() {
        assert_eq!(passed([0, 2, 3, 4, 5]), (vec![0], false));
        assert_eq!(passed([0, 2, 3, 1, 6]), (vec![0, 1, 2, 3], false));
    }
}
