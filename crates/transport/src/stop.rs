//! Cancellation of blocked work from outside.

use std::{
    fmt,
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::{Poll, Waker},
};

use parking_lot::Mutex;

use crate::{
    clock::MonotonicTime,
    error::{Result, TransportError},
    sync::Watched,
};

/// A blocked operation that can be made to return at once: a socket, a connection, a wait.
pub trait Abort: Send + Sync {
    /// Wakes the blocked threads; called from another thread, at most a few times.
    fn abort(&self);
}

/// A flag that can be raised once, wakes those who wait for it, and aborts what is registered.
///
/// Clones share the flag. A [`Stop::child`] is stopped with its parent, and alone without it: the
/// trial has one, the transfer that the deadline ends has a child of it.
#[derive(Clone, Default)]
pub struct Stop(Arc<Shared>);

#[derive(Default)]
struct Shared {
    stopped: AtomicBool,
    registered: Watched<Registered>,
}

#[derive(Default)]
struct Registered {
    aborts: Vec<Weak<dyn Abort>>,
    children: Vec<Weak<Shared>>,
}

/// Adds one reference, and forgets those that are dead whenever there is no room: a trial of many
/// connections registers each of them.
fn register<T: ?Sized>(all: &mut Vec<Weak<T>>, one: Weak<T>) {
    if all.len() == all.capacity() {
        all.retain(|registered| registered.strong_count() > 0);
    }
    all.push(one);
}

impl Shared {
    /// Raises this flag and those of all descendants before any thread is woken: a thread that is
    /// woken sees that all of them are stopped, and does not take a closed connection for an error
    /// of its peer.
    fn stop(&self) {
        let mut aborts = Vec::new();
        self.raise(&mut aborts);
        for abort in aborts.iter().filter_map(Weak::upgrade) {
            abort.abort();
        }
    }

    fn raise(&self, aborts: &mut Vec<Weak<dyn Abort>>) {
        let registered = {
            let mut registered = self.registered.lock();
            self.stopped.store(true, Ordering::Release);
            std::mem::take(&mut *registered)
        };
        aborts.extend(registered.aborts);
        for child in registered.children.iter().filter_map(Weak::upgrade) {
            child.raise(aborts);
        }
        self.registered.notify();
    }
}

/// Stop that is raised together with another one, for as long as this is not dropped.
pub(crate) struct Linked(Stop);

impl Abort for Linked {
    fn abort(&self) {
        self.0.stop();
    }
}

/// Waker of the task that runs a future.
#[derive(Debug, Default)]
struct WakeOnStop(Mutex<Option<Waker>>);

impl Abort for WakeOnStop {
    fn abort(&self) {
        let waker = self.0.lock().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Waits of one task that a [`Stop`] ends.
#[derive(Debug)]
pub struct Waits {
    stop: Stop,
    wake: Arc<WakeOnStop>,
}

impl Waits {
    /// Runs a future to its end, or until the flag is raised: it is dropped then, and this returns `None`.
    pub async fn unless_raised<F: Future>(&self, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        poll_fn(|context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Some(output));
            }
            // Before the flag is looked at, so that raising it in between is not missed.
            *self.wake.0.lock() = Some(context.waker().clone());
            if self.stop.is_stopped() {
                return Poll::Ready(None);
            }
            Poll::Pending
        })
        .await
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stop").field(&self.is_stopped()).finish()
    }
}

impl Stop {
    /// Makes a flag that is not raised.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a flag that is raised with this one, and can be raised alone.
    #[must_use]
    pub fn child(&self) -> Self {
        let child = Self::new();
        let mut registered = self.0.registered.lock();
        if self.is_stopped() {
            child.0.stopped.store(true, Ordering::Release);
        } else {
            register(&mut registered.children, Arc::downgrade(&child.0));
        }
        drop(registered);
        child
    }

    /// Raises the flag, and aborts everything registered here and in children.
    pub fn stop(&self) {
        self.0.stop();
    }

    /// Whether the flag is raised.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0.stopped.load(Ordering::Acquire)
    }

    /// Calls `abort` when the flag is raised; at once if it is raised already.
    ///
    /// Only a weak reference is kept: a connection that is dropped is closed, whoever registered
    /// it.
    pub fn on_stop<A: Abort + 'static>(&self, abort: &Arc<A>) {
        let mut registered = self.0.registered.lock();
        if self.is_stopped() {
            drop(registered);
            abort.abort();
        } else {
            let weak = Arc::downgrade(abort);
            register(&mut registered.aborts, weak);
        }
    }

    /// Has this flag raise another one too, until the link is dropped.
    pub(crate) fn link(&self, other: &Self) -> Arc<Linked> {
        let linked = Arc::new(Linked(other.clone()));
        self.on_stop(&linked);
        linked
    }

    /// Runs a future to its end, or until the flag is raised: it is dropped then.
    ///
    /// A blocking driver's futures never yield, so they are not dropped; what they are blocked in
    /// must be registered here.
    ///
    /// # Errors
    /// The future's own, or [`TransportError::Cancelled`].
    pub async fn unless_raised<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        let output = self.waits().unless_raised(future).await;
        output.unwrap_or(Err(TransportError::Cancelled))
    }

    /// Registers a task for waits that the flag ends, one after another.
    #[must_use]
    pub fn waits(&self) -> Waits {
        let wake = Arc::new(WakeOnStop::default());
        self.on_stop(&wake);
        Waits {
            stop: self.clone(),
            wake,
        }
    }

    /// Waits until the flag is raised or the moment has come; returns whether it is raised.
    pub fn wait_until(&self, moment: MonotonicTime) -> bool {
        let raised = |_: &mut Registered| self.is_stopped().then_some(());
        self.0.registered.wait_for(moment, raised).is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[derive(Default)]
    struct Counter(AtomicU32);

    impl Abort for Counter {
        fn abort(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_parent_stops_its_children_and_a_child_does_not_stop_its_parent() {
        let parent = Stop::new();
        let (first, second) = (parent.child(), parent.child());
        let counter = Arc::new(Counter::default());
        second.on_stop(&counter);
        first.stop();
        assert!(first.is_stopped() && !parent.is_stopped() && !second.is_stopped());
        parent.stop();
        assert!(second.is_stopped() && parent.child().is_stopped());
        assert_eq!(counter.0.load(Ordering::Relaxed), 1);
        second.on_stop(&counter);
        assert_eq!(counter.0.load(Ordering::Relaxed), 2, "registered too late");
    }

    #[test]
    fn registered_aborts_are_not_kept_alive() {
        let stop = Stop::new();
        let counter = Arc::new(Counter::default());
        stop.on_stop(&counter);
        assert_eq!(Arc::strong_count(&counter), 1);
        drop(counter);
        stop.stop();
    }

    #[test]
    fn dropped_registrations_are_removed() {
        let stop = Stop::new();
        let registered_abort = Arc::new(Counter::default());
        stop.on_stop(&registered_abort);
        for _ in 0..1000 {
            let _ = stop.child();
            stop.on_stop(&Arc::new(Counter::default()));
        }
        let registered = stop.0.registered.lock();
        assert!(registered.aborts.len() < 10 && registered.children.len() < 10);
        drop(registered);
        stop.stop();
        assert_eq!(registered_abort.0.load(Ordering::Relaxed), 1);
    }
}
