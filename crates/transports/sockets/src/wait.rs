//! Waits that end at a deadline.

use std::time::Duration;

use regatta_model::Phrase;
use regatta_transport::{MonotonicTime, TransportError};

use crate::timer;

/// Maximum duration of a wait that the kernel's own timer ends, since a probe's next message
/// depends on it; the runtime's timer rounds to milliseconds, which does not matter to longer
/// waits.
const SHORT_WAIT: Duration = Duration::from_millis(100);

/// Runs a future that may be dropped until `moment` at most; `None` if that came first. If `moment`
/// has passed already, the future is still polled once.
pub async fn within<F: Future>(moment: MonotonicTime, future: F) -> Option<F::Output> {
    if moment == MonotonicTime::NEVER {
        return Some(future.await);
    }
    tokio::time::timeout(moment.remaining(), future).await.ok()
}

/// Runs a future with the deadline `moment`, at which it is dropped; `what` names the thing waited for in the error.
///
/// # Errors
/// Errors of the future; [`TransportError::TimedOut`] at the deadline.
pub async fn in_time<T>(
    moment: MonotonicTime,
    what: Phrase,
    future: impl Future<Output = Result<T, TransportError>>,
) -> Result<T, TransportError> {
    let since = MonotonicTime::now();
    let output = within(moment, future).await;
    output.unwrap_or_else(|| Err(TransportError::timed_out_since(what, since)))
}

/// As [`within`], as exact as the kernel's timer for a short wait.
pub async fn within_exactly<F: Future>(moment: MonotonicTime, future: F) -> Option<F::Output> {
    if moment == MonotonicTime::NEVER || moment.remaining() > SHORT_WAIT {
        return within(moment, future).await;
    }
    tokio::select! {
        biased;
        output = future => Some(output),
        () = timer::sleep_until(moment) => None,
    }
}
