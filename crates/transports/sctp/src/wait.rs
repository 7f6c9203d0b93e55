//! Waits that end at a moment.

use regatta_transport::{MonotonicTime, TransportError};

/// Runs a future that may be dropped, at most until the moment; `None` if it came first. Once a
/// moment has passed, the future is still polled once.
pub(crate) async fn within<F: Future>(moment: MonotonicTime, future: F) -> Option<F::Output> {
    if moment == MonotonicTime::NEVER {
        return Some(future.await);
    }
    tokio::time::timeout(moment.remaining(), future).await.ok()
}

/// The error of a wait that took too long.
pub(crate) fn timed_out(what: impl Into<String>, since: MonotonicTime) -> TransportError {
    TransportError::TimedOut {
        what: what.into(),
        seconds: MonotonicTime::now().since(since).as_secs_f64(),
    }
}
