//! The executor of drivers whose stack runs on tokio: a runtime of one thread for each end.

use std::{future::Future, ops::Deref};

use regatta_model::reason;
use regatta_transport::{Executor, MonotonicTime, Stop, TransportError, stop::Waits};
use tokio::runtime::{Builder, Handle, Runtime};

use crate::timer;

/// Number of turns in which a stack's tasks send the packets that close its connections: such a packet passes a few
/// tasks on its way to the socket.
const LAST_TURNS: usize = 16;

/// A runtime of one thread, on which all tasks of an end take turns.
#[derive(Debug)]
pub struct Tokio(Runtime);

impl Tokio {
    /// Makes a runtime.
    ///
    /// # Errors
    /// [`TransportError::Io`] if the system refuses its descriptors.
    pub fn new() -> Result<Self, TransportError> {
        Builder::new_current_thread()
            .enable_all()
            .build()
            .map(Self)
            .map_err(TransportError::io(reason::cannot_make_runtime()))
    }

    /// Gives the tasks of a stack whose connections were closed a few turns, in which they send what they can send
    /// now. There is no wait: both ends learn over control as well that the trial is over.
    pub fn send_the_rest(&self) {
        // Inside a runtime there is no other to be had.
        if Handle::try_current().is_err() {
            self.0.block_on(async {
                for _ in 0..LAST_TURNS {
                    tokio::task::yield_now().await;
                }
            });
        }
    }
}

impl Deref for Tokio {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        &self.0
    }
}

impl Executor for Tokio {
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.0.block_on(future)
    }

    async fn join<A, B, FA, FB>(&self, a: A, b: B) -> (FA::Output, FB::Output)
    where
        A: FnOnce() -> FA + Send,
        B: FnOnce() -> FB + Send,
        FA: Future<Output: Send>,
        FB: Future<Output: Send>,
    {
        tokio::join!(a(), b())
    }

    async fn join_all<T, F>(&self, tasks: Vec<T>) -> Vec<F::Output>
    where
        T: FnOnce() -> F + Send,
        F: Future<Output: Send>,
    {
        futures_util::future::join_all(tasks.into_iter().map(|task| task())).await
    }

    async fn sleep_until(&self, moment: MonotonicTime) {
        timer::sleep_until(moment).await;
    }

    type Waits = Waits;

    fn waits(&self, stop: &Stop) -> Waits {
        stop.waits()
    }

    async fn wait<F: Future>(&self, waits: &Waits, future: F) -> Option<F::Output> {
        waits.unless_raised(future).await
    }

    async fn sleep_unless_stopped(&self, moment: MonotonicTime, stop: &Stop) -> bool {
        let sleeping = async {
            timer::sleep_until(moment).await;
            Ok(())
        };
        let _ = stop.unless_raised(sleeping).await;
        stop.is_stopped()
    }
}
