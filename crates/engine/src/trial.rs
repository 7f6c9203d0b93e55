//! Course of one trial: path, both ends ready, start, notes both ways, both ends finished.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::mpsc::RecvTimeoutError,
    time::Instant,
};

use rand::RngExt;
use regatta_bed::{Host, guest::wait_for_timers};
use regatta_control::{FromAgent, PathHints, Role, SideReport, ToAgent, TrialOrder};
use regatta_model::{BitRate, Clock, Condition, Direction, Outcome, TrialRecord, Workload};

use crate::{
    agent::{Reaping, Said, Signal},
    broken::{Broken, CONNECTING, LISTENING, explain, other, role},
    error::EngineError,
    limits,
    merge::{Merged, merge},
    plan::PlannedTrial,
    plausible,
    run::{Crew, slot, unix_ns},
};

/// Result of running a trial.
pub(crate) enum Verdict {
    /// The trial has a record, whatever its outcome.
    Ended(Box<TrialRecord>),
    /// The run was stopped meanwhile, so it has none.
    Stopped,
}

/// Most attempts to get both ends ready for a trial: an agent that died or hung since the last
/// trial is replaced, as nothing is measured yet.
const READY_ATTEMPTS: u32 = 2;

/// Signal received while waiting.
enum Heard {
    Said(Host, Said),
    Stopped,
    Nothing,
}

impl Crew<'_> {
    /// Runs one trial with its capture, whatever its outcome.
    pub fn run_trial(&mut self, trial: &PlannedTrial) -> Result<Verdict, EngineError> {
        let mut verdict = self.attempt(trial)?;
        if let Verdict::Ended(record) = &mut verdict {
            self.end_capture(trial, record)?;
        }
        Ok(verdict)
    }

    fn attempt(&mut self, trial: &PlannedTrial) -> Result<Verdict, EngineError> {
        let started_unix_ns = unix_ns();
        let mut attempts = READY_ATTEMPTS;
        let (broken, deaths) = loop {
            attempts -= 1;
            self.bury_the_dead();
            let (broken, begun) = match self.make_ready(trial)? {
                Ok((listen, path_begun)) => match self.converse(trial, listen) {
                    Ok(reports) => {
                        let record = self.measured(trial, started_unix_ns, reports, path_begun)?;
                        return Ok(Verdict::Ended(Box::new(record)));
                    }
                    Err(broken) => (broken, true),
                },
                Err(broken) => (broken, false),
            };
            let deaths = self.settle(trial.index, &broken);
            let lacked_an_agent = match broken {
                Broken::Stopped => false,
                Broken::Missing(_) => true,
                _ => !deaths.is_empty(),
            };
            if begun || attempts == 0 || !lacked_an_agent {
                break (broken, deaths);
            }
        };
        let Some((outcome, reasons, hint)) =
            explain(broken, &deaths, self.plan.workload(trial.cell))
        else {
            return Ok(Verdict::Stopped);
        };
        // Without its path every transport fails, and that is no finding about any of them: the
        // run ends here, and this trial is left to be done.
        self.bed.counters()?;
        let record = self.record(
            trial,
            started_unix_ns,
            outcome,
            reasons,
            hint,
            Merged::default(),
        );
        Ok(Verdict::Ended(Box::new(record)))
    }

    /// Makes the record of a trial that both ends have reported on.
    fn measured(
        &mut self,
        trial: &PlannedTrial,
        started_unix_ns: i64,
        (sender, receiver): (SideReport, SideReport),
        path_begun: Instant,
    ) -> Result<TrialRecord, EngineError> {
        let path = self.bed.counters()?;
        let merged = merge(
            self.plan,
            trial,
            sender,
            receiver,
            Some((&path, path_begun.elapsed())),
            self.bed.shares_clock(),
        );
        let (outcome, reasons, hint) = match plausible::unusable(&path) {
            None => (Outcome::Measured, Vec::new(), String::new()),
            Some(why) => (
                Outcome::Invalid,
                vec![why],
                "leave the machine alone during the run, or ask for a lower `--rate`".to_owned(),
            ),
        };
        Ok(self.record(trial, started_unix_ns, outcome, reasons, hint, merged))
    }

    fn record(
        &self,
        trial: &PlannedTrial,
        started_unix_ns: i64,
        outcome: Outcome,
        reasons: Vec<String>,
        hint: String,
        merged: Merged,
    ) -> TrialRecord {
        TrialRecord {
            index: trial.index,
            attempt: trial.attempt,
            round: trial.round,
            transport: self.plan.transport(trial.cell).label.clone(),
            condition: self.plan.condition(trial.cell).name.clone(),
            workload: self.plan.workload(trial.cell).name.clone(),
            started_unix_ns,
            seed: trial.seed,
            outcome,
            reasons,
            hint,
            metrics: merged.metrics,
            series: merged.series,
            histograms: merged.histograms,
            facts: merged.facts,
            warnings: merged.warnings,
        }
    }

    /// Prepares agents, path and both ends. Returns the address on which the receiver listens, and
    /// the time since which the path counts.
    fn make_ready(
        &mut self,
        trial: &PlannedTrial,
    ) -> Result<Result<(SocketAddr, Instant), Broken>, EngineError> {
        for host in [LISTENING, CONNECTING] {
            match self.ensure(host) {
                Ok(()) => {}
                // The run started with two agents, so one that cannot be replaced is this trial's
                // misfortune; the next trial tries again.
                Err(error @ EngineError::NoAgent { .. }) => {
                    return Ok(Err(Broken::Missing(error.to_string())));
                }
                Err(error) => return Err(error),
            }
        }
        if self.plan.study().guest.clock == Clock::Virtual {
            wait_for_timers();
        }
        self.bed
            .set_condition(self.plan.condition(trial.cell), trial.seed)?;
        self.start_capture(trial)?;
        let path_begun = Instant::now();
        Ok(self
            .make_ends_ready(trial)
            .map(|listen| (listen, path_begun)))
    }

    fn make_ends_ready(&mut self, trial: &PlannedTrial) -> Result<SocketAddr, Broken> {
        let token = hexadecimal(&rand::rng().random::<[u8; 16]>());
        self.prepare(trial, LISTENING, &token)?;
        let Some(listen) = self.await_ready(trial, LISTENING)? else {
            return Err(Broken::Garbled(
                LISTENING,
                "it did not say where it listens".to_owned(),
            ));
        };
        self.prepare(trial, CONNECTING, &token)?;
        self.await_ready(trial, CONNECTING)?;
        Ok(listen)
    }

    /// Exchanges messages with both ends from the start of the transfer until both have finished.
    fn converse(
        &mut self,
        trial: &PlannedTrial,
        listen: SocketAddr,
    ) -> Result<(SideReport, SideReport), Broken> {
        self.say(
            CONNECTING,
            &ToAgent::Start {
                trial: trial.index,
                peer: listen,
            },
        )?;

        let within = limits::hang(
            self.plan.study(),
            self.plan.condition(trial.cell),
            self.plan.workload(trial.cell),
        );
        let until = Instant::now() + within;
        let mut reports: BTreeMap<usize, SideReport> = BTreeMap::new();
        while reports.len() < 2 {
            match self.next(trial.index, until)? {
                Some((host, FromAgent::Note { note, .. })) => {
                    // The other end may have finished before this note; then nobody needs it.
                    if !reports.contains_key(&slot(other(host))) {
                        self.say(
                            other(host),
                            &ToAgent::Note {
                                trial: trial.index,
                                note,
                            },
                        )?;
                    }
                }
                Some((_, FromAgent::Began { .. })) => {
                    self.bed.begin().map_err(Broken::Path)?;
                }
                Some((host, FromAgent::Finished { report, .. })) => {
                    reports.insert(slot(host), *report);
                }
                Some((host, answer)) => {
                    return Err(Broken::Garbled(
                        host,
                        format!("it said {answer:?} in mid-trial"),
                    ));
                }
                None => {
                    let hosts = [CONNECTING, LISTENING]
                        .into_iter()
                        .filter(|host| !reports.contains_key(&slot(*host)))
                        .collect();
                    return Err(Broken::Silent {
                        hosts,
                        within,
                        doing: "the trial",
                    });
                }
            }
        }
        let listening = reports.remove(&slot(LISTENING)).unwrap_or_default();
        let connecting = reports.remove(&slot(CONNECTING)).unwrap_or_default();
        Ok(match role(CONNECTING, self.plan.workload(trial.cell)) {
            Role::Sender => (connecting, listening),
            Role::Receiver => (listening, connecting),
        })
    }

    fn prepare(&mut self, trial: &PlannedTrial, host: Host, token: &str) -> Result<(), Broken> {
        let study = self.plan.study();
        let condition = self.plan.condition(trial.cell);
        let mut tls = self.tls.clone();
        if host == CONNECTING {
            tls.key_der_base64 = None;
        }
        let order = TrialOrder {
            trial: trial.index,
            role: role(host, self.plan.workload(trial.cell)),
            transport: self.plan.transport(trial.cell).clone(),
            workload: self.plan.workload(trial.cell).clone(),
            token: token.to_owned(),
            seed: trial.seed,
            deadline: study.deadline,
            connect_deadline: study.connect_deadline,
            sample_interval: study.sample_interval,
            local: self.bed.address(host),
            peer: self.bed.address(other(host)),
            path: PathHints {
                round_trip_delay: condition.longest_round_trip_delay(),
                longest_one_way: condition.longest_one_way_ever(),
                link_rate_bps: bottleneck(condition, self.plan.workload(trial.cell)),
                window_bytes: condition
                    .flow_control_window(self.plan.workload(trial.cell).kind.direction())
                    .map(|window| window.0),
                mtu_bytes: condition.mtu_bytes,
                shared_clock: self.bed.shares_clock(),
                keeps_order: condition.keeps_order(),
            },
            tells_beginning: condition.follows_a_clock(),
            tls,
            files: self
                .options
                .files
                .as_ref()
                .map(|files| files.join(format!("trial-{:04}", trial.index + 1))),
        };
        self.say(
            host,
            &ToAgent::Prepare {
                order: Box::new(order),
            },
        )
    }

    fn await_ready(
        &mut self,
        trial: &PlannedTrial,
        host: Host,
    ) -> Result<Option<SocketAddr>, Broken> {
        let within = limits::prepare(self.plan.workload(trial.cell));
        match self.next(trial.index, Instant::now() + within)? {
            Some((from, FromAgent::Ready { listen, .. })) if slot(from) == slot(host) => Ok(listen),
            Some((from, answer)) => Err(Broken::Garbled(
                from,
                format!("it said {answer:?} before the start"),
            )),
            None => Err(Broken::Silent {
                hosts: vec![host],
                within,
                doing: "getting ready",
            }),
        }
    }

    fn say(&mut self, host: Host, message: &ToAgent) -> Result<(), Broken> {
        match self.agents.get_mut(&slot(host)) {
            Some(agent) => agent.say(message).map_err(|_| Broken::Died(host)),
            None => Err(Broken::Died(host)),
        }
    }

    /// Returns the next answer about this trial, or `None` once `until` has come.
    fn next(&mut self, trial: u32, until: Instant) -> Result<Option<(Host, FromAgent)>, Broken> {
        loop {
            let (host, said) = match self.hear(until) {
                Heard::Said(host, said) => (host, said),
                Heard::Stopped => return Err(Broken::Stopped),
                Heard::Nothing => return Ok(None),
            };
            match said {
                Said::Ended => return Err(Broken::Died(host)),
                Said::Garbled(reason) => return Err(Broken::Garbled(host, reason)),
                Said::Message(message) => {
                    if trial_of(&message) != Some(trial) {
                        // The late end of an earlier trial that was aborted.
                        continue;
                    }
                    return match *message {
                        FromAgent::Failed {
                            kind,
                            reasons,
                            hint,
                            ..
                        } => Err(Broken::Failed {
                            host,
                            kind,
                            reasons,
                            hint,
                        }),
                        message => Ok(Some((host, message))),
                    };
                }
            }
        }
    }

    /// Waits for a message of an agent that has not been replaced.
    fn hear(&self, until: Instant) -> Heard {
        if self.stopped() {
            return Heard::Stopped;
        }
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.signals.recv_timeout(left) {
                Ok(Signal::Stop) => return Heard::Stopped,
                Ok(Signal::Agent {
                    host,
                    generation,
                    what,
                }) => {
                    if self.is_current(host, generation) {
                        return Heard::Said(host, what);
                    }
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    return Heard::Nothing;
                }
            }
        }
    }

    /// Removes agents that have ended, or sent something other than an answer, since the last
    /// trial, in which they had no part.
    fn bury_the_dead(&mut self) {
        while let Ok(signal) = self.signals.try_recv() {
            // A wish to stop has raised the flag, too, which is looked at before anything is done.
            if let Signal::Agent {
                host,
                generation,
                what: Said::Ended | Said::Garbled(_),
            } = signal
                && self.is_current(host, generation)
                && let Some(agent) = self.agents.remove(&slot(host))
            {
                let _ = agent.reap();
            }
        }
    }

    fn is_current(&self, host: Host, generation: u32) -> bool {
        let agent = self.agents.get(&slot(host));
        agent.is_some_and(|agent| agent.generation == generation)
    }

    /// Cleans up after a trial that broke: aborts it at both ends and waits for them, so that
    /// nothing of this trial reaches into the next. An agent answers at once if it has no part in
    /// the trial any more; one that does not answer is killed, so that this also finds which agent
    /// hangs. Returns the information about the agents that are gone.
    fn settle(&mut self, trial: u32, broken: &Broken) -> Vec<(Host, Reaping)> {
        let mut gone: BTreeSet<usize> = BTreeSet::new();
        match broken {
            Broken::Died(host) | Broken::Garbled(host, _) => {
                gone.insert(slot(*host));
            }
            _ => {}
        }
        let mut asked: BTreeSet<usize> = BTreeSet::new();
        for host in [CONNECTING, LISTENING] {
            if !self.agents.contains_key(&slot(host)) || gone.contains(&slot(host)) {
                continue;
            }
            if self.say(host, &ToAgent::Abort { trial }).is_ok() {
                asked.insert(slot(host));
            } else {
                gone.insert(slot(host));
            }
        }
        let until = Instant::now() + limits::ABORT;
        while asked.iter().any(|slot| !gone.contains(slot)) {
            let left = until.saturating_duration_since(Instant::now());
            match self.signals.recv_timeout(left) {
                Ok(Signal::Agent {
                    host,
                    generation,
                    what,
                }) => {
                    if !self.is_current(host, generation) {
                        continue;
                    }
                    match what {
                        // Every abort has this one answer, whatever else was said before it.
                        Said::Message(message) => {
                            if *message == (FromAgent::Aborted { trial }) {
                                asked.remove(&slot(host));
                            }
                        }
                        Said::Garbled(_) | Said::Ended => {
                            gone.insert(slot(host));
                        }
                    }
                }
                // A second wish to stop changes nothing here.
                Ok(Signal::Stop) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        gone.extend(asked);
        let mut deaths = Vec::new();
        for host in [CONNECTING, LISTENING] {
            if gone.contains(&slot(host))
                && let Some(agent) = self.agents.remove(&slot(host))
            {
                deaths.push((host, agent.reap()));
            }
        }
        deaths
    }
}

/// Returns the highest rate that the link on which a workload's data travels ever has; of both
/// directions the lower one.
fn bottleneck(condition: &Condition, workload: &Workload) -> Option<u64> {
    let highest = |rates: Vec<Option<BitRate>>| {
        let rates: Option<Vec<u64>> = rates.into_iter().map(|rate| Some(rate?.0)).collect();
        rates?.into_iter().max()
    };
    let forward = highest(
        condition
            .settings()
            .map(|s| s.forward.mean_rate())
            .collect(),
    );
    let reverse = highest(
        condition
            .settings()
            .map(|s| s.reverse.mean_rate())
            .collect(),
    );
    match workload.kind.direction() {
        Direction::Forward => forward,
        Direction::Reverse => reverse,
        Direction::Both => forward.into_iter().chain(reverse).min(),
    }
}

fn trial_of(message: &FromAgent) -> Option<u32> {
    match message {
        FromAgent::Hello { .. } => None,
        FromAgent::Ready { trial, .. }
        | FromAgent::Began { trial }
        | FromAgent::Note { trial, .. }
        | FromAgent::Finished { trial, .. }
        | FromAgent::Failed { trial, .. }
        | FromAgent::Aborted { trial } => Some(*trial),
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
