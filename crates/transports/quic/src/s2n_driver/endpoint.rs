//! One end of s2n-quic in one trial as a [`StreamEndpoint`].

use std::{
    any::type_name,
    collections::BTreeMap,
    error::Error,
    net::{IpAddr, SocketAddr, UdpSocket},
    sync::Arc,
};

use regatta_control::{Role, TrialOrder};
use regatta_model::{Handshake, Warning};
use regatta_transport::{
    MonotonicTime, Purpose, Result, StreamEndpoint, TransportError, stop::Stop, stream::Accepted,
};
use regatta_transport_quic_common::handshake::complete;
use regatta_transport_sockets::endpoints::check_peer;
use regatta_transport_tls as tls;
use s2n_quic::{
    Client, Connection, Server,
    client::Connect,
    connection,
    provider::{
        congestion_controller::{Endpoint as CongestionControllers, bbr, cubic},
        io::tokio::Builder as Io,
        limits::Limits,
        tls::rustls as provider,
    },
};
use tokio::sync::{Mutex, mpsc};

use super::{
    connection::{End, S2nConnection},
    datagram::Datagrams,
    events::{Admission, Attempt, Board, Writer},
    options::{self, CRYPTO, CongestionControl, Options},
};
use crate::{
    executor::Tokio,
    facts::of_end,
    files::Files,
    options::Mode,
    path::{Sizes, headers_bytes},
    socket::{self, Buffers, Counters},
    wait::in_time,
};

/// Bytes of the buffers for received packets. By default s2n-quic goes round in 8 MiB, which no processor's cache holds.
const RECEIVE_RING_BYTES: usize = 1 << 20;

/// End of a trial: its runtime and the stack's handle, which listens or connects.
pub struct S2nEndpoint {
    /// Handle of the stack, taken when the end is dropped so that the stack closes connections that
    /// were never accepted.
    stack: Option<Stack>,
    pub(super) order: TrialOrder,
    listen: Option<SocketAddr>,
    /// State of this end that its connections need.
    pub(super) end: End,
    buffers: Buffers,
    files: Files,
    facts: BTreeMap<String, String>,
    options: Options,
    /// Runtime of the stack's tasks; the last field, so that it is dropped last.
    runtime: Tokio,
}

enum Stack {
    Connects(Client),
    Listens(Mutex<Listener>),
}

/// A new stack, and the congestion control that it runs by the type of its controllers.
type Started = (Stack, Option<CongestionControl>);

/// Server of a listening end, and the attempts to connect to it.
pub(super) struct Listener {
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
    made().map_err(TransportError::io("cannot set up the UDP socket"))
}

/// Parts of a new stack.
struct Parts<'a> {
    order: &'a TrialOrder,
    io: Io,
    limits: Limits,
    board: &'a Arc<Board>,
    options: &'a Options,
    files: &'a Files,
}

impl Parts<'_> {
    fn start(self, sizes: &Sizes) -> Result<Started> {
        let window = Sizes::initial_window_bytes(sizes.first_payload_bytes);
        match self.options.congestion_control {
            CongestionControl::Cubic => {
                let cubic = cubic::Builder::default().with_initial_congestion_window(window);
                self.start_with(cubic.build())
            }
            CongestionControl::Bbr => {
                let bbr = bbr::Builder::default().with_initial_congestion_window(window);
                self.start_with(bbr.build())
            }
        }
    }

    fn start_with<C: CongestionControllers>(self, controllers: C) -> Result<Started> {
        let runs = CongestionControl::of_type(type_name::<C::CongestionController>());
        let (order, io, limits) = (self.order, self.io, self.limits);
        let offered = self.options.common.mode == Mode::Datagram;
        let cannot = |error: Box<dyn Error>| {
            TransportError::stack("cannot make a QUIC endpoint")(error.to_string())
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
                    .with_datagram(Datagrams { offered })?
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
                .with_datagram(Datagrams { offered })?
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
        let options = Options::read(&order.transport.options);
        let sizes = Sizes::of(&order.path, order.local, &options.common)?;
        let (receive, send) = sizes.socket_buffers_bytes;
        let (socket, buffers) = socket::bind(order.local, order.ports, receive, send)?;
        let address = socket
            .local_addr()
            .map_err(TransportError::io("cannot read the address of the socket"))?;
        let counters =
            Counters::of(&socket).map_err(TransportError::io("cannot copy a descriptor"))?;
        let runtime = Tokio::new()?;
        let board = Arc::new(Board::default());
        let files = Files::new(order, options.common.key_log, false);
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
        Ok(Self {
            stack: Some(stack),
            order: order.clone(),
            listen: (!order.connects()).then_some(address),
            end: End {
                congestion_control,
                board,
                counters: Arc::new(counters),
                side,
                connects: order.connects(),
                sizes,
            },
            buffers,
            files,
            facts: options.common.facts(side, &sizes, &buffers),
            options,
            runtime,
        })
    }

    /// Returns the server handle of a listening end.
    ///
    /// # Errors
    /// [`TransportError::Order`] at a connecting end.
    pub(super) fn listening(&self) -> Result<&Mutex<Listener>> {
        match &self.stack {
            Some(Stack::Listens(listener)) => Ok(listener),
            _ => Err(TransportError::order("a connecting end does not listen")),
        }
    }

    /// Connects.
    ///
    /// # Errors
    /// Errors of the stack; [`TransportError::TimedOut`], [`TransportError::Cancelled`].
    pub(super) async fn connected(
        &self,
        peer: SocketAddr,
        moment: MonotonicTime,
        stop: &Stop,
    ) -> Result<Connection> {
        let Some(Stack::Connects(client)) = &self.stack else {
            return Err(TransportError::order("a listening end does not connect"));
        };
        check_peer(&self.order, peer)?;
        let server_name = self.order.tls.server_name.as_str();
        let connecting = client.connect(Connect::new(peer).with_server_name(server_name));
        complete(connecting, peer.ip(), moment, stop).await
    }

    /// Waits for an attempt from the peer, and returns its result.
    pub(super) async fn next(
        &self,
        listener: &Mutex<Listener>,
        arrived: &mut (impl FnMut() + Send),
    ) -> Result<Result<Connection, connection::Error>> {
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
        self.runtime.send_the_rest();
    }
}

impl StreamEndpoint for S2nEndpoint {
    type Connection = S2nConnection;
    type Executor = Tokio;

    fn executor(&self) -> &Tokio {
        &self.runtime
    }

    fn listen_address(&self) -> Option<SocketAddr> {
        self.listen
    }

    async fn connect(
        &self,
        peer: SocketAddr,
        _purpose: Purpose,
        moment: MonotonicTime,
        stop: &Stop,
    ) -> Result<S2nConnection> {
        let connection = self.connected(peer, moment, stop).await?;
        S2nConnection::new(connection, &self.end, stop)
    }

    async fn accept(
        &self,
        moment: MonotonicTime,
        stop: &Stop,
        arrived: &mut (impl FnMut() + Send),
    ) -> Result<Accepted<S2nConnection>> {
        let next = stop.unless_raised(self.next(self.listening()?, arrived));
        let made = match in_time(moment, "QUIC connection", next).await? {
            Ok(connection) => S2nConnection::new(connection, &self.end, stop),
            // None but the announced peer comes so far.
            Err(error) => Err(TransportError::stack(format!(
                "the QUIC handshake with `{}` failed",
                self.order.peer
            ))(error)),
        };
        Ok(made.map_or_else(Accepted::Failed, Accepted::Connection))
    }

    fn facts(&self) -> BTreeMap<String, String> {
        let (board, side) = (&self.end.board, self.end.side);
        let mut facts = self.facts.clone();
        facts.extend(self.files.facts());
        let (gso, gro) = board.offloads();
        let offloads = match self.order.role {
            Role::Sender => &gso,
            Role::Receiver => &gro,
        };
        let stated = self
            .options
            .stack_facts(&self.end.sizes, self.order.local, offloads);
        facts.extend(stated.of_end(side));
        facts.extend(of_end(side, [("gso", gso), ("gro", gro)]));
        facts
    }

    fn warnings(&self) -> Vec<Warning> {
        [self.buffers.warning(self.end.side), self.files.warning()]
            .into_iter()
            .flatten()
            .collect()
    }
}
