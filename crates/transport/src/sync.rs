//! Values with threads that wait for changes of them.

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::clock::MonotonicTime;

/// Value with threads that wait for a change of it.
#[derive(Debug, Default)]
pub(crate) struct Watched<T> {
    value: Mutex<T>,
    changed: Condvar,
}

impl<T> Watched<T> {
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.value.lock()
    }

    /// Wakes the threads that wait.
    pub(crate) fn notify(&self) {
        self.changed.notify_all();
    }

    /// Changes the value, and wakes the threads that wait.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let result = change(&mut self.lock());
        self.notify();
        result
    }

    /// Waits for a change of the locked value, at most until the moment. May return without either.
    pub(crate) fn wait(&self, value: &mut MutexGuard<'_, T>, until: MonotonicTime) {
        if until == MonotonicTime::NEVER {
            self.changed.wait(value);
        } else {
            self.changed.wait_for(value, until.remaining());
        }
    }

    /// Waits until `find` finds something in the value, at most until the moment.
    pub(crate) fn wait_for<R>(
        &self,
        until: MonotonicTime,
        mut find: impl FnMut(&mut T) -> Option<R>,
    ) -> Option<R> {
        let mut value = self.lock();
        loop {
            let found = find(&mut value);
            if found.is_some() || until.has_passed() {
                return found;
            }
            self.wait(&mut value, until);
        }
    }
}
