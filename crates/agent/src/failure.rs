//! Failures of drivers that panic.

use std::any::Any;

use regatta_control::{Problem, ProblemKind};
use regatta_model::{Text, reason};
use regatta_transport::TransportError;

/// Returns the problem of a driver that panicked, or the [`TransportError`] that it has thrown as the panic's payload:
/// executors have no other way to report that no thread can be started.
pub(crate) fn of_panic(panic: Box<dyn Any + Send>, driver: &str) -> Problem {
    // An error that a session could return only by unwinding.
    let panic = match panic.downcast::<TransportError>() {
        Ok(error) => return (*error).into(),
        Err(panic) => panic,
    };
    let literal = panic.downcast_ref::<&str>().copied();
    let message = literal.or_else(|| panic.downcast_ref().map(String::as_str));
    let message = message.map_or_else(|| reason::no_message().into(), Text::from);
    let reasons = [reason::driver_panicked(driver).into(), message];
    Problem::new(ProblemKind::Failed, reasons, reason::mistake_in_driver())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unwound_transport_error_is_not_a_driver_panic() {
        let source = std::io::Error::from_raw_os_error(11);
        let problem = of_panic(Box::new(TransportError::Thread { source }), "tcp");
        assert_eq!(*problem.text(), "cannot start a thread");
        assert!(problem.hint.contains("ulimit -u"), "{}", problem.hint);
        let problem = of_panic(Box::new("no"), "tcp");
        assert_eq!(problem.reasons(), ["the driver `tcp` panicked", "no"]);
    }
}
