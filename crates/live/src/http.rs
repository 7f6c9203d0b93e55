//! HTTP server that clients cannot exhaust: it limits the connections and the time for a request.

use std::{
    collections::VecDeque,
    convert::Infallible,
    future::poll_fn,
    io,
    net::{SocketAddr, TcpListener},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures_util::Stream;
use hyper::{
    Method, StatusCode, Version,
    body::{Bytes, Frame, Incoming, SizeHint},
    header::{ALLOW, CONTENT_TYPE, HOST, HeaderValue},
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::task::{AbortHandle, yield_now};

use crate::error::LiveError;

/// Maximum number of connections at once; a further one closes the oldest that waits for a request.
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

/// Responses under way on a connection, which keep it from being closed for another one.
#[derive(Debug, Clone, Default)]
pub struct Responses(Arc<AtomicUsize>);

/// Response under way, until this is dropped.
#[derive(Debug)]
pub struct UnderWay(Responses);

impl Responses {
    /// Adds a response.
    #[must_use]
    pub fn begin(&self) -> UnderWay {
        self.0.fetch_add(1, Ordering::Relaxed);
        UnderWay(self.clone())
    }

    fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Body of a response under way.
struct Sending {
    body: Body,
    _under_way: UnderWay,
}

impl hyper::body::Body for Sending {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        hyper::body::Body::poll_frame(Pin::new(&mut self.get_mut().body), context)
    }

    fn size_hint(&self) -> SizeHint {
        hyper::body::Body::size_hint(&self.body)
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
    let serve = move |stream, responses: Responses| {
        let answer = answer.clone();
        let service = service_fn(move |request: Request| {
            let under_way = responses.begin();
            let refused = refusal(&request);
            let answer = refused.is_none().then(|| answer(request));
            async move {
                let response = match (refused, answer) {
                    (None, Some(answer)) => answer.await,
                    (refused, _) => refused.unwrap_or_else(not_found),
                };
                Ok::<_, Infallible>(response.map(|body| Sending {
                    body,
                    _under_way: under_way,
                }))
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

/// Returns the response to a request that no server may answer in another way: with another method, or without exactly
/// one `Host` (RFC 9112, 3.2).
fn refusal(request: &Request) -> Option<Response> {
    let hosts = request.headers().get_all(HOST).iter().count();
    if hosts > 1 || (hosts == 0 && request.version() >= Version::HTTP_11) {
        return Some(text(
            StatusCode::BAD_REQUEST,
            "a request has one header `Host`\n",
        ));
    }
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return None;
    }
    let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "");
    let allowed = HeaderValue::from_static("GET,HEAD");
    refused.headers_mut().insert(ALLOW, allowed);
    Some(refused)
}

/// Serves the connections of a listener, `max_connections` at once, until it is dropped. A further one closes the oldest
/// without a response under way, so that nobody holds all of them by saying nothing; where there is none, it is closed
/// itself.
pub async fn accept<S, A, F: Future<Output = ()> + Send + 'static>(
    max_connections: usize,
    mut next: impl FnMut(&mut Context<'_>) -> Poll<io::Result<(S, A)>>,
    serve: impl Fn(S, Responses) -> F,
) {
    let mut connections: VecDeque<(AbortHandle, Responses)> = VecDeque::new();
    loop {
        let accepted = poll_fn(&mut next).await;
        connections.retain(|(task, _)| !task.is_finished());
        // An error may be the want of a file descriptor.
        if accepted.is_err() || connections.len() >= max_connections {
            let idle = connections
                .iter()
                .position(|(_, responses)| responses.is_empty());
            if let Some((task, _)) = idle.and_then(|idle| connections.remove(idle)) {
                task.abort();
            }
        }
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            continue;
        };
        if connections.len() < max_connections {
            let responses = Responses::default();
            let task = tokio::spawn(serve(stream, responses.clone()));
            connections.push_back((task.abort_handle(), responses));
            // It reads what has arrived before a further one can close it.
            yield_now().await;
        }
    }
}
