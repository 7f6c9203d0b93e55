//! Handle of an agent: a process that answers, ends or hangs.

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError, Sender},
    time::Instant,
};

use regatta_bed::{ChildOutput, JsonChild, MalformedLine, ProcessEnd, TestBed};
use regatta_control::{FromAgent, Host, PROTOCOL_VERSION, ToAgent};
use regatta_model::{HostFacts, Phrase, Text, reason};

use crate::{error::EngineError, limits};

/// Maximum length of a line that an agent may write, in bytes. A report with an hour of samples is below 20 MB.
const LONGEST_LINE: u64 = 256 << 20;

/// Place of an agent in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AgentId {
    /// Flow of a competition that the agent serves, from 0; 0 where one transport runs alone.
    pub flow: usize,
    pub host: Host,
}

/// Message that wakes the engine.
#[derive(Debug)]
pub(crate) enum Signal {
    /// An agent sent a message or ended.
    Agent {
        id: AgentId,
        /// Number of the agent process in this place: messages of a process that has been replaced
        /// are void.
        generation: u32,
        output: ChildOutput<FromAgent>,
    },
    /// A path daemon has ended.
    PathEnded,
    /// The run is to stop.
    Stop,
}

/// Agent that was started and has sent its hello.
pub(crate) struct Agent {
    pub id: AgentId,
    pub generation: u32,
    pub facts: HostFacts,
    pub version: String,
    child: JsonChild<ToAgent, FromAgent>,
}

impl Agent {
    /// Starts an agent.
    pub fn start(
        bed: &mut dyn TestBed,
        id: AgentId,
        generation: u32,
        signals: &Sender<Signal>,
    ) -> Result<Self, EngineError> {
        let launched = bed.spawn_agent(id.host)?;
        let signals = signals.clone();
        let name = format!("agent {}", id.host.name());
        let child = JsonChild::start(launched, &name, LONGEST_LINE, move |output| {
            let signal = Signal::Agent {
                id,
                generation,
                output,
            };
            signals.send(signal).is_ok()
        });
        Ok(Self {
            id,
            generation,
            facts: HostFacts::default(),
            version: String::new(),
            child: child.map_err(|source| EngineError::Thread { source })?,
        })
    }

    /// Requests the agent's hello: see [`Agent::greeted`]. With `fork` a child process of the agent
    /// serves until the next request.
    pub fn greet(&mut self, host: &str, run_id: &str, fork: bool) {
        let hello = ToAgent::Hello {
            protocol: PROTOCOL_VERSION,
            run_id: run_id.to_owned(),
            host: host.to_owned(),
            fork,
        };
        // One that cannot be written to has ended, and that is seen when its hello is waited for.
        let _ = self.send(&hello);
    }

    /// Waits for the hellos that were requested. Returns those that said hello, and the error of one that
    /// did not. A stop ends the wait.
    pub fn greeted(
        mut starting: Vec<Self>,
        signals: &Receiver<Signal>,
        bed: &dyn TestBed,
    ) -> (Vec<Self>, Option<EngineError>) {
        let mut until = Instant::now() + limits::HELLO;
        let mut greeted = Vec::new();
        let mut failed = None;
        while !starting.is_empty() {
            let remaining = until.saturating_duration_since(Instant::now());
            let (index, hello) = match signals.recv_timeout(remaining) {
                Ok(Signal::Agent {
                    id,
                    generation,
                    output,
                }) => {
                    let is_of = |agent: &Self| (agent.id, agent.generation) == (id, generation);
                    let Some(index) = starting.iter().position(is_of) else {
                        continue;
                    };
                    (index, starting[index].receive_hello(output))
                }
                // What needs the path finds it.
                Ok(Signal::PathEnded) => continue,
                Ok(Signal::Stop) => {
                    until = Instant::now();
                    continue;
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    (0, Err(reason::no_hello(limits::HELLO).into()))
                }
            };
            let agent = starting.remove(index);
            match hello {
                Ok(()) => greeted.push(agent),
                Err(reason) => {
                    let host = bed.name(agent.id.host).to_owned();
                    let mut reasons = vec![reason];
                    reasons.extend(agent.reap().reasons());
                    let reason = reason::chain(reasons);
                    failed.get_or_insert(EngineError::NoAgent { host, reason });
                }
            }
        }
        (greeted, failed)
    }

    /// Takes the first output of the agent, which is to be its hello.
    fn receive_hello(&mut self, output: ChildOutput<FromAgent>) -> Result<(), Text> {
        let message = match output {
            ChildOutput::Message(message) => message,
            ChildOutput::Malformed(line) => return Err(not_an_answer(&line).into()),
            ChildOutput::Ended(_) => return Err(reason::ended_before_hello().into()),
        };
        match message {
            FromAgent::Hello {
                protocol: PROTOCOL_VERSION,
                version,
                facts,
                ..
            } => {
                self.version = version;
                self.facts = facts;
                Ok(())
            }
            FromAgent::Hello { protocol, .. } => {
                let [theirs, ours] = [protocol, PROTOCOL_VERSION].map(u64::from);
                Err(reason::other_protocol(theirs, ours).into())
            }
            other => Err(reason::other_before_hello(&format!("{other:?}")).into()),
        }
    }

    /// Sends a message to the agent.
    pub fn send(&mut self, message: &ToAgent) -> std::io::Result<()> {
        self.child.send(message)
    }

    /// Ends the agent, if need be by killing it, and returns the information about its end.
    pub fn reap(self) -> ProcessEnd {
        self.child.end()
    }
}

/// Returns the reason for a line of an agent that is no message of the protocol.
pub(crate) fn not_an_answer(line: &MalformedLine) -> Phrase {
    reason::not_an_answer(&line.beginning(200), &line.source.to_string())
}
