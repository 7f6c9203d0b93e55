//! One client of a server: handshake, turn, session.

use std::{
    io,
    net::{IpAddr, SocketAddr, TcpStream},
    os::unix::net::UnixStream,
    sync::{Arc, OnceLock},
    thread,
    time::{Duration, Instant},
};

use regatta_agent::ServedLimits;
use regatta_bed::session::serve_client;
use regatta_model::units::nanoseconds;
use regatta_process::write_line;
use rustls::{Connection, ServerConnection};
use socket2::SockRef;

use super::{
    AGENT_COMMAND, Server,
    queue::{QueueError, QueueSlot},
};
use crate::{
    commands::client::events::ClientEvent,
    pinned_tls::{Hello, handshake, relay, set_up},
};

/// Longest silence of a client: one that is longer has lost its network, and its turn.
const SILENCE: Duration = Duration::from_secs(4);

/// Longest time for the TLS handshake, some of whose packets may have to be sent again.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(20);

/// Number of events that a client may have written whatever the length of its turn.
const EVENTS: u64 = 1000;

/// Number of further events for each second of the client's turn.
const EVENTS_PER_SECOND: u64 = 20;

/// Client that has shown that it knows the secret.
pub struct Client {
    pub stream: Arc<TcpStream>,
    pub address: SocketAddr,
    /// Number among the clients of the server.
    pub number: u64,
}

impl Client {
    /// Serves the client to its end, and writes how it ended.
    pub fn run(self, server: &Server<'_>) {
        let (number, address) = (self.number, self.address);
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        let error = self.serve(server, address).err();
        let error = error.map_or_else(String::new, |error| format!(": {error}"));
        server.note(number, &format!("{address} has ended{error}"));
    }

    fn serve(self, server: &Server<'_>, address: SocketAddr) -> io::Result<()> {
        let mut tls = self.handshake(server)?;
        let local = self.stream.local_addr()?.ip().to_canonical();
        let deadline = Arc::<OnceLock<Instant>>::default();
        let (mut local_end, relay_end) = UnixStream::pair()?;
        let (tcp, relay_deadline) = (self.stream, Arc::clone(&deadline));
        let relay = thread::Builder::new()
            .name("tls".into())
            .spawn(move || relay(&mut tls, &tcp, &relay_end, &relay_deadline))?;
        let served = match acquire_slot(server, self.number, &mut local_end) {
            Ok(turn) => {
                server.note(self.number, &format!("{address} measures"));
                // Set once, here.
                let _ = deadline.set(Instant::now() + server.args.max_time);
                let served = session(server, self.number, local_end, (local, address.ip()));
                drop(turn);
                served
            }
            Err(QueueError::Full) => {
                let most = server.args.max_clients;
                let reason = format!("the server has as many clients as it takes ({most})");
                let error = io::Error::other(&*reason);
                write_line(&mut local_end, &Hello::Refused { reason })?;
                drop(local_end);
                Err(error)
            }
            Err(QueueError::Disconnected) => Err(io::Error::other("it left while it waited")),
        };
        let relayed = relay.join().unwrap_or(Ok(()));
        if deadline.get().is_some_and(|at| Instant::now() >= *at) {
            return Err(io::Error::other("its time was over (`--max-time`)"));
        }
        served.and(relayed.or_else(|error| match error.kind() {
            // A client that has what it wants closes at once.
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Ok(()),
            _ => Err(error),
        }))
    }

    fn handshake(&self, server: &Server<'_>) -> io::Result<Connection> {
        let _under_way = server.handshakes.begin(self.number, &self.stream);
        let tls = ServerConnection::new(Arc::clone(&server.tls));
        let mut tls = Connection::Server(tls.map_err(io::Error::other)?);
        handshake(&mut tls, &self.stream, Instant::now() + HANDSHAKE_TIMEOUT)?;
        set_up(&SockRef::from(&*self.stream), SILENCE)?;
        Ok(tls)
    }
}

/// Tells a client the limits, and waits for its turn.
fn acquire_slot<'a>(
    server: &'a Server<'_>,
    number: u64,
    client: &mut UnixStream,
) -> Result<QueueSlot<'a>, QueueError> {
    let limits = Hello::Limits {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        max_time_ns: nanoseconds(server.args.max_time),
        max_bytes: server.max_bytes(),
    };
    write_line(client, &limits).map_err(|_| QueueError::Disconnected)?;
    let queue = &server.queue;
    queue.enter(number, |ahead| {
        write_line(client, &Hello::Waiting { ahead })
    })
}

/// Serves the session of a client on the thread with which its agents end.
fn session(
    server: &Server<'_>,
    number: u64,
    client: UnixStream,
    (local, peer): (IpAddr, IpAddr),
) -> io::Result<()> {
    let limits = ServedLimits {
        local,
        peer,
        ports: server.data_ports,
        max_bytes: server.max_bytes(),
    };
    let agent = vec![AGENT_COMMAND.to_owned(), serde_json::to_string(&limits)?];
    let events = server.events.clone();
    let started_at = Instant::now();
    let mut received = 0;
    let on_line = move |line: &str| {
        received += 1;
        if received > EVENTS + EVENTS_PER_SECOND * started_at.elapsed().as_secs() {
            return;
        }
        if let Ok(event) = serde_json::from_str::<ClientEvent>(line) {
            events.write(number, &event);
        }
    };
    let on_line = Box::new(on_line);
    serve_client(client, server.executable, agent, SILENCE, on_line)
}
