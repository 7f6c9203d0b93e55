//! One end of quinn in one trial as a [`StreamEndpoint`].

use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use quinn::{
    AsyncUdpSocket, ClientConfig, Endpoint, EndpointConfig, Incoming, ServerConfig, TokioRuntime,
    TransportConfig, UdpPoller,
    crypto::rustls::{QuicClientConfig, QuicServerConfig},
    udp::{RecvMeta, Transmit},
};
use regatta_control::{Role, TrialOrder};
use regatta_model::Warning;
use regatta_transport::{
    MonotonicTime, Purpose, StreamEndpoint, TransportError,
    stop::{Abort, Stop},
    stream::Accepted,
};
use regatta_transport_tls::{self as tls, Resumption};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    sync::Notify,
};

use super::{
    connection::{DONE, QuinnConnection, Timed, timed_out, until},
    controller::Watch,
    options::Options,
};
use crate::{
    path::Sizes,
    socket::{self, Buffers, Counters},
    timer,
};

/// How long an end that was aborted stays to tell the other one. One that closed in good order has
/// waited already.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// One end: its runtime, its socket, its configuration.
pub struct QuinnEndpoint {
    runtime: Runtime,
    endpoint: Endpoint,
    role: Role,
    peer: IpAddr,
    listen: Option<SocketAddr>,
    server_name: String,
    /// At a sender.
    client: Option<ClientConfig>,
    /// At a receiver.
    server: Option<ServerConfig>,
    options: Options,
    sizes: Sizes,
    counters: Arc<Counters>,
    receive_buffer: AskedGranted,
    facts: BTreeMap<String, String>,
}

/// Size of a buffer, in bytes.
struct AskedGranted {
    asked: usize,
    granted: usize,
}

impl fmt::Debug for QuinnEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuinnEndpoint")
            .field("role", &self.role)
            .field("listen", &self.listen)
            .finish_non_exhaustive()
    }
}

/// Ends a wait that has no connection yet.
#[derive(Default)]
struct Waker(Notify);

impl Abort for Waker {
    fn abort(&self) {
        // Kept for the one that waits, should it not wait yet.
        self.0.notify_one();
    }
}

/// quinn's own socket, told to hand fewer packets to the kernel at once, because ten of this size
/// are more than it takes.
#[derive(Debug)]
struct FewerSegments {
    inner: Arc<dyn AsyncUdpSocket>,
    most: usize,
}

impl AsyncUdpSocket for FewerSegments {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Arc::clone(&self.inner).create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.inner.try_send(transmit)
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [io::IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.inner.poll_recv(cx, buffers, meta)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.inner.max_transmit_segments().min(self.most)
    }

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

impl QuinnEndpoint {
    /// Makes the end of a trial that the order describes; a receiver listens when this returns.
    ///
    /// # Errors
    /// [`TransportError::Unsupported`] for a path with too small packets,
    /// [`TransportError::Order`] for TLS material that cannot be read, [`TransportError::Io`] for
    /// a socket that cannot be opened.
    pub fn new(order: &TrialOrder) -> Result<Self, TransportError> {
        let options = Options::read(&order.transport.options);
        let mut sizes = Sizes::of(&order.path, order.local)?;
        if let Some(window) = options.stream_window_bytes {
            sizes = Sizes::with_stream_window(sizes.payload_bytes, window);
        }
        let (mut client, mut server) = (None, None);
        if order.connects() {
            let tls = QuicClientConfig::try_from(tls::client(
                &order.tls,
                Some(tls::ALPN),
                Resumption::Off,
            )?)
            .map_err(TransportError::stack("cannot set up TLS"))?;
            client = Some(ClientConfig::new(Arc::new(tls)));
        } else {
            let tls = QuicServerConfig::try_from(tls::server(
                &order.tls,
                Some(tls::ALPN),
                Resumption::Off,
            )?)
            .map_err(TransportError::stack("cannot set up TLS"))?;
            server = Some(ServerConfig::with_crypto(Arc::new(tls)));
        }

        let asked = options
            .receive_buffer_bytes
            .unwrap_or(sizes.socket_buffer_bytes);
        let (socket, buffers) = socket::bind(
            order.local,
            asked,
            options
                .send_buffer_bytes
                .unwrap_or(sizes.socket_buffer_bytes),
        )?;
        let counters = Arc::new(
            Counters::of(&socket).map_err(TransportError::io("cannot copy a descriptor"))?,
        );
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(TransportError::io("cannot make a runtime"))?;
        let made = || -> io::Result<(Endpoint, usize, usize)> {
            let _inside = runtime.enter();
            let stack = Arc::new(TokioRuntime);
            let inner = quinn::Runtime::wrap_udp_socket(&*stack, socket)?;
            let most = sizes.most_segments();
            let wrapped: Arc<dyn AsyncUdpSocket> =
                if inner.max_transmit_segments() > most && most < QUINN_SEGMENTS {
                    Arc::new(FewerSegments { inner, most })
                } else {
                    inner
                };
            let segments = wrapped.max_transmit_segments().min(QUINN_SEGMENTS);
            let receive_segments = wrapped.max_receive_segments();
            let mut config = EndpointConfig::default();
            config
                .max_udp_payload_size(sizes.payload_bytes)
                .map_err(io::Error::other)?;
            let endpoint =
                Endpoint::new_with_abstract_socket(config, server.clone(), wrapped, stack)?;
            Ok((endpoint, segments, receive_segments))
        };
        let (endpoint, segments, receive_segments) =
            made().map_err(TransportError::io("cannot make a QUIC endpoint"))?;
        let address = endpoint
            .local_addr()
            .map_err(TransportError::io("cannot read the address of the socket"))?;

        let segments = if options.gso { segments } else { 1 };
        let facts = facts(
            order.role,
            &options,
            &sizes,
            buffers,
            segments,
            receive_segments,
        );
        Ok(Self {
            runtime,
            endpoint,
            role: order.role,
            peer: order.peer,
            listen: (!order.connects()).then_some(address),
            server_name: order.tls.server_name.clone(),
            client,
            server,
            options,
            sizes,
            counters,
            receive_buffer: AskedGranted {
                asked,
                granted: buffers.receive_bytes,
            },
            facts,
        })
    }

    /// What quinn is told for a new connection, and the watch on its congestion control.
    fn transport(&self) -> (Arc<TransportConfig>, Arc<Watch>) {
        let watch = Arc::new(Watch::default());
        let transport = self.options.transport(&self.sizes, &watch);
        (Arc::new(transport), watch)
    }

    fn made(
        &self,
        connection: quinn::Connection,
        watch: Arc<Watch>,
        stop: &Stop,
    ) -> QuinnConnection {
        QuinnConnection::new(
            self.endpoint.clone(),
            connection,
            watch,
            Arc::clone(&self.counters),
            stop,
        )
    }

    async fn next_from_peer(&self) -> Option<Incoming> {
        loop {
            let incoming = self.endpoint.accept().await?;
            if incoming.remote_address().ip().to_canonical() == self.peer.to_canonical() {
                return Some(incoming);
            }
            incoming.refuse();
        }
    }
}

/// Packets that quinn hands to the kernel at once, at most.
const QUINN_SEGMENTS: usize = 10;

fn facts(
    role: Role,
    options: &Options,
    sizes: &Sizes,
    buffers: Buffers,
    segments: usize,
    receive_segments: usize,
) -> BTreeMap<String, String> {
    let side = role.name();
    let on_off = |on: bool| if on { "on" } else { "off" }.to_owned();
    let offload = |segments: usize| match segments {
        0 | 1 => "off".to_owned(),
        segments => format!("on, {segments} packets at most"),
    };
    BTreeMap::from([
        (format!("gso.{side}"), offload(segments)),
        (format!("gro.{side}"), offload(receive_segments)),
        ("mtu_discovery".to_owned(), on_off(options.mtu_discovery)),
        (
            "packet_payload_bytes".to_owned(),
            if options.mtu_discovery {
                format!("searched, at most {}", sizes.payload_bytes)
            } else {
                format!("{}, fixed", sizes.payload_bytes)
            },
        ),
        (
            "quic.stream_window_bytes".to_owned(),
            sizes.stream_window_bytes.to_string(),
        ),
        (
            "quic.connection_window_bytes".to_owned(),
            sizes.connection_window_bytes.to_string(),
        ),
        (
            format!("receive_buffer_bytes.{side}"),
            buffers.receive_bytes.to_string(),
        ),
        (
            format!("send_buffer_bytes.{side}"),
            buffers.send_bytes.to_string(),
        ),
    ])
}

impl Drop for QuinnEndpoint {
    fn drop(&mut self) {
        self.endpoint.close(DONE, b"done");
        // A connection that was closed just now still has to say so to the other end, and to say it
        // again should that be lost: the other end would otherwise wait for its idle timeout.
        // Inside a runtime there is no other to be had.
        if Handle::try_current().is_err() {
            self.runtime.block_on(async {
                let _ = tokio::time::timeout(LAST_WORDS, self.endpoint.wait_idle()).await;
            });
        }
    }
}

impl StreamEndpoint for QuinnEndpoint {
    type Connection = QuinnConnection;

    const MULTIPLEXES: bool = true;

    fn listen_address(&self) -> Option<SocketAddr> {
        self.listen
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    async fn connect(
        &self,
        peer: SocketAddr,
        _purpose: Purpose,
        moment: MonotonicTime,
        stop: &Stop,
    ) -> Result<QuinnConnection, TransportError> {
        let since = MonotonicTime::now();
        let what = || format!("cannot connect to `{}`", peer.ip());
        let mut client = self.client.clone().ok_or_else(|| TransportError::Order {
            what: "a receiver does not connect".to_owned(),
        })?;
        if peer.ip().to_canonical() != self.peer.to_canonical() {
            return Err(TransportError::Order {
                what: format!("`{}` is not the announced peer `{}`", peer.ip(), self.peer),
            });
        }
        let waker = Arc::new(Waker::default());
        stop.on_stop(&waker);
        let (transport, watch) = self.transport();
        client.transport_config(transport);
        let connecting = self
            .endpoint
            .connect_with(client, peer, &self.server_name)
            .map_err(TransportError::stack(what()))?;
        let connected = async {
            tokio::select! {
                biased;
                () = waker.0.notified() => Err(TransportError::Cancelled),
                connection = connecting => connection.map_err(TransportError::stack(what())),
            }
        };
        match until(moment, connected).await {
            Timed::Done(connection) => Ok(self.made(connection?, watch, stop)),
            Timed::Late => Err(timed_out(
                format!("QUIC handshake with `{}`", peer.ip()),
                since,
            )),
        }
    }

    async fn accept(
        &self,
        moment: MonotonicTime,
        stop: &Stop,
        arrived: &mut (impl FnMut() + Send),
    ) -> Result<Accepted<QuinnConnection>, TransportError> {
        let since = MonotonicTime::now();
        let waker = Arc::new(Waker::default());
        stop.on_stop(&waker);
        let accepted = async {
            let incoming = tokio::select! {
                biased;
                () = waker.0.notified() => return Err(TransportError::Cancelled),
                incoming = self.next_from_peer() => incoming,
            };
            let incoming = incoming.ok_or(TransportError::Closed {
                flow: "QUIC endpoint",
            })?;
            arrived();
            let from = incoming.remote_address().ip();
            let (transport, watch) = self.transport();
            let accepted = match self.server.clone() {
                Some(mut server) => {
                    server.transport_config(transport);
                    incoming.accept_with(Arc::new(server))
                }
                None => incoming.accept(),
            };
            let connection = match accepted {
                Ok(connecting) => tokio::select! {
                    biased;
                    () = waker.0.notified() => return Err(TransportError::Cancelled),
                    connection = connecting => connection,
                },
                Err(error) => Err(error),
            };
            Ok(match connection {
                Ok(connection) => Accepted::Connection(self.made(connection, watch, stop)),
                Err(error) => Accepted::Failed(TransportError::stack(format!(
                    "the QUIC handshake with `{from}` failed"
                ))(error)),
            })
        };
        match until(moment, accepted).await {
            Timed::Done(accepted) => accepted,
            Timed::Late => Err(timed_out("QUIC connection", since)),
        }
    }

    async fn join<A, B, FA, FB>(&self, a: A, b: B) -> (FA::Output, FB::Output)
    where
        A: FnOnce() -> FA + Send,
        B: FnOnce() -> FB + Send,
        FA: Future<Output: Send>,
        FB: Future<Output: Send>,
    {
        tokio::join!(a(), b())
    }

    async fn join_all<T, F>(&self, tasks: Vec<T>) -> Vec<F::Output>
    where
        T: FnOnce() -> F + Send,
        F: Future<Output: Send>,
    {
        futures_util::future::join_all(tasks.into_iter().map(|task| task())).await
    }

    async fn sleep_until(&self, moment: MonotonicTime) {
        if timer::sleep_until(moment).await.is_err() {
            // Without a descriptor there is still the runtime's own timer, which is late by up to
            // a millisecond or two.
            tokio::time::sleep(moment.remaining()).await;
        }
    }

    fn facts(&self) -> BTreeMap<String, String> {
        self.facts.clone()
    }

    fn warnings(&self) -> Vec<Warning> {
        // The kernel doubles what it is asked for, for its own accounting.
        if self.receive_buffer.granted >= 2 * self.receive_buffer.asked {
            return Vec::new();
        }
        vec![Warning {
            code: "receive_buffer_small".to_owned(),
            message: format!(
                "the kernel grants the {} {} bytes of UDP receive buffer instead of {}, so packets \
                 may be dropped there, not on the path",
                self.role.name(),
                self.receive_buffer.granted,
                2 * self.receive_buffer.asked
            ),
            hint: format!(
                "run `sysctl -w net.core.rmem_max={}` on that host",
                self.receive_buffer.asked
            ),
        }]
    }
}
