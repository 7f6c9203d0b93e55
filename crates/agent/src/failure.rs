//! Reasons for which an end has no report.

use std::any::Any;

use regatta_control::FailureKind;
use regatta_model::{Text, reason};
use regatta_transport::TransportError;

/// Reason for which an end has no report, in the terms of the control protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub kind: FailureKind,
    pub reasons: Vec<Text>,
    pub hint: Text,
}

impl Failure {
    pub(crate) fn new(reason: impl Into<Text>, hint: impl Into<Text>) -> Self {
        Self {
            kind: FailureKind::Failed,
            reasons: vec![reason.into()],
            hint: hint.into(),
        }
    }

    pub(crate) fn from_panic(panic: Box<dyn Any + Send>, driver: &str) -> Self {
        // An error that a session could return only by unwinding.
        let panic = match panic.downcast::<TransportError>() {
            Ok(error) => return (*error).into(),
            Err(panic) => panic,
        };
        let literal = panic.downcast_ref::<&str>().copied();
        let message = literal.or_else(|| panic.downcast_ref().map(String::as_str));
        let message = message.map_or_else(|| reason::no_message().into(), Text::from);
        Self {
            kind: FailureKind::Failed,
            reasons: vec![reason::driver_panicked(driver).into(), message],
            hint: reason::mistake_in_driver().into(),
        }
    }
}

impl<E: Into<TransportError>> From<E> for Failure {
    fn from(error: E) -> Self {
        let error = error.into();
        Self {
            kind: error.kind(),
            reasons: error.reasons(),
            hint: error.hint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unwound_transport_error_is_not_a_driver_panic() {
        let source = std::io::Error::from_raw_os_error(11);
        let failure = Failure::from_panic(Box::new(TransportError::Thread { source }), "tcp");
        assert_eq!(failure.reasons[0], "cannot start a thread");
        assert!(failure.hint.contains("ulimit -u"), "{}", failure.hint);
        let failure = Failure::from_panic(Box::new("no"), "tcp");
        assert_eq!(failure.reasons, ["the driver `tcp` panicked", "no"]);
    }
}
