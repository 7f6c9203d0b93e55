//! Run with a virtual clock, in which each block has a guest of its own.
//!
//! A guest's kernel and its agents carry state from trial to trial: random numbers, timers, memory. In a
//! fresh guest a trial depends on the trials of its block only, so that a run gives the same figures
//! however it is divided: among shards, among guests at once, or by a stop between two blocks.

use std::collections::{BTreeMap, BTreeSet};

use regatta_model::Warning;

use super::{Files, GuestRun};
use crate::{
    error::EngineError,
    event::{Ending, Event, Listener, ListenerError},
    plan::{Done, Plan},
    run::end_run,
};

/// Listener that forwards events of one guest after another as those of one run.
struct OneRun<'a> {
    plan: &'a Plan,
    listener: &'a mut dyn Listener,
    started: bool,
    done: Done,
    /// Block that is run.
    block: u32,
    /// Block in whose guest each step of a path was checked. Guests of one study make equal checks.
    checked: BTreeMap<(String, u64), u32>,
    warnings: BTreeSet<Warning>,
}

impl Listener for OneRun<'_> {
    fn hear(&mut self, event: &Event) -> Result<(), ListenerError> {
        let passes = match event {
            Event::RunStarted { .. } => !std::mem::replace(&mut self.started, true),
            Event::PathChecked { check } => {
                let step = (check.condition.clone(), check.step_at_ns);
                *self.checked.entry(step).or_insert(self.block) == self.block
            }
            Event::Warning { warning } => self.warnings.insert(warning.clone()),
            Event::TrialEnded { trial } => {
                self.done.add(self.plan, trial);
                true
            }
            Event::RunEnded { .. } => false,
            Event::TrialStarted { .. } | Event::HostsSampled { .. } => true,
        };
        if passes {
            self.listener.hear(event)?;
        }
        Ok(())
    }
}

/// Runs the blocks with trials that are not in `done`.
pub(super) fn run(
    run: &GuestRun,
    done: &Done,
    files: &Files,
    listener: &mut dyn Listener,
) -> Result<Ending, EngineError> {
    let plan = run.plan();
    let mut one = OneRun {
        plan,
        listener,
        started: false,
        done: done.clone(),
        block: 0,
        checked: BTreeMap::new(),
        warnings: BTreeSet::new(),
    };
    for block in plan.blocks_left(done) {
        let round = block / plan.conditions();
        let begins = block % plan.conditions() == 0;
        if begins && plan.study().until.is_some() && plan.is_narrow(round, &one.done.values()) {
            break;
        }
        one.block = block;
        let of_block = one.done.of_block(plan, block);
        let ending = match run.run_rest(&of_block, files, &mut one) {
            // The guest of a later block had not started.
            Err(EngineError::Stopped) if one.started => Ending::interrupted(),
            ended => ended?,
        };
        if ending != Ending::Complete {
            return end_run(ending, one.listener);
        }
    }
    end_run(Ending::Complete, one.listener)
}
