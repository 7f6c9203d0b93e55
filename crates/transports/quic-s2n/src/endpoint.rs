//! One end of s2n-quic in one trial.

use std::{
    error::Error,
    net::{IpAddr, SocketAddr, UdpSocket},
    sync::Arc,
};

use regatta_control::{Role, TrialOrder};
use regatta_model::{Facts, Handshake, reason};
use regatta_transport::{
    MonotonicTime, Purpose, Result, TransportError, stop::Stop, stream::Accepted,
};
use regatta_transport_quic_common::handshake::complete;
use regatta_transport_sockets::endpoints::{EndBase, StreamEnd, TrialEnd, check_peer};
use regatta_transport_tls as tls;
use s2n_quic::{
    Client, Connection, Server,
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
    options::{self, CRYPTO, CongestionControl, Options},
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
pub struct S2nEndpoint {
    /// Handle of the stack, taken when the end is dropped so that the stack closes connections that
    /// were never accepted.
    stack: Option<Stack>,
    order: TrialOrder,
    /// State of this end that its connections need.
    pub(crate) end: End,
    options: Options,
    /// With the runtime of the stack's tasks; the last field, so that it is dropped last.
    base: EndBase,
}

enum Stack {
    Connects(Client),
    Listens(Mutex<Listener>),
}

/// A new stack, and the congestion control that it runs by the type of its controllers.
type Started = (Stack, Option<CongestionControl>);

/// Server of a listening end, and the attempts to connect to it.
struct Listener {
    server: Server,
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
    options: &'a Options,
    files: &'a Files,
}

impl Parts<'_> {
    fn start(self, sizes: &Sizes) -> Result<Started> {
        let window = Sizes::initial_window_bytes(sizes.first_payload_bytes);
        let controllers = Controllers::new(self.options.cc, window);
        let runs = controllers.congestion_control();
        let (order, io, limits) = (self.order, self.io, self.limits);
        let cannot = |error: Box<dyn Error>| {
            TransportError::stack(reason::cannot_make_endpoint())(error.to_string())
        };
        let (begun, attempts) = mpsc::unbounded_channel();
        let events = Writer {
            board: Arc::clone(self.board),
            attempts: begun,
        };
        if order.connects() {
            let mut tls = tls::client(&order.tls, Some(tls::ALPN), Handshake::Full, CRYPTO)?;
            tls.key_log = self.files.key_log()?;
            let started = || {
                Ok(Client::builder()
                    .with_tls(provider::Client::from(tls))?
                    .with_io(io.build()?)?
                    .with_limits(limits)?
                    .with_event(events)?
                    .with_congestion_controller(controllers)?
                    .with_datagram(Datagrams)?
                    .start()?)
            };
            let connects = |client| (Stack::Connects(client), runs);
            return started().map(connects).map_err(cannot);
        }
        let mut tls = tls::server(&order.tls, Some(tls::ALPN), Handshake::Full, CRYPTO)?;
        tls.key_log = self.files.key_log()?;
        let admission = Admission {
            peer: order.peer,
            retry: order.workload.kind.handshake() == Handshake::Retry,
        };
        let started = || {
            Ok(Server::builder()
                .with_tls(provider::Server::from(tls))?
                .with_io(io.build()?)?
                .with_limits(limits)?
                .with_event(events)?
                .with_endpoint_limits(admission)?
                .with_congestion_controller(controllers)?
                .with_datagram(Datagrams)?
                .start()?)
        };
        let listens = |server| {
            let listener = Listener { server, attempts };
            (Stack::Listens(Mutex::new(listener)), runs)
        };
        started().map(listens).map_err(cannot)
    }
}

impl S2nEndpoint {
    /// Creates the end of a trial that the order describes; a listening end listens when this
    /// returns.
    ///
    /// # Errors
    /// [`TransportError::Unsupported`] for a path with too small packets, [`TransportError::Order`]
    /// for TLS material that cannot be read, [`TransportError::Io`] for a socket that cannot be
    /// opened.
    pub fn new(order: &TrialOrder) -> Result<Self> {
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
            options: &options,
            files: &files,
        };
        let (stack, congestion_control) = parts.start(&sizes)?;
        let side = order.role.name();
        let mut facts = options.common.facts(side, &sizes, &buffers);
        facts.extend(files.facts());
        let warnings = [buffers.warning(side), files.warning()];
        Ok(Self {
            stack: Some(stack),
            order: order.clone(),
            end: End {
                congestion_control,
                board,
                counters: Arc::new(counters),
                side,
                connects: order.connects(),
                sizes,
            },
            options,
            base: EndBase {
                runtime,
                listen_address: (!order.connects()).then_some(address),
                facts,
                warnings: warnings.into_iter().flatten().collect(),
            },
        })
    }

    /// Waits for an attempt from the peer, and returns its result.
    pub(crate) async fn attempted(
        &self,
        arrived: &mut (impl FnMut() + Send),
    ) -> Result<Result<Connection, connection::Error>> {
        let Some(Stack::Listens(listener)) = &self.stack else {
            return Err(TransportError::order(reason::connecting_does_not_listen()));
        };
        let mut listener = listener.lock().await;
        let Listener { server, attempts } = &mut *listener;
        loop {
            tokio::select! {
                biased;
                Some(attempt) = attempts.recv() => match attempt {
                    Attempt::Begun => arrived(),
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

impl Drop for S2nEndpoint {
    fn drop(&mut self) {
        self.stack = None;
        self.base.runtime.send_the_rest();
    }
}

impl TrialEnd for S2nEndpoint {
    type Handle = Connection;

    fn base(&self) -> &EndBase {
        &self.base
    }

    fn connect_deadline(&self) -> MonotonicTime {
        MonotonicTime::now() + self.order.connect_deadline
    }

    async fn connect(
        &self,
        peer: SocketAddr,
        _purpose: Purpose,
        moment: MonotonicTime,
        stop: &Stop,
    ) -> Result<Connection> {
        let Some(Stack::Connects(client)) = &self.stack else {
            return Err(TransportError::order(reason::listening_does_not_connect()));
        };
        check_peer(&self.order, peer)?;
        let server_name = self.order.tls.server_name.as_str();
        let connecting = client.connect(Connect::new(peer).with_server_name(server_name));
        complete(connecting, peer.ip(), moment, stop).await
    }

    async fn accept(
        &self,
        moment: MonotonicTime,
        stop: &Stop,
        arrived: &mut (impl FnMut() + Send),
    ) -> Result<Accepted<Connection>> {
        let attempted = stop.unless_raised(self.attempted(arrived));
        let made = in_time(moment, reason::connection_of("QUIC"), attempted).await?;
        // Only the announced peer gets here.
        let failed = || reason::quic_handshake_failed(&self.order.peer.to_string());
        Ok(match made {
            Ok(connection) => Accepted::Connection(connection),
            Err(error) => Accepted::Failed(TransportError::stack(failed())(error)),
        })
    }

    fn facts(&self) -> Facts {
        let side = self.end.side;
        let mut facts = self.base.facts.clone();
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
}

/// Creates the end of a trial whose connections carry streams.
///
/// # Errors
/// As [`S2nEndpoint::new`].
pub fn streams(order: &TrialOrder) -> Result<StreamEnd<S2nEndpoint, S2nConnection>> {
    let end = S2nEndpoint::new(order)?;
    let of = end.end.clone();
    let make = Box::new(move |connection, _, stop: &_| S2nConnection::new(connection, &of, stop));
    Ok(StreamEnd { end, make })
}
