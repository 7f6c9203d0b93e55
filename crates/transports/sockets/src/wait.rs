//! Waits that end at a deadline.

use regatta_transport::{MonotonicTime, TransportError};

/// Runs a future that may be dropped until `moment` at most; `None` if that came first. If `moment`
/// has passed already, the future is still polled once.
pub async fn within<F: Future>(moment: MonotonicTime, future: F) -> Option<F::Output> {
    if moment == MonotonicTime::NEVER {
        return Some(future.await);
    }
    tokio::time::timeout(moment.remaining(), future).await.ok()
}

/// Returns the error of a wait for `what` that began at `since` and took too long.
#[must_use]
pub fn timed_out(what: impl Into<String>, since: MonotonicTime) -> TransportError {
    TransportError::TimedOut {
        what: what.into(),
        seconds: MonotonicTime::now().since(since).as_secs_f64(),
    }
}
