//! A run: bed, agents, path checks, trials in the order of the plan.

mod agents;
mod bottleneck;
mod capture;
mod transfer_time;
mod trial;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::mpsc::{self, Receiver, Sender},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use regatta_bed::{OnDaemonEnd, OnStop, StopRequest, TestBed, guest::forgets_random_numbers};
use regatta_control::{Host, Progress, TlsMaterial};
use regatta_model::{
    BedKind, Clock, Condition, HOST_NAME, HostFacts, HostTuning, Measurements, Outcome, PathCheck,
    RunHeader, RunPart, TrialRecord, Warning,
    units::{nanoseconds, signed_nanoseconds},
};
use serde::{Deserialize, Serialize};

use self::capture::Capturing;
use crate::{
    agent::{Agent, AgentId, Signal},
    certificate,
    clocks::TrialClocks,
    error::EngineError,
    event::{Ending, Event, Listener},
    monitor::{HostMonitors, name_in_header},
    plan::{Cell, Done, Plan, PlannedTrial},
    plausible,
    series::Series,
    stop::Stopper,
};

/// Maximum number of checks of one condition's path in a row. A check is repeated only if the machine disturbed
/// it, by evidence that is not its result.
const PATH_CHECKS: u32 = 3;

/// Time after which the path of a condition is checked again before the next round.
const PATH_CHECK_INTERVAL: Duration = Duration::from_secs(600);

/// Wait for a round of a series from which on the wait is announced.
const MIN_ANNOUNCED_WAIT: Duration = Duration::from_secs(1);

/// Fact of the hosts of a guest with a virtual clock: what a trial finds of those before it (docs/beds.md).
const STATE: &str = "guest.state";

/// Settings of a run beside its plan.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Identifier of the run, unique; a resumed run keeps its own.
    pub run_id: String,
    /// Text of the study for the header of the results, see
    /// [`RunHeader::study_text`](regatta_model::RunHeader::study_text).
    pub study_text: String,
    /// Trials that an earlier part of this run has done.
    pub done: Done,
    /// Directory for files of trials, such as captures and the key logs that transports' options
    /// ask for: each trial has one of its own in it. It need not exist. In the directory of the run
    /// it is `files`.
    pub files: Option<PathBuf>,
    /// Identity of the run as a part of its plan.
    pub part: RunPart,
}

/// Run that can be stopped.
pub struct Run {
    plan: Plan,
    options: RunOptions,
    path_check_interval: Duration,
    progress: Option<ProgressListener>,
    stop: StopRequest,
    _on_stop: OnStop,
    wake: Sender<Signal>,
    signals: Receiver<Signal>,
}

/// Listener to trials under way.
pub struct ProgressListener {
    interval: Box<dyn Fn() -> Option<Duration>>,
    callback: Box<dyn Fn(TrialProgress)>,
}

impl ProgressListener {
    /// Creates a listener. `interval` returns the time between two reports of an end, as each trial begins; `None` if
    /// nobody reads them. `callback` takes a report, while the engine waits for the end of the trial.
    pub fn new(
        interval: impl Fn() -> Option<Duration> + 'static,
        callback: impl Fn(TrialProgress) + 'static,
    ) -> Self {
        let (interval, callback) = (Box::new(interval), Box::new(callback));
        Self { interval, callback }
    }

    /// Returns the time between two reports of an end; `None` if nobody reads them.
    #[must_use]
    pub fn interval(&self) -> Option<Duration> {
        (self.interval)()
    }

    /// Takes a report.
    pub fn on_progress(&self, progress: TrialProgress) {
        (self.callback)(progress);
    }
}

/// Counters of one end of a trial under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialProgress {
    /// Position in the plan.
    pub trial: u32,
    /// Host of the end.
    pub host: Host,
    /// Counters since the beginning of the transfer.
    pub progress: Progress,
    /// Packets that each direction of the path has dropped in this trial, for whatever cause, forward first; read
    /// with the report of the listening end, of an emulated path.
    pub dropped: Option<[u64; 2]>,
}

/// Returns the time of this machine's clock, in nanoseconds since the Unix epoch.
#[must_use]
pub fn unix_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, signed_nanoseconds)
}

impl Run {
    /// Creates a run of this plan.
    #[must_use]
    pub fn new(plan: Plan, options: RunOptions) -> Self {
        let (wake, signals) = mpsc::channel();
        let stop = StopRequest::default();
        let to_stop = wake.clone();
        let on_stop = stop.calls(move || {
            // Fails once the run is over, and then nothing is left to stop.
            let _ = to_stop.send(Signal::Stop);
        });
        Self {
            plan,
            options,
            path_check_interval: PATH_CHECK_INTERVAL,
            progress: None,
            stop,
            _on_stop: on_stop,
            wake,
            signals,
        }
    }

    /// Has both ends of a trial report their progress while it runs.
    #[must_use]
    pub fn with_progress(self, listener: ProgressListener) -> Self {
        Self {
            progress: Some(listener),
            ..self
        }
    }

    /// Sets the time between path checks.
    #[cfg(test)]
    pub fn with_path_check_interval(mut self, interval: Duration) -> Self {
        self.path_check_interval = interval;
        self
    }

    /// Returns a handle that stops the run, from any thread.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stop.clone())
    }

    /// Returns the request to stop, for what is waited for before the run.
    #[must_use]
    pub const fn stop(&self) -> &StopRequest {
        &self.stop
    }

    /// Runs the rest of the plan on a bed and sends all events to the listener.
    ///
    /// A trial that fails, times out or is unsupported is a record like any other, and the run goes
    /// on; an invalid one is repeated at the end of its round. An agent that died or hung is
    /// replaced.
    ///
    /// # Errors
    /// [`EngineError`] where the run cannot start, the bed breaks, or the listener cannot keep the
    /// results; the events sent before are complete.
    pub fn run(
        self,
        bed: &mut dyn TestBed,
        listener: &mut dyn Listener,
    ) -> Result<Ending, EngineError> {
        let tls = certificate::make()?;
        bed.stop_checks_with(&self.stop);
        let path_ended = self.wake.clone();
        bed.on_daemon_end(OnDaemonEnd::new(move || {
            // Fails once the run is over.
            let _ = path_ended.send(Signal::PathEnded);
        }));
        let mut runner = TrialRunner {
            plan: &self.plan,
            options: &self.options,
            path_check_interval: self.path_check_interval,
            progress: self.progress.as_ref(),
            doubted: BTreeMap::new(),
            checked: BTreeMap::new(),
            round_trips: BTreeMap::new(),
            bed,
            tls,
            stop: &self.stop,
            wake: &self.wake,
            signals: &self.signals,
            agents: BTreeMap::new(),
            generation: 0,
            capturing: None,
            clocks: None,
            monitors: HostMonitors::new(),
        };
        let ending = runner.run(listener);
        runner.end_agents();
        ending
    }
}

/// State of the engine during a run.
pub(crate) struct TrialRunner<'a> {
    pub plan: &'a Plan,
    pub options: &'a RunOptions,
    path_check_interval: Duration,
    /// Listener to trials under way.
    pub progress: Option<&'a ProgressListener>,
    /// Warning of the last path check of a condition, by the condition's position in the study.
    doubted: BTreeMap<usize, Warning>,
    /// Time of the last path check of a condition, by the condition's position in the study.
    checked: BTreeMap<usize, Instant>,
    /// Mean round-trip delay that the last check of a network as it is found, by the condition's position
    /// in the study.
    pub round_trips: BTreeMap<usize, Duration>,
    pub bed: &'a mut dyn TestBed,
    pub tls: TlsMaterial,
    pub stop: &'a StopRequest,
    pub wake: &'a Sender<Signal>,
    pub signals: &'a Receiver<Signal>,
    pub agents: BTreeMap<AgentId, Agent>,
    pub generation: u32,
    pub capturing: Option<Capturing>,
    /// Clocks of the hosts, while a trial runs.
    pub clocks: Option<TrialClocks>,
    monitors: HostMonitors,
}

/// Findings of earlier trials of this part of the run.
#[derive(Default)]
struct Known {
    /// Cells that cannot run here.
    unsupported: BTreeMap<Cell, TrialRecord>,
    /// Congestion controls by the transport's label.
    controls: BTreeMap<String, BTreeSet<String>>,
}

fn notify_all(listener: &mut dyn Listener, events: Vec<Event>) -> Result<(), EngineError> {
    events.iter().try_for_each(|event| notify(listener, event))
}

pub(crate) fn notify(listener: &mut dyn Listener, event: &Event) -> Result<(), EngineError> {
    let result = listener.on_event(event);
    result.map_err(|source| EngineError::Listener { source })
}

/// Reports the end of the run and returns its ending.
pub(crate) fn end_run(ending: Ending, listener: &mut dyn Listener) -> Result<Ending, EngineError> {
    let event = Event::RunEnded {
        ending: ending.clone(),
    };
    notify(listener, &event)?;
    Ok(ending)
}

impl TrialRunner<'_> {
    pub fn stopped(&self) -> bool {
        self.stop.is_requested()
    }

    fn run(&mut self, listener: &mut dyn Listener) -> Result<Ending, EngineError> {
        self.ensure_agents(1)?;
        let state = self.state_before_trials()?;
        let study = self.plan.study();
        let header = RunHeader {
            run_id: self.options.run_id.clone(),
            regatta_version: env!("CARGO_PKG_VERSION").to_owned(),
            started_unix_ns: unix_ns(),
            study: study.clone(),
            study_text: self.options.study_text.clone(),
            bed: self.bed.description(),
            hosts: self.host_facts(state),
            part: self.options.part.clone(),
        };
        let started = Event::RunStarted {
            header: Box::new(header),
            trials: self.plan.expected_trials(&self.options.done) as u32,
            done: self.options.done.finished() as u32,
        };
        notify(listener, &started)?;
        let ending = self.monitored(listener, Self::run_until_stopped)?;
        end_run(ending, listener)
    }

    /// Runs `work` with monitors on both hosts, if the bed has any, and forwards their last samples
    /// however it ends.
    fn monitored(
        &mut self,
        listener: &mut dyn Listener,
        work: impl FnOnce(&mut Self, &mut dyn Listener) -> Result<Ending, EngineError>,
    ) -> Result<Ending, EngineError> {
        let ending =
            notify_all(listener, self.monitors.start(self.bed)).and_then(|()| work(self, listener));
        let mut last = self.monitors.end();
        if self.stopped() {
            // A stop has ended the monitors of other machines.
            last.retain(|event| !matches!(event, Event::Warning { .. }));
        }
        let notified = notify_all(listener, last);
        // The first error is the one to return.
        let ending = ending?;
        notified.map(|()| ending)
    }

    /// Whether the run is in virtual time.
    pub fn has_virtual_clock(&self) -> bool {
        self.plan.study().guest.clock == Clock::Virtual
    }

    /// Describes what a trial in virtual time finds of those before it; `None` with a real clock.
    fn state_before_trials(&self) -> Result<Option<&'static str>, EngineError> {
        if !self.has_virtual_clock() {
            return Ok(None);
        }
        let forgets = forgets_random_numbers();
        let forgets = forgets.map_err(|source| EngineError::RandomNumbers { source })?;
        Ok(Some(match forgets {
            true => "afresh with each trial",
            false => "random numbers go on from trial to trial, with this kernel",
        }))
    }

    fn host_facts(&self, state: Option<&str>) -> BTreeMap<String, HostFacts> {
        let facts_of = |(AgentId { host, .. }, agent): (&AgentId, &Agent)| {
            let mut facts = agent.facts.clone();
            if self.plan.study().bed != BedKind::Hosts {
                // Those that vary with the condition are facts of the trials, `kernel_settings`.
                let varying = varying_sysctls(&self.plan.study().conditions);
                facts.0.retain(|name, _| {
                    name.strip_prefix("sysctl.")
                        .is_none_or(|name| !varying.contains(name))
                });
            }
            let mut put = |name: &str, value| facts.0.insert(name.to_owned(), value);
            put("version.regatta", agent.version.clone());
            if let Some(state) = state {
                put(STATE, state.to_owned());
            }
            if self.bed.has_names() {
                put(HOST_NAME, self.bed.name(*host).to_owned());
            }
            (name_in_header(*host).to_owned(), facts)
        };
        self.agents.iter().map(facts_of).collect()
    }

    /// Runs the rounds. The loss of a host, if a stop was requested, is no error.
    fn run_until_stopped(&mut self, listener: &mut dyn Listener) -> Result<Ending, EngineError> {
        match self.run_rounds(listener) {
            Err(EngineError::Bed(_) | EngineError::Stopped) if self.stopped() => {
                Ok(Ending::interrupted())
            }
            ended => ended,
        }
    }

    fn run_rounds(&mut self, listener: &mut dyn Listener) -> Result<Ending, EngineError> {
        let mut done = self.options.done.clone();
        let mut known = Known::default();
        let study = self.plan.study();
        let rounds = self.plan.remaining_rounds(&done);
        let conditions: BTreeSet<usize> = rounds
            .iter()
            .flat_map(|round| self.plan.next_of_round(*round, &done))
            .map(|trial| trial.cell.condition)
            .collect();
        let mut series = None;
        let begun = Instant::now();
        let first = rounds.first().copied();
        for round in rounds {
            let is_out_of_time = (study.time_limit).is_some_and(|it| begun.elapsed() >= it);
            if self.plan.has_enough(round, &done) || (is_out_of_time && Some(round) != first) {
                break;
            }
            if self.plan.next_of_round(round, &done).is_empty() {
                continue;
            }
            // Before the round, so that a check delays none of a series.
            if !self.check_paths(&conditions, listener)? {
                return Ok(Ending::interrupted());
            }
            series = series.or_else(|| Series::begin(study, done.series(), round, unix_ns()));
            if !self.wait_for(&mut series, round, listener)? {
                return Ok(Ending::interrupted());
            }
            // First what has no record, then what the machine spoiled, until nothing is left.
            loop {
                let remaining = self.plan.next_of_round(round, &done);
                if remaining.is_empty() {
                    break;
                }
                let mut remaining = &remaining[..];
                while let Some(first) = remaining.first() {
                    if self.stopped() {
                        return Ok(Ending::interrupted());
                    }
                    let (flows, others) = remaining.split_at(self.plan.flows(first).len());
                    remaining = others;
                    let times = series.as_ref().map(Series::metrics);
                    let Some(records) = self.run_flows(flows, &mut known, listener)? else {
                        return Ok(Ending::interrupted());
                    };
                    let last = records.len() - 1;
                    for (position, mut record) in records.into_iter().enumerate() {
                        let metrics = &mut record.measurements.metrics;
                        metrics.extend(times.into_iter().flatten());
                        done.add(self.plan, &record);
                        let (trial, more) = (Box::new(record), position < last);
                        notify(listener, &Event::TrialEnded { trial, more })?;
                    }
                    notify_all(listener, self.monitors.events())?;
                }
            }
        }
        if self.bed.is_real() {
            // A network that nobody controls may have changed since the last check.
            self.checked.clear();
            self.check_paths(&conditions, listener)?;
        }
        // Those of a competition are compared on purpose.
        let competes = study.workloads.iter().any(|it| it.competition.is_some());
        let controls = (!competes)
            .then(|| plausible::congestion_controls(&study.transports, &known.controls))
            .flatten();
        if let Some(warning) = controls {
            notify(listener, &Event::Warning { warning })?;
        }
        Ok(Ending::Complete)
    }

    /// Waits until a round of a series begins. Returns `false` if the run was stopped.
    fn wait_for(
        &mut self,
        series: &mut Option<Series>,
        round: u32,
        listener: &mut dyn Listener,
    ) -> Result<bool, EngineError> {
        let Some(series) = series else {
            return Ok(true);
        };
        let wait = series.next(round);
        let is_real = self.plan.study().guest.clock == Clock::Real;
        if is_real && wait > MIN_ANNOUNCED_WAIT {
            let wait_ns = nanoseconds(wait);
            notify(listener, &Event::RoundWaits { round, wait_ns })?;
        }
        self.rest(Instant::now() + wait);
        series.begin_round();
        Ok(!self.stopped())
    }

    /// Runs one trial, or those of a competition's flows at once. Returns their records, at once if a cell is known to be
    /// unsupported; `None` if the run was stopped.
    fn run_flows(
        &mut self,
        flows: &[PlannedTrial],
        known: &mut Known,
        listener: &mut dyn Listener,
    ) -> Result<Option<Vec<TrialRecord>>, EngineError> {
        // A cell that cannot run here cannot run in the next round either; every round still has its
        // record. Of a competition then none has run.
        let unsupported = flows.iter().map(|trial| {
            let record = known.unsupported.get(&trial.cell)?;
            Some(TrialRecord {
                index: trial.index,
                round: trial.round,
                seed: trial.seed,
                started_unix_ns: unix_ns(),
                ..record.clone()
            })
        });
        if let Some(records) = unsupported.collect() {
            return Ok(Some(records));
        }
        notify_all(listener, self.monitors.start(self.bed))?;
        for trial in flows {
            notify(listener, &self.announce(trial))?;
        }
        self.monitors
            .at_edge(flows.first().map(|trial| trial.index));
        let records = self.run_trials(flows);
        self.monitors.at_edge(None);
        let Some(mut records) = records? else {
            return Ok(None);
        };
        for (trial, record) in flows.iter().zip(&mut records) {
            self.remember(trial, record, known);
        }
        Ok(Some(records))
    }

    /// Takes note of what later trials are to know of this one, and adds the doubt about its path.
    fn remember(&self, trial: &PlannedTrial, record: &mut TrialRecord, known: &mut Known) {
        match record.outcome {
            Outcome::Unsupported => {
                known.unsupported.insert(trial.cell, record.clone());
            }
            Outcome::Measured | Outcome::Invalid => {
                let Measurements {
                    warnings, facts, ..
                } = &mut record.measurements;
                if let Some(warning) = self.doubted.get(&trial.cell.condition)
                    && !warnings.iter().any(|known| known.code == warning.code)
                {
                    warnings.push(warning.clone());
                }
                if let Some(control) = facts.get("congestion_control.sender") {
                    let of_transport = known.controls.entry(record.transport.to_string());
                    of_transport.or_default().insert(control.to_string());
                }
            }
            Outcome::Failed | Outcome::TimedOut => {}
        }
    }

    fn announce(&self, trial: &PlannedTrial) -> Event {
        let [transport, condition, workload] = self.plan.names(trial.cell).map(String::clone);
        Event::TrialStarted {
            index: trial.index,
            attempt: trial.attempt,
            round: trial.round,
            transport,
            condition,
            workload,
        }
    }

    /// Measures the path under each of these conditions whose last check is too long ago, and every
    /// step of its schedule. A check that the machine disturbed is repeated; the result of any
    /// other check stands. Returns `false` if the run was stopped.
    fn check_paths(
        &mut self,
        conditions: &BTreeSet<usize>,
        listener: &mut dyn Listener,
    ) -> Result<bool, EngineError> {
        for &position in conditions {
            let checked = self.checked.get(&position);
            if checked.is_some_and(|at| at.elapsed() < self.path_check_interval) {
                continue;
            }
            let mut warnings = Vec::new();
            for (at, step) in self.plan.study().conditions[position].fixed_steps() {
                let mut attempts = PATH_CHECKS;
                let check = loop {
                    if self.stopped() {
                        return Ok(false);
                    }
                    attempts -= 1;
                    let check = match self.bed.check_path(&step) {
                        Ok(check) => check,
                        Err(_) if self.stopped() => return Ok(false),
                        Err(error) => {
                            if !self.bed.restore(self.stop)? {
                                return Err(error.into());
                            }
                            self.end_agents();
                            self.bed.check_path(&step)?
                        }
                    };
                    let step_at_ns = nanoseconds(at);
                    let check = PathCheck {
                        step_at_ns,
                        ..check
                    };
                    let checked = Event::PathChecked {
                        check: check.clone(),
                    };
                    notify(listener, &checked)?;
                    notify_all(listener, self.monitors.events())?;
                    if check.spoiled.is_none() || attempts == 0 {
                        break check;
                    }
                };
                warnings.extend(plausible::path_warning(&check, self.is_unknown()));
                let delay = (check.quantities.iter())
                    .find(|quantity| quantity.name == "round_trip_delay_p50_ns");
                if let (Some(delay), true) = (delay, self.bed.is_real()) {
                    let delay = Duration::from_nanos(delay.achieved.max(0.0) as u64);
                    self.round_trips.insert(position, delay);
                }
            }
            for warning in &warnings {
                let warning = warning.clone();
                notify(listener, &Event::Warning { warning })?;
            }
            match warnings.into_iter().next() {
                Some(warning) => self.doubted.insert(position, warning),
                None => self.doubted.remove(&position),
            };
            self.checked.insert(position, Instant::now());
        }
        Ok(true)
    }
}

/// Returns the sysctls to which some condition gives another value than the bench's, with which a host's facts are read.
fn varying_sysctls(conditions: &[Condition]) -> BTreeSet<&'static str> {
    let bench: BTreeMap<_, _> = HostTuning::default().sysctls().collect();
    let all = conditions.iter().flat_map(|it| it.tuning.sysctls());
    all.filter(|(name, value)| bench.get(name) != Some(value))
        .map(|(name, _)| name)
        .collect()
}
