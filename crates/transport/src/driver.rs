//! What a registry knows of a driver, and what a driver makes.

use std::{collections::BTreeMap, error::Error, io, net::SocketAddr};

use regatta_control::{FailureKind, SideReport, TrialOrder};
use regatta_model::{OptionValue, Workload, WorkloadKind};

use crate::{
    applicable,
    context::TrialContext,
    descriptor::{Carries, DriverDescriptor, OptionError},
};

/// A transport, as the registry holds it.
pub trait Driver: Send + Sync {
    /// What it is and what it can do.
    fn descriptor(&self) -> &'static DriverDescriptor;

    /// Checks names and values of options; needs nothing of a host.
    ///
    /// # Errors
    /// The first option that is unknown or has a wrong value.
    fn check_options(&self, options: &BTreeMap<String, OptionValue>) -> Result<(), OptionError> {
        self.descriptor().check(options)
    }

    /// What it carries with these options.
    fn carries(&self, options: &BTreeMap<String, OptionValue>) -> Carries {
        let _ = options;
        self.descriptor().carries
    }

    /// Whether it can do what a workload asks for, with these options: the handshake, several
    /// streams of one connection. Needs nothing of a host. Its default goes by the descriptor.
    ///
    /// # Errors
    /// Why not, with what to type next.
    fn applicable(
        &self,
        options: &BTreeMap<String, OptionValue>,
        workload: &WorkloadKind,
    ) -> Result<(), Unsupported> {
        applicable::check(self.descriptor(), self.carries(options), workload)
    }

    /// Whether the probe under load can travel on what a workload asks for, with these options. Needs
    /// nothing of a host.
    ///
    /// # Errors
    /// Why not, with what to type next.
    fn probe_applicable(
        &self,
        options: &BTreeMap<String, OptionValue>,
        workload: &Workload,
    ) -> Result<(), Unsupported> {
        applicable::check_probe(self.descriptor(), self.carries(options), workload)
    }

    /// Whether this host can run it with these options.
    ///
    /// # Errors
    /// Why not, with what to type next.
    fn supported(&self, options: &BTreeMap<String, OptionValue>) -> Result<(), Unsupported>;

    /// Makes one end of one trial. A receiver listens when this returns; a sender has sent
    /// nothing.
    ///
    /// # Errors
    /// Whatever keeps it from listening or from reading the order.
    fn prepare(
        &self,
        order: &TrialOrder,
        context: TrialContext,
    ) -> Result<Box<dyn Session>, TransportError>;
}

/// One end of one trial.
pub trait Session: Send {
    /// Where a receiver listens; `None` at a sender.
    fn listen_address(&self) -> Option<SocketAddr>;

    /// Runs this end to the end, blocking: the host gives it a thread of its own. A receiver is
    /// run as soon as it is prepared, a sender when both are, with the receiver's address.
    ///
    /// # Errors
    /// Whatever keeps this end from a measurement; always in bounded time.
    fn run(self: Box<Self>, peer: Option<SocketAddr>) -> Result<SideReport, TransportError>;
}

/// Why a host cannot run a transport.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Unsupported {
    /// What is missing.
    pub reason: String,
    /// What to type next; empty if nothing can be done.
    pub hint: String,
}

/// What to type where the system starts no more threads.
pub const THREAD_HINT: &str =
    "allow more processes and threads with `ulimit -u 4096`, then try again";

/// Why one end of a trial has nothing to report.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// This host cannot do what the options ask for.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The order cannot be carried out by any host.
    #[error("{what}")]
    Order {
        /// What is wrong with it.
        what: String,
    },
    /// An option of the transport is wrong.
    #[error("wrong option of the transport")]
    Option(#[from] OptionError),
    /// A system call failed.
    #[error("{what}")]
    Io {
        /// What was tried: ``cannot connect to `10.0.0.2` ``. Without a port: it differs between
        /// trials, so that equal failures could not be told together.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// The system starts no more threads.
    #[error("cannot start a thread")]
    Thread {
        /// What the system said.
        source: io::Error,
    },
    /// The transport's stack failed.
    #[error("{what}")]
    Stack {
        /// What was tried.
        what: String,
        /// What the stack said.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The other end closed the flow before its part was done.
    #[error("the other end closed the {flow} before it was done")]
    Closed {
        /// Which flow.
        flow: &'static str,
    },
    /// The other end gave no answer in time.
    #[error("no {what} within {seconds:.1} s")]
    TimedOut {
        /// What was waited for.
        what: String,
        /// How long.
        seconds: f64,
    },
    /// The other end said something that it must not.
    #[error("{what}")]
    Protocol {
        /// What.
        what: String,
    },
    /// The host of the session raised [`TrialContext::stop`].
    #[error("the trial was aborted")]
    Cancelled,
}

impl TransportError {
    /// An error of the system; to be used with `map_err`.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    /// A thread that cannot be started; to be used with `map_err`.
    pub const fn thread(source: io::Error) -> Self {
        Self::Thread { source }
    }

    /// An error of a stack; to be used with `map_err`.
    pub fn stack<E: Into<Box<dyn Error + Send + Sync>>>(
        what: impl Into<String>,
    ) -> impl FnOnce(E) -> Self {
        let what = what.into();
        move |source| Self::Stack {
            what,
            source: source.into(),
        }
    }

    /// In one word, for the control protocol.
    #[must_use]
    pub const fn kind(&self) -> FailureKind {
        match self {
            Self::Unsupported(_) => FailureKind::Unsupported,
            Self::TimedOut { .. } => FailureKind::TimedOut,
            _ => FailureKind::Failed,
        }
    }

    /// The causes, outermost first.
    #[must_use]
    pub fn reasons(&self) -> Vec<String> {
        let mut reasons = vec![self.to_string()];
        let mut cause = self.source();
        while let Some(error) = cause {
            let text = error.to_string();
            if reasons.last() != Some(&text) {
                reasons.push(text);
            }
            cause = error.source();
        }
        reasons
    }

    /// What to type next; empty if nothing is known.
    #[must_use]
    pub fn hint(&self) -> &str {
        match self {
            Self::Unsupported(unsupported) => &unsupported.hint,
            Self::Option(error) => error.hint(),
            Self::TimedOut { .. } => "give a longer `deadline`, or a path with less loss",
            Self::Thread { .. } => THREAD_HINT,
            _ => "",
        }
    }
}
