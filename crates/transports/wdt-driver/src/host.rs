//! Host of a transfer in a trial: sets up and reads back its sockets as those of `tcp`, admits one
//! peer, samples every connection and shuts all of them down when the trial is stopped.

use std::{
    io,
    net::{IpAddr, SocketAddr, TcpStream},
    os::fd::{AsFd, BorrowedFd},
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use regatta_model::Facts;
use regatta_transport::{
    Abort, ProtocolSample, StatisticsSource, Stop, TransportError, transfer::Connections,
};
use regatta_transport_tcp::parts::{self, Settings};
use socket2::SockRef;
use wdt_protocol::{host::Host, waker::Wakers};

/// Host of a transfer under way.
pub(crate) struct TrialHost<'a> {
    /// Host of the sockets, whether or not there is a transfer.
    sockets: &'a dyn Host,
    settings: &'a Settings,
    connections: &'a Arc<Connections>,
    stop: &'a Stop,
    /// Handles of the connections, so that a stop reaches them: it holds weak references only.
    handles: Mutex<Vec<Arc<Handle>>>,
    /// Threads that a stop wakes, for the same reason.
    threads: OnceLock<Arc<Threads>>,
    /// Error of a socket, which the transfer cannot know.
    wrong: Mutex<Option<TransportError>>,
}

impl<'a> TrialHost<'a> {
    pub(crate) fn new(
        sockets: &'a dyn Host,
        settings: &'a Settings,
        connections: &'a Arc<Connections>,
        stop: &'a Stop,
    ) -> Self {
        Self {
            sockets,
            settings,
            connections,
            stop,
            handles: Mutex::default(),
            threads: OnceLock::new(),
            wrong: Mutex::default(),
        }
    }

    pub(crate) fn wrong(&self) -> Option<TransportError> {
        self.wrong.lock().take()
    }
}

impl Host for TrialHost<'_> {
    fn begins(&self, wakers: &Wakers) {
        let threads = self
            .threads
            .get_or_init(|| Arc::new(Threads(wakers.clone())));
        self.stop.on_stop(threads);
    }

    fn opened(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.sockets.opened(socket)
    }

    fn local(&self) -> Option<SocketAddr> {
        self.sockets.local()
    }

    fn admits(&self, peer: IpAddr) -> bool {
        self.sockets.admits(peer)
    }

    fn arrived(&self) {
        self.connections.arrived();
    }

    fn connected(&self, _port: u16, socket: &Arc<TcpStream>, took: Option<Duration>) {
        let facts = match self.settings.facts(socket.as_fd()) {
            Ok(facts) => facts,
            Err(error) => {
                self.wrong.lock().get_or_insert(error);
                return self.stop.stop();
            }
        };
        let handle = Arc::new(Handle {
            socket: Arc::downgrade(socket),
            facts,
        });
        self.stop.on_stop(&handle);
        self.handles.lock().push(Arc::clone(&handle));
        self.connections.made(handle, took);
    }

    fn closing(&self, _port: u16, _socket: &Arc<TcpStream>) {
        self.connections.remember();
    }

    fn stopped(&self) -> bool {
        self.stop.is_stopped()
    }
}

/// Threads of the transfer.
struct Threads(Wakers);

impl Abort for Threads {
    fn abort(&self) {
        self.0.wake();
    }
}

/// Handle of a connection, valid while the transfer keeps that open.
struct Handle {
    socket: Weak<TcpStream>,
    facts: Facts,
}

impl StatisticsSource for Handle {
    fn sample(&self) -> Option<ProtocolSample> {
        parts::sample(&self.socket.upgrade()?)
    }

    fn facts(&self) -> Facts {
        self.facts.clone()
    }
}

impl Abort for Handle {
    fn abort(&self) {
        if let Some(socket) = self.socket.upgrade() {
            parts::abort(&SockRef::from(&*socket));
        }
    }
}
