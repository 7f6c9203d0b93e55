//! Listener that stores a run's events in its results file.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use regatta_engine::{Ending, Event, Listener, ListenerError};
use regatta_model::{Outcome, RunHeader, TrialRecord, Warning, phrase, warning};
use regatta_results::{ResultsError, RunState, Store};

use crate::exit::Code;

/// Numbers of trials by outcome of their last attempt, over the whole run, including earlier parts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of trials with a record.
    pub trials: usize,
    /// Number of measured trials.
    pub measured: usize,
    /// Number of failed trials.
    pub failed: usize,
    /// Number of unsupported trials.
    pub unsupported: usize,
}

impl Tally {
    /// Returns the exit code of a whole run. A trial that timed out is a result beside measured ones, and one that the
    /// machine spoiled does not count: gates check whether too much is missing.
    pub fn verdict(self, gates_missed: bool) -> Code {
        if self.trials > 0 && self.unsupported == self.trials {
            Code::Unsupported
        } else if self.failed > 0 || gates_missed {
            Code::Failed
        } else {
            Code::Measured
        }
    }

    /// Returns the exit code of what has no gates, which fails if nothing was measured.
    pub fn verdict_without_gates(self) -> Code {
        self.verdict(self.measured == 0)
    }

    /// Counts the stored trials of a run.
    pub fn of<'a>(trials: impl IntoIterator<Item = &'a TrialRecord>) -> Self {
        let mut tally = Self::default();
        trials.into_iter().for_each(|trial| tally.add(trial));
        tally
    }

    /// Counts one more attempt. Only an invalid trial has more than one.
    pub fn add(&mut self, trial: &TrialRecord) {
        self.trials += usize::from(trial.attempt == 1);
        self.measured += usize::from(trial.outcome == Outcome::Measured);
        self.failed += usize::from(trial.outcome == Outcome::Failed);
        self.unsupported += usize::from(trial.outcome == Outcome::Unsupported);
    }
}

/// Results file of a run, once there is one.
pub struct StoreListener {
    dir: PathBuf,
    store: Option<Store>,
    tally: Tally,
    /// Records of competitions of which further flows follow, by what the flows have in common.
    held: BTreeMap<FlowsKey, Vec<TrialRecord>>,
}

/// Condition, workload, round and attempt, which the flows of a competition have in common.
type FlowsKey = (String, String, u32, u32);

impl StoreListener {
    /// Creates the listener of a new run: the file is created when the run has started.
    pub fn new(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            store: None,
            tally: Tally::default(),
            held: BTreeMap::new(),
        }
    }

    /// Creates the listener of a resumed run.
    pub fn resumed(dir: &Path, store: Store, tally: Tally) -> Self {
        Self {
            dir: dir.to_owned(),
            store: Some(store),
            tally,
            held: BTreeMap::new(),
        }
    }

    /// Whether there is a results file.
    pub fn started(&self) -> bool {
        self.store.is_some()
    }

    /// Returns the numbers of finished trials by outcome.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Records that the run was interrupted.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn interrupted(&mut self, reason: String) -> Result<(), ResultsError> {
        let state = RunState::Interrupted {
            reason: reason.into(),
        };
        (self.store.as_mut()).map_or(Ok(()), |store| store.set_state(&state))
    }
}

/// Returns a warning about a run that is resumed by another version or build than the one that
/// began it.
fn resumed(before: &RunHeader, now: &RunHeader) -> Option<Warning> {
    let build = |header: &RunHeader| -> Vec<(String, String)> {
        let facts = header.hosts.values().flat_map(|facts| facts.0.clone());
        facts.filter(|it| it.0.starts_with("build.")).collect()
    };
    let named = |header: &RunHeader| {
        let build = BTreeMap::from_iter(build(header));
        let of = |name: &str| build.get(name).map_or("unknown", String::as_str).to_owned();
        phrase::build(
            &header.regatta_version,
            &of("build.commit"),
            &of("build.dirty"),
            &of("build.profile"),
        )
    };
    let same = before.regatta_version == now.regatta_version && build(before) == build(now);
    (!same).then(|| warning::resumed_by_other_build(named(before), named(now)))
}

impl Listener for StoreListener {
    fn on_event(&mut self, event: &Event) -> Result<(), ListenerError> {
        if let Event::RunStarted { header, .. } = event {
            match &mut self.store {
                None => self.store = Some(Store::create(&self.dir, header)?),
                // A resumed run keeps its header, so differences are stored as a warning.
                Some(store) => {
                    store.set_state(&RunState::Running)?;
                    if let Some(warning) = resumed(&store.header()?, header) {
                        store.add_warning(&warning)?;
                    }
                }
            }
            return Ok(());
        }
        let Some(store) = &mut self.store else {
            return Ok(());
        };
        match event {
            Event::RunStarted { .. } | Event::RoundWaits { .. } => {}
            Event::TrialStarted {
                condition,
                workload,
                round,
                attempt,
                ..
            } => {
                // What is held is of a competition that another guest runs again.
                let key = (condition.clone(), workload.clone(), *round, *attempt);
                self.held.remove(&key);
            }
            Event::PathChecked { check } => store.add_path_check(check)?,
            Event::TrialEnded { trial, more } => {
                let key = (
                    trial.condition.to_string(),
                    trial.workload.to_string(),
                    trial.round,
                    trial.attempt,
                );
                self.tally.add(trial);
                if *more {
                    let held = self.held.entry(key).or_default();
                    held.push((**trial).clone());
                } else if let Some(mut trials) = self.held.remove(&key) {
                    trials.push((**trial).clone());
                    store.add_trials(&trials)?;
                } else {
                    store.add_trial(trial)?;
                }
            }
            Event::HostsSampled { samples } => store.add_host_samples(samples)?,
            Event::Warning { warning } => store.add_warning(warning)?,
            Event::RunEnded { ending } => store.set_state(&match ending {
                Ending::Complete => RunState::Complete,
                Ending::Interrupted { reason } => RunState::Interrupted {
                    reason: reason.clone(),
                },
            })?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_of_which_none_was_measured_are_no_success() {
        let verdict = |measured, unsupported| {
            let tally = Tally {
                trials: 3,
                measured,
                failed: 0,
                unsupported,
            };
            tally.verdict_without_gates()
        };
        assert_eq!(verdict(0, 0), Code::Failed);
        assert_eq!(verdict(1, 0), Code::Measured);
        assert_eq!(verdict(0, 3), Code::Unsupported);
    }
}
