//! The beginning of a transfer that is left out of its figures.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use super::Trial;
use crate::{clock::MonotonicTime, context::WindowEdge};

/// The warm-up of one end of a transfer.
#[derive(Debug)]
pub(crate) struct WarmUp {
    until: MonotonicTime,
    over: AtomicBool,
}

impl WarmUp {
    /// A warm-up of this length of a transfer that began then.
    pub(crate) fn new(started: MonotonicTime, length: Duration) -> Self {
        Self {
            until: started + length,
            over: AtomicBool::new(length.is_zero()),
        }
    }

    /// Whether it is over at this moment. The window over which CPU time is charged begins anew
    /// when it ends.
    pub(crate) fn is_over(&self, trial: &Trial, now: MonotonicTime) -> bool {
        if self.over.load(Ordering::Relaxed) {
            return true;
        }
        if now < self.until {
            return false;
        }
        if !self.over.swap(true, Ordering::Relaxed) {
            trial.context.observer.on_window(WindowEdge::Start);
        }
        true
    }
}
