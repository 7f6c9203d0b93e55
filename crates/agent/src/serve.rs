//! Loop that answers the controller and never blocks on anything but its events.

use std::{
    io::{self, BufRead, Write},
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    time::{Duration, Instant},
};

use regatta_control::{FromAgent, PROTOCOL_VERSION, Problem, ProblemKind, ToAgent, TrialOrder};
use regatta_model::HostFacts;
use regatta_process::write_line;
use regatta_telemetry::{host_facts, monotonic_ns};
use regatta_transport::Driver;

use crate::{
    error::AgentError,
    input::Lines,
    served::{Served, ServedLimits, Terms},
    trial::Trial,
};

/// Longest time that a session may take to end after its abort. Sessions promise a second.
const ABORT_LIMIT: Duration = Duration::from_secs(2);

/// Events that the loop waits for.
enum Event {
    /// Message of the controller; `None` at the end of input.
    Input(Result<Option<ToAgent>, AgentError>),
    /// Message of a trial's thread to the controller; the number distinguishes a trial from an earlier, aborted one.
    Trial(u64, FromAgent),
}

/// Serves until the end of `input`.
///
/// # Errors
/// Any error that ends the agent before the end of `input`.
pub(crate) fn serve(
    input: impl BufRead + Send + 'static,
    drivers: Vec<&'static dyn Driver>,
    facts: HostFacts,
    limits: Option<ServedLimits>,
) -> Result<(), AgentError> {
    let (events_tx, events_rx) = channel();
    let input_tx = events_tx.clone();
    // The thread ends with the process.
    std::thread::Builder::new()
        .name("input".to_owned())
        .spawn(move || {
            let mut lines = Lines::new(input);
            loop {
                let message = lines.next();
                let last = !matches!(message, Ok(Some(_)));
                if input_tx.send(Event::Input(message)).is_err() || last {
                    return;
                }
            }
        })
        .map_err(AgentError::Thread)?;
    Agent {
        drivers: drivers.into(),
        facts,
        served: limits.map(Served::new),
        events_tx,
        output: io::stdout(),
        current: None,
        trials: 0,
    }
    .run(&events_rx)
}

/// The trial under way.
struct Current {
    /// Number of this trial among those of this process.
    number: u64,
    trial: Trial,
    /// Moment by which the trial must have ended; absent until it is aborted.
    abort_by: Option<Instant>,
}

struct Agent<W> {
    drivers: Arc<[&'static dyn Driver]>,
    facts: HostFacts,
    /// Limits of an agent that works for a client of a server.
    served: Option<Served>,
    events_tx: Sender<Event>,
    output: W,
    current: Option<Current>,
    trials: u64,
}

impl<W: Write> Agent<W> {
    fn run(mut self, events_rx: &Receiver<Event>) -> Result<(), AgentError> {
        loop {
            let abort_by = self.current.as_ref().and_then(|current| current.abort_by);
            let event = match abort_by {
                // The loop itself holds a sender, so there is always one.
                None => events_rx.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(by) => events_rx.recv_timeout(by.saturating_duration_since(Instant::now())),
            };
            match event {
                Ok(Event::Input(Ok(Some(message)))) => self.answer(message)?,
                Ok(Event::Input(Ok(None))) => return Ok(()),
                Ok(Event::Input(Err(error))) => {
                    if matches!(error, AgentError::Version { .. }) {
                        // The controller can then report the version, too.
                        self.send_hello()?;
                    }
                    return Err(error);
                }
                Ok(Event::Trial(number, message)) => self.on_trial(number, &message)?,
                Err(RecvTimeoutError::Timeout) => return self.give_up(),
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }

    fn send(&mut self, message: &FromAgent) -> Result<(), AgentError> {
        write_line(&mut self.output, message).map_err(AgentError::Output)
    }

    fn send_hello(&mut self) -> Result<(), AgentError> {
        let facts = self.facts.clone();
        self.send(&FromAgent::Hello {
            protocol: PROTOCOL_VERSION,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            monotonic_ns: monotonic_ns(),
            facts,
        })
    }

    fn answer(&mut self, message: ToAgent) -> Result<(), AgentError> {
        match message {
            ToAgent::Hello { run_id, host, .. } => {
                log::info!("host `{host}` serves run `{run_id}`");
                self.send_hello()
            }
            ToAgent::Prepare { order } => self.prepare(order),
            ToAgent::Start { trial, peer } => {
                let current = self.current(trial);
                if !current.is_some_and(|current| current.trial.start(peer)) {
                    log::warn!("trial {trial} has no sender that waits for its start");
                }
                Ok(())
            }
            ToAgent::Note { trial, note } => {
                match self.current(trial) {
                    Some(current) => current.trial.note(note),
                    // The other end may send a note after this one has ended.
                    None => log::debug!("trial {trial} is over; its note is dropped"),
                }
                Ok(())
            }
            ToAgent::Abort { trial } => {
                let Some(current) = self.current(trial) else {
                    return self.send(&FromAgent::Aborted { trial });
                };
                if current.abort_by.is_none() {
                    current.abort_by = Some(Instant::now() + ABORT_LIMIT);
                    current.trial.abort();
                }
                Ok(())
            }
        }
    }

    fn current(&mut self, trial: u32) -> Option<&mut Current> {
        let current = self.current.as_mut();
        current.filter(|current| current.trial.index == trial)
    }

    fn prepare(&mut self, order: Box<TrialOrder>) -> Result<(), AgentError> {
        let index = order.trial;
        match self.begin(order) {
            Ok(trial) => {
                self.current = Some(Current {
                    number: self.trials,
                    trial,
                    abort_by: None,
                });
                Ok(())
            }
            Err(failure) => self.fail(index, failure),
        }
    }

    fn begin(&mut self, mut order: Box<TrialOrder>) -> Result<Trial, Problem> {
        if let Some(current) = &self.current {
            let reason = format!("trial {} is still under way", current.trial.index);
            return Err(Problem::failed(reason, "abort it first"));
        }
        let terms = match &self.served {
            None => Terms::default(),
            Some(served) => served.admit(&mut order)?,
        };
        self.trials += 1;
        let number = self.trials;
        let events_tx = self.events_tx.clone();
        let sink = Arc::new(move |message| {
            // The loop ends only with the process.
            let _ = events_tx.send(Event::Trial(number, message));
        });
        Trial::spawn(Arc::clone(&self.drivers), order, terms, sink)
    }

    fn fail(&mut self, trial: u32, problem: Problem) -> Result<(), AgentError> {
        self.send(&FromAgent::Failed { trial, problem })
    }

    /// Passes a message of the trial under way on. One that was aborted answers only that it has ended.
    fn on_trial(&mut self, number: u64, message: &FromAgent) -> Result<(), AgentError> {
        let Some(current) = self.current.as_ref().filter(|c| c.number == number) else {
            return Ok(());
        };
        let trial = current.trial.index;
        let aborted = current.abort_by.is_some();
        let (has_ended, disturbed) = match message {
            FromAgent::Finished { .. } => (true, false),
            FromAgent::Failed { problem, .. } => (true, problem.kind == ProblemKind::Disturbed),
            _ => (false, false),
        };
        if has_ended {
            self.current = None;
        }
        // An aborted trial has no report, but what disturbed it may be why it was aborted.
        if !aborted || disturbed {
            self.send(message)?;
        }
        match aborted && has_ended {
            true => self.send(&FromAgent::Aborted { trial }),
            false => Ok(()),
        }
    }

    /// Answers the abort of a session that does not end, and returns the error that ends the
    /// process: the stuck session would be charged to the trials after it.
    fn give_up(&mut self) -> Result<(), AgentError> {
        let Some(current) = self.current.take() else {
            return Ok(());
        };
        let trial = current.trial.index;
        self.send(&FromAgent::Aborted { trial })?;
        Err(AgentError::Stuck {
            trial,
            seconds: ABORT_LIMIT.as_secs(),
        })
    }
}

/// Returns facts about this host, the version of every stack, and the build of this program.
pub(crate) fn facts(drivers: &[&'static dyn Driver], build: HostFacts) -> HostFacts {
    let mut facts = host_facts();
    facts.0.extend(build.0);
    let mut version = |stack: &str, version: &str| {
        facts
            .0
            .insert(format!("version.{stack}"), version.to_owned());
    };
    for descriptor in drivers.iter().map(|driver| driver.descriptor()) {
        if !descriptor.stack_version.is_empty() {
            let stack = descriptor.stack.to_lowercase().replace(' ', "-");
            version(&stack, descriptor.stack_version);
        }
    }
    version("regatta", env!("CARGO_PKG_VERSION"));
    facts
}
