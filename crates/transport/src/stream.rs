//! Traits of a driver of streams, and the promises that they make to the workloads.
//!
//! All functions are `async` so that one workload serves blocking and asynchronous stacks. A
//! blocking driver's functions simply block and never yield; its [`StreamEndpoint::block_on`] is
//! [`block_on_blocking`], its [`StreamEndpoint::join`] uses threads
//! ([`join_with_threads`]). An asynchronous driver holds its own current-thread runtime and joins
//! on it.

use std::{
    collections::BTreeMap,
    future::Future,
    net::SocketAddr,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    thread::{self, Scope, ScopedJoinHandle},
};

use bytes::Bytes;
use regatta_model::Warning;

use crate::{
    clock::MonotonicTime, context::StatisticsSource, driver::TransportError, opening::Purpose,
    stop::Stop,
};

/// Result of a receive call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// Number of bytes that came, at least one.
    Bytes(usize),
    /// Nothing came until the given moment.
    TimedOut,
    /// The other end has finished its direction; nothing more comes.
    Closed,
}

/// Reliable bytes in order, both ways.
pub trait ByteStream: Send {
    /// Hands a whole message to the transport: `header` first, then `payload`, either of which may
    /// be empty. Returns when the transport has taken all of it, and need not have sent it.
    fn send_message(
        &mut self,
        header: &[u8],
        payload: &Bytes,
    ) -> impl Future<Output = Result<(), TransportError>>;

    /// Sends everything that was handed over and is still held back in this process.
    fn flush(&mut self) -> impl Future<Output = Result<(), TransportError>>;

    /// Waits for bytes, at most until the moment `until` ([`MonotonicTime::NEVER`]: without limit),
    /// and passes them to `consume`, in order, in one call or several.
    ///
    /// `scratch` is memory to read into for a transport that needs some; one that has the bytes in
    /// memory of its own passes them on uncopied. A moment that has passed still gets what is
    /// there. Nothing is lost when it times out.
    fn receive(
        &mut self,
        scratch: &mut [u8],
        until: MonotonicTime,
        consume: &mut (impl FnMut(&[u8]) + Send),
    ) -> impl Future<Output = Result<Received, TransportError>>;

    /// Ends this direction after everything that was sent; the other direction stays open.
    fn finish(&mut self) -> impl Future<Output = Result<(), TransportError>>;

    /// Discards what was handed over and is not delivered yet, and sends nothing more: the deadline
    /// has come. Only for a transport that multiplexes, where other streams of the connection go
    /// on; the others close the connection.
    fn abandon(&mut self) {}
}

/// Handshake that a connection made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandshakeMade {
    /// A full handshake.
    Full,
    /// A handshake with a ticket of an earlier connection.
    Resumed,
    /// A handshake with a ticket, whose early data the other end took.
    EarlyDataTaken,
    /// A handshake with a ticket, whose early data the other end refused, so that it was sent
    /// again.
    EarlyDataRefused,
}

/// An established connection. Dropping it closes it; blocked calls of its streams are woken with
/// an error by the [`Stop`] that it was made with.
pub trait StreamConnection: Send + Sync {
    /// Stream of the connection.
    type Stream: ByteStream;

    /// Opens a stream. A transport that does not multiplex gives its only one, once.
    fn open_stream(&self) -> impl Future<Output = Result<Self::Stream, TransportError>>;

    /// Takes the next stream that the other end opened, in the order of opening. A transport that
    /// does not multiplex gives its only one, once.
    ///
    /// # Errors
    /// [`TransportError::TimedOut`] when there is none until `until`.
    fn accept_stream(
        &self,
        until: MonotonicTime,
    ) -> impl Future<Output = Result<Self::Stream, TransportError>>;

    /// Returns the handshake that the connection made, by its stack's account once data has come
    /// from the other end. `None` where the stack does not tell.
    fn handshake(&self) -> Option<HandshakeMade> {
        Some(HandshakeMade::Full)
    }

    /// Returns the connection's statistics, which must not keep the connection open.
    fn statistics(&self) -> Arc<dyn StatisticsSource>;

    /// Closes in good order once both ends have agreed that all is done: what was sent still
    /// reaches the other end if it is there. Takes at most until `until`.
    fn close(self, until: MonotonicTime) -> impl Future<Output = ()>;
}

/// One end of a driver of streams in one trial: it listens from the moment when it is made for a
/// receiver's order.
pub trait StreamEndpoint: Send + Sync + Sized + 'static {
    /// Connection that the endpoint makes.
    type Connection: StreamConnection;

    /// Returns the address on which the endpoint listens; `None` at a sender.
    fn listen_address(&self) -> Option<SocketAddr>;

    /// Runs a future to its end on this thread.
    fn block_on<F: Future>(&self, future: F) -> F::Output;

    /// Connects; returns when the connection can carry data. `purpose` is
    /// [`Purpose::Transfer`] or one of the probes, whose small messages must not be held back.
    ///
    /// The connection, and the attempt, are registered with `stop`.
    ///
    /// # Errors
    /// The error of the stack; [`TransportError::TimedOut`] at `until`.
    fn connect(
        &self,
        peer: SocketAddr,
        purpose: Purpose,
        until: MonotonicTime,
        stop: &Stop,
    ) -> impl Future<Output = Result<Self::Connection, TransportError>>;

    /// Waits for a connection from the announced peer; others are refused without ending the
    /// wait. Calls `arrived` when an attempt comes in, before any work for it.
    ///
    /// `stop` belongs to the flow that comes: the connection is registered with it, listening is
    /// not. The wait ends soon, within some tens of milliseconds, after it is raised.
    ///
    /// An attempt that fails in its handshake is an `Err` of [`Accepted::Failed`], after which
    /// the caller may wait again.
    ///
    /// Several tasks may wait at once; each connection goes to one of them.
    ///
    /// # Errors
    /// The error that makes listening impossible; [`TransportError::TimedOut`] at `until`.
    fn accept(
        &self,
        until: MonotonicTime,
        stop: &Stop,
        arrived: &mut (impl FnMut() + Send),
    ) -> impl Future<Output = Result<Accepted<Self::Connection>, TransportError>>;

    /// Runs two tasks at once. The futures are made where they run and need not be `Send`.
    fn join<A, B, FA, FB>(&self, a: A, b: B) -> impl Future<Output = (FA::Output, FB::Output)>
    where
        A: FnOnce() -> FA + Send,
        B: FnOnce() -> FB + Send,
        FA: Future<Output: Send>,
        FB: Future<Output: Send>;

    /// Runs any number of tasks at once, and returns their results in the order of the tasks. As
    /// with [`StreamEndpoint::join`], the futures are made where they run.
    fn join_all<T, F>(&self, tasks: Vec<T>) -> impl Future<Output = Vec<F::Output>>
    where
        T: FnOnce() -> F + Send,
        F: Future<Output: Send>;

    /// Waits until the moment has come. A late return is counted as delay by the probe, so timers
    /// that round to whole milliseconds are not good enough.
    fn sleep_until(&self, moment: MonotonicTime) -> impl Future<Output = ()>;

    /// Returns facts that are known before any connection, by the full name of the fact.
    fn facts(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// Returns warnings about this end, over this path.
    fn warnings(&self) -> Vec<Warning> {
        Vec::new()
    }
}

/// Result of one attempt to connect.
#[derive(Debug)]
pub enum Accepted<C> {
    /// A connection.
    Connection(C),
    /// The attempt failed, and why. Listening goes on.
    Failed(TransportError),
}

/// Runs a future that blocks and never yields, as those of a blocking driver.
///
/// Costs one virtual call for the whole future. Should a future yield nevertheless, it is polled
/// again at once.
pub fn block_on_blocking<F: Future>(future: F) -> F::Output {
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
    thread::Builder::new()
        .spawn_scoped(scope, work)
        .unwrap_or_else(|source| {
            std::panic::resume_unwind(Box::new(TransportError::Thread { source }))
        })
}

/// Runs two blocking futures at once, the second in a thread of its own.
pub fn join_with_threads<A, B, FA, FB>(a: A, b: B) -> (FA::Output, FB::Output)
where
    A: FnOnce() -> FA + Send,
    B: FnOnce() -> FB + Send,
    FA: Future<Output: Send>,
    FB: Future<Output: Send>,
{
    thread::scope(|scope| {
        let second = start(scope, || block_on_blocking(b()));
        let first = block_on_blocking(a());
        match second.join() {
            Ok(second) => (first, second),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Runs blocking futures at once, each but the first in a thread of its own.
pub fn join_all_with_threads<T, F>(tasks: Vec<T>) -> Vec<F::Output>
where
    T: FnOnce() -> F + Send,
    F: Future<Output: Send>,
{
    let mut tasks = tasks.into_iter();
    let Some(first) = tasks.next() else {
        return Vec::new();
    };
    thread::scope(|scope| {
        let others: Vec<_> = tasks
            .map(|task| start(scope, || block_on_blocking(task())))
            .collect();
        let mut outputs = vec![block_on_blocking(first())];
        for other in others {
            match other.join() {
                Ok(output) => outputs.push(output),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        outputs
    })
}

/// Waits until the moment has come, blocking this thread, with the kernel's high-resolution timer.
pub fn sleep_until_blocking(moment: MonotonicTime) {
    let time = libc::timespec {
        tv_sec: moment.0.div_euclid(1_000_000_000),
        tv_nsec: moment.0.rem_euclid(1_000_000_000),
    };
    loop {
        // SAFETY: `time` is a valid timespec; no place for the remainder is needed with an
        // absolute time.
        let result = unsafe {
            libc::clock_nanosleep(
                libc::CLOCK_MONOTONIC,
                libc::TIMER_ABSTIME,
                &raw const time,
                std::ptr::null_mut(),
            )
        };
        if result != libc::EINTR {
            return;
        }
    }
}
