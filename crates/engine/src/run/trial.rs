//! Course of one trial: path, both ends ready, start, notes both ways, both ends finished.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    time::Instant,
};

use rand::RngExt;
use regatta_bed::{
    BedError, ChildOutput, ProcessEnd,
    guest::{seed_random_numbers, wait_for_long_timers, wait_for_short_timers, wait_for_timers},
};
use regatta_control::{
    FromAgent, Host, PathHints, ProblemKind, Progress, Role, SideReport, ToAgent, TrialOrder,
};
use regatta_model::{
    Condition, Outcome, Text, TrialRecord, WorkloadKind, causes, metric::id, reason,
};

use crate::{
    agent::{Signal, not_an_answer},
    clocks::TrialClocks,
    error::EngineError,
    failure::{TrialFailure, explain},
    impossible::Reported,
    limits,
    merge::merge,
    plan::PlannedTrial,
    plausible,
    run::{ProgressListener, TrialProgress, TrialRunner, bottleneck, unix_ns},
};

/// Most attempts to get both ends ready for a trial: an agent that died or hung since the last
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

impl TrialRunner<'_> {
    /// Runs one trial with its capture. Returns its record, whatever its outcome; `None` if the run was stopped
    /// meanwhile.
    pub fn run_trial(&mut self, trial: &PlannedTrial) -> Result<Option<TrialRecord>, EngineError> {
        let started_unix_ns = unix_ns();
        let mut record = match self.attempt(trial, started_unix_ns) {
            Err(EngineError::Bed(error)) => self.lost(trial, started_unix_ns, error)?,
            attempted => attempted?,
        };
        if let Some(record) = &mut record {
            let kind = &self.plan.workload(trial.cell).kind;
            if matches!(kind, WorkloadKind::Bulk { .. }) {
                add_whole_transfer(record);
            }
            self.end_capture(trial, record)?;
        }
        Ok(record)
    }

    /// Reaches the hosts again after an error of the bed, and makes the record of the trial that was lost
    /// by it, which is repeated like any that the machine spoiled.
    ///
    /// # Errors
    /// The bed's error if it is not one of a host that was lost, or the host cannot be reached.
    fn lost(
        &mut self,
        trial: &PlannedTrial,
        started_unix_ns: i64,
        error: BedError,
    ) -> Result<Option<TrialRecord>, EngineError> {
        if self.stopped() {
            return Ok(None);
        }
        if !self.bed.restore(self.stop)? {
            return Err(error.into());
        }
        self.end_agents();
        let causes = causes(&error).into_iter().map(Text::from);
        let outcome = (Outcome::Invalid, causes.collect(), Text::default());
        Ok(Some(self.plan.record(trial, started_unix_ns, outcome)))
    }

    fn attempt(
        &mut self,
        trial: &PlannedTrial,
        started_unix_ns: i64,
    ) -> Result<Option<TrialRecord>, EngineError> {
        let mut attempts = READY_ATTEMPTS;
        let (failure, exits) = loop {
            attempts -= 1;
            self.reap_ended_agents();
            let (failure, begun) = match self.make_ready(trial)? {
                Ok((listen, path_begun)) => match self.converse(trial, listen) {
                    Ok(reports) => {
                        let record = self.measured(trial, started_unix_ns, reports, path_begun)?;
                        return Ok(Some(record));
                    }
                    Err(failure) => (failure, true),
                },
                Err(failure) => (failure, false),
            };
            self.clocks = None;
            // A stop ends the agents of other machines with their connections.
            let mut failure = match self.stopped() {
                true => TrialFailure::Stopped,
                false => failure,
            };
            let exits = self.abort(trial.index, &mut failure);
            let lacked_an_agent = match failure {
                TrialFailure::Stopped => false,
                TrialFailure::NoAgent(_) => true,
                _ => !exits.is_empty(),
            };
            if begun || attempts == 0 || !lacked_an_agent {
                break (failure, exits);
            }
        };
        let workload = self.plan.workload(trial.cell);
        let names = Host::BOTH.map(|host| self.bed.name(host));
        let Some(outcome) = explain(failure, &exits, workload, names) else {
            return Ok(None);
        };
        // Without its path every transport fails, and that is no finding about any of them: the
        // run ends here, and this trial is left to be done.
        self.bed.counters()?;
        Ok(Some(self.plan.record(trial, started_unix_ns, outcome)))
    }

    /// Makes the record of a trial that both ends have reported on.
    fn measured(
        &mut self,
        trial: &PlannedTrial,
        started_unix_ns: i64,
        [sender, receiver]: [SideReport; 2],
        path_begun: Instant,
    ) -> Result<TrialRecord, EngineError> {
        let path = self.bed.counters()?;
        let counted = (!self.bed.is_real()).then(|| (&path, path_begun.elapsed()));
        let shares_clock = self.bed.shares_clock();
        let reported = Reported {
            study: self.plan.study(),
            condition: self.plan.condition(trial.cell),
            workload: self.plan.workload(trial.cell),
            reports: [&sender, &receiver],
            path: counted.map(|(path, _)| path),
            shares_clock,
        };
        let impossible = reported.impossible();
        let doubt = (impossible.is_none()).then(|| reported.warning());
        let mut measurements = merge(self.plan, trial, sender, receiver, counted, shares_clock);
        measurements.warnings.extend(doubt.flatten());
        if let Some(clocks) = self.clocks.take() {
            let workload = self.plan.workload(trial.cell);
            clocks.finish(self.bed, workload, &mut measurements)?;
        }
        let kind = &self.plan.workload(trial.cell).kind;
        let unusable = plausible::unusable(self.plan.condition(trial.cell), &path);
        let nothing_transferred = plausible::nothing_transferred(kind, &measurements);
        let unusable =
            unusable.map(|why| (Outcome::Invalid, why, reason::idle_machine_or_lower_rate()));
        let nothing_transferred =
            nothing_transferred.map(|why| (Outcome::Failed, why, reason::longer_transfer()));
        let outcome = match unusable.or(impossible).or(nothing_transferred) {
            Some((outcome, why, hint)) => (outcome, vec![why.into()], hint.into()),
            None => (Outcome::Measured, Vec::new(), Text::default()),
        };
        Ok(TrialRecord {
            measurements,
            ..self.plan.record(trial, started_unix_ns, outcome)
        })
    }

    /// Prepares agents, path and both ends. Returns the address on which the server listens, and
    /// the time since which the path counts.
    fn make_ready(
        &mut self,
        trial: &PlannedTrial,
    ) -> Result<Result<(SocketAddr, Instant), TrialFailure>, EngineError> {
        let is_virtual = self.has_virtual_clock();
        if is_virtual {
            let seed = self.plan.random_seed(trial);
            seed_random_numbers(seed).map_err(|source| EngineError::RandomNumbers { source })?;
        }
        match self.ensure_agents() {
            // The run started with two agents, so one that cannot be replaced is this trial's
            // misfortune; the next trial tries again.
            Err(EngineError::NoAgent { host, reason }) => {
                let why = reason::cannot_start_agent(&host, reason).into();
                return Ok(Err(TrialFailure::NoAgent(why)));
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
        let condition = self.plan.condition(trial.cell);
        self.bed.set_condition(condition, trial.seed)?;
        self.start_capture(trial)?;
        let path_begun = Instant::now();
        let ready = self.make_ends_ready(trial);
        Ok(ready.map(|listen| (listen, path_begun)))
    }

    fn make_ends_ready(&mut self, trial: &PlannedTrial) -> Result<SocketAddr, TrialFailure> {
        let token = hexadecimal(&rand::rng().random::<[u8; 16]>());
        for host in [Host::Server, Host::Client] {
            self.prepare(trial, host, &token)?;
        }
        let silent = || TrialFailure::Malformed(Host::Server, reason::sent_no_address());
        self.await_ready(trial)?.ok_or_else(silent)
    }

    /// Exchanges messages with both ends from the start of the transfer until both have finished. Returns
    /// the reports of sender and receiver.
    fn converse(
        &mut self,
        trial: &PlannedTrial,
        listen: SocketAddr,
    ) -> Result<[SideReport; 2], TrialFailure> {
        let start = ToAgent::Start {
            trial: trial.index,
            peer: listen,
        };
        if self.has_virtual_clock() {
            wait_for_short_timers();
        }
        self.send(Host::Client, &start)?;

        let workload = self.plan.workload(trial.cell);
        let within = limits::hang(self.plan.study(), &self.known_path(trial), workload);
        let until = Instant::now() + within;
        let mut reports: BTreeMap<Role, SideReport> = BTreeMap::new();
        while reports.len() < 2 {
            match self.next(trial.index, until)? {
                Some((host, FromAgent::Note { note, .. })) => {
                    // The other end may have finished before this note; then nobody needs it.
                    let other = host.other();
                    if !reports.contains_key(&other.role(workload)) {
                        let trial = trial.index;
                        self.send(other, &ToAgent::Note { trial, note })?;
                    }
                }
                Some((host, FromAgent::Progress { progress, .. })) => {
                    self.report_progress(trial.index, host, progress);
                }
                Some((_, FromAgent::Began { .. })) => {
                    self.bed.begin().map_err(TrialFailure::Path)?;
                }
                Some((host, FromAgent::Finished { report, .. })) => {
                    reports.insert(host.role(workload), *report);
                }
                Some((host, answer)) => {
                    let reason = reason::sent_in_trial(&format!("{answer:?}"));
                    return Err(TrialFailure::Malformed(host, reason));
                }
                None => {
                    let silent = |host: &Host| !reports.contains_key(&host.role(workload));
                    return Err(TrialFailure::Silent {
                        hosts: Host::BOTH.into_iter().filter(silent).collect(),
                        within,
                        doing: reason::the_trial(),
                    });
                }
            }
        }
        Ok([Role::Sender, Role::Receiver].map(|role| reports.remove(&role).unwrap_or_default()))
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
        trial: &PlannedTrial,
        host: Host,
        token: &str,
    ) -> Result<(), TrialFailure> {
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
            reports_start: condition.follows_a_clock(),
            progress_interval: self.progress.and_then(ProgressListener::interval),
            tls,
            files: (self.options.files.as_ref())
                .map(|files| files.join(format!("trial-{:04}", trial.index + 1))),
        };
        let order = Box::new(order);
        self.send(host, &ToAgent::Prepare { order })
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
        condition
    }

    /// Waits until both ends are ready. Returns the address on which one listens.
    ///
    /// # Errors
    /// The failure of the listening end, if both fail: the other one may fail for want of it.
    fn await_ready(&mut self, trial: &PlannedTrial) -> Result<Option<SocketAddr>, TrialFailure> {
        let within = limits::prepare(self.plan.workload(trial.cell));
        let until = Instant::now() + within;
        let mut missing = Host::BOTH.to_vec();
        let mut address = None;
        let mut failed = None;
        while !missing.is_empty() {
            let host = match self.next(trial.index, until) {
                Ok(Some((from, FromAgent::Ready { listen, .. }))) => {
                    address = address.or(listen);
                    from
                }
                Ok(Some((from, answer))) => {
                    let reason = reason::sent_before_start(&format!("{answer:?}"));
                    return Err(TrialFailure::Malformed(from, reason));
                }
                Ok(None) => {
                    return Err(failed.unwrap_or(TrialFailure::Silent {
                        hosts: missing,
                        within,
                        doing: reason::getting_ready(),
                    }));
                }
                Err(
                    failure @ TrialFailure::Failed {
                        host: Host::Client, ..
                    },
                ) => {
                    failed = Some(failure);
                    Host::Client
                }
                Err(failure) => return Err(failure),
            };
            missing.retain(|other| *other != host);
        }
        failed.map_or(Ok(address), Err)
    }

    fn send(&mut self, host: Host, message: &ToAgent) -> Result<(), TrialFailure> {
        let sent = self.agents.get_mut(&host).map(|agent| agent.send(message));
        match sent {
            Some(Ok(())) => Ok(()),
            _ => Err(TrialFailure::Died(host)),
        }
    }

    /// Returns the next answer about this trial, or `None` once `until` has come.
    fn next(
        &mut self,
        trial: u32,
        until: Instant,
    ) -> Result<Option<(Host, FromAgent)>, TrialFailure> {
        loop {
            if self.stopped() {
                return Err(TrialFailure::Stopped);
            }
            let (host, output) = match self.next_signal(until) {
                Some(Signal::Agent { host, output, .. }) => (host, output),
                Some(Signal::Stop) => return Err(TrialFailure::Stopped),
                // One that answers has replaced the one that ended.
                Some(Signal::PathEnded) => match self.bed.counters() {
                    Ok(_) => continue,
                    Err(error) => return Err(TrialFailure::Path(error)),
                },
                None => return Ok(None),
            };
            let message = match output {
                ChildOutput::Ended(_) => return Err(TrialFailure::Died(host)),
                ChildOutput::Malformed(line) => {
                    return Err(TrialFailure::Malformed(host, not_an_answer(&line)));
                }
                // The late end of an earlier trial that was aborted.
                ChildOutput::Message(message) if trial_of(&message) != Some(trial) => continue,
                ChildOutput::Message(message) => message,
            };
            return match message {
                FromAgent::Failed { problem, .. } => Err(TrialFailure::Failed { host, problem }),
                message => Ok(Some((host, message))),
            };
        }
    }

    /// Waits for the next signal, except those of agents that have been replaced; `None` once `until` has come.
    fn next_signal(&self, until: Instant) -> Option<Signal> {
        loop {
            let remaining = until.saturating_duration_since(Instant::now());
            match self.signals.recv_timeout(remaining).ok()? {
                Signal::Agent {
                    host, generation, ..
                } if !self.is_current(host, generation) => {}
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

    /// Removes agents that have ended, or sent something other than an answer, since the last
    /// trial, in which they had no part.
    fn reap_ended_agents(&mut self) {
        while let Ok(signal) = self.signals.try_recv() {
            self.reap_ended(&signal);
        }
    }

    /// Removes the agent of a signal if it has ended or sent something other than an answer.
    fn reap_ended(&mut self, signal: &Signal) {
        // A request to stop has raised the flag, too, which is looked at before anything is done.
        if let Signal::Agent {
            host,
            generation,
            output: ChildOutput::Ended(_) | ChildOutput::Malformed(_),
        } = signal
            && self.is_current(*host, *generation)
            && let Some(agent) = self.agents.remove(host)
        {
            let _ = agent.reap();
        }
    }

    fn is_current(&self, host: Host, generation: u32) -> bool {
        let agent = self.agents.get(&host);
        agent.is_some_and(|agent| agent.generation == generation)
    }

    /// Aborts a trial that failed at both ends and waits for them, so that nothing of it reaches into the next. An agent
    /// answers at once if it has no part in the trial any more; one that does not answer is killed, so that this also finds
    /// which agent hangs. A refusal, or a disturbance from outside, takes the place of a `failure` that it has caused at the other end. Returns the
    /// exits of the agents that ended.
    fn abort(&mut self, trial: u32, failure: &mut TrialFailure) -> BTreeMap<Host, ProcessEnd> {
        let mut ended = BTreeSet::new();
        if let TrialFailure::Died(host) | TrialFailure::Malformed(host, _) = failure {
            ended.insert(*host);
        }
        let mut awaiting = BTreeSet::new();
        for host in Host::BOTH {
            if !self.agents.contains_key(&host) || ended.contains(&host) {
                continue;
            }
            if self.send(host, &ToAgent::Abort { trial }).is_ok() {
                awaiting.insert(host);
            } else {
                ended.insert(host);
            }
        }
        let until = Instant::now() + limits::ABORT;
        while !awaiting.is_empty() {
            match self.next_signal(until) {
                Some(Signal::Agent { host, output, .. }) => match output {
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
            .filter_map(|host| Some((host, self.agents.remove(&host)?.reap())))
            .collect()
    }
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
