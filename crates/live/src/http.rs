//! A server of HTTP that readers cannot exhaust: few connections, each with little time for its request.

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
const MOST: usize = 32;

/// Time that a connection has for the head of a request.
const REQUEST_WITHIN: Duration = Duration::from_secs(5);

/// Pause after a connection that could not be accepted, such as for want of file descriptors.
const AFTER_REFUSAL: Duration = Duration::from_secs(1);

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
                .header_read_timeout(REQUEST_WITHIN);
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
        }
    };
    accept(MOST, next, serve).await;
}

/// Serves the connections of a listener, `most` at once, until it is dropped. One connection too many is closed at once.
pub async fn accept<S, A, F: Future<Output = ()> + Send + 'static>(
    most: usize,
    mut next: impl FnMut(&mut Context<'_>) -> Poll<io::Result<(S, A)>>,
    serve: impl Fn(S) -> F,
) {
    let permits = Arc::new(Semaphore::new(most));
    loop {
        let Ok((stream, _)) = poll_fn(&mut next).await else {
            tokio::time::sleep(AFTER_REFUSAL).await;
            continue;
        };
        if let Ok(permit) = Arc::clone(&permits).try_acquire_owned() {
            let served = serve(stream);
            tokio::spawn(async move {
                served.await;
                drop(permit);
            });
        }
    }
}
