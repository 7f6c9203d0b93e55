//! Handshake of the connecting end.

use std::{error::Error, future::Future, net::IpAddr};

use regatta_model::reason;
use regatta_transport::{MonotonicTime, Result, Stop, TransportError};
use regatta_transport_sockets::wait::in_time;

/// Runs a stack's handshake with `peer` until `moment` at most.
///
/// # Errors
/// The error of the stack; [`TransportError::TimedOut`], [`TransportError::Cancelled`].
pub async fn complete<C, E: Error + Send + Sync + 'static>(
    handshake: impl Future<Output = Result<C, E>>,
    peer: IpAddr,
    moment: MonotonicTime,
    stop: &Stop,
) -> Result<C> {
    let failed = TransportError::stack(reason::cannot_connect(&peer.to_string()));
    let connected = stop.unless_raised(async { handshake.await.map_err(failed) });
    in_time(
        moment,
        reason::handshake_with("QUIC", &peer.to_string()),
        connected,
    )
    .await
}
