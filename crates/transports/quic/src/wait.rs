//! Waits that end at a deadline, or when a trial is stopped.

use std::future::Future;

use regatta_transport::{MonotonicTime, TransportError, stop::Abort};
use tokio::sync::Notify;

/// Result of a future run with a deadline.
#[derive(Debug)]
pub enum Timed<T> {
    /// Output of the future.
    Done(T),
    /// Deadline reached; the future was dropped.
    Late,
}

/// Runs a future that may be dropped until `moment` at most. If `moment` has passed already, the
/// future is still polled once.
pub async fn until<F: Future>(moment: MonotonicTime, future: F) -> Timed<F::Output> {
    if moment == MonotonicTime::NEVER {
        return Timed::Done(future.await);
    }
    match tokio::time::timeout(moment.remaining(), future).await {
        Ok(output) => Timed::Done(output),
        Err(_) => Timed::Late,
    }
}

/// Returns the error of a wait for `what` that began at `since`, with the time waited.
pub fn timed_out(what: impl Into<String>, since: MonotonicTime) -> TransportError {
    TransportError::TimedOut {
        what: what.into(),
        seconds: MonotonicTime::now().since(since).as_secs_f64(),
    }
}

/// Stop signal for a wait that has no connection yet; to be registered with a `Stop`.
#[derive(Debug, Default)]
pub struct Stopped(Notify);

impl Stopped {
    /// Runs a future to its end, or until the signal is raised: the future is dropped then.
    ///
    /// # Errors
    /// The future's own, or [`TransportError::Cancelled`].
    pub async fn or<T>(
        &self,
        future: impl Future<Output = Result<T, TransportError>>,
    ) -> Result<T, TransportError> {
        tokio::select! {
            biased;
            () = self.0.notified() => Err(TransportError::Cancelled),
            result = future => result,
        }
    }
}

impl Abort for Stopped {
    fn abort(&self) {
        // Kept for the one that waits, should it not wait yet.
        self.0.notify_one();
    }
}
