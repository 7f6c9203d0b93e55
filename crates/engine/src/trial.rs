//! One trial: path, both ends ready, start, notes both ways, both ends finished.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::mpsc::RecvTimeoutError,
    time::{Duration, Instant},
};

use rand::RngExt;
use regatta_control::{FailureKind, FromAgent, PathHints, Role, SideReport, ToAgent, TrialOrder};
use regatta_model::{Outcome, TrialRecord};

use crate::{
    agent::{Said, Signal, host_name},
    bed::Host,
    error::EngineError,
    limits,
    merge::{Merged, merge},
    plan::PlannedTrial,
    plausible,
    run::{Crew, slot, unix_ns},
};

/// What became of a trial.
pub(crate) enum Verdict {
    /// It has a record, whatever its outcome.
    Ended(Box<TrialRecord>),
    /// The run was stopped meanwhile, so it has none.
    Stopped,
}

/// Why a trial has no two reports.
enum Broken {
    Stopped,
    /// An agent has died, or cannot be spoken to.
    Died(Host),
    /// An agent wrote something that is no answer.
    Garbled(Host, String),
    /// An end said that it has no report.
    Failed {
        host: Host,
        kind: FailureKind,
        reasons: Vec<String>,
        hint: String,
    },
    /// An end did not answer in time.
    Silent {
        hosts: Vec<Host>,
        within: Duration,
        doing: &'static str,
    },
}

/// Heard while waiting.
enum Heard {
    Said(Host, Said),
    Stopped,
    Nothing,
}

/// The sender connects from host A; the receiver listens on host B.
const SENDER: Host = Host::A;
const RECEIVER: Host = Host::B;

fn role(host: Host) -> Role {
    match host {
        SENDER => Role::Sender,
        _ => Role::Receiver,
    }
}

fn other(host: Host) -> Host {
    match host {
        Host::A => Host::B,
        Host::B => Host::A,
    }
}

impl Crew<'_> {
    /// Runs one trial, whatever comes of it.
    pub fn run_trial(&mut self, trial: &PlannedTrial) -> Result<Verdict, EngineError> {
        let started_unix_ns = unix_ns();
        for host in [RECEIVER, SENDER] {
            match self.ensure(host) {
                Ok(()) => {}
                // The run started with two agents, so one that cannot be replaced is this trial's
                // misfortune; the next trial tries again.
                Err(error @ EngineError::NoAgent { .. }) => {
                    let reasons = vec![error.to_string()];
                    let record = self.record(
                        trial,
                        started_unix_ns,
                        Outcome::Failed,
                        reasons,
                        String::new(),
                        Merged::default(),
                    );
                    return Ok(Verdict::Ended(Box::new(record)));
                }
                Err(error) => return Err(error),
            }
        }
        self.bed
            .set_condition(self.plan.condition(trial.cell), trial.seed)?;
        let path_begun = Instant::now();

        let mut engaged = BTreeSet::new();
        let record = match self.converse(trial, &mut engaged) {
            Ok((sender, receiver)) => {
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
                        "leave the machine alone during the run, or ask for a lower `--rate`"
                            .to_owned(),
                    ),
                };
                self.record(trial, started_unix_ns, outcome, reasons, hint, merged)
            }
            Err(broken) => {
                let deaths = self.settle(trial.index, &broken, engaged);
                let Some((outcome, reasons, hint)) = explain(broken, &deaths) else {
                    return Ok(Verdict::Stopped);
                };
                self.record(
                    trial,
                    started_unix_ns,
                    outcome,
                    reasons,
                    hint,
                    Merged::default(),
                )
            }
        };
        Ok(Verdict::Ended(Box::new(record)))
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

    /// Everything that both ends are told, until both have finished.
    fn converse(
        &mut self,
        trial: &PlannedTrial,
        engaged: &mut BTreeSet<usize>,
    ) -> Result<(SideReport, SideReport), Broken> {
        let token = hexadecimal(&rand::rng().random::<[u8; 16]>());
        self.prepare(trial, RECEIVER, &token, engaged)?;
        let Some(listen) = self.await_ready(trial.index, RECEIVER, engaged)? else {
            return Err(Broken::Garbled(
                RECEIVER,
                "it did not say where it listens".to_owned(),
            ));
        };
        self.prepare(trial, SENDER, &token, engaged)?;
        self.await_ready(trial.index, SENDER, engaged)?;
        self.say(
            SENDER,
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
            match self.next(trial.index, until, engaged)? {
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
                    let hosts = [SENDER, RECEIVER]
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
        let receiver = reports.remove(&slot(RECEIVER)).unwrap_or_default();
        let sender = reports.remove(&slot(SENDER)).unwrap_or_default();
        Ok((sender, receiver))
    }

    fn prepare(
        &mut self,
        trial: &PlannedTrial,
        host: Host,
        token: &str,
        engaged: &mut BTreeSet<usize>,
    ) -> Result<(), Broken> {
        let study = self.plan.study();
        let condition = self.plan.condition(trial.cell);
        let mut tls = self.tls.clone();
        if host == SENDER {
            tls.key_der_base64 = None;
        }
        let order = TrialOrder {
            trial: trial.index,
            role: role(host),
            transport: self.plan.transport(trial.cell).clone(),
            workload: self.plan.workload(trial.cell).clone(),
            token: token.to_owned(),
            seed: trial.seed,
            deadline: study.deadline,
            sample_interval: study.sample_interval,
            local: self.bed.address(host),
            peer: self.bed.address(other(host)),
            path: PathHints {
                round_trip_delay: condition.round_trip_delay(),
                longest_one_way: condition
                    .longest_one_way(&condition.forward)
                    .max(condition.longest_one_way(&condition.reverse)),
                link_rate_bps: condition.forward.rate.map(|rate| rate.0),
                mtu_bytes: condition.mtu_bytes,
                shared_clock: self.bed.shares_clock(),
                keeps_order: !condition.forward.jitter_reorders
                    && !condition.reverse.jitter_reorders,
            },
            tls,
        };
        engaged.insert(slot(host));
        self.say(
            host,
            &ToAgent::Prepare {
                order: Box::new(order),
            },
        )
    }

    fn await_ready(
        &mut self,
        trial: u32,
        host: Host,
        engaged: &mut BTreeSet<usize>,
    ) -> Result<Option<SocketAddr>, Broken> {
        let until = Instant::now() + limits::PREPARE;
        match self.next(trial, until, engaged)? {
            Some((from, FromAgent::Ready { listen, .. })) if slot(from) == slot(host) => Ok(listen),
            Some((from, answer)) => Err(Broken::Garbled(
                from,
                format!("it said {answer:?} before the start"),
            )),
            None => Err(Broken::Silent {
                hosts: vec![host],
                within: limits::PREPARE,
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

    /// The next answer about this trial, or `None` once the moment has come. An end that has
    /// given its last answer is taken out of `engaged`.
    fn next(
        &mut self,
        trial: u32,
        until: Instant,
        engaged: &mut BTreeSet<usize>,
    ) -> Result<Option<(Host, FromAgent)>, Broken> {
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
                    match *message {
                        FromAgent::Failed {
                            kind,
                            reasons,
                            hint,
                            ..
                        } => {
                            engaged.remove(&slot(host));
                            return Err(Broken::Failed {
                                host,
                                kind,
                                reasons,
                                hint,
                            });
                        }
                        message => {
                            if matches!(
                                message,
                                FromAgent::Finished { .. } | FromAgent::Aborted { .. }
                            ) {
                                engaged.remove(&slot(host));
                            }
                            return Ok(Some((host, message)));
                        }
                    }
                }
            }
        }
    }

    /// Waits for a word from an agent that is still in service.
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
                    let current = self.agents.get(&slot(host)).map(|agent| agent.generation);
                    if current == Some(generation) {
                        return Heard::Said(host, what);
                    }
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    return Heard::Nothing;
                }
            }
        }
    }

    /// After something broke: aborts the ends that are still at work and waits for them, so that
    /// nothing of this trial reaches into the next. An end that does not answer is killed. Returns
    /// what is known of the agents that are gone.
    fn settle(
        &mut self,
        trial: u32,
        broken: &Broken,
        mut engaged: BTreeSet<usize>,
    ) -> Vec<(Host, Vec<String>)> {
        let mut gone: BTreeSet<usize> = BTreeSet::new();
        match broken {
            Broken::Died(host) | Broken::Garbled(host, _) => {
                gone.insert(slot(*host));
            }
            _ => {}
        }
        for host in [SENDER, RECEIVER] {
            if engaged.contains(&slot(host))
                && !gone.contains(&slot(host))
                && self.say(host, &ToAgent::Abort { trial }).is_err()
            {
                gone.insert(slot(host));
            }
        }
        let until = Instant::now() + limits::ABORT;
        while engaged.iter().any(|slot| !gone.contains(slot)) {
            let left = until.saturating_duration_since(Instant::now());
            match self.signals.recv_timeout(left) {
                Ok(Signal::Agent {
                    host,
                    generation,
                    what,
                }) => {
                    let current = self.agents.get(&slot(host)).map(|agent| agent.generation);
                    if current != Some(generation) {
                        continue;
                    }
                    match what {
                        Said::Message(message) => {
                            let last = matches!(
                                *message,
                                FromAgent::Aborted { .. }
                                    | FromAgent::Finished { .. }
                                    | FromAgent::Failed { .. }
                            );
                            if last && trial_of(&message) == Some(trial) {
                                engaged.remove(&slot(host));
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
        gone.extend(engaged);
        let mut deaths = Vec::new();
        for host in [SENDER, RECEIVER] {
            if gone.contains(&slot(host))
                && let Some(agent) = self.agents.remove(&slot(host))
            {
                deaths.push((host, agent.bury()));
            }
        }
        deaths
    }
}

fn trial_of(message: &FromAgent) -> Option<u32> {
    match message {
        FromAgent::Hello { .. } => None,
        FromAgent::Ready { trial, .. }
        | FromAgent::Note { trial, .. }
        | FromAgent::Finished { trial, .. }
        | FromAgent::Failed { trial, .. }
        | FromAgent::Aborted { trial } => Some(*trial),
    }
}

/// Outcome, reasons and hint of a trial that broke; `None` if the run was stopped.
fn explain(
    broken: Broken,
    deaths: &[(Host, Vec<String>)],
) -> Option<(Outcome, Vec<String>, String)> {
    let names = |host: Host| format!("the {} on host `{}`", role(host).name(), host_name(host));
    let death = |host: Host| {
        deaths
            .iter()
            .find(|(dead, _)| slot(*dead) == slot(host))
            .map(|(_, reasons)| reasons.clone())
    };
    match broken {
        Broken::Stopped => None,
        Broken::Died(host) => {
            let mut reasons = vec![format!("{} died during the trial", names(host))];
            reasons.extend(death(host).unwrap_or_default());
            Some((Outcome::Failed, reasons, String::new()))
        }
        Broken::Garbled(host, what) => {
            let mut reasons = vec![
                format!("{} did not keep to the protocol", names(host)),
                what,
            ];
            reasons.extend(death(host).unwrap_or_default());
            Some((Outcome::Failed, reasons, String::new()))
        }
        Broken::Failed {
            host,
            kind,
            reasons: why,
            hint,
        } => {
            let outcome = match kind {
                FailureKind::Unsupported => Outcome::Unsupported,
                FailureKind::Failed => Outcome::Failed,
                FailureKind::TimedOut => Outcome::TimedOut,
            };
            if outcome == Outcome::Unsupported {
                return Some((outcome, why, hint));
            }
            // An end often fails because the other one has died; then that is the cause.
            if let Some(last) = death(other(host)) {
                let mut reasons = vec![format!("{} died during the trial", names(other(host)))];
                reasons.extend(last);
                reasons.push(format!("{} then failed", names(host)));
                reasons.extend(why);
                return Some((Outcome::Failed, reasons, hint));
            }
            let mut reasons = vec![format!("{} failed", names(host))];
            reasons.extend(why);
            Some((outcome, reasons, hint))
        }
        Broken::Silent {
            hosts,
            within,
            doing,
        } => {
            let hosts: Vec<String> = hosts.into_iter().map(names).collect();
            Some((
                Outcome::TimedOut,
                vec![format!(
                    "no answer from {} within {} s of {doing}",
                    hosts.join(" and "),
                    within.as_secs()
                )],
                String::new(),
            ))
        }
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
