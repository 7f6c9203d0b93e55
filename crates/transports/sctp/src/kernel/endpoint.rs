//! One end of a trial: a runtime of one thread, a listening socket or the means to connect.

use std::{
    future::poll_fn,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use regatta_control::{Role, TrialOrder};
use regatta_model::{BitRate, Bytes, Facts, PortRange, phrase, reason, warning};
use regatta_transport::{
    MonotonicTime, Purpose, Result, Stop, TransportError, addresses::further_addresses,
    opening::Token, stream::Accepted,
};
use regatta_transport_sockets::{
    endpoints::{AdmittingEnd, EndBase, TrialEnd, check_peer},
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

/// End of a trial, for streams and messages alike.
pub(crate) struct End {
    base: EndBase,
    order: TrialOrder,
    token: Token,
    options: Options,
    sizes: Sizes,
    /// Addresses of this end other than the one in the order.
    further: Vec<Ipv4Addr>,
    listener: Option<AsyncFd<Socket>>,
}

impl End {
    /// Creates the end of a trial that the order describes; a listening end listens when this
    /// returns.
    ///
    /// # Errors
    /// [`TransportError::Io`] for a socket that cannot be opened or set up.
    pub(crate) fn new(order: &TrialOrder) -> Result<Self> {
        let options = Options::read(&order.transport.options);
        let further = options.multihoming.then(|| further_addresses(order.local));
        let mut end = Self {
            base: EndBase {
                runtime: Tokio::new()?,
                listen_address: None,
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
            listener: None,
        };
        let socket = end.socket()?;
        end.record_granted(&socket);
        if !order.connects() {
            end.listen(socket)?;
        }
        Ok(end)
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
            socket.bind(&SocketAddr::new(self.order.local, port).into())
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

    fn listen(&mut self, socket: Socket) -> Result<()> {
        let failed = || TransportError::io(reason::cannot_listen());
        socket.listen(BACKLOG).map_err(failed())?;
        // With several addresses the kernel returns any of them.
        let port = socket.local_addr().map_err(failed())?.as_socket();
        let address = SocketAddr::new(self.order.local, port.map_or(0, |address| address.port()));
        let _inside = self.base.runtime.enter();
        // SAFETY: a `Socket` gives the same open descriptor until it is dropped, and it is dropped
        // by the registration alone.
        let listener = unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) }
            .map_err(|error| failed()(error.into()))?;
        self.listener = Some(listener);
        self.base.listen_address = Some(address);
        Ok(())
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

    /// Waits for an association that the announced peer establishes; calls `arrived` when there is
    /// one.
    async fn incoming(&self, mut arrived: impl FnMut()) -> Result<Arc<Association>> {
        let Some(listener) = &self.listener else {
            return Err(TransportError::order(reason::connecting_does_not_listen()));
        };
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

impl TrialEnd for End {
    type Handle = Arc<Association>;

    fn base(&self) -> &EndBase {
        &self.base
    }

    fn connect_deadline(&self) -> MonotonicTime {
        // The kernel gives up by itself.
        MonotonicTime::NEVER
    }

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

    async fn accept(
        &self,
        until: MonotonicTime,
        stop: &Stop,
        arrived: &mut (impl FnMut() + Send),
    ) -> Result<Accepted<Arc<Association>>> {
        let incoming = stop.unless_raised(self.incoming(arrived));
        let association = in_time(until, reason::sctp_association(), incoming).await?;
        Ok(Accepted::Connection(association))
    }
}

impl AdmittingEnd for End {
    async fn next(&self) -> Result<Arc<Association>> {
        self.incoming(|| ()).await
    }

    async fn message(association: &Arc<Association>) -> Result<Vec<u8>> {
        poll_fn(|context| association.poll_message(context)).await
    }
}
