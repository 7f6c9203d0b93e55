//! One end of s2n-quic in one trial.

use std::{
    error::Error,
    net::{IpAddr, SocketAddr, UdpSocket},
    sync::Arc,
};

use regatta_control::{Role, TrialOrder};
use regatta_model::{Facts, Handshake, Warning, reason};
use regatta_transport::{
    Accepted, Client, Endpoint, MonotonicTime, Purpose, Result, Server, TransportError, stop::Stop,
};
use regatta_transport_quic_common::handshake::complete;
use regatta_transport_sockets::endpoints::{ConnectionRole, EndBase, StreamEnd, check_peer};
use regatta_transport_tls as tls;
use s2n_quic::{
    Connection,
    client::Connect,
    connection,
    provider::{io::tokio::Builder as Io, limits::Limits, tls::rustls as provider},
};
use tokio::sync::{Mutex, mpsc};

use crate::{
    connection::S2nConnection,
    controller::Controllers,
    datagram::Datagrams,
    end::End,
    events::{Admission, Attempt, Offloads, Writer},
    options::{self, CRYPTO, Options},
};
use regatta_transport_quic_common::{
    files::Files,
    path::{Sizes, headers_bytes},
};
use regatta_transport_sockets::{
    executor::Tokio,
    socket::{self, Counters},
    wait::in_time,
};

/// Bytes of the buffers for received packets. By default s2n-quic goes round in 8 MiB, which no processor's cache holds.
const RECEIVE_RING_BYTES: usize = 1 << 20;

/// End of a trial: its runtime and the stack's handle, which listens or connects.
pub struct S2nEndpoint<R> {
    /// Dropped first, so that the stack closes connections that were never accepted.
    role: R,
    order: TrialOrder,
    /// State of this end that its connections need.
    pub(crate) end: End,
    options: Options,
    /// With the runtime of the stack's tasks; the last field, so that it is dropped last.
    base: Base,
}

/// Parts of every end; when they are dropped, the stack's tasks send what is left.
struct Base(EndBase);

impl Drop for Base {
    fn drop(&mut self) {
        self.0.runtime.send_the_rest();
    }
}

/// Role of the end that connects.
pub struct Connecting(s2n_quic::Client);

/// Role of the end that listens.
pub struct Listening {
    listener: Mutex<Listener>,
    address: SocketAddr,
}

impl ConnectionRole for Connecting {
    const CONNECTS: bool = true;
}

impl ConnectionRole for Listening {
    const CONNECTS: bool = false;
}

/// Server of a listening end, and the attempts to connect to it.
struct Listener {
    server: s2n_quic::Server,
    attempts: mpsc::UnboundedReceiver<Attempt>,
}

/// Creates the stack's input and output on a UDP socket.
fn io(
    runtime: &Tokio,
    socket: UdpSocket,
    options: &Options,
    sizes: &Sizes,
    local: IpAddr,
) -> Result<Io> {
    let packet = sizes.payload_bytes + headers_bytes(local);
    let made = || {
        let io = Io::default()
            .with_handle(runtime.handle().clone())
            .with_rx_socket(socket)?
            .with_gso(options.common.gso)?
            .with_internal_recv_buffer_size(RECEIVE_RING_BYTES)?
            .with_max_mtu(packet)?;
        if options.common.mtu_discovery {
            return Ok(io);
        }
        // The path's packet size is known, so nothing is searched for; and random loss must not be
        // taken for a path that swallows large packets, so it is the least one too.
        io.with_initial_mtu(packet)?.with_base_mtu(packet)
    };
    made().map_err(TransportError::io(reason::cannot_set_up_udp_socket()))
}

/// Parts of a new stack.
struct Parts<'a> {
    order: &'a TrialOrder,
    io: Io,
    limits: Limits,
    board: &'a Arc<Offloads>,
    files: &'a Files,
}

/// Returns the failure of making an endpoint of the stack.
fn cannot_make(error: Box<dyn Error>) -> TransportError {
    TransportError::stack(reason::cannot_make_endpoint())(error.to_string())
}

impl Parts<'_> {
    /// Returns the writer of the stack's events, and the attempts to connect that it finds in them.
    fn events(&self) -> (Writer, mpsc::UnboundedReceiver<Attempt>) {
        let (begun, attempts) = mpsc::unbounded_channel();
        let board = Arc::clone(self.board);
        let events = Writer {
            board,
            attempts: begun,
        };
        (events, attempts)
    }

    fn connect(self, controllers: Controllers) -> Result<Connecting> {
        let mut tls = tls::client(&self.order.tls, Some(tls::ALPN), Handshake::Full, CRYPTO)?;
        tls.key_log = self.files.key_log()?;
        let (events, _) = self.events();
        let started = || {
            Ok(s2n_quic::Client::builder()
                .with_tls(provider::Client::from(tls))?
                .with_io(self.io.build()?)?
                .with_limits(self.limits)?
                .with_event(events)?
                .with_congestion_controller(controllers)?
                .with_datagram(Datagrams)?
                .start()?)
        };
        started().map(Connecting).map_err(cannot_make)
    }

    fn listen(self, controllers: Controllers, address: SocketAddr) -> Result<Listening> {
        let order = self.order;
        let mut tls = tls::server(&order.tls, Some(tls::ALPN), Handshake::Full, CRYPTO)?;
        tls.key_log = self.files.key_log()?;
        let admission = Admission {
            peer: order.peer,
            retry: order.workload.kind.handshake() == Handshake::Retry,
        };
        let (events, attempts) = self.events();
        let started = || {
            Ok(s2n_quic::Server::builder()
                .with_tls(provider::Server::from(tls))?
                .with_io(self.io.build()?)?
                .with_limits(self.limits)?
                .with_event(events)?
                .with_endpoint_limits(admission)?
                .with_congestion_controller(controllers)?
                .with_datagram(Datagrams)?
                .start()?)
        };
        let listener = |server| Mutex::new(Listener { server, attempts });
        started()
            .map(|server| Listening {
                listener: listener(server),
                address,
            })
            .map_err(cannot_make)
    }
}

impl S2nEndpoint<Connecting> {
    /// Creates the end of a trial that connects.
    ///
    /// # Errors
    /// [`TransportError::Unsupported`] for a path with too small packets, [`TransportError::Order`]
    /// for TLS material that cannot be read, [`TransportError::Io`] for a socket that cannot be
    /// opened.
    pub fn client(order: &TrialOrder) -> Result<Self> {
        Self::new(order, |parts, controllers, _| parts.connect(controllers))
    }
}

impl<R: ConnectionRole> S2nEndpoint<R> {
    fn new(
        order: &TrialOrder,
        role: impl FnOnce(Parts<'_>, Controllers, SocketAddr) -> Result<R>,
    ) -> Result<Self> {
        let options = Options::of_stack(&order.transport.options);
        let sizes = Sizes::of(&order.path, order.local, &options.common)?;
        let (receive, send) = sizes.socket_buffers_bytes;
        let (socket, buffers) = socket::bind(order.local, order.ports, receive, send)?;
        let address = socket
            .local_addr()
            .map_err(TransportError::io(reason::cannot_read_socket_address()))?;
        let counters =
            Counters::of(&socket).map_err(TransportError::io(reason::cannot_copy_descriptor()))?;
        let runtime = Tokio::new()?;
        let board = Arc::new(Offloads::default());
        let files = Files::new(order, options.common.keylog, false);
        let parts = Parts {
            order,
            io: io(&runtime, socket, &options, &sizes, order.local)?,
            limits: options::limits(order, &sizes)?,
            board: &board,
            files: &files,
        };
        let window = Sizes::initial_window_bytes(sizes.first_payload_bytes);
        let controllers = Controllers::new(options.cc, window);
        let congestion_control = controllers.congestion_control();
        let role = role(parts, controllers, address)?;
        let side = order.role.name();
        let mut facts = options.common.facts(side, &sizes, &buffers);
        facts.extend(files.facts());
        let warnings = [buffers.warning(side), files.warning()];
        Ok(Self {
            role,
            order: order.clone(),
            end: End {
                congestion_control,
                board,
                counters: Arc::new(counters),
                side,
                connects: R::CONNECTS,
                sizes,
            },
            options,
            base: Base(EndBase {
                runtime,
                facts,
                warnings: warnings.into_iter().flatten().collect(),
            }),
        })
    }
}

impl S2nEndpoint<Listening> {
    /// Creates the listening end of a trial. Its socket listens when this returns.
    ///
    /// # Errors
    /// As [`S2nEndpoint::client`].
    pub fn server(order: &TrialOrder) -> Result<Self> {
        Self::new(order, |parts, controllers, address| {
            parts.listen(controllers, address)
        })
    }

    /// Waits for an attempt from the peer, and returns its result.
    pub(crate) async fn attempted(
        &self,
        admit: &mut (impl FnMut(&[u8]) -> bool + Send),
    ) -> Result<Result<Connection, connection::Error>> {
        let mut listener = self.role.listener.lock().await;
        let Listener { server, attempts } = &mut *listener;
        loop {
            tokio::select! {
                biased;
                Some(attempt) = attempts.recv() => match attempt {
                    Attempt::Begun => {
                        admit(&[]);
                    }
                    Attempt::Failed(error) => return Ok(Err(error)),
                },
                connection = server.accept() => {
                    let closed = TransportError::Closed { flow: "QUIC endpoint" };
                    return connection.map(Ok).ok_or(closed);
                }
            }
        }
    }
}

impl<R: ConnectionRole> Endpoint for S2nEndpoint<R> {
    type Connection = Connection;
    type Executor = Tokio;

    fn executor(&self) -> &Tokio {
        &self.base.0.runtime
    }

    fn facts(&self) -> Facts {
        let side = self.end.side;
        let mut facts = self.base.0.facts.clone();
        let (gso, gro) = self.end.board.offloads();
        let offloads = match self.order.role {
            Role::Sender => &gso,
            Role::Receiver => &gro,
        };
        let stated = self
            .options
            .stack_facts(&self.end.sizes, &self.order, offloads);
        facts.extend(stated.of_end(side));
        facts.extend([(format!("gso.{side}"), gso), (format!("gro.{side}"), gro)]);
        facts
    }

    fn warnings(&self) -> Vec<Warning> {
        self.base.0.warnings.clone()
    }
}

impl Client for S2nEndpoint<Connecting> {
    async fn connect(
        &self,
        peer: SocketAddr,
        _purpose: Purpose,
        moment: MonotonicTime,
        stop: &Stop,
    ) -> Result<Connection> {
        check_peer(&self.order, peer)?;
        let server_name = self.order.tls.server_name.as_str();
        let connecting = self
            .role
            .0
            .connect(Connect::new(peer).with_server_name(server_name));
        complete(connecting, peer.ip(), moment, stop).await
    }
}

impl Server for S2nEndpoint<Listening> {
    fn address(&self) -> SocketAddr {
        self.role.address
    }

    async fn accept(
        &self,
        moment: MonotonicTime,
        stop: &Stop,
        admit: &mut (impl FnMut(&[u8]) -> bool + Send),
    ) -> Result<Accepted<Connection>> {
        let attempted = stop.unless_raised(self.attempted(admit));
        let made = in_time(moment, reason::connection_of("QUIC"), attempted).await?;
        // Only the announced peer gets here.
        let failed = || reason::quic_handshake_failed(&self.order.peer.to_string());
        Ok(match made {
            Ok(connection) => Accepted::Connection(connection),
            Err(error) => Accepted::Failed(TransportError::stack(failed())(error)),
        })
    }
}

/// Makes an end whose connections carry streams.
pub fn streams<R: ConnectionRole>(end: S2nEndpoint<R>) -> StreamEnd<S2nEndpoint<R>, S2nConnection> {
    let of = end.end.clone();
    let make = Box::new(move |connection, stop: &_| S2nConnection::new(connection, &of, stop));
    StreamEnd { end, make }
}
