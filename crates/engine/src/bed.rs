//! Interface of a bed to the engine.

use std::{
    io::{Read, Write},
    net::IpAddr,
    process::Child,
    time::{Duration, Instant},
};

use regatta_bed::{
    AgentOfTwo, SecondGuestProcess, TwoGuests,
    capture::{CaptureOrder, CaptureSummary},
};
pub use regatta_bed::{Bed, BedError, Host, PathCounters};
use regatta_model::{Condition, PathCheck};

/// Two hosts with a path between them. Implemented by [`Bed`], and by the engine's own tests.
pub trait TestBed {
    /// Returns the kind of bed and its emulator, in words: `netns, user-space emulator`.
    fn description(&self) -> String;
    /// Whether both hosts read the same monotonic clock.
    fn shares_clock(&self) -> bool;
    /// Returns a host's address on the path.
    fn address(&self, host: Host) -> IpAddr;
    /// Starts an agent on a host.
    ///
    /// # Errors
    /// If the agent cannot be started.
    fn spawn_agent(&mut self, host: Host) -> Result<AgentPipes, BedError>;
    /// Sets the path up for a trial: new condition and seed, empty queues, counters at zero.
    ///
    /// # Errors
    /// If the condition cannot be set.
    fn set_condition(&mut self, condition: &Condition, seed: u64) -> Result<(), BedError>;
    /// Begins the condition's schedule and its traces, at the moment at which the transfer starts.
    ///
    /// # Errors
    /// If the path's daemon does not answer.
    fn begin(&mut self) -> Result<(), BedError>;
    /// Returns the path's counters since the condition was set.
    ///
    /// # Errors
    /// If the path's daemon does not answer.
    fn counters(&mut self) -> Result<PathCounters, BedError>;
    /// Captures every packet from now on.
    ///
    /// # Errors
    /// [`BedError::Refused`] where there can be no capture.
    fn start_capture(&mut self, order: CaptureOrder) -> Result<(), BedError>;
    /// Ends the capture and returns its summary; `None` if no capture was started.
    ///
    /// # Errors
    /// If the path's daemon does not answer.
    fn end_capture(&mut self) -> Result<Option<CaptureSummary>, BedError>;
    /// Measures the path under a condition.
    ///
    /// # Errors
    /// If the path's daemon does not answer.
    fn check_path(&mut self, condition: &Condition) -> Result<PathCheck, BedError>;
}

/// Standard streams of an agent, and its process.
pub struct AgentPipes {
    /// Standard input of the agent.
    pub input: Box<dyn Write + Send>,
    /// Standard output of the agent.
    pub output: Box<dyn Read + Send>,
    /// Standard error of the agent, unless it goes elsewhere.
    pub errors: Option<Box<dyn Read + Send>>,
    /// The process itself.
    pub process: Box<dyn AgentProcess>,
}

/// Process that can be waited for and killed.
pub trait AgentProcess: Send {
    /// Waits for at most `within` and returns the exit status, in words; `None` if the process
    /// still runs.
    fn ended(&mut self, within: Duration) -> Option<String>;
    /// Kills the process and waits for its end.
    fn kill(&mut self);
}

impl AgentProcess for Child {
    fn ended(&mut self, within: Duration) -> Option<String> {
        let until = Instant::now() + within;
        loop {
            match self.try_wait() {
                Ok(Some(status)) => return Some(status.to_string()),
                Ok(None) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Ok(None) | Err(_) => return None,
            }
        }
    }

    fn kill(&mut self) {
        // It fails only for a process that is gone already.
        let _ = Child::kill(self);
        let _ = self.wait();
    }
}

/// A process of the other guest.
impl AgentProcess for SecondGuestProcess {
    fn ended(&mut self, within: Duration) -> Option<String> {
        Self::ended(self, within)
    }

    fn kill(&mut self) {
        Self::kill(self);
    }
}

/// Takes the pipes of a process that was started with all three.
fn piped(mut child: Child) -> AgentPipes {
    let no_pipe = "the bed gives its agents pipes";
    AgentPipes {
        input: Box::new(child.stdin.take().expect(no_pipe)),
        output: Box::new(child.stdout.take().expect(no_pipe)),
        errors: child
            .stderr
            .take()
            .map(|pipe| Box::new(pipe) as Box<dyn Read + Send>),
        process: Box::new(child),
    }
}

impl TestBed for Bed {
    fn description(&self) -> String {
        Bed::description(self)
    }

    fn shares_clock(&self) -> bool {
        Bed::shares_clock(self)
    }

    fn address(&self, host: Host) -> IpAddr {
        Bed::address(self, host)
    }

    fn spawn_agent(&mut self, host: Host) -> Result<AgentPipes, BedError> {
        Bed::spawn_agent(self, host).map(piped)
    }

    fn set_condition(&mut self, condition: &Condition, seed: u64) -> Result<(), BedError> {
        Bed::set_condition(self, condition, seed)
    }

    fn begin(&mut self) -> Result<(), BedError> {
        Bed::begin(self)
    }

    fn counters(&mut self) -> Result<PathCounters, BedError> {
        Bed::counters(self)
    }

    fn start_capture(&mut self, order: CaptureOrder) -> Result<(), BedError> {
        Bed::start_capture(self, order)
    }

    fn end_capture(&mut self) -> Result<Option<CaptureSummary>, BedError> {
        Bed::end_capture(self)
    }

    fn check_path(&mut self, condition: &Condition) -> Result<PathCheck, BedError> {
        Bed::check_path(self, condition)
    }
}

impl TestBed for TwoGuests {
    fn description(&self) -> String {
        TwoGuests::description(self)
    }

    /// Whether both hosts read the same clock: no, as each guest's clock counts from its own boot.
    fn shares_clock(&self) -> bool {
        false
    }

    fn address(&self, host: Host) -> IpAddr {
        TwoGuests::address(self, host)
    }

    fn spawn_agent(&mut self, host: Host) -> Result<AgentPipes, BedError> {
        Ok(match TwoGuests::spawn_agent(self, host)? {
            AgentOfTwo::Here(child) => piped(child),
            AgentOfTwo::InSecondGuest(process, streams) => AgentPipes {
                input: Box::new(streams.input),
                output: Box::new(streams.output),
                errors: Some(Box::new(streams.errors)),
                process: Box::new(process),
            },
        })
    }

    fn set_condition(&mut self, condition: &Condition, seed: u64) -> Result<(), BedError> {
        TwoGuests::set_condition(self, condition, seed)
    }

    fn begin(&mut self) -> Result<(), BedError> {
        TwoGuests::begin(self)
    }

    fn counters(&mut self) -> Result<PathCounters, BedError> {
        TwoGuests::counters(self)
    }

    fn start_capture(&mut self, _: CaptureOrder) -> Result<(), BedError> {
        Err(BedError::Refused {
            what: "capture its packets",
            source:
                "between two guests stands netem, which does not tell what it does to each packet"
                    .into(),
            hint: "leave `--guests 2` out".to_owned(),
        })
    }

    fn end_capture(&mut self) -> Result<Option<CaptureSummary>, BedError> {
        Ok(None)
    }

    fn check_path(&mut self, condition: &Condition) -> Result<PathCheck, BedError> {
        TwoGuests::check_path(self, condition)
    }
}
