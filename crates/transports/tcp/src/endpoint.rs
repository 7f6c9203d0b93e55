//! Listening and connecting, over any layer.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    os::fd::AsFd,
    sync::Arc,
    time::Duration,
};

use regatta_control::TrialOrder;
use regatta_model::{Facts, Warning, reason, warning};
use regatta_transport::{
    Blocking, MonotonicTime, Purpose, Result, Stop, StreamConnection as _, StreamEndpoint,
    TransportError, stream::Accepted, wait,
};
use socket2::Socket;

use crate::{
    connection::Connection,
    layer::{Layer, Stream},
    layered::Layered,
    mptcp::{self, Paths},
    socket::Connected,
    sockets::Sockets,
};

/// Maximum duration of the layer's handshake on an accepted connection.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// One end of a trial over TCP.
pub struct Endpoint {
    layer: Layer,
    /// `sender` or `receiver`.
    end: &'static str,
    peer: IpAddr,
    sockets: Sockets,
    listener: Option<(Socket, SocketAddr)>,
    warnings: Vec<Warning>,
    /// At the connecting end of MPTCP, the addresses of further subflows.
    paths: Option<Arc<Paths>>,
    /// Time after the transfer's connection at which these are removed.
    down_after: Option<Duration>,
}

impl Endpoint {
    /// Makes an endpoint; at a server it listens when this returns.
    pub(crate) fn new(order: &TrialOrder, layer: Layer) -> Result<Self> {
        Self::with(Sockets::new(order), order, layer)
    }

    /// Makes an endpoint of MPTCP, with a subflow from each further address of this end's
    /// interface.
    pub(crate) fn multipath(
        order: &TrialOrder,
        down_after: Option<Duration>,
        layer: Layer,
    ) -> Result<Self> {
        let mut sockets = Sockets::new(order);
        sockets.multipath = true;
        let mut endpoint = Self::with(sockets, order, layer)?;
        endpoint.down_after = down_after;
        if !order.connects() {
            return Ok(endpoint);
        }
        let local = order.local;
        let addresses = mptcp::further_addresses(local);
        if addresses.is_empty() {
            let warning = warning::mptcp_one_path(&local.to_string());
            endpoint.warnings.push(warning);
        } else {
            endpoint.paths = Some(Paths::add(&addresses)?);
        }
        Ok(endpoint)
    }

    fn with(sockets: Sockets, order: &TrialOrder, layer: Layer) -> Result<Self> {
        let listens = !order.connects();
        Ok(Self {
            layer,
            end: order.role.name(),
            peer: order.peer,
            listener: listens.then(|| sockets.listen()).transpose()?,
            warnings: sockets.warnings(),
            sockets,
            paths: None,
            down_after: None,
        })
    }

    fn connection(
        &self,
        socket: &Arc<Connected>,
        layered: Layered<Stream>,
        mut facts: Facts,
    ) -> Connection<Stream> {
        facts.extend(self.layer.facts(self.end));
        Connection::new(socket, layered, self.end, facts, self.sockets.multipath)
    }

    /// Accepts a pending connection; `None` if that was closed again, or is not of the announced peer.
    fn admit(
        &self,
        listener: &Socket,
        stop: &Stop,
        arrived: &mut impl FnMut(),
    ) -> Result<Option<Accepted<Connection<Stream>>>> {
        let failed = || TransportError::io(reason::cannot_accept());
        let nobody = [
            io::ErrorKind::WouldBlock,
            io::ErrorKind::ConnectionAborted,
            io::ErrorKind::Interrupted,
        ];
        let (socket, address) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) if nobody.contains(&error.kind()) => return Ok(None),
            Err(error) => return Err(failed()(error)),
        };
        if address.as_socket().map(|address| address.ip()) != Some(self.peer) {
            return Ok(None);
        }
        arrived();
        let socket = Arc::new(Connected(socket));
        stop.on_stop(&socket);
        // Before a handshake of TLS, which moves the congestion window.
        let facts = self.sockets.facts(socket.0.as_fd())?;
        let set = socket.0.set_nonblocking(false);
        // What this end sends is answers and the acknowledgement.
        let set = set.and_then(|()| socket.0.set_tcp_nodelay(true));
        let opened = set.map_err(failed()).and_then(|()| {
            let until = MonotonicTime::now() + HANDSHAKE_TIME;
            self.layer.open(Arc::clone(&socket), true, until)
        });
        match opened {
            Ok(layered) => {
                let connection = self.connection(&socket, layered, facts);
                Ok(Some(Accepted::Connection(connection)))
            }
            Err(error) if stop.is_stopped() => Err(error),
            Err(error) => Ok(Some(Accepted::Failed(error))),
        }
    }
}

impl StreamEndpoint for Endpoint {
    type Connection = Connection<Stream>;
    type Executor = Blocking;

    fn executor(&self) -> &Blocking {
        &Blocking
    }

    fn listen_address(&self) -> Option<SocketAddr> {
        self.listener.as_ref().map(|(_, address)| *address)
    }

    async fn connect(
        &self,
        peer: SocketAddr,
        purpose: Purpose,
        until: MonotonicTime,
        stop: &Stop,
    ) -> Result<Self::Connection> {
        let socket = self.sockets.connect(peer, until, stop)?;
        // A probe's message must leave at once. The transfer keeps the kernel's default, so that
        // small messages share packets, and pushes its last one.
        let holds_back = purpose == Purpose::Transfer && !self.sockets.options.no_delay;
        if !holds_back {
            let failed = TransportError::io(reason::cannot_set("TCP_NODELAY"));
            socket.0.set_tcp_nodelay(true).map_err(failed)?;
        }
        let facts = self.sockets.facts(socket.0.as_fd())?;
        let layered = self.layer.open(Arc::clone(&socket), holds_back, until)?;
        let connection = self.connection(&socket, layered, facts);
        if purpose != Purpose::Transfer {
            connection.lift_rate();
        }
        if let (Some(paths), Some(time)) = (&self.paths, self.down_after)
            && purpose == Purpose::Transfer
        {
            paths.take_down_after(time, stop);
        }
        Ok(connection)
    }

    async fn accept(
        &self,
        until: MonotonicTime,
        stop: &Stop,
        arrived: &mut (impl FnMut() + Send),
    ) -> Result<Accepted<Self::Connection>> {
        let Some((listener, _)) = &self.listener else {
            return Err(TransportError::protocol(reason::sender_does_not_listen()));
        };
        let mut admit = || self.admit(listener, stop, arrived);
        wait::for_next(listener, reason::connection(), until, stop, &mut admit)
    }

    fn warnings(&self) -> Vec<Warning> {
        self.warnings.clone()
    }
}
