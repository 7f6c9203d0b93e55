//! Listening and connecting, over any layer.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    os::fd::AsFd,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use regatta_control::TrialOrder;
use regatta_model::{Facts, Warning, reason, warning};
use regatta_transport::{
    self as transport, Accepted, Blocking, Client, MonotonicTime, Purpose, Result, Server, Stop,
    StreamConnection as _, TransportError, wait,
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

/// Minimum time that the layer's handshake may take on an accepted connection. It may take as long as the connecting end
/// waits for it.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// One end of a trial over TCP, with what only its role has.
pub struct Endpoint<R> {
    layer: Layer,
    /// `sender` or `receiver`.
    end: &'static str,
    sockets: Sockets,
    warnings: Vec<Warning>,
    role: R,
}

/// Role of the end that connects.
pub struct Connecting {
    /// Addresses of further subflows of MPTCP.
    paths: Option<Arc<Paths>>,
    /// Time after the transfer's connection at which these are removed.
    down_after: Option<Duration>,
}

/// Role of the end that listens.
pub struct Listening {
    peer: IpAddr,
    listener: Socket,
    address: SocketAddr,
    /// Maximum duration of the layer's handshake.
    handshake_within: Duration,
    /// Sockets whose handshakes took longer. Closing one would break a flow whose packets the path loses for so long, and which
    /// then runs out of time at the other end.
    late: Mutex<Vec<Arc<Connected>>>,
}

impl Endpoint<Connecting> {
    /// Makes the end that connects.
    pub(crate) fn client(order: &TrialOrder, sockets: Sockets, layer: Layer) -> Self {
        let role = Connecting {
            paths: None,
            down_after: None,
        };
        Self::new(order, sockets, layer, role)
    }

    /// Makes the end that connects over MPTCP, with a subflow from each further address of this end's interface.
    pub(crate) fn multipath(
        order: &TrialOrder,
        sockets: Sockets,
        down_after: Option<Duration>,
    ) -> Result<Self> {
        let mut endpoint = Self::client(order, sockets, Layer::Plain { zero_copy: false });
        endpoint.role.down_after = down_after;
        let local = order.local;
        let addresses = mptcp::further_addresses(local);
        if addresses.is_empty() {
            let warning = warning::mptcp_one_path(&local.to_string());
            endpoint.warnings.push(warning);
        } else {
            endpoint.role.paths = Some(Paths::add(&addresses)?);
        }
        Ok(endpoint)
    }
}

impl<R> Endpoint<R> {
    fn new(order: &TrialOrder, sockets: Sockets, layer: Layer, role: R) -> Self {
        Self {
            layer,
            end: order.role.name(),
            warnings: sockets.warnings(),
            sockets,
            role,
        }
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
}

impl Endpoint<Listening> {
    /// Creates the listening end. Its socket listens when this returns.
    pub(crate) fn server(order: &TrialOrder, sockets: Sockets, layer: Layer) -> Result<Self> {
        let (listener, address) = sockets.listen()?;
        let role = Listening {
            peer: order.peer,
            listener,
            address,
            handshake_within: order.connect_deadline.max(HANDSHAKE_TIME),
            late: Mutex::default(),
        };
        Ok(Self::new(order, sockets, layer, role))
    }

    /// Accepts a pending connection; `None` if that was closed again, or is not of the announced peer.
    fn accept_pending(
        &self,
        stop: &Stop,
        admit: &mut impl FnMut(&[u8]) -> bool,
    ) -> Result<Option<Accepted<Connection<Stream>>>> {
        let failed = || TransportError::io(reason::cannot_accept());
        let nobody = [
            io::ErrorKind::WouldBlock,
            io::ErrorKind::ConnectionAborted,
            io::ErrorKind::Interrupted,
        ];
        let (socket, address) = match self.role.listener.accept() {
            Ok(accepted) => accepted,
            Err(error) if nobody.contains(&error.kind()) => return Ok(None),
            Err(error) => return Err(failed()(error)),
        };
        if address.as_socket().map(|address| address.ip()) != Some(self.role.peer) {
            return Ok(None);
        }
        admit(&[]);
        let socket = Arc::new(Connected(socket));
        stop.on_stop(&socket);
        // Before a handshake of TLS, which moves the congestion window.
        let facts = self.sockets.facts(socket.0.as_fd())?;
        let set = socket.0.set_nonblocking(false);
        // What this end sends is answers and the acknowledgement.
        let set = set.and_then(|()| socket.0.set_tcp_nodelay(true));
        let opened = set.map_err(failed()).and_then(|()| {
            let until = MonotonicTime::now() + self.role.handshake_within;
            self.layer.open(Arc::clone(&socket), true, until)
        });
        match opened {
            Ok(layered) => {
                let connection = self.connection(&socket, layered, facts);
                Ok(Some(Accepted::Connection(connection)))
            }
            Err(error) if stop.is_stopped() => Err(error),
            Err(error) => {
                if matches!(error, TransportError::TimedOut { .. }) {
                    self.role.late.lock().push(socket);
                }
                Ok(Some(Accepted::Failed(error)))
            }
        }
    }
}

impl<R: Send + Sync + 'static> transport::Endpoint for Endpoint<R> {
    type Connection = Connection<Stream>;
    type Executor = Blocking;

    fn executor(&self) -> &Blocking {
        &Blocking
    }

    fn warnings(&self) -> Vec<Warning> {
        self.warnings.clone()
    }
}

impl Client for Endpoint<Connecting> {
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
        if let (Some(paths), Some(time)) = (&self.role.paths, self.role.down_after)
            && purpose == Purpose::Transfer
        {
            paths.take_down_after(time, stop);
        }
        Ok(connection)
    }
}

impl Server for Endpoint<Listening> {
    fn address(&self) -> SocketAddr {
        self.role.address
    }

    async fn accept(
        &self,
        until: MonotonicTime,
        stop: &Stop,
        admit: &mut (impl FnMut(&[u8]) -> bool + Send),
    ) -> Result<Accepted<Self::Connection>> {
        let mut accept = || self.accept_pending(stop, admit);
        let listener = &self.role.listener;
        wait::for_next(listener, reason::connection(), until, stop, &mut accept)
    }
}
