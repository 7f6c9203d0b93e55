//! HTTP server that clients cannot exhaust: it limits the connections and the time for a request.

use std::{
    future::poll_fn,
    io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    task::{Context, Poll},
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
const MAX_CONNECTIONS: usize = 32;

/// Longest time until the header of a request has arrived.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause after a failed `accept`, such as for want of file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_secs(1);

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
    let next = |context: &mut Context<'_>| listener.poll_accept(context);
    let serve = move |stream| {
        let service = TowerToHyperService::new(router.clone());
        async move {
            let mut server = hyper::server::conn::http1::Builder::new();
            server
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIMEOUT);
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
        }
    };
    accept(MAX_CONNECTIONS, next, serve).await;
}

/// Serves the connections of a listener, `max_connections` at once, until it is dropped. Further ones are closed.
pub async fn accept<S, A, F: Future<Output = ()> + Send + 'static>(
    max_connections: usize,
    mut next: impl FnMut(&mut Context<'_>) -> Poll<io::Result<(S, A)>>,
    serve: impl Fn(S) -> F,
) {
    let permits = Arc::new(Semaphore::new(max_connections));
    loop {
        let Ok((stream, _)) = poll_fn(&mut next).await else {
            tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            continue;
        };
        if let Ok(permit) = Arc::clone(&permits).try_acquire_owned() {
            let connection = serve(stream);
            tokio::spawn(async move {
                connection.await;
                drop(permit);
            });
        }
    }
}
