//! One end of a trial: a runtime of one thread, a listening socket or the means to connect; as an
//! endpoint of streams or of messages.

use std::{
    collections::{BTreeMap, VecDeque},
    future::poll_fn,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use regatta_control::{Role, TrialOrder};
use regatta_model::{BitRate, Bytes, PortRange, Warning, units::format_duration, warning_code};
use regatta_transport::{
    Abort, MessageEndpoint, MonotonicTime, Purpose, Stop, StreamEndpoint, TransportError,
    addresses::further_addresses, opening::Token, stream::Accepted,
};
use regatta_transport_sockets::wait::{timed_out, within};
use regatta_transport_sockets::{executor::Tokio, timer};
use socket2::Socket;
use tokio::{
    io::{Interest, unix::AsyncFd},
    sync::Notify,
};

use super::{
    association::{Association, Reader, Reading},
    connection::KernelConnection,
    driver::cannot,
    messages::{KernelFlow, Memory},
    options::{Options, Sizes},
    paths::Paths,
    socket,
};

/// Longest user message of a stream, in bytes. Short enough that a stream does not wait long for
/// another one's message, long enough that a system call is cheap beside it.
pub(crate) const LONGEST_STREAM_MESSAGE_BYTES: usize = 64 << 10;

/// Longest user message of a flow of messages, in bytes.
pub(crate) const LONGEST_MESSAGE_BYTES: usize = 256 << 10;

/// Maximum number of associations that wait to be accepted; the kernel allows `net.core.somaxconn`
/// of them.
const BACKLOG: i32 = 1024;

/// End of a trial, for streams and messages alike.
pub(crate) struct End {
    runtime: Tokio,
    role: Role,
    local: IpAddr,
    peer: IpAddr,
    /// Ports to listen on.
    ports: Option<PortRange>,
    token: Token,
    options: Options,
    sizes: Sizes,
    /// Addresses of this end other than the one in the order.
    further: Vec<Ipv4Addr>,
    connects: bool,
    listener: Option<(AsyncFd<Socket>, SocketAddr)>,
    facts: BTreeMap<String, String>,
    warnings: Vec<Warning>,
}

/// Waker of a wait that has no association yet.
#[derive(Default)]
struct Waker(Notify);

impl Abort for Waker {
    fn abort(&self) {
        // Kept for the one that waits, should it not wait yet.
        self.0.notify_one();
    }
}

impl End {
    /// Creates the end of a trial that the order describes; a listening end listens when this
    /// returns.
    ///
    /// # Errors
    /// [`TransportError::Io`] for a socket that cannot be opened or set up.
    pub(crate) fn new(order: &TrialOrder) -> Result<Self, TransportError> {
        let options = Options::read(&order.transport.options);
        let runtime = Tokio::new()?;
        let further = if options.multihoming {
            further_addresses(order.local)
        } else {
            Vec::new()
        };
        let mut end = Self {
            runtime,
            role: order.role,
            local: order.local,
            peer: order.peer,
            ports: order.ports,
            token: Token::parse(&order.token)?,
            sizes: Sizes::of(
                &order.path,
                &options,
                order.workload.kind.largest_message().0,
            ),
            options,
            further,
            connects: order.connects(),
            listener: None,
            facts: BTreeMap::new(),
            warnings: Vec::new(),
        };
        let socket = end.socket()?;
        end.look_at(&socket, order);
        if !end.connects {
            end.listen(socket)?;
        }
        Ok(end)
    }

    fn side(&self) -> &'static str {
        self.role.name()
    }

    /// Creates a socket with all options set, and binds it.
    fn socket(&self) -> Result<Socket, TransportError> {
        let socket = socket::open(self.local).map_err(cannot("open an SCTP socket"))?;
        let window = self.sizes.window_bytes;
        for buffer in [
            (libc::SO_RCVBUF, libc::SO_RCVBUFFORCE),
            (libc::SO_SNDBUF, libc::SO_SNDBUFFORCE),
        ] {
            socket::set_buffer(&socket, window, buffer)
                .map_err(cannot("set the buffers of an SCTP socket"))?;
        }
        self.options
            .apply(&socket)
            .map_err(cannot("set the options of an SCTP socket"))?;
        PortRange::bind(self.ports, |port| {
            socket.bind(&SocketAddr::new(self.local, port).into())
        })
        .map_err(cannot(&format!("bind to `{}`", self.local)))?;
        socket::bind_further(&socket, &self.further)
            .map_err(cannot("bind to the further addresses of the interface"))?;
        Ok(socket)
    }

    /// Records the options and buffer sizes that the kernel granted, and warns if a buffer is too
    /// small.
    fn look_at(&mut self, socket: &Socket, order: &TrialOrder) {
        let side = self.side();
        self.facts = self.options.facts(socket, side);
        let delivery = if self.options.ordered {
            "ordered"
        } else {
            "unordered"
        };
        self.facts
            .insert("sctp.delivery".to_owned(), delivery.to_owned());
        let sizes = [
            ("receive", "rmem_max", socket.recv_buffer_size()),
            ("send", "wmem_max", socket.send_buffer_size()),
        ];
        for (which, sysctl, size) in sizes {
            let Ok(size) = size else { continue };
            self.facts
                .insert(format!("{which}_buffer_bytes.{side}"), size.to_string());
            let concerns = match self.role {
                Role::Sender => which == "send",
                Role::Receiver => which == "receive",
            };
            // Half of it is the window, and about half of what is sent is the kernel's own.
            let granted = (size / 2) as u64;
            if !concerns || granted >= self.sizes.needed_bytes {
                continue;
            }
            self.warnings.push(Warning {
                code: warning_code::WINDOW_LIMITED.to_owned(),
                message: format!(
                    "the kernel grants the {side} a window of {}, and {} at {} holds {}",
                    Bytes(granted),
                    format_duration(order.path.round_trip_delay),
                    BitRate(order.path.link_rate_bps.unwrap_or_default()),
                    Bytes(self.sizes.needed_bytes)
                ),
                hint: if self.options.window_bytes.is_some() {
                    "leave the option `window` out, or set a larger one".to_owned()
                } else {
                    format!(
                        "run `sysctl -w net.core.{sysctl}={}` as root on that host",
                        self.sizes.window_bytes
                    )
                },
            });
        }
        let message = self.sizes.message_bytes;
        if let Some(window) = self.options.window_bytes.filter(|window| *window < message) {
            self.warnings.push(Warning {
                code: warning_code::WINDOW_LIMITED.to_owned(),
                message: format!(
                    "the window of {} holds no whole message of {}: the kernel's SCTP waits for a timer for each of them",
                    Bytes(window as u64),
                    Bytes(message as u64)
                ),
                hint: "leave the option `window` out, or send shorter messages".to_owned(),
            });
        }
        if self.options.multihoming && self.further.is_empty() {
            self.warnings.push(Warning {
                code: "sctp_one_path".to_owned(),
                message: format!(
                    "the interface of `{}` has no other IPv4 address, so the association has one \
                     path only",
                    self.local
                ),
                hint: "give both hosts a second address on the path's interface".to_owned(),
            });
        }
    }

    fn listen(&mut self, socket: Socket) -> Result<(), TransportError> {
        let failed = || cannot("listen");
        socket.listen(BACKLOG).map_err(failed())?;
        // With several addresses the kernel tells any of them.
        let port = socket.local_addr().map_err(failed())?.as_socket();
        let address = SocketAddr::new(self.local, port.map_or(0, |address| address.port()));
        let _inside = self.runtime.enter();
        // SAFETY: a `Socket` gives the same open descriptor until it is dropped, and it is dropped
        // by the registration alone.
        let listener = unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) }
            .map_err(|error| failed()(error.into()))?;
        self.listener = Some((listener, address));
        Ok(())
    }

    fn listen_address(&self) -> Option<SocketAddr> {
        self.listener.as_ref().map(|(_, address)| *address)
    }

    fn association(&self, socket: Socket) -> Result<Arc<Association>, TransportError> {
        let paths = self.options.multihoming.then(|| {
            let primary = [self.local, self.peer];
            let down_after = self.options.primary_down_after;
            Arc::new(Paths::new(primary, down_after, self.token))
        });
        let association = Arc::new(Association::new(
            socket,
            self.connects,
            self.options.streams,
            paths.clone(),
        )?);
        if let Some(paths) = paths.filter(|_| self.options.primary_down_after.is_some()) {
            tokio::spawn(paths.take_down(Arc::downgrade(&association)));
        }
        Ok(association)
    }

    /// Establishes an association with the peer.
    async fn connect(
        &self,
        peer: SocketAddr,
        purpose: Purpose,
        stop: &Stop,
    ) -> Result<Arc<Association>, TransportError> {
        if !self.connects {
            return Err(TransportError::Order {
                what: "an end that listens does not connect".to_owned(),
            });
        }
        if peer.ip().to_canonical() != self.peer.to_canonical() {
            return Err(TransportError::Order {
                what: format!("`{}` is not the announced peer `{}`", peer.ip(), self.peer),
            });
        }
        let failed = || cannot(&format!("connect to `{}`", peer.ip()));
        let socket = self.socket()?;
        match socket.connect(&peer.into()) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
            Err(error) => return Err(failed()(error)),
        }
        let association = self.association(socket)?;
        stop.on_stop(&association);
        {
            let _reading = Reading(&association, Reader::Streams);
            poll_fn(|context| association.poll_open(context, failed)).await?;
        }
        if let Some(paths) = association.paths()
            && purpose == Purpose::Transfer
        {
            paths.begin();
        }
        Ok(association)
    }

    /// Waits for an association that the announced peer establishes; calls `arrived` when there is
    /// one.
    async fn incoming(
        &self,
        mut arrived: impl FnMut(),
    ) -> Result<Arc<Association>, TransportError> {
        let Some((listener, _)) = &self.listener else {
            return Err(TransportError::Order {
                what: "an end that connects does not listen".to_owned(),
            });
        };
        let failed = || cannot("accept an association");
        loop {
            let mut guard = listener.readable().await.map_err(failed())?;
            let (socket, address) = match guard.get_inner().accept() {
                Ok(accepted) => accepted,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => {
                        guard.clear_ready();
                        continue;
                    }
                    // Gone again before it was accepted.
                    io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted => continue,
                    _ => return Err(failed()(error)),
                },
            };
            let peer = address.as_socket().map(|address| address.ip());
            if peer.map(|ip| ip.to_canonical()) != Some(self.peer.to_canonical()) {
                socket::abort(&socket);
                continue;
            }
            arrived();
            socket.set_nonblocking(true).map_err(failed())?;
            let association = self.association(socket)?;
            association.established();
            return Ok(association);
        }
    }

    /// Runs a future until `until` at most, or until `stop` is raised.
    async fn wait_for<T>(
        &self,
        until: MonotonicTime,
        stop: &Stop,
        future: impl Future<Output = Result<T, TransportError>>,
    ) -> Result<T, TransportError> {
        let since = MonotonicTime::now();
        let waker = Arc::new(Waker::default());
        stop.on_stop(&waker);
        let waited = async {
            tokio::select! {
                biased;
                () = waker.0.notified() => Err(TransportError::Cancelled),
                found = future => found,
            }
        };
        match within(until, waited).await {
            Some(found) => found,
            None => Err(timed_out("SCTP association", since)),
        }
    }
}

/// Maximum duration of a wait that the kernel's own timer ends, since a probe's next message
/// depends on it; the runtime's timer rounds to milliseconds, which does not matter to longer
/// waits.
const SHORT_WAIT: Duration = Duration::from_millis(100);

/// Runs a future that may be dropped until `moment` at most; `None` if that came first. If `moment`
/// has passed already, the future is still polled once.
pub(crate) async fn within_exactly<F: Future>(
    moment: MonotonicTime,
    future: F,
) -> Option<F::Output> {
    if moment == MonotonicTime::NEVER || moment.remaining() > SHORT_WAIT {
        return within(moment, future).await;
    }
    tokio::select! {
        biased;
        output = future => Some(output),
        () = timer::sleep_until(moment) => None,
    }
}

/// Endpoint of byte streams.
pub(crate) struct StreamEnd(pub End);

impl StreamEndpoint for StreamEnd {
    type Connection = KernelConnection;
    type Executor = Tokio;

    fn executor(&self) -> &Tokio {
        &self.0.runtime
    }

    fn listen_address(&self) -> Option<SocketAddr> {
        self.0.listen_address()
    }

    async fn connect(
        &self,
        peer: SocketAddr,
        purpose: Purpose,
        until: MonotonicTime,
        stop: &Stop,
    ) -> Result<KernelConnection, TransportError> {
        let since = MonotonicTime::now();
        match within(until, self.0.connect(peer, purpose, stop)).await {
            Some(association) => Ok(KernelConnection::new(association?, self.0.side(), stop)),
            None => Err(timed_out(
                format!("SCTP handshake with `{}`", peer.ip()),
                since,
            )),
        }
    }

    async fn accept(
        &self,
        until: MonotonicTime,
        stop: &Stop,
        arrived: &mut (impl FnMut() + Send),
    ) -> Result<Accepted<KernelConnection>, TransportError> {
        let incoming = self.0.incoming(arrived);
        let association = self.0.wait_for(until, stop, incoming).await?;
        Ok(Accepted::Connection(KernelConnection::new(
            association,
            self.0.side(),
            stop,
        )))
    }

    fn facts(&self) -> BTreeMap<String, String> {
        self.0.facts.clone()
    }

    fn warnings(&self) -> Vec<Warning> {
        self.0.warnings.clone()
    }
}

/// Endpoint of messages, delivered in any order.
pub(crate) struct MessageEnd {
    end: End,
    /// Associations of which no message was admitted yet.
    unclaimed: Mutex<Vec<Unclaimed>>,
}

/// Association whose first message is waited for.
struct Unclaimed {
    association: Arc<Association>,
    memory: Memory,
}

impl Unclaimed {
    /// Receives messages until one is admitted; returns those that came after it.
    fn poll_admitted(
        &mut self,
        admit: &mut impl FnMut(&[u8]) -> bool,
        context: &mut Context<'_>,
    ) -> Poll<Result<VecDeque<Vec<u8>>, TransportError>> {
        loop {
            let (mut admitted, mut rest) = (false, VecDeque::new());
            let mut consume = |data: &[u8]| {
                if admitted {
                    rest.push_back(data.to_vec());
                } else {
                    admitted = admit(data);
                }
            };
            let received = self
                .memory
                .poll_receive(&self.association, &mut consume, context);
            ready!(received)?;
            if admitted {
                return Poll::Ready(Ok(rest));
            }
        }
    }
}

impl MessageEnd {
    pub(crate) fn new(end: End) -> Self {
        Self {
            end,
            unclaimed: Mutex::default(),
        }
    }

    fn poll_admitted(
        &self,
        admit: &mut impl FnMut(&[u8]) -> bool,
        stop: &Stop,
        context: &mut Context<'_>,
    ) -> Poll<Result<KernelFlow, TransportError>> {
        // Only one task accepts, and what panics under the lock ends the trial.
        let mut unclaimed = self
            .unclaimed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut index = 0;
        while let Some(one) = unclaimed.get_mut(index) {
            match one.poll_admitted(admit, context) {
                Poll::Pending => index += 1,
                Poll::Ready(Err(_)) => drop(unclaimed.swap_remove(index)),
                Poll::Ready(Ok(rest)) => {
                    let Unclaimed {
                        association,
                        memory,
                    } = unclaimed.swap_remove(index);
                    let side = self.end.side();
                    let flow = KernelFlow::new(association, memory, rest, side, stop);
                    return Poll::Ready(Ok(flow));
                }
            }
        }
        Poll::Pending
    }

    /// Accepts associations, and waits until a message of one of them is admitted.
    async fn admitted(
        &self,
        admit: &mut impl FnMut(&[u8]) -> bool,
        stop: &Stop,
    ) -> Result<KernelFlow, TransportError> {
        loop {
            tokio::select! {
                biased;
                flow = poll_fn(|context| self.poll_admitted(admit, stop, context)) => return flow,
                association = self.end.incoming(|| ()) => {
                    let one = Unclaimed {
                        association: association?,
                        memory: Memory::new(),
                    };
                    self.unclaimed
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(one);
                }
            }
        }
    }
}

impl MessageEndpoint for MessageEnd {
    type Flow = KernelFlow;
    type Executor = Tokio;

    fn executor(&self) -> &Tokio {
        &self.end.runtime
    }

    fn listen_address(&self) -> Option<SocketAddr> {
        self.end.listen_address()
    }

    fn longest_message(&self) -> usize {
        LONGEST_MESSAGE_BYTES
    }

    fn reliable(&self) -> bool {
        true
    }

    async fn connect(
        &self,
        peer: SocketAddr,
        purpose: Purpose,
        stop: &Stop,
    ) -> Result<KernelFlow, TransportError> {
        let association = self.end.connect(peer, purpose, stop).await?;
        Ok(KernelFlow::new(
            association,
            Memory::new(),
            VecDeque::new(),
            self.end.side(),
            stop,
        ))
    }

    async fn accept(
        &self,
        until: MonotonicTime,
        stop: &Stop,
        admit: &mut (impl FnMut(&[u8]) -> bool + Send),
    ) -> Result<KernelFlow, TransportError> {
        self.end
            .wait_for(until, stop, self.admitted(admit, stop))
            .await
    }

    fn facts(&self) -> BTreeMap<String, String> {
        self.end.facts.clone()
    }

    fn warnings(&self, _message_bytes: usize) -> Vec<Warning> {
        self.end.warnings.clone()
    }
}
