//! Course of one trial, or of those of a competition's flows at once: path, both ends ready, start, notes both ways, both
//! ends finished.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::SocketAddr,
    time::{Duration, Instant},
};

use rand::RngExt;
use regatta_bed::{
    BedError, ChildOutput, PathCounters, ProcessEnd,
    guest::{seed_random_numbers, wait_for_long_timers, wait_for_short_timers, wait_for_timers},
};
use regatta_control::{
    FromAgent, Host, PathHints, ProblemKind, Progress, Role, SideReport, ToAgent, TrialOrder,
};
use regatta_model::{
    Condition, Outcome, Text, TrialRecord, Workload, WorkloadKind, causes, metric::id, reason,
};

use crate::{
    agent::{AgentId, Signal, not_an_answer},
    clocks::{ReadClocks, TrialClocks},
    competition::{self, FlowServer},
    error::EngineError,
    failure::{TrialFailure, explain},
    impossible::Reported,
    limits,
    merge::merge,
    plan::PlannedTrial,
    plausible,
    run::{ProgressListener, TrialProgress, TrialRunner, bottleneck, unix_ns},
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

    /// Prepares agents, path and both ends of each flow. Returns the servers, and
    /// the time since which the path counts; or the flow that failed.
    fn make_ready(
        &mut self,
        trials: &[PlannedTrial],
    ) -> Result<FlowResult<(Vec<FlowServer>, Instant)>, EngineError> {
        let first = &trials[0];
        let is_virtual = self.has_virtual_clock();
        if is_virtual {
            let seed = self.plan.random_seed(first);
            seed_random_numbers(seed).map_err(|source| EngineError::RandomNumbers { source })?;
        }
        match self.ensure_agents(trials.len()) {
            // The run started with two agents, so one that cannot be replaced is this trial's
            // misfortune; the next trial tries again.
            Err(EngineError::NoAgent { host, reason }) => {
                let why = reason::cannot_start_agent(&host, reason).into();
                return Ok(Err((0, TrialFailure::NoAgent(why))));
            }
            ready => ready?,
        }
        if is_virtual {
            self.bed.stop_sampling()?;
            match self.plan.study().every {
                None => wait_for_timers(),
                // The rounds of a series begin at times of their own.
                Some(_) => wait_for_long_timers(),
            }
        }
        self.clocks = TrialClocks::start(self.bed)?;
        let condition = self.plan.condition(first.cell);
        self.bed.set_condition(condition, first.seed)?;
        self.start_capture(first)?;
        let path_begun = Instant::now();
        let ready = self.make_ends_ready(trials);
        if let Ok(servers) = &ready
            && trials.len() > 1
        {
            let flows = competition::flows(self.plan, trials, servers);
            self.bed.set_flows(&flows)?;
        }
        Ok(ready.map(|servers| (servers, path_begun)))
    }

    fn make_ends_ready(&mut self, trials: &[PlannedTrial]) -> FlowResult<Vec<FlowServer>> {
        let starts = competition::starts(self.plan, trials);
        for (flow, trial) in trials.iter().enumerate() {
            let is_first = starts.first().is_some_and(|(first, _)| *first == flow);
            let token = hexadecimal(&rand::rng().random::<[u8; 16]>());
            for host in [Host::Server, Host::Client] {
                let place = (is_first, trials.len() > 1);
                self.prepare(AgentId { flow, host }, trial, &token, place)
                    .map_err(|failure| (flow, failure))?;
            }
        }
        let servers = self.await_ready(trials)?.into_iter().enumerate();
        let silent = || TrialFailure::Malformed(Host::Server, reason::sent_no_address());
        servers
            .map(|(flow, server)| server.ok_or_else(|| (flow, silent())))
            .collect()
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

    fn prepare(
        &mut self,
        id: AgentId,
        trial: &PlannedTrial,
        token: &str,
        (is_first, beside_others): (bool, bool),
    ) -> Result<(), TrialFailure> {
        let host = id.host;
        let study = self.plan.study();
        let workload = self.plan.workload(trial.cell);
        let condition = &self.known_path(trial);
        let window = condition.flow_control_window(workload.kind.direction());
        let listens = host == Host::Server;
        let mut tls = self.tls.clone();
        if !listens {
            tls.key_der_base64 = None;
        }
        let order = TrialOrder {
            trial: trial.index,
            role: host.role(workload),
            transport: self.plan.transport(trial.cell).clone(),
            workload: workload.clone(),
            token: token.to_owned(),
            seed: trial.seed,
            deadline: study.deadline,
            connect_deadline: study.connect_deadline,
            sample_interval: study.sample_interval,
            local: self.bed.address(host),
            peer: self.bed.address(host.other()),
            ports: listens.then(|| self.bed.ports(host)).flatten(),
            path: PathHints {
                round_trip_delay: condition.longest_round_trip_delay(),
                longest_one_way: condition.longest_one_way_ever(),
                typical_one_way: condition.typical_one_way_ever(),
                link_rate_bps: bottleneck::rate(condition, workload),
                window_bytes: window.map(|window| window.0),
                mtu_bytes: condition.mtu_bytes,
                is_real_network: self.is_unknown(),
                clock_offset_ns: match &self.clocks {
                    Some(clocks) => clocks.hint_ns(host),
                    None => Some(0),
                },
                keeps_order: condition.keeps_order(),
                treats_alike: condition.treats_alike() && !self.is_unknown(),
                tuning: condition.tuning.base,
                keeps_tcp_limits: condition.tuning.limits_tcp(),
            },
            cpus: condition.tuning.cpus,
            // A schedule of the path begins with the first flow.
            reports_start: condition.follows_a_clock() && is_first,
            beside_others,
            progress_interval: self.progress.and_then(ProgressListener::interval),
            tls,
            files: (self.options.files.as_ref())
                .map(|files| files.join(format!("trial-{:04}", trial.index + 1))),
        };
        let order = Box::new(order);
        self.send(id, &ToAgent::Prepare { order })
    }

    /// Whether the path is a network between two machines, which is known by measurements only.
    pub(super) fn is_unknown(&self) -> bool {
        self.bed.is_real() && !self.bed.shares_clock()
    }

    /// Returns the condition of a trial as far as it is known: of a real network, the delay that the
    /// last check found.
    fn known_path(&self, trial: &PlannedTrial) -> Condition {
        let mut condition = self.plan.condition(trial.cell).clone();
        if let Some(round_trip) = self.round_trips.get(&trial.cell.condition) {
            condition.forward.delay = *round_trip / 2;
            condition.reverse.delay = *round_trip / 2;
        }
        condition.lengthen(self.plan.flow_delay(trial.cell));
        condition
    }

    /// Waits until both ends of each flow are ready. Returns the server of each.
    ///
    /// # Errors
    /// The flow that failed; of two ends of it that fail the failure of the listening one: the other one may fail for want
    /// of it.
    fn await_ready(&mut self, trials: &[PlannedTrial]) -> FlowResult<Vec<Option<FlowServer>>> {
        let longest = |trial: &PlannedTrial| limits::prepare(self.plan.workload(trial.cell));
        let within = trials.iter().map(longest).max().unwrap_or_default();
        let until = Instant::now() + within;
        let flows = 0..trials.len();
        let mut missing: BTreeSet<AgentId> = flows
            .flat_map(|flow| Host::BOTH.map(|host| AgentId { flow, host }))
            .collect();
        let mut servers = vec![None; trials.len()];
        let mut failed = None;
        while !missing.is_empty() {
            let id = match self.next(trials, until) {
                Ok(Some((
                    flow,
                    host,
                    FromAgent::Ready {
                        listen,
                        ip_protocol,
                        ..
                    },
                ))) => {
                    let server = listen.map(|address| FlowServer {
                        address,
                        ip_protocol,
                    });
                    servers[flow] = servers[flow].or(server);
                    AgentId { flow, host }
                }
                Ok(Some((flow, from, answer))) => {
                    let reason = reason::sent_before_start(&format!("{answer:?}"));
                    return Err((flow, TrialFailure::Malformed(from, reason)));
                }
                Ok(None) => {
                    let flow = missing.first().map_or(0, |id| id.flow);
                    let hosts = missing.iter().filter(|id| id.flow == flow);
                    let silent = TrialFailure::Silent {
                        hosts: hosts.map(|id| id.host).collect(),
                        within,
                        doing: reason::getting_ready(),
                    };
                    return Err(failed.unwrap_or((flow, silent)));
                }
                Err(
                    failure @ (
                        flow,
                        TrialFailure::Failed {
                            host: Host::Client, ..
                        },
                    ),
                ) => {
                    failed.get_or_insert(failure);
                    AgentId {
                        flow,
                        host: Host::Client,
                    }
                }
                Err(failure) => return Err(failure),
            };
            missing.remove(&id);
        }
        failed.map_or(Ok(servers), Err)
    }

    fn send(&mut self, id: AgentId, message: &ToAgent) -> Result<(), TrialFailure> {
        let sent = self.agents.get_mut(&id).map(|agent| agent.send(message));
        match sent {
            Some(Ok(())) => Ok(()),
            _ => Err(TrialFailure::Died(id.host)),
        }
    }

    /// Returns the next answer about one of the trials that run at once, with the position of that trial, or `None` once
    /// `until` has come.
    ///
    /// # Errors
    /// Position of the trial that failed, and its failure.
    fn next(
        &mut self,
        trials: &[PlannedTrial],
        until: Instant,
    ) -> FlowResult<Option<(usize, Host, FromAgent)>> {
        loop {
            if self.stopped() {
                return Err((0, TrialFailure::Stopped));
            }
            let (AgentId { flow, host }, output) = match self.next_signal(until) {
                Some(Signal::Agent { id, output, .. }) => (id, output),
                Some(Signal::Stop) => return Err((0, TrialFailure::Stopped)),
                // One that answers has replaced the one that ended.
                Some(Signal::PathEnded) => match self.bed.counters() {
                    Ok(_) => continue,
                    Err(error) => return Err((0, TrialFailure::Path(error))),
                },
                None => return Ok(None),
            };
            // Agents of earlier competitions of more flows.
            let Some(trial) = trials.get(flow) else {
                continue;
            };
            let message = match output {
                ChildOutput::Ended(_) => return Err((flow, TrialFailure::Died(host))),
                ChildOutput::Malformed(line) => {
                    let failure = TrialFailure::Malformed(host, not_an_answer(&line));
                    return Err((flow, failure));
                }
                // The late end of an earlier trial that was aborted.
                ChildOutput::Message(message) if trial_of(&message) != Some(trial.index) => {
                    continue;
                }
                ChildOutput::Message(message) => message,
            };
            return match message {
                FromAgent::Failed { problem, .. } => {
                    Err((flow, TrialFailure::Failed { host, problem }))
                }
                message => Ok(Some((flow, host, message))),
            };
        }
    }

    /// Waits for the next signal, except those of agents that have been replaced; `None` once `until` has come.
    fn next_signal(&self, until: Instant) -> Option<Signal> {
        loop {
            let remaining = until.saturating_duration_since(Instant::now());
            match self.signals.recv_timeout(remaining).ok()? {
                Signal::Agent { id, generation, .. } if !self.is_current(id, generation) => {}
                signal => return Some(signal),
            }
        }
    }

    /// Waits between two trials until `until`, or until the run is stopped.
    pub(super) fn rest(&mut self, until: Instant) {
        while !self.stopped() {
            let remaining = until.saturating_duration_since(Instant::now());
            match self.signals.recv_timeout(remaining) {
                Ok(signal) => self.reap_ended(&signal),
                Err(_) => return,
            }
        }
    }

    /// Removes agents that have ended, or sent a malformed message, since the last trial in which they took part.
    fn reap_ended_agents(&mut self) {
        while let Ok(signal) = self.signals.try_recv() {
            self.reap_ended(&signal);
        }
    }

    /// Removes the agent of a signal if that agent has ended or sent a malformed message.
    fn reap_ended(&mut self, signal: &Signal) {
        // A request to stop has raised the flag, too, which is looked at before anything is done.
        if let Signal::Agent {
            id,
            generation,
            output: ChildOutput::Ended(_) | ChildOutput::Malformed(_),
        } = signal
            && self.is_current(*id, *generation)
            && let Some(agent) = self.agents.remove(id)
        {
            let _ = agent.reap();
        }
    }

    fn is_current(&self, id: AgentId, generation: u32) -> bool {
        let agent = self.agents.get(&id);
        agent.is_some_and(|agent| agent.generation == generation)
    }

    /// Aborts a flow of a trial that failed at both ends and waits for them, so that nothing of it reaches into the next. An agent
    /// answers at once if it has no part in the trial any more; one that does not answer is killed, so that this also finds
    /// which agent hangs. A refusal, or a disturbance from outside, takes the place of a `failure` that it has caused at the other end. Returns the
    /// exits of the agents that ended.
    fn abort(
        &mut self,
        (flow, trial): (usize, u32),
        failure: &mut TrialFailure,
    ) -> BTreeMap<Host, ProcessEnd> {
        let mut ended = BTreeSet::new();
        if let TrialFailure::Died(host) | TrialFailure::Malformed(host, _) = failure {
            ended.insert(*host);
        }
        let mut awaiting = BTreeSet::new();
        for host in Host::BOTH {
            let id = AgentId { flow, host };
            if !self.agents.contains_key(&id) || ended.contains(&host) {
                continue;
            }
            if self.send(id, &ToAgent::Abort { trial }).is_ok() {
                awaiting.insert(host);
            } else {
                ended.insert(host);
            }
        }
        let until = Instant::now() + limits::ABORT;
        while !awaiting.is_empty() {
            match self.next_signal(until) {
                Some(Signal::Agent { id, .. }) if id.flow != flow => {}
                Some(Signal::Agent {
                    id: AgentId { host, .. },
                    output,
                    ..
                }) => match output {
                    // Every abort has this one answer, whatever messages came before it.
                    ChildOutput::Message(message) => match message {
                        FromAgent::Aborted { trial: of } if of == trial => {
                            awaiting.remove(&host);
                        }
                        FromAgent::Failed { trial: of, problem }
                            if of == trial
                                && failure.may_be_caused_elsewhere()
                                && takes_precedence(problem.kind) =>
                        {
                            *failure = TrialFailure::Failed { host, problem };
                        }
                        _ => {}
                    },
                    ChildOutput::Malformed(_) | ChildOutput::Ended(_) => {
                        awaiting.remove(&host);
                        ended.insert(host);
                    }
                },
                // A second request to stop changes nothing here.
                Some(Signal::Stop | Signal::PathEnded) => {}
                None => break,
            }
        }
        ended.extend(awaiting);
        ended
            .into_iter()
            .filter_map(|host| Some((host, self.agents.remove(&AgentId { flow, host })?.reap())))
            .collect()
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

/// Whether a failure of this kind explains one of the other end.
const fn takes_precedence(kind: ProblemKind) -> bool {
    matches!(kind, ProblemKind::Unsupported | ProblemKind::Disturbed)
}

fn trial_of(message: &FromAgent) -> Option<u32> {
    match message {
        FromAgent::Hello { .. } => None,
        FromAgent::Ready { trial, .. }
        | FromAgent::Began { trial }
        | FromAgent::Note { trial, .. }
        | FromAgent::Progress { trial, .. }
        | FromAgent::Finished { trial, .. }
        | FromAgent::Failed { trial, .. }
        | FromAgent::Aborted { trial } => Some(*trial),
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
