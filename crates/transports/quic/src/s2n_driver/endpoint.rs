//! One end of s2n-quic in one trial as a [`StreamEndpoint`].

use std::{
    collections::BTreeMap,
    fmt,
    future::poll_fn,
    net::{IpAddr, SocketAddr, UdpSocket},
    sync::Arc,
    task::Poll,
};

use regatta_control::{Role, TrialOrder};
use regatta_model::{Handshake, Warning};
use regatta_transport::{
    MonotonicTime, Purpose, StreamEndpoint, TransportError, stop::Stop, stream::Accepted,
};
use regatta_transport_tls::{self as tls, Resumption};
use s2n_quic::{
    Client, Connection, Server,
    client::Connect,
    connection,
    provider::{
        congestion_controller::{Endpoint as CongestionControllers, bbr, cubic},
        io::tokio::Builder as Io,
        tls::rustls as provider,
    },
};
use tokio::sync::Mutex;

use super::{
    connection::{End, S2nConnection},
    datagram::Datagrams,
    events::{Admission, Board, Named, Writer},
    options::{self, CRYPTO, CongestionControl, Options},
};
use crate::{
    executor::Tokio,
    files::Files,
    options::Mode,
    path::{LEAST_PAYLOAD_BYTES, Sizes},
    socket::{self, Buffers, Counters},
    wait::{timed_out, within},
};

/// Bytes of the buffers for received packets. By default s2n-quic goes round in 8 MiB, which no processor's cache holds.
const RECEIVE_RING_BYTES: usize = 1 << 20;

/// Returns the size of the headers of IP and UDP before a payload, in bytes: s2n-quic includes them
/// in the size of a packet.
const fn headers_bytes(local: IpAddr) -> u16 {
    match local {
        IpAddr::V4(_) => 20 + 8,
        IpAddr::V6(_) => 40 + 8,
    }
}

/// End of a trial: its runtime and the stack's handle, which listens or connects.
pub struct S2nEndpoint {
    /// Handle of the stack, taken when the end is dropped so that the stack closes connections that
    /// were never accepted.
    stack: Option<Stack>,
    role: Role,
    peer: IpAddr,
    listen: Option<SocketAddr>,
    server_name: String,
    end: End,
    buffers: Buffers,
    payload_bytes: usize,
    files: Files,
    facts: BTreeMap<String, String>,
    options: Options,
    sizes: Sizes,
    local: IpAddr,
    /// Runtime of the stack's tasks; the last field, so that it is dropped last.
    runtime: Tokio,
}

enum Stack {
    Connects(Client),
    Listens(Mutex<Server>),
}

impl fmt::Debug for S2nEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S2nEndpoint")
            .field("role", &self.role)
            .field("listen", &self.listen)
            .finish_non_exhaustive()
    }
}

fn cannot(error: impl fmt::Display) -> TransportError {
    TransportError::stack("cannot make a QUIC endpoint")(error.to_string())
}

/// Creates the stack's input and output on a UDP socket.
fn io(
    runtime: &Tokio,
    socket: UdpSocket,
    options: &Options,
    sizes: &Sizes,
    local: IpAddr,
) -> Result<Io, TransportError> {
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

/// Parameters of a new stack.
type Parts<'a> = (
    &'a TrialOrder,
    Io,
    &'a Sizes,
    &'a Arc<Board>,
    Datagrams,
    &'a Files,
);

impl Stack {
    fn start(
        order: &TrialOrder,
        io: Io,
        sizes: &Sizes,
        board: &Arc<Board>,
        options: &Options,
        files: &Files,
    ) -> Result<Self, TransportError> {
        let datagrams = Datagrams {
            offered: options.common.mode == Mode::Datagram,
        };
        let made = (order, io, sizes, board, datagrams, files);
        let first = if options.common.mtu_discovery {
            LEAST_PAYLOAD_BYTES
        } else {
            sizes.payload_bytes
        };
        let window = Sizes::initial_window_bytes(first);
        match options.congestion_control {
            CongestionControl::Cubic => {
                let cubic = cubic::Builder::default().with_initial_congestion_window(window);
                Self::start_with(made, cubic.build())
            }
            CongestionControl::Bbr => {
                let bbr = bbr::Builder::default().with_initial_congestion_window(window);
                Self::start_with(made, bbr.build())
            }
        }
    }

    fn start_with<C: CongestionControllers>(
        (order, io, sizes, board, datagrams, files): Parts<'_>,
        controllers: C,
    ) -> Result<Self, TransportError> {
        let limits = options::limits(order, sizes)?;
        let io = io.build().map_err(cannot)?;
        let writer = Writer {
            board: Arc::clone(board),
        };
        let controllers = Named {
            inner: controllers,
            board: Arc::clone(board),
        };
        if order.connects() {
            let mut tls = tls::client(&order.tls, Some(tls::ALPN), Resumption::Off, CRYPTO)?;
            if let Some(log) = files.key_log()? {
                tls.key_log = log;
            }
            let client = Client::builder()
                .with_tls(provider::Client::from(tls))
                .map_err(cannot)?
                .with_io(io)
                .map_err(cannot)?
                .with_limits(limits)
                .map_err(cannot)?
                .with_event(writer)
                .map_err(cannot)?
                .with_congestion_controller(controllers)
                .map_err(cannot)?
                .with_datagram(datagrams)
                .map_err(cannot)?
                .start()
                .map_err(cannot)?;
            return Ok(Self::Connects(client));
        }
        let mut tls = tls::server(&order.tls, Some(tls::ALPN), Resumption::Off, CRYPTO)?;
        if let Some(log) = files.key_log()? {
            tls.key_log = log;
        }
        let admission = Admission {
            peer: order.peer,
            retry: order.workload.kind.handshake() == Handshake::Retry,
        };
        let server = Server::builder()
            .with_tls(provider::Server::from(tls))
            .map_err(cannot)?
            .with_io(io)
            .map_err(cannot)?
            .with_limits(limits)
            .map_err(cannot)?
            .with_event(writer)
            .map_err(cannot)?
            .with_endpoint_limits(admission)
            .map_err(cannot)?
            .with_congestion_controller(controllers)
            .map_err(cannot)?
            .with_datagram(datagrams)
            .map_err(cannot)?
            .start()
            .map_err(cannot)?;
        Ok(Self::Listens(Mutex::new(server)))
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
    pub fn new(order: &TrialOrder) -> Result<Self, TransportError> {
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
        let stack = Stack::start(
            order,
            io(&runtime, socket, &options, &sizes, order.local)?,
            &sizes,
            &board,
            &options,
            &files,
        )?;
        let side = order.role.name();
        Ok(Self {
            stack: Some(stack),
            role: order.role,
            peer: order.peer,
            listen: (!order.connects()).then_some(address),
            server_name: order.tls.server_name.clone(),
            end: End {
                board,
                counters: Arc::new(counters),
                side,
                connects: order.connects(),
                sizes,
            },
            buffers,
            payload_bytes: sizes.payload_bytes.into(),
            files,
            facts: options.common.facts(side, &sizes, &buffers),
            options,
            sizes,
            local: order.local,
            runtime,
        })
    }

    /// Returns the UDP payload of a full packet, in bytes.
    pub(super) fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }

    /// Returns the state of this end that its connections need.
    pub(super) fn end(&self) -> &End {
        &self.end
    }

    /// Returns the server handle of a listening end.
    ///
    /// # Errors
    /// [`TransportError::Order`] at a connecting end.
    pub(super) fn listening(&self) -> Result<&Mutex<Server>, TransportError> {
        match &self.stack {
            Some(Stack::Listens(server)) => Ok(server),
            _ => Err(TransportError::Order {
                what: "a connecting end does not listen".to_owned(),
            }),
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
    ) -> Result<Connection, TransportError> {
        let since = MonotonicTime::now();
        let what = || format!("cannot connect to `{}`", peer.ip());
        let Some(Stack::Connects(client)) = &self.stack else {
            return Err(TransportError::Order {
                what: "a listening end does not connect".to_owned(),
            });
        };
        if peer.ip().to_canonical() != self.peer.to_canonical() {
            return Err(TransportError::Order {
                what: format!("`{}` is not the announced peer `{}`", peer.ip(), self.peer),
            });
        }
        let connect = Connect::new(peer).with_server_name(self.server_name.as_str());
        let connected = stop.unless_raised(async {
            client
                .connect(connect)
                .await
                .map_err(TransportError::stack(what()))
        });
        match within(moment, connected).await {
            Some(connection) => connection,
            None => Err(timed_out(
                format!("QUIC handshake with `{}`", peer.ip()),
                since,
            )),
        }
    }

    /// Waits for an attempt from the peer, and returns its result.
    pub(super) async fn next(
        &self,
        server: &Mutex<Server>,
        arrived: &mut (impl FnMut() + Send),
    ) -> Result<Result<Connection, connection::Error>, TransportError> {
        let mut server = server.lock().await;
        let mut is_told = false;
        let next = poll_fn(|context| {
            // Registers for what begins as well, so it comes before that is looked at.
            let failed = self.end.board.poll_failed(context);
            if !is_told && self.end.board.take_begun() {
                is_told = true;
                arrived();
            }
            if let Poll::Ready(error) = failed {
                return Poll::Ready(Some(Err(error)));
            }
            server
                .poll_accept(context)
                .map(|connection| connection.map(Ok))
        });
        next.await.ok_or(TransportError::Closed {
            flow: "QUIC endpoint",
        })
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
    ) -> Result<S2nConnection, TransportError> {
        let connection = self.connected(peer, moment, stop).await?;
        S2nConnection::new(connection, &self.end, stop)
    }

    async fn accept(
        &self,
        moment: MonotonicTime,
        stop: &Stop,
        arrived: &mut (impl FnMut() + Send),
    ) -> Result<Accepted<S2nConnection>, TransportError> {
        let since = MonotonicTime::now();
        let server = self.listening()?;
        match within(moment, stop.unless_raised(self.next(server, arrived))).await {
            Some(next) => Ok(match next? {
                Ok(connection) => match S2nConnection::new(connection, &self.end, stop) {
                    Ok(connection) => Accepted::Connection(connection),
                    Err(error) => Accepted::Failed(error),
                },
                // None but the announced peer comes so far.
                Err(error) => Accepted::Failed(TransportError::stack(format!(
                    "the QUIC handshake with `{}` failed",
                    self.peer
                ))(error)),
            }),
            None => Err(timed_out("QUIC connection", since)),
        }
    }

    fn facts(&self) -> BTreeMap<String, String> {
        let (board, side) = (&self.end.board, self.end.side);
        let mut facts = self.facts.clone();
        facts.extend(self.files.facts());
        let gso = match board.segments() {
            0 | 1 => "off".to_owned(),
            segments => format!("on, {segments} packets at most"),
        };
        let gro = if board.receive_offload() { "on" } else { "off" };
        let offloads = match self.role {
            Role::Sender => gso.as_str(),
            Role::Receiver => gro,
        };
        let stated = self.options.stack_facts(&self.sizes, self.local, offloads);
        facts.extend(stated.of_end(side));
        facts.insert(format!("gso.{side}"), gso);
        facts.insert(format!("gro.{side}"), gro.to_owned());
        facts
    }

    fn warnings(&self) -> Vec<Warning> {
        [self.buffers.warning(self.end.side), self.files.warning()]
            .into_iter()
            .flatten()
            .collect()
    }
}
