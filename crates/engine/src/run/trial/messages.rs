//! Messages to the agents of a trial, and their answers.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use regatta_bed::{ChildOutput, ProcessEnd};
use regatta_control::{FromAgent, Host, ProblemKind, ToAgent};

use super::FlowResult;
use crate::{
    agent::{AgentId, Signal, not_an_answer},
    failure::TrialFailure,
    limits,
    plan::PlannedTrial,
    run::TrialRunner,
};

impl TrialRunner<'_> {
    pub(super) fn send(&mut self, id: AgentId, message: &ToAgent) -> Result<(), TrialFailure> {
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
    pub(super) fn next(
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
    pub(in crate::run) fn rest(&mut self, until: Instant) {
        while !self.stopped() {
            let remaining = until.saturating_duration_since(Instant::now());
            match self.signals.recv_timeout(remaining) {
                Ok(signal) => self.reap_ended(&signal),
                Err(_) => return,
            }
        }
    }

    /// Removes agents that have ended, or sent a malformed message, since the last trial in which they took part.
    pub(super) fn reap_ended_agents(&mut self) {
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
    pub(super) fn abort(
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
