//! Waits for another program that holds a lock on the file.

use std::{path::Path, sync::OnceLock, thread, time::Duration};

use rusqlite::Connection;

/// Maximum wait for one lock.
pub const LOCK_LIMIT: Duration = Duration::from_secs(20);

/// Duration of a wait for one lock after which the callback is called.
const NOTIFY_AFTER: Duration = Duration::from_secs(1);

/// Time between two attempts to get a lock.
const RETRY_AFTER: Duration = Duration::from_millis(20);

static ON_LOCKED: OnceLock<fn(&Path)> = OnceLock::new();

/// Sets the function that is called with the results file whenever a lock on it has been waited for
/// one second: the wait ends after [`LOCK_LIMIT`] with [`crate::ResultsError::Locked`]. Only the
/// first call in a process counts.
pub fn on_locked(callback: fn(&Path)) {
    // Nothing else is to be done about a second one.
    let _ = ON_LOCKED.set(callback);
}

/// Makes a connection to the results file `path` wait for locks.
pub(crate) fn wait_for_locks(connection: &mut Connection, path: &Path) -> rusqlite::Result<()> {
    let path = path.to_owned();
    connection.busy_handler(Some(move |attempts| {
        let waited = RETRY_AFTER * u32::try_from(attempts).unwrap_or(0);
        if waited == NOTIFY_AFTER
            && let Some(callback) = ON_LOCKED.get()
        {
            callback(&path);
        }
        thread::sleep(RETRY_AFTER);
        waited < LOCK_LIMIT
    }))
}
