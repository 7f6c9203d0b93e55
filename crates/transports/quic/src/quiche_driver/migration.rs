//! Moving a connection to another local port in the middle of a transfer, as a client does whose
//! address changes (RFC 9000 §9).

use std::{sync::Weak, time::Duration};

use super::connection::Handle;

/// Waits for `after`, opens another port, and moves the connection to it. The result is kept with
/// the connection.
pub(super) async fn run(handle: Weak<Handle>, after: Duration, buffer_bytes: usize) {
    tokio::time::sleep(after).await;
    let Some(handle) = handle.upgrade() else {
        return;
    };
    // The port is there before the connection knows its address. One that is gone goes nowhere.
    let _ = match handle.open_port(buffer_bytes) {
        Ok(address) => handle.with(|entry| entry.migrate(address, after)),
        Err(error) => handle.with(|entry| entry.not_migrated(&error.reasons().join(": "))),
    };
    handle.changed();
}
