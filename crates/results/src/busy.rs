//! Waits for another program that holds a lock on the file.

use std::{path::Path, sync::OnceLock, thread, time::Duration};

use rusqlite::Connection;

/// Maximum wait for one lock.
pub const LOCK_LIMIT: Duration = Duration::from_secs(20);

/// Duration of a wait for one lock after which the user is told of it.
const TELL_AFTER: Duration = Duration::from_secs(1);

/// Time between two attempts to get a lock.
const AGAIN_AFTER: Duration = Duration::from_millis(20);

static TELL: OnceLock<fn(&Path)> = OnceLock::new();

/// Sets the function that is called with the results file whenever a lock on it has been waited for
/// one second: the wait ends after [`LOCK_LIMIT`] with [`crate::ResultsError::Locked`]. Only the
/// first call in a process counts.
pub fn on_locked(tell: fn(&Path)) {
    // Nothing else is to be done about a second one.
    let _ = TELL.set(tell);
}

/// Makes a connection to the results file `path` wait for locks.
pub(crate) fn wait_for_locks(connection: &mut Connection, path: &Path) -> rusqlite::Result<()> {
    let path = path.to_owned();
    connection.busy_handler(Some(move |attempts| {
        let waited = AGAIN_AFTER * u32::try_from(attempts).unwrap_or(0);
        if waited == TELL_AFTER
            && let Some(tell) = TELL.get()
        {
            tell(&path);
        }
        thread::sleep(AGAIN_AFTER);
        waited < LOCK_LIMIT
    }))
}
