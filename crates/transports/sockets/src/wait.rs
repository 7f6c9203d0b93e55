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

/// Runs a future that may be dropped until `moment` at most; `what` is the thing waited for.
///
/// # Errors
/// Those of the future; [`TransportError::TimedOut`] if the moment came first.
pub async fn in_time<T>(
    moment: MonotonicTime,
    what: impl Into<String>,
    future: impl Future<Output = Result<T, TransportError>>,
) -> Result<T, TransportError> {
    let since = MonotonicTime::now();
    let output = within(moment, future).await;
    output.unwrap_or_else(|| Err(timed_out(what, since)))
}

/// Returns the error of a wait for `what` that began at `since` and took too long.
#[must_use]
pub fn timed_out(what: impl Into<String>, since: MonotonicTime) -> TransportError {
    TransportError::TimedOut {
        what: what.into(),
        seconds: MonotonicTime::now().since(since).as_secs_f64(),
    }
}
