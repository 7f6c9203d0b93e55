//! Moving a connection to another local port in the middle of a transfer, as a client does whose
//! address changes (RFC 9000 §9).

use std::{net::SocketAddr, time::Duration};

use quiche::{BufFactory, Connection};

/// Result of a move to another port: the address and the delay after which it was made, or the reason why not.
pub(crate) struct Migration(pub Result<(SocketAddr, Duration), String>);

impl Migration {
    /// Migrates a connection to another local port.
    pub fn make(
        quiche: &mut Connection<impl BufFactory>,
        local: SocketAddr,
        after: Duration,
    ) -> Self {
        let peer = quiche.path_stats().find(|path| path.active);
        // quiche does not ask for it by itself: RFC 9000, 9 has every new path validated.
        let moved = peer
            .ok_or(quiche::Error::InvalidState)
            .and_then(|path| quiche.probe_path(local, path.peer_addr))
            .and_then(|_| quiche.migrate_source(local));
        let refused = |error| format!("quiche refused with `{error:?}`");
        Self(moved.map(|_| (local, after)).map_err(refused))
    }

    /// Describes the result, as it is now.
    pub fn describe(&self, quiche: &Connection<impl BufFactory>) -> String {
        let (local, after) = match &self.0 {
            Ok((local, after)) => (*local, after.as_secs_f64()),
            Err(why) => return format!("failed: {why}"),
        };
        let mut paths = quiche.path_stats();
        match paths.find(|path| path.local_addr == local) {
            Some(path) if path.active => {
                let validated = quiche.is_path_validated(local, path.peer_addr);
                let state = if validated.unwrap_or(false) {
                    "validated"
                } else {
                    "not validated"
                };
                format!(
                    "to another port after {after} s, {state}, {} packets sent from there",
                    path.sent
                )
            }
            _ => format!("to another port after {after} s, and back as it did not answer"),
        }
    }
}
