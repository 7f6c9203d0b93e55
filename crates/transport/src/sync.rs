//! Locks over values that are whole at any moment: a panic of another holder does not matter.

use std::sync::{self, Condvar, MutexGuard, PoisonError};

use crate::clock::MonotonicTime;

/// Mutex that a panic does not poison: nothing that can panic runs while it is held.
#[derive(Debug, Default)]
pub struct Mutex<T>(sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Makes a mutex of a value.
    pub const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

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
    pub(crate) fn wait<'a>(
        &self,
        value: MutexGuard<'a, T>,
        until: MonotonicTime,
    ) -> MutexGuard<'a, T> {
        if until == MonotonicTime::NEVER {
            let waited = self.changed.wait(value);
            return waited.unwrap_or_else(PoisonError::into_inner);
        }
        let waited = self.changed.wait_timeout(value, until.remaining());
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits until `look` finds something in the value, at most until the moment.
    pub(crate) fn wait_for<R>(
        &self,
        until: MonotonicTime,
        mut look: impl FnMut(&mut T) -> Option<R>,
    ) -> Option<R> {
        let mut value = self.lock();
        loop {
            let found = look(&mut value);
            if found.is_some() || until.has_passed() {
                return found;
            }
            value = self.wait(value, until);
        }
    }
}
