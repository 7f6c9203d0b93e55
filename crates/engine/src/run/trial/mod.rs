//! Course of one trial, or of those of a competition's flows at once: path, both ends ready, start, notes both ways, both
//! ends finished.

mod messages;
mod ready;

use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    time::{Duration, Instant},
};

use regatta_bed::{BedError, PathCounters, guest::wait_for_short_timers};
use regatta_control::{FromAgent, Host, Progress, Role, SideReport, ToAgent};
use regatta_model::{
    Outcome, Text, TrialRecord, Workload, WorkloadKind, causes, metric::id, reason,
};

use crate::{
    agent::AgentId,
    clocks::ReadClocks,
    competition::{self, FlowServer},
    error::EngineError,
    failure::{TrialFailure, explain},
    impossible::Reported,
    limits,
    merge::merge,
    plan::PlannedTrial,
    plausible,
    run::{TrialProgress, TrialRunner, unix_ns},
};

/// Maximum number of attempts to get both ends ready for a trial: an agent that died or hung since the last
/// trial is replaced, as nothing is measured yet.
const READY_ATTEMPTS: u32 = 2;

/// Adds whether a transfer over a transport that does not retransmit arrived whole.
fn add_whole_transfer(record: &mut TrialRecord) {
    let retransmission = record.measurements.facts.get("retransmission");
    let sent = record.measurements.metrics.contains_key(id::BYTES_SENT);
    if record.outcome == Outcome::Measured && sent && retransmission.is_some_and(|it| it == "none")
    {
        let ratio = f64::from(u8::from(record.is_whole()));
        let metrics = &mut record.measurements.metrics;
        metrics.insert(id::WHOLE_TRANSFER_RATIO, ratio);
    }
}

/// End of one flow of a trial.
enum FlowEnd {
    /// Both ends have reported: sender and receiver.
    Reported(Box<[SideReport; 2]>),
    Failed(TrialFailure),
    /// The failure of another flow has ended this one.
    CutOff,
}

/// Flow of a trial under way: the only one, or one of a competition.
struct Flow<'a> {
    trial: PlannedTrial,
    workload: &'a Workload,
    /// Address on which its server listens.
    listen: SocketAddr,
    reports: BTreeMap<Role, SideReport>,
    end: Option<FlowEnd>,
}

/// A value, or the position of the flow that failed and its failure.
type FlowResult<T> = Result<T, (usize, TrialFailure)>;

/// Outcome of a trial, its reasons and a hint.
type Explained = (Outcome, Vec<Text>, Text);

impl TrialRunner<'_> {
    /// Runs one trial, or those of a competition's flows at once, with a capture. Returns their records, whatever the
    /// outcomes; `None` if the run was stopped meanwhile.
    pub fn run_trials(
        &mut self,
        trials: &[PlannedTrial],
    ) -> Result<Option<Vec<TrialRecord>>, EngineError> {
        let started_unix_ns = unix_ns();
        let mut records = match self.attempt(trials, started_unix_ns) {
            Err(EngineError::Bed(error)) => self.lost(trials, started_unix_ns, error)?,
            attempted => attempted?,
        };
        if let Some(records) = &mut records {
            for (trial, record) in trials.iter().zip(&mut *records) {
                let kind = &self.plan.workload(trial.cell).kind;
                if matches!(kind, WorkloadKind::Bulk { .. }) {
                    add_whole_transfer(record);
                }
            }
            self.end_capture(trials, records)?;
        }
        Ok(records)
    }

    /// Reaches the hosts again after an error of the bed, and makes the records of the trials that were lost
    /// by it, which are repeated like any that the machine spoiled.
    ///
    /// # Errors
    /// The bed's error if it is not one of a host that was lost, or the host cannot be reached.
    fn lost(
        &mut self,
        trials: &[PlannedTrial],
        started_unix_ns: i64,
        error: BedError,
    ) -> Result<Option<Vec<TrialRecord>>, EngineError> {
        if self.stopped() {
            return Ok(None);
        }
        if !self.bed.restore(self.stop)? {
            return Err(error.into());
        }
        self.end_agents();
        let causes: Vec<Text> = causes(&error).into_iter().map(Text::from).collect();
        let record = |trial| {
            let outcome = (Outcome::Invalid, causes.clone(), Text::default());
            self.plan.record(trial, started_unix_ns, outcome)
        };
        Ok(Some(trials.iter().map(record).collect()))
    }

    fn attempt(
        &mut self,
        trials: &[PlannedTrial],
        started_unix_ns: i64,
    ) -> Result<Option<Vec<TrialRecord>>, EngineError> {
        let mut attempts = READY_ATTEMPTS;
        let explained = loop {
            attempts -= 1;
            self.reap_ended_agents();
            let (ends, path_begun) = match self.make_ready(trials)? {
                Ok((servers, path_begun)) => (self.converse(trials, &servers), Some(path_begun)),
                Err((failed, failure)) => {
                    let mut ends: Vec<_> = trials.iter().map(|_| FlowEnd::CutOff).collect();
                    ends[failed] = FlowEnd::Failed(failure);
                    (ends, None)
                }
            };
            let is_reported = |end: &FlowEnd| matches!(end, FlowEnd::Reported(_));
            if let Some(path_begun) = path_begun
                && ends.iter().any(is_reported)
            {
                return self.records(trials, started_unix_ns, ends, path_begun);
            }
            self.clocks = None;
            let (explained, lacked_an_agent) = self.abort_all(trials, ends);
            if path_begun.is_some() || attempts == 0 || !lacked_an_agent {
                break explained;
            }
        };
        let Some(explained) = explained else {
            return Ok(None);
        };
        // Without its path every transport fails, and that is no finding about any of them: the
        // run ends here, and this trial is left to be done.
        self.bed.counters()?;
        let records = trials.iter().zip(explained);
        let records = records.map(|(trial, it)| self.plan.record(trial, started_unix_ns, it));
        Ok(Some(competition::judged(records.collect())))
    }

    /// Makes the records of flows of which at least one has both reports; `None` if the run was stopped meanwhile.
    fn records(
        &mut self,
        trials: &[PlannedTrial],
        started_unix_ns: i64,
        ends: Vec<FlowEnd>,
        path_begun: Instant,
    ) -> Result<Option<Vec<TrialRecord>>, EngineError> {
        let mut reports = Vec::new();
        let mut others = Vec::new();
        for end in ends {
            let (reported, other) = match end {
                FlowEnd::Reported(reported) => (Some(*reported), None),
                other => (None, Some(other)),
            };
            reports.push(reported);
            others.push(other);
        }
        let path = self.bed.counters()?;
        let counted = (!self.bed.is_real()).then(|| (&path, path_begun.elapsed()));
        let clocks = self.clocks.take();
        let clocks = clocks.map(|clocks| clocks.finish(self.bed)).transpose()?;
        let (mut records, mut starts) = (Vec::new(), Vec::new());
        for (flow, (trial, (reported, other))) in trials
            .iter()
            .zip(reports.into_iter().zip(others))
            .enumerate()
        {
            let client = Host::Client.role(self.plan.workload(trial.cell)) as usize;
            starts.push(reported.as_ref().map(|it| it[client].started_monotonic_ns));
            records.push(match (reported, other) {
                (Some(reports), _) => {
                    self.measured(trial, started_unix_ns, reports, counted, clocks.as_ref())
                }
                (None, end) => {
                    let end = end.unwrap_or(FlowEnd::CutOff);
                    let (Some(explained), _) = self.abort_flow(flow, trial, end) else {
                        return Ok(None);
                    };
                    self.plan.record(trial, started_unix_ns, explained)
                }
            });
        }
        if trials.len() > 1 {
            let counted = self.bed.flow_counters()?;
            competition::count(self.plan, trials, &counted, &mut records);
            records = competition::judged(records);
            competition::measure(self.plan, trials, &starts, &mut records);
        }
        Ok(Some(records))
    }

    /// Aborts all flows of a trial that failed. Returns the explanation of each, `None` if the run was stopped, and whether
    /// an agent was missing.
    fn abort_all(
        &mut self,
        trials: &[PlannedTrial],
        ends: Vec<FlowEnd>,
    ) -> (Option<Vec<Explained>>, bool) {
        let mut all = Some(Vec::new());
        let mut lacked_an_agent = false;
        for (flow, (trial, end)) in trials.iter().zip(ends).enumerate() {
            let (explained, lacked) = self.abort_flow(flow, trial, end);
            lacked_an_agent |= lacked;
            all = all.zip(explained).map(|(mut all, explained)| {
                all.push(explained);
                all
            });
        }
        (all, lacked_an_agent)
    }

    /// Aborts a flow at both ends. Returns its explanation, which [`competition::judged`] completes for one that another
    /// has cut off, `None` if the run was stopped, and whether an agent was missing.
    fn abort_flow(
        &mut self,
        flow: usize,
        trial: &PlannedTrial,
        end: FlowEnd,
    ) -> (Option<Explained>, bool) {
        let failure = match end {
            FlowEnd::Failed(failure) => Some(failure),
            FlowEnd::Reported(_) | FlowEnd::CutOff => None,
        };
        let is_cut_off = failure.is_none();
        // A stop ends the agents of other machines with their connections.
        let mut failure = match failure {
            Some(failure) if !self.stopped() => failure,
            _ => TrialFailure::Stopped,
        };
        let exits = self.abort((flow, trial.index), &mut failure);
        if is_cut_off && !self.stopped() {
            return (Some(competition::cut_off()), !exits.is_empty());
        }
        let lacked_an_agent = match failure {
            TrialFailure::Stopped => false,
            TrialFailure::NoAgent(_) => true,
            _ => !exits.is_empty(),
        };
        let names = Host::BOTH.map(|host| self.bed.name(host));
        let explained = explain(failure, &exits, self.plan.workload(trial.cell), names);
        (explained, lacked_an_agent)
    }

    /// Makes the record of a trial that both ends have reported on.
    fn measured(
        &self,
        trial: &PlannedTrial,
        started_unix_ns: i64,
        [sender, receiver]: [SideReport; 2],
        path: Option<(&PathCounters, Duration)>,
        clocks: Option<&ReadClocks>,
    ) -> TrialRecord {
        let shares_clock = self.bed.shares_clock();
        let condition = self.plan.condition(trial.cell);
        let workload = self.plan.workload(trial.cell);
        let reported = Reported {
            study: self.plan.study(),
            condition,
            workload,
            reports: [&sender, &receiver],
            path: path.map(|(path, _)| path),
            shares_clock,
        };
        let impossible = reported.impossible();
        let doubt = (impossible.is_none()).then(|| reported.warning());
        let mut measurements = merge(self.plan, trial, sender, receiver, path, shares_clock);
        measurements.warnings.extend(doubt.flatten());
        if let Some(clocks) = clocks {
            clocks.correct(workload, &mut measurements);
        }
        let unusable = path.and_then(|(path, _)| plausible::unusable(condition, path));
        let nothing_transferred = plausible::nothing_transferred(&workload.kind, &measurements);
        let unusable =
            unusable.map(|why| (Outcome::Invalid, why, reason::idle_machine_or_lower_rate()));
        let held_up = plausible::held_up(&measurements);
        let held_up = held_up.map(|why| (Outcome::Invalid, why, reason::keep_strangers_out()));
        let nothing_transferred =
            nothing_transferred.map(|why| (Outcome::TimedOut, why, reason::longer_transfer()));
        let outcome = match unusable.or(held_up).or(impossible).or(nothing_transferred) {
            Some((outcome, why, hint)) => (outcome, vec![why.into()], hint.into()),
            None => (Outcome::Measured, Vec::new(), Text::default()),
        };
        TrialRecord {
            measurements,
            ..self.plan.record(trial, started_unix_ns, outcome)
        }
    }

    /// Exchanges messages with both ends of each flow from its start until both have finished. A flow of a competition that
    /// could not connect in time ends alone; any other failure of one ends all.
    fn converse(&mut self, trials: &[PlannedTrial], servers: &[FlowServer]) -> Vec<FlowEnd> {
        let plan = self.plan;
        let flow = |(trial, server): (&PlannedTrial, &FlowServer)| Flow {
            trial: *trial,
            workload: plan.workload(trial.cell),
            listen: server.address,
            reports: BTreeMap::new(),
            end: None,
        };
        let mut flows: Vec<Flow<'_>> = trials.iter().zip(servers).map(flow).collect();
        if let Err((failed, failure)) = self.follow(trials, &mut flows) {
            flows[failed].end = Some(FlowEnd::Failed(failure));
        }
        let ends = flows.into_iter().map(|flow| flow.end);
        ends.map(|end| end.unwrap_or(FlowEnd::CutOff)).collect()
    }

    /// Starts each flow at its time and follows all to their ends.
    ///
    /// # Errors
    /// The flow that failed, and its failure.
    fn follow(&mut self, trials: &[PlannedTrial], flows: &mut [Flow<'_>]) -> FlowResult<()> {
        if self.has_virtual_clock() {
            wait_for_short_timers();
        }
        let begun = Instant::now();
        let mut starts = VecDeque::from(competition::starts(self.plan, trials));
        let last = starts.back().map_or(Duration::ZERO, |(_, at)| *at);
        let study = self.plan.study();
        let longest =
            |flow: &Flow<'_>| limits::hang(study, &self.known_path(&flow.trial), flow.workload);
        let longest = flows.iter().map(longest).max().unwrap_or_default();
        let within = longest.saturating_add(last);
        while flows.iter().any(|flow| flow.end.is_none()) {
            if let Some((index, at)) = starts.front().copied()
                && begun.elapsed() >= at
            {
                starts.pop_front();
                self.start_flow(index, &flows[index])
                    .map_err(|failure| (index, failure))?;
                continue;
            }
            let next_start = starts.front().map_or(within, |(_, at)| *at);
            match self.next(trials, begun + next_start.min(within)) {
                Ok(Some((index, host, message))) => self
                    .take(index, &mut flows[index], host, message)
                    .map_err(|failure| (index, failure))?,
                // The next flow starts.
                Ok(None) if begun.elapsed() < within => {}
                Ok(None) => return Err(silent(flows, within)),
                // An agent that ends after its flow is replaced before the next trial.
                Err((index, _)) if flows[index].end.is_some() && !self.stopped() => {}
                Err((index, failure)) if flows.len() > 1 && failure.is_time_out() => {
                    flows[index].end = Some(FlowEnd::Failed(failure));
                }
                Err(failed) => return Err(failed),
            }
        }
        Ok(())
    }

    fn start_flow(&mut self, index: usize, flow: &Flow<'_>) -> Result<(), TrialFailure> {
        let start = ToAgent::Start {
            trial: flow.trial.index,
            peer: flow.listen,
        };
        let client = AgentId {
            flow: index,
            host: Host::Client,
        };
        self.send(client, &start)
    }

    /// Takes a message of an end of a flow.
    fn take(
        &mut self,
        index: usize,
        flow: &mut Flow<'_>,
        host: Host,
        message: FromAgent,
    ) -> Result<(), TrialFailure> {
        let trial = flow.trial.index;
        match message {
            FromAgent::Note { note, .. } => {
                // The other end may have finished before this note; then nobody needs it.
                let other = host.other();
                if !flow.reports.contains_key(&other.role(flow.workload)) {
                    let id = AgentId {
                        flow: index,
                        host: other,
                    };
                    self.send(id, &ToAgent::Note { trial, note })?;
                }
            }
            FromAgent::Progress { progress, .. } => self.report_progress(trial, host, progress),
            FromAgent::Began { .. } => self.bed.begin().map_err(TrialFailure::Path)?,
            FromAgent::Finished { report, .. } => {
                flow.reports.insert(host.role(flow.workload), *report);
                if flow.reports.len() == Host::BOTH.len() {
                    let reports = [Role::Sender, Role::Receiver]
                        .map(|role| flow.reports.remove(&role).unwrap_or_default());
                    flow.end = Some(FlowEnd::Reported(Box::new(reports)));
                }
            }
            answer => {
                let reason = reason::sent_in_trial(&format!("{answer:?}"));
                return Err(TrialFailure::Malformed(host, reason));
            }
        }
        Ok(())
    }

    /// Passes the report of an end of the trial under way on, the listening end's with the packets that the path
    /// has dropped.
    fn report_progress(&mut self, trial: u32, host: Host, progress: Progress) {
        let Some(listener) = self.progress else {
            return;
        };
        // A path that no longer answers fails the trial at its end.
        let counters = (host == Host::Server && !self.bed.is_real())
            .then(|| self.bed.counters().ok())
            .flatten();
        let dropped = counters.map(|path| [path.forward.dropped(), path.reverse.dropped()]);
        listener.on_progress(TrialProgress {
            trial,
            host,
            progress,
            dropped,
        });
    }
}

/// Returns the first flow that has not ended in time, and its failure.
fn silent(flows: &[Flow<'_>], within: Duration) -> (usize, TrialFailure) {
    let index = flows
        .iter()
        .position(|flow| flow.end.is_none())
        .unwrap_or(0);
    let Flow {
        workload, reports, ..
    } = &flows[index];
    let is_silent = |host: &Host| !reports.contains_key(&host.role(workload));
    let failure = TrialFailure::Silent {
        hosts: Host::BOTH.into_iter().filter(is_silent).collect(),
        within,
        doing: reason::the_trial(),
    };
    (index, failure)
}
