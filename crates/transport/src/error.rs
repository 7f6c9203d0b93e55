//! Errors of one end of a trial.

use std::{error::Error, io, time::Duration};

use regatta_control::ProblemKind;
use regatta_model::{Phrase, Problem, Text, reason, reasons};

use crate::{clock::MonotonicTime, descriptor::OptionError};

/// Result of a function of a transport.
pub type Result<T, E = TransportError> = std::result::Result<T, E>;

/// Reason for which a transport cannot run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Unsupported {
    /// The reason, for users.
    pub reason: Text,
    /// Command or setting that may help; empty if nothing can be done.
    pub hint: Text,
}

impl Unsupported {
    /// Makes the reason, with a hint that may be empty.
    pub fn new(reason: impl Into<Text>, hint: impl Into<Text>) -> Self {
        Self {
            reason: reason.into(),
            hint: hint.into(),
        }
    }
}

/// Setting of a study that limits a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeLimit {
    /// The time in which a connection must be made.
    ConnectDeadline,
    /// The time of the transfer.
    Deadline,
    /// None: the time is fixed.
    Fixed,
}

/// Error that leaves one end of a trial without a report.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// This host cannot do what the options ask for.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The order cannot be carried out by any host.
    #[error("{what}")]
    Order {
        /// Fault of the order.
        what: Phrase,
    },
    /// An option of the transport is wrong.
    #[error("{}", reason::wrong_option())]
    Option(#[from] OptionError),
    /// A system call failed.
    #[error("{what}")]
    Io {
        /// Action that failed: ``cannot connect to `10.0.0.2` ``. Without a port: it differs
        /// between trials, so that equal failures could not be recognised.
        what: Phrase,
        /// Error of the system.
        source: io::Error,
    },
    /// The system starts no more threads.
    #[error("{}", reason::no_thread())]
    Thread {
        /// Error of the system.
        source: io::Error,
    },
    /// The transport's stack failed.
    #[error("{what}")]
    Stack {
        /// Action that failed.
        what: Phrase,
        /// Error of the stack.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The other end closed the flow before its part was done.
    #[error("{}", closed_early(.flow))]
    Closed {
        /// Name of the flow.
        flow: &'static str,
    },
    /// The other end gave no answer in time.
    #[error("{}", reason::not_in_time(.what.clone().into(), *.within))]
    TimedOut {
        /// Event that was waited for.
        what: Phrase,
        /// Time that was waited.
        within: Duration,
        /// Setting that limits the wait.
        limit: TimeLimit,
    },
    /// The other end violated the protocol.
    #[error("{what}")]
    Protocol {
        /// The violation.
        what: Phrase,
    },
    /// The host of the session raised [`TrialContext::stop`](crate::TrialContext::stop).
    #[error("{}", reason::trial_aborted())]
    Cancelled,
}

impl TransportError {
    /// Makes the error of something that this host cannot do.
    pub fn unsupported(reason: impl Into<Text>, hint: impl Into<Text>) -> Self {
        Unsupported::new(reason, hint).into()
    }

    /// Makes the error of an order that no host can carry out.
    #[must_use]
    pub const fn order(what: Phrase) -> Self {
        Self::Order { what }
    }

    /// Makes the error of a violation of the protocol by the other end.
    #[must_use]
    pub const fn protocol(what: Phrase) -> Self {
        Self::Protocol { what }
    }

    /// Makes the error of an event that did not come within this time, which the deadline of the transfer limits.
    #[must_use]
    pub fn timed_out(what: Phrase, within: Duration) -> Self {
        Self::timed_out_by(TimeLimit::Deadline, what, within)
    }

    /// Makes the error of an event that did not come within this time, which `limit` limits.
    #[must_use]
    pub fn timed_out_by(limit: TimeLimit, what: Phrase, within: Duration) -> Self {
        Self::TimedOut {
            what,
            // To a tenth of a second: it differs between trials, so that equal failures could not be recognised.
            within: Duration::from_millis((within.as_secs_f64() * 10.0).round() as u64 * 100),
            limit,
        }
    }

    /// Makes the error of an event that has not come since `begun`.
    #[must_use]
    pub fn timed_out_since(what: Phrase, begun: MonotonicTime) -> Self {
        Self::timed_out(what, MonotonicTime::now().since(begun))
    }

    /// Makes an error of the system; to be used with `map_err`.
    pub fn io(what: Phrase) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }

    /// Makes the error of a thread that cannot be started; to be used with `map_err`.
    pub const fn thread(source: io::Error) -> Self {
        Self::Thread { source }
    }

    /// Makes an error of a stack; to be used with `map_err`.
    pub fn stack<E: Into<Box<dyn Error + Send + Sync>>>(what: Phrase) -> impl FnOnce(E) -> Self {
        move |source| Self::Stack {
            what,
            source: source.into(),
        }
    }

    /// Returns the kind of failure for the control protocol. A stack or kernel that gave up after silence of the other end
    /// has timed out: its source is an [`io::ErrorKind::TimedOut`], or a [`Problem`] of that kind.
    #[must_use]
    pub fn kind(&self) -> ProblemKind {
        match self {
            Self::Unsupported(_) => ProblemKind::Unsupported,
            Self::TimedOut { .. } => ProblemKind::TimedOut,
            _ if self.source().is_some_and(is_time_out) => ProblemKind::TimedOut,
            _ => ProblemKind::Failed,
        }
    }

    /// Returns the causes, outermost first.
    #[must_use]
    pub fn reasons(&self) -> Vec<Text> {
        let causes = self.source().map_or_else(Vec::new, reasons);
        let mut reasons: Vec<Text> = [self.text()].into_iter().chain(causes).collect();
        reasons.dedup();
        reasons
    }

    /// Returns the outermost cause.
    #[must_use]
    pub fn text(&self) -> Text {
        match self {
            Self::Unsupported(unsupported) => unsupported.reason.clone(),
            Self::Order { what }
            | Self::Io { what, .. }
            | Self::Stack { what, .. }
            | Self::Protocol { what } => what.clone().into(),
            Self::Option(_) => reason::wrong_option().into(),
            Self::Thread { .. } => reason::no_thread().into(),
            Self::Closed { flow } => closed_early(flow).into(),
            Self::TimedOut { what, within, .. } => {
                reason::not_in_time(what.clone().into(), *within).into()
            }
            Self::Cancelled => reason::trial_aborted().into(),
        }
    }

    /// Returns a hint for the user; empty if there is none.
    #[must_use]
    pub fn hint(&self) -> Text {
        match self {
            Self::Unsupported(unsupported) => unsupported.hint.clone(),
            Self::Option(error) => error.hint().into(),
            Self::TimedOut { limit, .. } => match limit {
                TimeLimit::ConnectDeadline => reason::longer_connect_deadline().into(),
                TimeLimit::Deadline => reason::longer_deadline().into(),
                TimeLimit::Fixed => Text::default(),
            },
            Self::Thread { .. } => reason::more_threads().into(),
            _ => Text::default(),
        }
    }
}

impl From<TransportError> for Problem {
    fn from(error: TransportError) -> Self {
        Self::new(error.kind(), error.reasons(), error.hint())
    }
}

impl From<Unsupported> for Problem {
    fn from(unsupported: Unsupported) -> Self {
        TransportError::from(unsupported).into()
    }
}

impl From<OptionError> for Problem {
    fn from(error: OptionError) -> Self {
        TransportError::from(error).into()
    }
}

/// Whether an error, or a cause of it, is that of a time that ran out.
fn is_time_out(error: &(dyn Error + 'static)) -> bool {
    let by_system = error.downcast_ref::<io::Error>().map(io::Error::kind);
    let by_stack = error.downcast_ref::<Problem>().map(|problem| problem.kind);
    by_system == Some(io::ErrorKind::TimedOut)
        || by_stack == Some(ProblemKind::TimedOut)
        || error.source().is_some_and(is_time_out)
}

/// Returns the reason for a flow, `connection` or `transfer`, that the other end closed early.
fn closed_early(flow: &str) -> Phrase {
    match flow {
        "connection" => reason::connection_closed_early(),
        _ => reason::transfer_closed_early(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_that_gave_up_after_silence_has_timed_out() {
        let by_system = |error: io::Error| TransportError::io(reason::cannot_send())(error).kind();
        let etimedout = io::Error::from_raw_os_error(110);
        assert_eq!(by_system(etimedout), ProblemKind::TimedOut);
        let broken = io::Error::from(io::ErrorKind::BrokenPipe);
        assert_eq!(by_system(broken), ProblemKind::Failed);
        let by_stack = |kind| {
            let problem = Problem::new(kind, ["it was idle"], "");
            TransportError::stack(reason::cannot_send())(problem).kind()
        };
        for kind in [ProblemKind::TimedOut, ProblemKind::Failed] {
            assert_eq!(by_stack(kind), kind);
        }
    }

    #[test]
    fn hint_of_a_time_out_names_the_setting_that_limits_it() {
        let hint = |limit| {
            let error = TransportError::timed_out_by(limit, reason::connection(), Duration::ZERO);
            error.hint().to_owned()
        };
        assert!(hint(TimeLimit::ConnectDeadline).contains("`--connect-deadline`"));
        assert!(hint(TimeLimit::Deadline).contains("`--deadline`"));
        assert_eq!(hint(TimeLimit::Fixed), "");
    }
}
