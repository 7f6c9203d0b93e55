//! Warm-up: beginning of a transfer that its figures leave out.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

use crate::{
    clock::MonotonicTime,
    context::{LiveCounters, Observer, WindowEdge},
    delivered::Delivered,
};

/// The warm-up of one end of a transfer.
pub(crate) struct WarmUp {
    observer: Arc<dyn Observer>,
    pub length: Duration,
    /// [`MonotonicTime::NEVER`] until the transfer begins.
    until: AtomicI64,
    over: AtomicBool,
}

impl WarmUp {
    /// Makes a warm-up of this length, which may be zero, of a transfer that has not begun.
    pub(crate) fn new(observer: &Arc<dyn Observer>, length: Duration) -> Self {
        Self {
            observer: Arc::clone(observer),
            length,
            until: AtomicI64::new(MonotonicTime::NEVER.0),
            over: AtomicBool::new(length.is_zero()),
        }
    }

    /// Makes the warm-up of a transfer that began at `started`.
    pub(crate) fn since(
        observer: &Arc<dyn Observer>,
        started: MonotonicTime,
        length: Duration,
    ) -> Self {
        let warm_up = Self::new(observer, length);
        warm_up.begin(started);
        warm_up
    }

    /// Starts the warm-up with the transfer, at `started`.
    pub(crate) fn begin(&self, started: MonotonicTime) {
        self.until
            .store((started + self.length).0, Ordering::Release);
    }

    /// Adds `delivered`, which is new at `now`, to the live counters; returns the bytes delivered so far in total.
    pub(crate) fn count(
        &self,
        live: &LiveCounters,
        now: MonotonicTime,
        delivered: Delivered,
    ) -> u64 {
        if !self.is_over(now) {
            live.bytes_in_warm_up
                .fetch_add(delivered.bytes, Ordering::Relaxed);
            live.last_in_warm_up_ns.fetch_max(now.0, Ordering::Relaxed);
        }
        live.last_delivery_ns.fetch_max(now.0, Ordering::Relaxed);
        live.messages_delivered
            .fetch_add(delivered.messages, Ordering::Relaxed);
        live.bytes_delivered
            .fetch_add(delivered.bytes, Ordering::Release)
            + delivered.bytes
    }

    /// Whether the warm-up is over at `now`. The window over which CPU time is charged begins anew
    /// when it ends.
    pub(crate) fn is_over(&self, now: MonotonicTime) -> bool {
        if self.over.load(Ordering::Relaxed) {
            return true;
        }
        if now.0 < self.until.load(Ordering::Acquire) {
            return false;
        }
        if !self.over.swap(true, Ordering::Relaxed) {
            self.observer.on_window(WindowEdge::Start);
        }
        true
    }
}
