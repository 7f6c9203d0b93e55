//! A run: bed, agents, path checks, trials in the order of the plan.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use regatta_control::TlsMaterial;
use regatta_model::{HostFacts, Outcome, RunHeader, TrialRecord, Warning};

use crate::{
    agent::{Agent, Signal},
    bed::{Host, TestBed},
    capture::Capturing,
    certificate,
    error::EngineError,
    event::{Ending, Event, Listener},
    plan::{Cell, Plan, PlannedTrial},
    plausible,
    stop::Stopper,
    trial::Verdict,
};

/// How often the path of a condition is checked at most before its trials: a machine that was busy
/// for a second, with the end of a build for instance, does not spoil a run.
const PATH_CHECKS: u32 = 3;

/// What a run needs to know beside its plan.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Identifier of the run, unique; a resumed run keeps its own.
    pub run_id: String,
    /// The study as the user wrote it, for the header.
    pub study_text: String,
    /// Trials that an earlier part of this run has done.
    pub done: BTreeSet<u32>,
    /// The metric of the ranking of those that were measured, for a study that ends by it.
    pub values: BTreeMap<u32, f64>,
    /// Directory for what trials leave besides their records, such as key logs that transports'
    /// options ask for, and captures: each trial has one of its own in it. It need not exist. In
    /// the directory of the run it is `files`.
    pub files: Option<PathBuf>,
}

/// A run that can be stopped.
pub struct Run {
    plan: Plan,
    options: RunOptions,
    asked: Arc<AtomicBool>,
    wake: Sender<Signal>,
    signals: Receiver<Signal>,
}

/// Nanoseconds since the Unix epoch.
pub(crate) fn unix_ns() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
        })
}

impl Run {
    /// A run of this plan.
    #[must_use]
    pub fn new(plan: Plan, options: RunOptions) -> Self {
        let (wake, signals) = mpsc::channel();
        Self {
            plan,
            options,
            asked: Arc::new(AtomicBool::new(false)),
            wake,
            signals,
        }
    }

    /// A handle that stops the run, from any thread.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper {
            asked: Arc::clone(&self.asked),
            wake: self.wake.clone(),
        }
    }

    /// Runs what is left of the plan on a bed and tells the listener of everything.
    ///
    /// A trial that fails, times out or is unsupported is a record like any other, and the run
    /// goes on. An agent that died or hung is replaced.
    ///
    /// # Errors
    /// [`EngineError`] where the run cannot start, the bed breaks, or the listener cannot keep
    /// what is measured; what was told before is whole.
    pub fn run(
        self,
        bed: &mut dyn TestBed,
        listener: &mut dyn Listener,
    ) -> Result<Ending, EngineError> {
        let tls = certificate::make()?;
        let mut crew = Crew {
            plan: &self.plan,
            options: &self.options,
            bed,
            tls,
            asked: &self.asked,
            wake: &self.wake,
            signals: &self.signals,
            agents: BTreeMap::new(),
            generation: 0,
            capturing: None,
        };
        let ending = crew.run(listener);
        crew.dismiss();
        ending
    }
}

/// The engine at work.
pub(crate) struct Crew<'a> {
    pub plan: &'a Plan,
    pub options: &'a RunOptions,
    pub bed: &'a mut dyn TestBed,
    pub tls: TlsMaterial,
    pub asked: &'a AtomicBool,
    pub wake: &'a Sender<Signal>,
    pub signals: &'a Receiver<Signal>,
    /// By host: 0 is A, 1 is B.
    pub agents: BTreeMap<usize, Agent>,
    pub generation: u32,
    pub capturing: Option<Capturing>,
}

/// Index of a host in tables.
pub(crate) fn slot(host: Host) -> usize {
    match host {
        Host::A => 0,
        Host::B => 1,
    }
}

pub(crate) fn tell(listener: &mut dyn Listener, event: &Event) -> Result<(), EngineError> {
    listener
        .hear(event)
        .map_err(|source| EngineError::Listener { source })
}

impl Crew<'_> {
    pub fn stopped(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    fn run(&mut self, listener: &mut dyn Listener) -> Result<Ending, EngineError> {
        self.ensure(Host::B)?;
        self.ensure(Host::A)?;
        let study = self.plan.study();
        let header = RunHeader {
            run_id: self.options.run_id.clone(),
            regatta_version: env!("CARGO_PKG_VERSION").to_owned(),
            started_unix_ns: unix_ns(),
            study: study.clone(),
            study_text: self.options.study_text.clone(),
            bed: self.bed.description(),
            hosts: self.host_facts(),
        };
        let trials = self.plan.trials().len() as u32;
        tell(
            listener,
            &Event::RunStarted {
                header: Box::new(header),
                trials,
                done: self.options.done.len() as u32,
            },
        )?;
        let left: Vec<PlannedTrial> = self
            .plan
            .trials()
            .iter()
            .filter(|trial| !self.options.done.contains(&trial.index))
            .copied()
            .collect();
        let ending = self.run_trials(&left, listener)?;
        tell(
            listener,
            &Event::RunEnded {
                ending: ending.clone(),
            },
        )?;
        Ok(ending)
    }

    fn host_facts(&self) -> BTreeMap<String, HostFacts> {
        let name = |slot: usize| if slot == 0 { "sender" } else { "receiver" };
        self.agents
            .iter()
            .map(|(&slot, agent)| {
                let mut facts = agent.facts.clone();
                facts
                    .0
                    .insert("version.regatta".to_owned(), agent.version.clone());
                (name(slot).to_owned(), facts)
            })
            .collect()
    }

    fn run_trials(
        &mut self,
        left: &[PlannedTrial],
        listener: &mut dyn Listener,
    ) -> Result<Ending, EngineError> {
        let doubted = match self.check_paths(left, listener)? {
            Some(doubted) => doubted,
            None => return Ok(self.interrupted()),
        };
        let mut unsupported: BTreeMap<Cell, TrialRecord> = BTreeMap::new();
        let mut controls: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut values = self.options.values.clone();
        let mut round = None;
        for trial in left {
            if self.stopped() {
                return Ok(self.interrupted());
            }
            if round.replace(trial.round) != Some(trial.round)
                && self.plan.is_narrow(trial.round, &values)
            {
                break;
            }
            let mut record = match unsupported.get(&trial.cell) {
                // What cannot run here cannot run in the next round either; every round still has
                // its record.
                Some(known) => TrialRecord {
                    index: trial.index,
                    round: trial.round,
                    seed: trial.seed,
                    started_unix_ns: unix_ns(),
                    ..known.clone()
                },
                None => {
                    tell(listener, &self.announce(trial))?;
                    match self.run_trial(trial)? {
                        Verdict::Ended(record) => *record,
                        Verdict::Stopped => return Ok(self.interrupted()),
                    }
                }
            };
            match record.outcome {
                Outcome::Unsupported => {
                    unsupported.insert(trial.cell, record.clone());
                }
                Outcome::Measured | Outcome::Invalid => {
                    if let Some(warning) = doubted.get(&trial.cell.condition)
                        && !record.warnings.iter().any(|w| w.code == warning.code)
                    {
                        record.warnings.push(warning.clone());
                    }
                    if let Some(control) = record.facts.get("congestion_control.sender") {
                        controls
                            .entry(record.transport.clone())
                            .or_default()
                            .insert(control.clone());
                    }
                }
                Outcome::Failed | Outcome::TimedOut => {}
            }
            values.extend(self.plan.ranked_by(&record));
            tell(
                listener,
                &Event::TrialEnded {
                    trial: Box::new(record),
                },
            )?;
        }
        if let Some(warning) = plausible::congestion_controls(&controls) {
            tell(listener, &Event::Warning { warning })?;
        }
        Ok(Ending::Complete)
    }

    fn announce(&self, trial: &PlannedTrial) -> Event {
        Event::TrialStarted {
            index: trial.index,
            round: trial.round,
            transport: self.plan.transport(trial.cell).label.clone(),
            condition: self.plan.condition(trial.cell).name.clone(),
            workload: self.plan.workload(trial.cell).name.clone(),
        }
    }

    /// Measures the path under every condition that has a trial left; again if something else kept
    /// the machine busy, each check being told. Returns what speaks against
    /// a condition, by its position, or `None` if the run was stopped.
    fn check_paths(
        &mut self,
        left: &[PlannedTrial],
        listener: &mut dyn Listener,
    ) -> Result<Option<BTreeMap<usize, Warning>>, EngineError> {
        let conditions: BTreeSet<usize> = left.iter().map(|trial| trial.cell.condition).collect();
        let mut doubted = BTreeMap::new();
        for position in conditions {
            if self.stopped() {
                return Ok(None);
            }
            let condition = &self.plan.study().conditions[position];
            let mut attempts = PATH_CHECKS;
            let warning = loop {
                attempts -= 1;
                let check = self.bed.check_path(condition)?;
                let warning = plausible::path_warning(&check);
                tell(listener, &Event::PathChecked { check })?;
                if warning.is_none() || attempts == 0 || self.stopped() {
                    break warning;
                }
            };
            if let Some(warning) = warning {
                tell(
                    listener,
                    &Event::Warning {
                        warning: warning.clone(),
                    },
                )?;
                doubted.insert(position, warning);
            }
        }
        Ok(Some(doubted))
    }

    fn interrupted(&self) -> Ending {
        Ending::Interrupted {
            reason: "stopped by the user".to_owned(),
        }
    }

    /// Starts the host's agent if it has none.
    pub fn ensure(&mut self, host: Host) -> Result<(), EngineError> {
        if self.agents.contains_key(&slot(host)) {
            return Ok(());
        }
        self.generation += 1;
        let agent = Agent::start(
            self.bed,
            host,
            self.generation,
            &self.options.run_id,
            (self.wake, self.signals),
        )?;
        self.agents.insert(slot(host), agent);
        Ok(())
    }

    /// Ends both agents: closes their input, and kills what does not end by itself.
    fn dismiss(&mut self) {
        for (_, agent) in std::mem::take(&mut self.agents) {
            let _ = agent.bury();
        }
    }
}
