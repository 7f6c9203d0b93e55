//! Agents of a run: started when they are needed, ended with it.

use regatta_control::Host;

use super::TrialRunner;
use crate::{agent::Agent, error::EngineError};

impl TrialRunner<'_> {
    /// Starts the agents of the hosts that have none, at the same time.
    pub fn ensure_agents(&mut self) -> Result<(), EngineError> {
        self.start_agents().map_err(|error| match self.stopped() {
            true => EngineError::Stopped,
            false => error,
        })
    }

    fn start_agents(&mut self) -> Result<(), EngineError> {
        if self.stopped() {
            return Err(EngineError::Stopped);
        }
        let mut starting = Vec::new();
        for host in [Host::Server, Host::Client] {
            if self.agents.contains_key(&host) {
                continue;
            }
            self.generation += 1;
            let run_id = &self.options.run_id;
            starting.push(Agent::start(
                self.bed,
                host,
                self.generation,
                run_id,
                self.wake,
            )?);
        }
        let (greeted, failed) = Agent::greeted(starting, self.signals, self.bed);
        self.agents
            .extend(greeted.into_iter().map(|agent| (agent.host, agent)));
        failed.map_or(Ok(()), Err)
    }

    /// Ends both agents: closes their input, and kills those that do not end by themselves.
    pub fn end_agents(&mut self) {
        for (_, agent) in std::mem::take(&mut self.agents) {
            let _ = agent.reap();
        }
    }
}
