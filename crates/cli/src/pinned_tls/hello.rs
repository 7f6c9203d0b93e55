//! First lines of a server, and the socket of the connection.

use std::{io, time::Duration};

use serde::{Deserialize, Serialize};
use socket2::{Socket, TcpKeepalive};

/// Line from the server before the session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "hello", rename_all = "snake_case")]
pub enum Hello {
    /// Limits of the server, for each client.
    Limits {
        version: String,
        max_time_ns: u64,
        max_bytes: Option<u64>,
    },
    /// Clients that have their turn before this one.
    Waiting { ahead: usize },
    /// The server does not serve this client.
    Refused { reason: String },
}

/// Sets up the socket of a connection at either end. It breaks once the other end has acknowledged nothing for `silence`.
///
/// # Errors
/// An error of the system.
pub fn set_up(socket: &Socket, silence: Duration) -> io::Result<()> {
    socket.set_tcp_user_timeout(Some(silence))?;
    socket.set_tcp_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(30))
        .with_interval(Duration::from_secs(10));
    socket.set_tcp_keepalive(&keepalive)
}
