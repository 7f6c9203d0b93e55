//! Beginning of a trial: agents, path, and both ends of each flow.

use std::{collections::BTreeSet, time::Instant};

use rand::RngExt;
use regatta_bed::guest::{seed_random_numbers, wait_for_long_timers, wait_for_timers};
use regatta_control::{FromAgent, Host, PathHints, ToAgent, TrialOrder};
use regatta_model::{Condition, reason};

use super::FlowResult;
use crate::{
    agent::AgentId,
    clocks::TrialClocks,
    competition::{self, FlowServer},
    error::EngineError,
    failure::TrialFailure,
    limits,
    plan::PlannedTrial,
    run::{ProgressListener, TrialRunner, bottleneck},
};

impl TrialRunner<'_> {
    /// Prepares agents, path and both ends of each flow. Returns the servers, and
    /// the time since which the path counts; or the flow that failed.
    pub(super) fn make_ready(
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
    pub(in crate::run) fn is_unknown(&self) -> bool {
        self.bed.is_real() && !self.bed.shares_clock()
    }

    /// Returns the condition of a trial as far as it is known: of a real network, the delay that the
    /// last check found.
    pub(super) fn known_path(&self, trial: &PlannedTrial) -> Condition {
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
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
