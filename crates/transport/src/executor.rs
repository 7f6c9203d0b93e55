//! Executors, which run the futures of a driver on the thread of its session.

use std::{
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
    thread::{self, Scope, ScopedJoinHandle},
};

use nix::{
    errno::Errno,
    sys::time::TimeSpec,
    time::{ClockId, ClockNanosleepFlags, clock_nanosleep},
};

use crate::{clock::MonotonicTime, error::TransportError, stop::Stop, wait::EndsWaits};

/// Way in which a driver's futures run.
pub trait Executor: Send + Sync {
    /// Runs a future to its end on this thread.
    fn block_on<F: Future>(&self, future: F) -> F::Output;

    /// Runs two tasks at once. The futures are made where they run and need not be `Send`.
    fn join<A, B, FA, FB>(&self, a: A, b: B) -> impl Future<Output = (FA::Output, FB::Output)>
    where
        A: FnOnce() -> FA + Send,
        B: FnOnce() -> FB + Send,
        FA: Future<Output: Send>,
        FB: Future<Output: Send>;

    /// Runs any number of tasks at once, and returns their results in the order of the tasks. As
    /// with [`Executor::join`], the futures are made where they run.
    fn join_all<T, F>(&self, tasks: Vec<T>) -> impl Future<Output = Vec<F::Output>>
    where
        T: FnOnce() -> F + Send,
        F: Future<Output: Send>;

    /// Waits until the moment has come. A late return is counted as delay by the probe, so timers
    /// that round to whole milliseconds are not good enough.
    fn sleep_until(&self, moment: MonotonicTime) -> impl Future<Output = ()>;

    /// Waits of one task that a stop ends.
    type Waits;

    /// Has `stop` end waits of this task, until the value is dropped: that is cheaper than to begin with it for each of
    /// many waits. The value that was made last is dropped first.
    fn waits(&self, stop: &Stop) -> Self::Waits;

    /// Runs a future that waits for something until a moment at most, and may be dropped. Once the stop of `waits` is
    /// raised it waits no longer: it ends as if its moment had come, or is dropped, for which this returns `None`.
    fn wait<F: Future>(
        &self,
        waits: &Self::Waits,
        future: F,
    ) -> impl Future<Output = Option<F::Output>>;

    /// As [`Executor::wait`], with a stop for one future.
    fn wait_unless_stopped<F: Future>(
        &self,
        stop: &Stop,
        future: F,
    ) -> impl Future<Output = Option<F::Output>> {
        async {
            let waits = self.waits(stop);
            self.wait(&waits, future).await
        }
    }

    /// Waits until the moment has come or `stop` is raised; returns whether it is raised.
    fn sleep_unless_stopped(
        &self,
        moment: MonotonicTime,
        stop: &Stop,
    ) -> impl Future<Output = bool>;
}

/// Executor of a driver whose functions block and never yield: tasks beside the first have a thread
/// each.
#[derive(Debug, Clone, Copy, Default)]
pub struct Blocking;

impl Executor for Blocking {
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        block_on_blocking(future)
    }

    async fn join<A, B, FA, FB>(&self, a: A, b: B) -> (FA::Output, FB::Output)
    where
        A: FnOnce() -> FA + Send,
        B: FnOnce() -> FB + Send,
        FA: Future<Output: Send>,
        FB: Future<Output: Send>,
    {
        thread::scope(|scope| {
            let second = start(scope, || block_on_blocking(b()));
            let first = block_on_blocking(a());
            (first, result_of(second))
        })
    }

    async fn join_all<T, F>(&self, tasks: Vec<T>) -> Vec<F::Output>
    where
        T: FnOnce() -> F + Send,
        F: Future<Output: Send>,
    {
        let mut tasks = tasks.into_iter();
        let Some(first) = tasks.next() else {
            return Vec::new();
        };
        thread::scope(|scope| {
            let others = tasks.map(|task| start(scope, || block_on_blocking(task())));
            let others: Vec<_> = others.collect();
            let mut outputs = vec![block_on_blocking(first())];
            outputs.extend(others.into_iter().map(result_of));
            outputs
        })
    }

    /// Blocks this thread, with the kernel's high-resolution timer.
    async fn sleep_until(&self, moment: MonotonicTime) {
        let time = TimeSpec::new(
            moment.0.div_euclid(1_000_000_000),
            moment.0.rem_euclid(1_000_000_000),
        );
        let sleep = || {
            let flags = ClockNanosleepFlags::TIMER_ABSTIME;
            clock_nanosleep(ClockId::CLOCK_MONOTONIC, flags, &time)
        };
        while sleep() == Err(Errno::EINTR) {}
    }

    type Waits = EndsWaits;

    fn waits(&self, stop: &Stop) -> EndsWaits {
        EndsWaits::new(stop)
    }

    async fn wait<F: Future>(&self, _: &EndsWaits, future: F) -> Option<F::Output> {
        Some(future.await)
    }

    async fn sleep_unless_stopped(&self, moment: MonotonicTime, stop: &Stop) -> bool {
        stop.wait_until(moment)
    }
}

/// Runs a future that blocks and never yields, as those of a blocking driver.
///
/// Costs one virtual call for the whole future. Should a future yield nevertheless, it is polled
/// again at once.
fn block_on_blocking<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::yield_now(),
        }
    }
}

/// Starts a thread. One that cannot be started ends the session: its futures have no error for that, so
/// that this unwinds with the [`TransportError`], which the host of the session takes for its own.
fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> ScopedJoinHandle<'scope, T> {
    let started = thread::Builder::new().spawn_scoped(scope, work);
    started.unwrap_or_else(|source| {
        std::panic::resume_unwind(Box::new(TransportError::Thread { source }))
    })
}

/// Returns the result of a thread, or continues its panic.
fn result_of<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    let joined = thread.join();
    joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
