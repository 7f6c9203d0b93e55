//! Agents of a run: started when they are needed, ended with it.

use regatta_control::Host;

use super::TrialRunner;
use crate::{
    agent::{Agent, AgentId},
    error::EngineError,
};

impl TrialRunner<'_> {
    /// Starts those agents that are missing of each of `flows` flows, at the same time. With a virtual clock those that are
    /// there fork a new child process, so that a trial finds nothing of the trials before in it.
    pub fn ensure_agents(&mut self, flows: usize) -> Result<(), EngineError> {
        self.start_agents(flows)
            .map_err(|error| match self.stopped() {
                true => EngineError::Stopped,
                false => error,
            })
    }

    fn start_agents(&mut self, flows: usize) -> Result<(), EngineError> {
        if self.stopped() {
            return Err(EngineError::Stopped);
        }
        let fork = self.has_virtual_clock();
        let run_id = &self.options.run_id;
        let mut starting = Vec::new();
        let hosts = [Host::Server, Host::Client];
        let places = (0..flows).flat_map(|flow| hosts.map(|host| AgentId { flow, host }));
        for id in places {
            let mut agent = match self.agents.remove(&id) {
                Some(agent) if !fork => {
                    self.agents.insert(id, agent);
                    continue;
                }
                Some(agent) => agent,
                None => {
                    self.generation += 1;
                    Agent::start(self.bed, id, self.generation, self.wake)?
                }
            };
            agent.greet(self.bed.name(id.host), run_id, fork);
            starting.push(agent);
        }
        let (greeted, failed) = Agent::greeted(starting, self.signals, self.bed);
        self.agents
            .extend(greeted.into_iter().map(|agent| (agent.id, agent)));
        failed.map_or(Ok(()), Err)
    }

    /// Ends all agents: closes their input, and kills those that do not end by themselves.
    pub fn end_agents(&mut self) {
        for (_, agent) in std::mem::take(&mut self.agents) {
            let _ = agent.reap();
        }
    }
}
