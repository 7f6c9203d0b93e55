//! A server of HTTP that readers cannot exhaust: few connections, each with little time for its request.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};

use axum::Router;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::sync::Semaphore;

use crate::error::LiveError;

/// Most connections at once.
const MOST: usize = 32;

/// Time that a connection has for the head of a request.
const REQUEST_WITHIN: Duration = Duration::from_secs(5);

/// Pause after a connection that could not be accepted, such as for want of file descriptors.
pub const AFTER_REFUSAL: Duration = Duration::from_secs(1);

/// Listens on an address, and returns the one with the port that was chosen.
///
/// # Errors
/// [`LiveError::Listen`].
pub fn bind(
    address: SocketAddr,
    option: &'static str,
) -> Result<(TcpListener, SocketAddr), LiveError> {
    let listen = || -> io::Result<_> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    listen().map_err(|source| LiveError::Listen {
        address,
        option,
        source,
    })
}

/// Serves until it is dropped; responses that are under way go on.
pub async fn serve(listener: TcpListener, router: Router) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        return;
    };
    let permits = Arc::new(Semaphore::new(MOST));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(AFTER_REFUSAL).await;
            continue;
        };
        // One connection too many is closed at once.
        let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else {
            continue;
        };
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let _permit = permit;
            let mut server = hyper::server::conn::http1::Builder::new();
            server
                .timer(TokioTimer::new())
                .header_read_timeout(REQUEST_WITHIN);
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
