//! One end of a trial: a runtime of one thread, a listening socket or the means to connect.

use std::{
    future::poll_fn,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
};

use regatta_control::{Role, TrialOrder};
use regatta_model::{BitRate, Bytes, Facts, PortRange, Warning, phrase, reason, warning};
use regatta_transport::{
    Accepted, Client, Endpoint, MonotonicTime, Purpose, Result, Server, Stop, TransportError,
    addresses::{further_addresses, scoped},
    opening::Token,
};
use regatta_transport_sockets::{
    endpoints::{Connecting, EndBase, Incoming, check_peer},
    executor::Tokio,
    option,
    wait::in_time,
};
use socket2::Socket;
use tokio::io::{Interest, unix::AsyncFd};

use super::{
    association::{Association, Reader},
    options::{self, Options, Sizes},
    paths::Paths,
    socket,
};
use crate::{
    association::OnDrop,
    session::{delivery, whole_milliseconds},
};

/// Maximum number of associations that wait to be accepted; the kernel allows `net.core.somaxconn`
/// of them.
const BACKLOG: i32 = 1024;

/// One end of a trial over SCTP, for streams and messages alike; `R` is the role, with the data of that role alone.
pub(crate) struct End<R> {
    base: EndBase,
    order: TrialOrder,
    token: Token,
    options: Options,
    sizes: Sizes,
    /// Addresses of this end other than the one in the order.
    further: Vec<Ipv4Addr>,
    role: R,
}

/// Server role of an [`End`]: the socket that listens, and its address.
pub(crate) struct Listening {
    listener: AsyncFd<Socket>,
    address: SocketAddr,
}

impl End<Connecting> {
    /// Creates the connecting end of a trial.
    ///
    /// # Errors
    /// [`TransportError::Io`] for a socket that cannot be opened or set up.
    pub(crate) fn client(order: &TrialOrder) -> Result<Self> {
        Self::new(order, |_, _| Ok(Connecting))
    }
}

impl End<Listening> {
    /// Creates the listening end of a trial. Its socket listens when this returns.
    ///
    /// # Errors
    /// As [`End::client`].
    pub(crate) fn server(order: &TrialOrder) -> Result<Self> {
        Self::new(order, |base, socket| listen(base, socket, order.local))
    }
}

/// Has a socket listen at an address of this end, which has others as well.
fn listen(base: &EndBase, socket: Socket, local: IpAddr) -> Result<Listening> {
    let failed = || TransportError::io(reason::cannot_listen());
    socket.listen(BACKLOG).map_err(failed())?;
    // With several addresses the kernel returns any of them.
    let port = socket.local_addr().map_err(failed())?.as_socket();
    let address = SocketAddr::new(local, port.map_or(0, |address| address.port()));
    let _inside = base.runtime.enter();
    // SAFETY: a `Socket` gives the same open descriptor until it is dropped, and it is dropped
    // by the registration alone.
    let listener = unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) }
        .map_err(|error| failed()(error.into()))?;
    Ok(Listening { listener, address })
}

impl<R> End<R> {
    fn new(order: &TrialOrder, role: impl FnOnce(&EndBase, Socket) -> Result<R>) -> Result<Self> {
        let options = Options::read(&order.transport.options);
        let further = options.multihoming.then(|| further_addresses(order.local));
        let mut end: End<()> = End {
            base: EndBase {
                runtime: Tokio::new()?,
                facts: Facts::default(),
                warnings: Vec::new(),
            },
            order: order.clone(),
            token: Token::parse(&order.token)?,
            sizes: Sizes::of(
                &order.path,
                &options,
                order.workload.kind.largest_message().0,
            ),
            options,
            further: further.unwrap_or_default(),
            role: (),
        };
        let socket = end.socket()?;
        end.record_granted(&socket);
        let End {
            base,
            order,
            token,
            options,
            sizes,
            further,
            role: (),
        } = end;
        Ok(Self {
            role: role(&base, socket)?,
            base,
            order,
            token,
            options,
            sizes,
            further,
        })
    }

    /// Creates a socket with all options set, and binds it.
    fn socket(&self) -> Result<Socket> {
        let socket = socket::open(self.order.local)
            .map_err(TransportError::io(reason::cannot_open_sctp_socket()))?;
        let window = self.sizes.requested_bytes;
        option::set_buffers(&socket, window, window)
            .map_err(TransportError::io(reason::cannot_set_socket_buffers()))?;
        options::apply(&self.options, &socket)
            .map_err(TransportError::io(reason::cannot_set_sctp_options()))?;
        PortRange::bind(self.order.ports, |port| {
            let local = self.order.local;
            socket.bind(&scoped(SocketAddr::new(local, port), local).into())
        })
        .map_err(TransportError::io(reason::cannot_bind(
            &self.order.local.to_string(),
        )))?;
        socket::bind_further(&socket, &self.further)
            .map_err(TransportError::io(reason::cannot_bind_further()))?;
        Ok(socket)
    }

    /// Records the options and buffer sizes that the kernel granted, and warns if a buffer is too
    /// small.
    fn record_granted(&mut self, socket: &Socket) {
        let side = self.order.role.name();
        let (options, path) = (&self.options, &self.order.path);
        let window = options.window_bytes();
        let EndBase {
            facts, warnings, ..
        } = &mut self.base;
        *facts = options::facts(options, socket, side);
        facts.extend([delivery(&self.order.transport.options)]);
        let sizes = [
            (
                Role::Receiver,
                "receive",
                "rmem_max",
                socket.recv_buffer_size(),
            ),
            (Role::Sender, "send", "wmem_max", socket.send_buffer_size()),
        ];
        for (concerned, which, sysctl, size) in sizes {
            let Ok(size) = size else { continue };
            facts.insert(format!("{which}_buffer_bytes.{side}"), size.to_string());
            // Half of it is the window, and about half of what is sent is the kernel's own.
            let granted = (size / 2) as u64;
            if self.order.role != concerned || granted >= self.sizes.needed_bytes {
                continue;
            }
            let (end, granted) = (phrase::side(side), Bytes(granted));
            let (delay, held) = (path.round_trip_delay, Bytes(self.sizes.needed_bytes));
            let rate = BitRate(path.link_rate_bps.unwrap_or_default());
            let needed = self.sizes.window_bytes as u64;
            warnings.push(match window {
                Some(_) => warning::sctp_window_chosen(end, granted, delay, rate, held),
                None => {
                    warning::sctp_window_limited(end, granted, delay, rate, held, sysctl, needed)
                }
            });
        }
        let message = self.sizes.message_bytes;
        if let Some(window) = window.filter(|window| *window < message) {
            let [window, message] = [window, message].map(|it| Bytes(it as u64));
            warnings.push(warning::window_below_message(window, message));
        }
        if options.multihoming && self.further.is_empty() {
            warnings.push(warning::sctp_one_path(&self.order.local.to_string()));
        }
    }

    fn association(&self, socket: Socket) -> Result<Arc<Association>> {
        let down_after = self.options.primary_down_after.map(whole_milliseconds);
        let paths = self.options.multihoming.then(|| {
            let primary = [self.order.local, self.order.peer];
            Arc::new(Paths::new(primary, down_after, self.token))
        });
        let association = Arc::new(Association::new(socket, &self.order, paths.clone())?);
        if let Some(paths) = paths.filter(|_| down_after.is_some()) {
            tokio::spawn(paths.take_down(Arc::downgrade(&association)));
        }
        Ok(association)
    }
}

impl End<Connecting> {
    /// Establishes an association with the peer.
    async fn associate(
        &self,
        peer: SocketAddr,
        purpose: Purpose,
        stop: &Stop,
    ) -> Result<Arc<Association>> {
        check_peer(&self.order, peer)?;
        let failed = || TransportError::io(reason::cannot_connect(&peer.ip().to_string()));
        let socket = self.socket()?;
        match socket.connect(&peer.into()) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
            Err(error) => return Err(failed()(error)),
        }
        let association = self.association(socket)?;
        stop.on_stop(&association);
        {
            let _reading = OnDrop(|| association.leave(Reader::Streams));
            poll_fn(|context| association.poll_open(context, failed)).await?;
        }
        if let Some(paths) = association.paths()
            && purpose == Purpose::Transfer
        {
            paths.begin();
        }
        Ok(association)
    }
}

impl End<Listening> {
    /// Waits for an association that the announced peer establishes; calls `arrived` when there is
    /// one.
    async fn incoming(&self, mut arrived: impl FnMut()) -> Result<Arc<Association>> {
        let listener = &self.role.listener;
        let failed = || TransportError::io(reason::cannot_accept_association());
        let transient = [io::ErrorKind::ConnectionAborted, io::ErrorKind::Interrupted];
        loop {
            let accepted = listener.async_io(Interest::READABLE, Socket::accept).await;
            let (socket, address) = match accepted {
                Ok(accepted) => accepted,
                // Gone again before it was accepted.
                Err(error) if transient.contains(&error.kind()) => continue,
                Err(error) => return Err(failed()(error)),
            };
            let peer = address.as_socket().map(|address| address.ip());
            if peer.map(|ip| ip.to_canonical()) != Some(self.order.peer.to_canonical()) {
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
}

impl<R: Send + Sync + 'static> Endpoint for End<R> {
    type Connection = Arc<Association>;
    type Executor = Tokio;

    fn executor(&self) -> &Tokio {
        &self.base.runtime
    }

    fn facts(&self) -> Facts {
        self.base.facts.clone()
    }

    fn warnings(&self) -> Vec<Warning> {
        self.base.warnings.clone()
    }
}

impl Client for End<Connecting> {
    async fn connect(
        &self,
        peer: SocketAddr,
        purpose: Purpose,
        until: MonotonicTime,
        stop: &Stop,
    ) -> Result<Arc<Association>> {
        let what = reason::handshake_with("SCTP", &peer.ip().to_string());
        in_time(until, what, self.associate(peer, purpose, stop)).await
    }
}

impl Server for End<Listening> {
    fn address(&self) -> SocketAddr {
        self.role.address
    }

    async fn accept(
        &self,
        until: MonotonicTime,
        stop: &Stop,
        admit: &mut (impl FnMut(&[u8]) -> bool + Send),
    ) -> Result<Accepted<Arc<Association>>> {
        let arrived = || {
            admit(&[]);
        };
        let incoming = stop.unless_raised(self.incoming(arrived));
        let association = in_time(until, reason::sctp_association(), incoming).await?;
        Ok(Accepted::Connection(association))
    }
}

impl Incoming for End<Listening> {
    async fn next(&self) -> Result<Arc<Association>> {
        self.incoming(|| ()).await
    }

    async fn message(association: &Arc<Association>) -> Result<Vec<u8>> {
        poll_fn(|context| association.poll_message(context)).await
    }
}
