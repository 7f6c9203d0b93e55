//! Moving a connection to another local port in the middle of a transfer, as a client does whose
//! address changes (RFC 9000 §9).

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use regatta_transport::TransportError;

use super::{connection::Link, port::Port, state::Shared};
use crate::socket;

/// Waits for `after`, opens another port, and moves the connection to it. The result is kept with
/// the connection.
pub(super) async fn run(link: Link, shared: Weak<Shared>, after: Duration, buffer_bytes: usize) {
    tokio::time::sleep(after).await;
    let Some(shared) = shared.upgrade() else {
        return;
    };
    let local = shared.lock().local().ip();
    let opened = socket::bind(local, None, buffer_bytes, buffer_bytes).and_then(|(socket, _)| {
        Port::new(socket).map_err(TransportError::io("cannot set up a UDP socket"))
    });
    let port = match opened {
        Ok(port) => Arc::new(port),
        Err(error) => {
            link.with(|entry| entry.not_migrated(&error.reasons().join(": ")));
            return;
        }
    };
    let address = port.address;
    // The port is there before the connection knows its address.
    shared.lock().ports.push(port);
    link.with(|entry| entry.migrate(address, after));
    link.changed();
}
