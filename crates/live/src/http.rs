//! HTTP server that clients cannot exhaust: it limits the connections and the time for a request.

use std::{
    convert::Infallible,
    future::poll_fn,
    io,
    net::{SocketAddr, TcpListener},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::Stream;
use hyper::{
    Method, StatusCode,
    body::{Bytes, Frame, Incoming, SizeHint},
    header::{ALLOW, CONTENT_TYPE, HeaderValue},
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
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

/// Request with a body that nobody reads.
pub type Request = hyper::Request<Incoming>;

/// Response with a [`Body`].
pub type Response = hyper::Response<Body>;

/// Body of a response.
pub enum Body {
    /// The whole text, until it has been sent.
    Text(Option<Bytes>),
    /// Parts as they come.
    Stream(Pin<Box<dyn Stream<Item = String> + Send>>),
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = |bytes| Ok(Frame::data(bytes));
        match self.get_mut() {
            Self::Text(text) => Poll::Ready(text.take().map(frame)),
            Self::Stream(parts) => {
                let part = parts.as_mut().poll_next(context);
                part.map(|part| part.map(|text| frame(text.into())))
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Text(text) => {
                SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64))
            }
            Self::Stream(_) => SizeHint::default(),
        }
    }
}

/// Makes a response. `content_type` is a media type with its character set.
pub fn response(status: StatusCode, content_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Makes a response with plain text.
pub fn text(status: StatusCode, text: impl Into<Bytes>) -> Response {
    let body = Body::Text(Some(text.into()));
    response(status, "text/plain; charset=utf-8", body)
}

/// Makes the response for a path that does not exist.
pub fn not_found() -> Response {
    text(StatusCode::NOT_FOUND, "")
}

/// Serves until it is dropped; responses that are under way go on. `answer` gets requests with the methods GET and HEAD.
pub async fn serve<F: Future<Output = Response> + Send + 'static>(
    listener: TcpListener,
    answer: impl Fn(Request) -> F + Clone + Send + 'static,
) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        return;
    };
    let next = |context: &mut Context<'_>| listener.poll_accept(context);
    let serve = move |stream| {
        let answer = answer.clone();
        let service = service_fn(move |request: Request| {
            let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
            let response = is_read.then(|| answer(request));
            async move {
                Ok::<_, Infallible>(match response {
                    Some(response) => response.await,
                    None => {
                        let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "");
                        let allowed = HeaderValue::from_static("GET,HEAD");
                        refused.headers_mut().insert(ALLOW, allowed);
                        refused
                    }
                })
            }
        });
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
