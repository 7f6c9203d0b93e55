//! Handshake of the connecting end with the announced peer.

use std::{error::Error, future::Future, net::IpAddr};

use regatta_transport::{MonotonicTime, Result, Stop, TransportError};
use regatta_transport_sockets::wait::in_time;

/// Checks that a connection is made to the peer that was announced.
///
/// # Errors
/// [`TransportError::Order`] for any other peer.
pub fn check_peer(peer: IpAddr, announced: IpAddr) -> Result<()> {
    if peer.to_canonical() == announced.to_canonical() {
        return Ok(());
    }
    Err(TransportError::order(format!(
        "`{peer}` is not the announced peer `{announced}`"
    )))
}

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
    let failed = TransportError::stack(format!("cannot connect to `{peer}`"));
    let connected = stop.unless_raised(async { handshake.await.map_err(failed) });
    in_time(moment, format!("QUIC handshake with `{peer}`"), connected).await
}
