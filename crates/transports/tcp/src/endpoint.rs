//! Listening and connecting, with the congestion control set and read back, over any layer.

use std::{
    collections::BTreeMap,
    future::Future,
    io,
    net::SocketAddr,
    os::fd::AsRawFd,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    time::Duration,
};

use regatta_control::{Role, TrialOrder};
use regatta_model::{BitRate, Bytes, Warning};
use regatta_transport::{
    ByteStream, HandshakeMade, MonotonicTime, ProtocolSample, Purpose, StatisticsSource, Stop,
    StreamConnection, StreamEndpoint, TransportError,
    stream::{
        Accepted, block_on_blocking, join_all_with_threads, join_with_threads, sleep_until_blocking,
    },
};
use socket2::{Domain, Protocol, Socket, Type};

use crate::{
    info,
    mptcp::{self, Paths},
    socket::{Connected, wait},
};

/// Connections that may wait to be accepted; the kernel allows `net.core.somaxconn` of them.
const BACKLOG: i32 = 1024;

/// How long an accepted connection may take for the layer's handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// How often a listening end looks whether it is stopped. The listening socket itself cannot be
/// woken by a stop, which belongs to one flow.
const LOOK: Duration = Duration::from_millis(20);

/// What stands between a socket and the workload.
pub(crate) trait Layer: Send + Sync + 'static {
    type Stream: ByteStream + 'static;

    /// Opens it at the connecting end. `holds_back`: whether Nagle's algorithm is on.
    fn client(
        &self,
        socket: Arc<Connected>,
        holds_back: bool,
        until: MonotonicTime,
    ) -> Result<Layered<Self::Stream>, TransportError>;

    /// Opens it at the listening end.
    fn server(
        &self,
        socket: Arc<Connected>,
        until: MonotonicTime,
    ) -> Result<Layered<Self::Stream>, TransportError>;
}

/// An opened layer.
pub(crate) struct Layered<S> {
    pub stream: S,
    /// What is known of it.
    pub facts: BTreeMap<String, String>,
    /// Which handshake opened it, if it tells.
    pub handshake: Option<HandshakeMade>,
}

/// One end of a trial over TCP.
pub(crate) struct Endpoint<L> {
    layer: L,
    role: Role,
    local: SocketAddr,
    peer: std::net::IpAddr,
    congestion_control: String,
    listener: Option<(Socket, SocketAddr)>,
    /// Buffer that is set because autotuning would stop short of what the path holds.
    buffer: Option<usize>,
    warnings: Vec<Warning>,
    multipath: Option<Multipath>,
}

/// What an endpoint of MPTCP has beside one of TCP.
struct Multipath {
    /// At the connecting end: the addresses of further subflows.
    paths: Option<Paths>,
    /// When these are taken down again, after the transfer's connection is made.
    down_after: Option<Duration>,
}

impl<L: Layer> Endpoint<L> {
    /// Makes an endpoint; at a receiver it listens when this returns.
    pub(crate) fn new(
        order: &TrialOrder,
        congestion_control: &str,
        layer: L,
    ) -> Result<Self, TransportError> {
        Self::with_paths(order, congestion_control, None, layer)
    }

    /// The same for MPTCP, with a subflow from each further address of this end's interface.
    pub(crate) fn multipath(
        order: &TrialOrder,
        congestion_control: &str,
        down_after: Option<Duration>,
        layer: L,
    ) -> Result<Self, TransportError> {
        let mut multipath = Multipath {
            paths: None,
            down_after,
        };
        let mut alone = false;
        if order.connects() {
            let addresses = mptcp::further_addresses(order.local);
            alone = addresses.is_empty();
            if !alone {
                multipath.paths = Some(Paths::add(&addresses)?);
            }
        }
        let mut endpoint = Self::with_paths(order, congestion_control, Some(multipath), layer)?;
        if alone {
            endpoint.warnings.push(Warning {
                code: "mptcp_one_path".to_owned(),
                message: format!(
                    "the interface of `{}` has no other address, so MPTCP has one subflow only",
                    order.local
                ),
                hint: "give both hosts a second address on the path's interface".to_owned(),
            });
        }
        Ok(endpoint)
    }

    fn with_paths(
        order: &TrialOrder,
        congestion_control: &str,
        multipath: Option<Multipath>,
        layer: L,
    ) -> Result<Self, TransportError> {
        let mut endpoint = Self {
            layer,
            role: order.role,
            local: SocketAddr::new(order.local, 0),
            peer: order.peer,
            congestion_control: congestion_control.to_owned(),
            listener: None,
            buffer: None,
            warnings: Vec::new(),
            multipath,
        };
        endpoint.size_buffer(order);
        if !order.connects() {
            let socket = endpoint.socket()?;
            socket
                .listen(BACKLOG)
                .map_err(TransportError::io("cannot listen"))?;
            socket
                .set_nonblocking(true)
                .map_err(TransportError::io("cannot listen without blocking"))?;
            let address = socket
                .local_addr()
                .map_err(TransportError::io("cannot read the listening address"))?
                .as_socket()
                .ok_or_else(|| TransportError::Protocol {
                    what: "the listening socket has no internet address".to_owned(),
                })?;
            endpoint.listener = Some((socket, address));
        }
        Ok(endpoint)
    }

    /// Leaves autotuning alone unless its limit is below what it takes to keep two
    /// bandwidth-delay products under way; then a fixed buffer is asked for, and it is said if
    /// that is too small as well.
    fn size_buffer(&mut self, order: &TrialOrder) {
        let Some(rate) = order.path.link_rate_bps else {
            return;
        };
        let bdp = rate as f64 / 8.0 * order.path.round_trip_delay.as_secs_f64();
        // The kernel keeps about half of a buffer for its own bookkeeping.
        let needed = (4.0 * bdp) as usize & !1;
        let sysctl = match self.role {
            Role::Sender => "tcp_wmem",
            Role::Receiver => "tcp_rmem",
        };
        let limit = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{sysctl}"))
            .ok()
            .and_then(|text| text.split_whitespace().nth(2)?.parse::<usize>().ok());
        let Some(limit) = limit.filter(|limit| *limit < needed) else {
            return;
        };
        self.buffer = Some(needed);
        let got = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))
            .and_then(|socket| self.set_buffer(&socket, needed))
            .unwrap_or(limit);
        if got < needed {
            // A fixed buffer that is smaller than autotuning's limit would make it worse.
            if got <= limit {
                self.buffer = None;
            }
            self.warnings.push(Warning {
                code: "window_limited".to_owned(),
                message: format!(
                    "the {}'s buffer can grow to {} at most, and {} at {} holds {}",
                    self.role.name(),
                    Bytes(got.max(limit) as u64),
                    regatta_model::units::format_duration(order.path.round_trip_delay),
                    BitRate(rate),
                    Bytes(bdp as u64)
                ),
                hint: format!("run `sysctl -w net.ipv4.{sysctl}=\"4096 131072 {needed}\"` as root"),
            });
        }
    }

    /// Sets this end's buffer, by force where that is permitted; returns its size as read back.
    fn set_buffer(&self, socket: &Socket, size: usize) -> io::Result<usize> {
        let force = match self.role {
            Role::Sender => libc::SO_SNDBUFFORCE,
            Role::Receiver => libc::SO_RCVBUFFORCE,
        };
        let value = libc::c_int::try_from(size / 2).unwrap_or(libc::c_int::MAX);
        // SAFETY: the value is one C integer, as this option takes.
        let forced = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                force,
                (&raw const value).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        match (self.role, forced) {
            (Role::Sender, 0) => socket.send_buffer_size(),
            (Role::Receiver, 0) => socket.recv_buffer_size(),
            (Role::Sender, _) => {
                socket.set_send_buffer_size(size / 2)?;
                socket.send_buffer_size()
            }
            (Role::Receiver, _) => {
                socket.set_recv_buffer_size(size / 2)?;
                socket.recv_buffer_size()
            }
        }
    }

    /// A bound socket with the congestion control that was asked for.
    fn socket(&self) -> Result<Socket, TransportError> {
        let (protocol, name) = match self.multipath {
            Some(_) => (Protocol::MPTCP, "an MPTCP"),
            None => (Protocol::TCP, "a TCP"),
        };
        let socket = Socket::new(
            Domain::for_address(self.local),
            Type::STREAM,
            Some(protocol),
        )
        .map_err(TransportError::io(format!("cannot open {name} socket")))?;
        let cc = &self.congestion_control;
        socket
            .set_tcp_congestion(cc.as_bytes())
            .map_err(TransportError::io(format!(
                "cannot set congestion control `{cc}`"
            )))?;
        if let Some(size) = self.buffer {
            self.set_buffer(&socket, size)
                .map_err(TransportError::io("cannot set the socket's buffer"))?;
        }
        // Of many connections one after another each would keep its port from all others for a
        // minute after its end, were the port chosen here and not when it connects.
        choose_port_late(&socket).map_err(TransportError::io("cannot set up a socket"))?;
        socket
            .bind(&self.local.into())
            .map_err(TransportError::io(format!(
                "cannot bind to `{}`",
                self.local.ip()
            )))?;
        Ok(socket)
    }

    /// The congestion control of a connected socket, which must be the one that was asked for.
    fn read_back(&self, socket: &Socket) -> Result<String, TransportError> {
        let name = socket.tcp_congestion().map_err(TransportError::io(
            "cannot read the congestion control back",
        ))?;
        let name: Vec<u8> = name.into_iter().take_while(|byte| *byte != 0).collect();
        let name = String::from_utf8_lossy(&name).into_owned();
        if name != self.congestion_control {
            return Err(TransportError::Protocol {
                what: format!(
                    "the kernel uses congestion control `{name}` where `{}` was set",
                    self.congestion_control
                ),
            });
        }
        Ok(name)
    }

    fn connection(
        &self,
        socket: &Arc<Connected>,
        layered: Layered<L::Stream>,
    ) -> Result<Connection<L::Stream>, TransportError> {
        let mut facts = layered.facts;
        facts.insert(
            format!("congestion_control.{}", self.role.name()),
            self.read_back(&socket.0)?,
        );
        let (end, which, size) = match self.role {
            Role::Sender => ("sender", "send_buffer", socket.0.send_buffer_size()),
            Role::Receiver => ("receiver", "receive_buffer", socket.0.recv_buffer_size()),
        };
        if let Ok(size) = size {
            // Of a buffer that the kernel tunes this is where it begins.
            facts.insert(format!("{which}_bytes.{end}"), size.to_string());
        }
        let tuning = if self.buffer.is_some() {
            "fixed"
        } else {
            "by the kernel"
        };
        facts.insert(format!("{which}_tuning.{end}"), tuning.to_owned());
        Ok(Connection {
            statistics: Arc::new(Statistics {
                socket: Arc::downgrade(socket),
                facts,
                subflows: self.multipath.as_ref().map(|_| Subflows::default()),
                side: end,
            }),
            stream: Mutex::new(Some(layered.stream)),
            handshake: layered.handshake,
        })
    }

    /// Connects a socket, waiting at most until the moment.
    fn connect_socket(
        &self,
        peer: SocketAddr,
        until: MonotonicTime,
        stop: &Stop,
    ) -> Result<Arc<Connected>, TransportError> {
        let failed = || TransportError::io(format!("cannot connect to `{}`", peer.ip()));
        let socket = self.socket()?;
        socket.set_nonblocking(true).map_err(failed())?;
        let begun = MonotonicTime::now();
        let connecting = socket.connect(&peer.into());
        let socket = Arc::new(Connected(socket));
        stop.on_stop(&socket);
        match connecting {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {
                let fd = socket.0.as_raw_fd();
                if !wait(fd, libc::POLLOUT, until).map_err(failed())? {
                    return Err(TransportError::TimedOut {
                        what: format!("answer from `{}` to a connect call", peer.ip()),
                        seconds: MonotonicTime::now().since(begun).as_secs_f64(),
                    });
                }
                if let Some(error) = socket.0.take_error().map_err(failed())? {
                    return Err(failed()(error));
                }
            }
            Err(error) => return Err(failed()(error)),
        }
        if stop.is_stopped() {
            return Err(TransportError::Cancelled);
        }
        socket.0.set_nonblocking(false).map_err(failed())?;
        Ok(socket)
    }
}

/// Has the kernel choose the port when the socket connects or listens, not when it is bound.
fn choose_port_late(socket: &Socket) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the value is one C integer, as this option takes.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

impl<L: Layer> StreamEndpoint for Endpoint<L> {
    type Connection = Connection<L::Stream>;

    const MULTIPLEXES: bool = false;

    fn listen_address(&self) -> Option<SocketAddr> {
        self.listener.as_ref().map(|(_, address)| *address)
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        block_on_blocking(future)
    }

    async fn connect(
        &self,
        peer: SocketAddr,
        purpose: Purpose,
        until: MonotonicTime,
        stop: &Stop,
    ) -> Result<Self::Connection, TransportError> {
        let socket = self.connect_socket(peer, until, stop)?;
        // A probe's message must leave at once. The transfer keeps the kernel's default, so that
        // small messages share packets, and pushes its last one.
        let holds_back = purpose == Purpose::Transfer;
        if !holds_back {
            socket
                .0
                .set_tcp_nodelay(true)
                .map_err(TransportError::io("cannot set TCP_NODELAY"))?;
        }
        let layered = self.layer.client(Arc::clone(&socket), holds_back, until)?;
        if let Some(Multipath {
            paths: Some(paths),
            down_after: Some(time),
        }) = &self.multipath
            && purpose == Purpose::Transfer
        {
            paths.take_down_after(*time, stop);
        }
        self.connection(&socket, layered)
    }

    async fn accept(
        &self,
        until: MonotonicTime,
        stop: &Stop,
        arrived: &mut (impl FnMut() + Send),
    ) -> Result<Accepted<Self::Connection>, TransportError> {
        let Some((listener, _)) = &self.listener else {
            return Err(TransportError::Protocol {
                what: "a sender does not listen".to_owned(),
            });
        };
        let failed = || TransportError::io("cannot accept a connection");
        let begun = MonotonicTime::now();
        loop {
            let look = until.min(MonotonicTime::now() + LOOK);
            let ready = wait(listener.as_raw_fd(), libc::POLLIN, look).map_err(failed())?;
            if !ready && !stop.is_stopped() && !until.has_passed() {
                continue;
            }
            if !ready && !stop.is_stopped() {
                return Err(TransportError::TimedOut {
                    what: "connection".to_owned(),
                    seconds: MonotonicTime::now().since(begun).as_secs_f64(),
                });
            }
            if stop.is_stopped() {
                return Err(TransportError::Cancelled);
            }
            let (socket, address) = match listener.accept() {
                Ok(accepted) => accepted,
                // Gone again before it was accepted.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock
                            | io::ErrorKind::ConnectionAborted
                            | io::ErrorKind::Interrupted
                    ) =>
                {
                    continue;
                }
                Err(error) => return Err(failed()(error)),
            };
            if address.as_socket().map(|address| address.ip()) != Some(self.peer) {
                continue;
            }
            arrived();
            let socket = Arc::new(Connected(socket));
            stop.on_stop(&socket);
            let opened = socket
                .0
                .set_nonblocking(false)
                .map_err(failed())
                .and_then(|()| {
                    // What this end sends is answers and the acknowledgement.
                    socket.0.set_tcp_nodelay(true).map_err(failed())
                })
                .and_then(|()| {
                    let until = MonotonicTime::now() + HANDSHAKE_TIME;
                    self.layer.server(Arc::clone(&socket), until)
                });
            return match opened {
                Ok(layered) => self.connection(&socket, layered).map(Accepted::Connection),
                Err(error) if stop.is_stopped() => Err(error),
                Err(error) => Ok(Accepted::Failed(error)),
            };
        }
    }

    async fn join<A, B, FA, FB>(&self, a: A, b: B) -> (FA::Output, FB::Output)
    where
        A: FnOnce() -> FA + Send,
        B: FnOnce() -> FB + Send,
        FA: Future<Output: Send>,
        FB: Future<Output: Send>,
    {
        join_with_threads(a, b)
    }

    async fn join_all<T, F>(&self, tasks: Vec<T>) -> Vec<F::Output>
    where
        T: FnOnce() -> F + Send,
        F: Future<Output: Send>,
    {
        join_all_with_threads(tasks)
    }

    async fn sleep_until(&self, moment: MonotonicTime) {
        sleep_until_blocking(moment);
    }

    fn warnings(&self) -> Vec<Warning> {
        self.warnings.clone()
    }
}

/// A TCP connection under a layer.
pub(crate) struct Connection<S> {
    statistics: Arc<Statistics>,
    /// The only stream, until it is taken.
    stream: Mutex<Option<S>>,
    handshake: Option<HandshakeMade>,
}

impl<S: ByteStream> Connection<S> {
    fn take(&self) -> Result<S, TransportError> {
        self.stream
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
            .ok_or_else(|| TransportError::Protocol {
                what: "a TCP connection has one stream".to_owned(),
            })
    }
}

impl<S: ByteStream> StreamConnection for Connection<S> {
    type Stream = S;

    async fn open_stream(&self) -> Result<S, TransportError> {
        self.take()
    }

    async fn accept_stream(&self, _until: MonotonicTime) -> Result<S, TransportError> {
        self.take()
    }

    fn handshake(&self) -> Option<HandshakeMade> {
        self.handshake
    }

    fn statistics(&self) -> Arc<dyn StatisticsSource> {
        Arc::clone(&self.statistics) as Arc<dyn StatisticsSource>
    }

    async fn close(self, _until: MonotonicTime) {
        // Dropping the socket closes it, and the kernel goes on sending what is left.
    }
}

/// What can be read of a connection as long as it is there.
struct Statistics {
    socket: Weak<Connected>,
    facts: BTreeMap<String, String>,
    /// Of MPTCP.
    subflows: Option<Subflows>,
    side: &'static str,
}

/// What was seen of an MPTCP connection, whenever it was looked at.
#[derive(Default)]
struct Subflows {
    most: AtomicU8,
    last: AtomicU8,
    fell_back: AtomicBool,
}

impl Subflows {
    fn look(&self, socket: std::os::fd::RawFd) {
        if let Some(state) = mptcp::state(socket) {
            let now = if state.fell_back {
                1
            } else {
                state.further_subflows.saturating_add(1)
            };
            self.most.fetch_max(now, Ordering::Relaxed);
            self.last.store(now, Ordering::Relaxed);
            self.fell_back.fetch_or(state.fell_back, Ordering::Relaxed);
        }
    }
}

impl StatisticsSource for Statistics {
    fn sample(&self) -> Option<ProtocolSample> {
        let socket = self.socket.upgrade()?;
        let descriptor = socket.0.as_raw_fd();
        match &self.subflows {
            None => info::sample(descriptor),
            Some(subflows) => {
                subflows.look(descriptor);
                mptcp::sample(descriptor)
            }
        }
    }

    fn facts(&self) -> BTreeMap<String, String> {
        let mut facts = self.facts.clone();
        if let Some(subflows) = &self.subflows {
            if let Some(socket) = self.socket.upgrade() {
                subflows.look(socket.0.as_raw_fd());
            }
            let mut fact = |name: &str, value: String| {
                facts.insert(format!("mptcp.{name}.{}", self.side), value);
            };
            let number = |of: &AtomicU8| of.load(Ordering::Relaxed).to_string();
            fact("subflows_most", number(&subflows.most));
            fact("subflows_at_end", number(&subflows.last));
            let fell_back = subflows.fell_back.load(Ordering::Relaxed);
            fact("fell_back_to_tcp", fell_back.to_string());
        }
        facts
    }
}
