//! Handle of an agent: a process that answers, ends or hangs.

use std::{
    fs::File,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, Sender},
    },
    thread::JoinHandle,
    time::Instant,
};

use parking_lot::Mutex;
use regatta_bed::{Input, LaunchedProcess, TestBed, write_line};
use regatta_control::{FromAgent, Host, PROTOCOL_VERSION, ToAgent};
use regatta_model::{HostFacts, Phrase, Text, reason};

use crate::{
    error::EngineError,
    limits,
    process_output::{self, LastLines, beginning, each_line, spawn},
};

/// Lines of an agent's standard error that are kept to explain its death.
const STDERR_TAIL_LINES: usize = 12;

/// Longest line that an agent may write. A report with an hour of samples is below 20 MB.
const LONGEST_LINE: u64 = 256 << 20;

/// Longest line of its standard error that is kept whole.
const LONGEST_ERROR: u64 = 64 << 10;

/// Message that wakes the engine.
#[derive(Debug)]
pub(crate) enum Signal {
    /// An agent sent a message or ended.
    Agent {
        host: Host,
        /// Number of the agent process on this host: messages of a process that has been replaced
        /// are void.
        generation: u32,
        output: AgentOutput,
    },
    /// The run is to stop.
    Stop,
}

/// Part of an agent's output.
#[derive(Debug)]
pub(crate) enum AgentOutput {
    Message(Box<FromAgent>),
    /// A line that is not a message of the protocol.
    Malformed(Phrase),
    /// End of the agent's output.
    Ended,
}

/// Agent that was started and has sent its hello.
pub(crate) struct Agent {
    pub host: Host,
    pub generation: u32,
    pub facts: HostFacts,
    pub version: String,
    input: Box<dyn Input>,
    process: Box<dyn LaunchedProcess>,
    last_lines: Arc<Mutex<LastLines>>,
    readers: Vec<JoinHandle<()>>,
}

/// End of an agent.
pub(crate) struct AgentExit {
    /// Whether the agent was killed, as it did not end by itself once its input was closed.
    pub killed: bool,
    /// Whether somebody outside of the run ended or stopped it.
    pub is_from_outside: bool,
    /// Exit status of the process, and its last lines of output.
    pub reasons: Vec<Text>,
}

impl Agent {
    /// Starts an agent.
    pub fn start(
        bed: &mut dyn TestBed,
        host: Host,
        generation: u32,
        signals: &Sender<Signal>,
    ) -> Result<Self, EngineError> {
        let launched = bed.spawn_agent(host)?;
        // An agent writes no errors unless something is wrong or the user asked for logs, so that this costs no
        // measured core anything.
        let last_lines = Arc::new(Mutex::new(LastLines::new(STDERR_TAIL_LINES, "")));
        let (sender, output) = (signals.clone(), launched.output.into());
        let mut readers = vec![spawn(format!("answers of {}", host.name()), move || {
            read_answers(output, host, generation, &sender);
        })?];
        if let Some(errors) = launched.errors {
            let stderr_tail = Arc::clone(&last_lines);
            readers.push(spawn(format!("errors of {}", host.name()), move || {
                // Output that cannot be read any more has ended.
                let _ = each_line(errors.into(), LONGEST_ERROR, |line| {
                    let text = String::from_utf8_lossy(line).trim_end().to_owned();
                    stderr_tail.lock().keep(text);
                    true
                });
            })?);
        }
        Ok(Self {
            host,
            generation,
            facts: HostFacts::default(),
            version: String::new(),
            input: launched.input,
            process: launched.process,
            last_lines,
            readers,
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
                    host,
                    generation,
                    output,
                }) => {
                    let is_of = |agent: &Self| (agent.host, agent.generation) == (host, generation);
                    let Some(index) = starting.iter().position(is_of) else {
                        continue;
                    };
                    (index, starting[index].receive_hello(output))
                }
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
                    let host = bed.name(agent.host).to_owned();
                    let mut reasons = vec![reason];
                    reasons.extend(agent.reap().reasons);
                    let reason = reason::chain(reasons);
                    failed.get_or_insert(EngineError::NoAgent { host, reason });
                }
            }
        }
        (greeted, failed)
    }

    /// Takes the first output of the agent, which is to be its hello.
    fn receive_hello(&mut self, output: AgentOutput) -> Result<(), Text> {
        let message = match output {
            AgentOutput::Message(message) => *message,
            AgentOutput::Malformed(reason) => return Err(reason.into()),
            AgentOutput::Ended => return Err(reason::ended_before_hello().into()),
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
        write_line(&mut self.input, message)
    }

    /// Ends the agent, if need be by killing it, and returns the information about its end.
    pub fn reap(self) -> AgentExit {
        let Self {
            input,
            process,
            last_lines,
            readers,
            ..
        } = self;
        // End of input ends an agent that is well; one that has died has a status worth telling.
        drop(input);
        let end = process_output::end(process);
        for reader in readers {
            // The process has ended, so its pipes are closed and the readers end.
            let _ = reader.join();
        }
        let last_lines = last_lines.lock().description();
        AgentExit {
            killed: end.killed,
            is_from_outside: end.is_from_outside(),
            reasons: end.description().into_iter().chain(last_lines).collect(),
        }
    }
}

fn read_answers(output: File, host: Host, generation: u32, signals: &Sender<Signal>) {
    let send = |output| {
        let signal = Signal::Agent {
            host,
            generation,
            output,
        };
        signals.send(signal).is_ok()
    };
    // Output that cannot be read any more has ended.
    let _ = each_line(output, LONGEST_LINE, |line| {
        send(match serde_json::from_slice(line) {
            Ok(message) => AgentOutput::Message(Box::new(message)),
            Err(error) => {
                let line = beginning(line, 200);
                AgentOutput::Malformed(reason::not_an_answer(&line, &error.to_string()))
            }
        })
    });
    send(AgentOutput::Ended);
}
