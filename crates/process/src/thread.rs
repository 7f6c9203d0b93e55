//! Threads that may not be there.

use std::{
    io,
    thread::{Builder, Scope, ScopedJoinHandle},
};

/// Starts a thread of a scope, where [`Scope::spawn`] panics under a limit of threads or of memory.
///
/// # Errors
/// The error of the system.
pub fn spawn_scoped<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    Builder::new().spawn_scoped(scope, work)
}
