//! The example of "Add a driver" in `CONTRIBUTING.md`: TCP with nothing but the standard library.
//!
//! It leaves out what a real driver has: a congestion control that is set and read back, and the
//! stack's own statistics. The whole contract is held to it all the same.

#[path = "example_driver/transfer.rs"]
mod transfer;

use std::{
    collections::BTreeMap,
    io::{ErrorKind, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use regatta_control::{Role, TrialOrder};
use regatta_model::{Facts, IpProtocol, OptionValue, StackFacts, Text, reason, stack};
use regatta_transport::{
    Abort, Accepted, Blocking, ByteStream, Carries, Client, ClientSession, Driver,
    DriverDescriptor, Endpoint, MonotonicTime, ProtocolSample, Purpose, Received, Server,
    ServerSession, StatisticsSource, Stop, StreamConnection, StreamSession, TransportError,
    TrialContext, Unsupported,
};

/// Interval at which a waiting accept looks for a connection and for its stop.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

// 1. What the registry shows, and which options a study may set.
static DESCRIPTOR: DriverDescriptor = DriverDescriptor {
    name: "tcp-std",
    title: "TCP of the standard library",
    summary: "the example of a driver",
    ip_protocol: Some(IpProtocol::Tcp),
    carries: Carries::Streams,
    reliable: true,
    encrypted: false,
    multiplexes: false,
    congestion_control_choosable: false,
    capabilities: &[],
    stack: "Linux kernel",
    stack_version: "",
    options: &[],
    metrics: &[],
};

struct TcpStd;

impl Driver for TcpStd {
    fn descriptor(&self) -> &'static DriverDescriptor {
        &DESCRIPTOR
    }

    // Checks here whether the host can run it: if not, the cell is *unsupported*, with the reason.
    fn supported(&self, _: &BTreeMap<String, OptionValue>) -> Result<(), Unsupported> {
        Ok(())
    }

    fn client(
        &self,
        order: &TrialOrder,
        context: TrialContext,
    ) -> Result<Box<dyn ClientSession>, TransportError> {
        let end = TcpEnd::client(order);
        Ok(StreamSession::new(end, order, context)?)
    }

    fn server(
        &self,
        order: &TrialOrder,
        context: TrialContext,
    ) -> Result<Box<dyn ServerSession>, TransportError> {
        let end = TcpEnd::server(order)?;
        Ok(StreamSession::new(end, order, context)?)
    }
}

// 2. The two ends, with what only one of them has. The server listens from the moment when it is made.
struct TcpEnd<R> {
    role: R,
    end: Role,
}

struct Connecting;

struct Listening {
    listener: TcpListener,
    address: SocketAddr,
    peer: std::net::IpAddr,
}

impl TcpEnd<Connecting> {
    fn client(order: &TrialOrder) -> Self {
        Self {
            role: Connecting,
            end: order.role,
        }
    }
}

impl TcpEnd<Listening> {
    fn server(order: &TrialOrder) -> Result<Self, TransportError> {
        let listen = || {
            let listener = TcpListener::bind((order.local, 0))?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok(Listening {
                listener,
                address,
                peer: order.peer,
            })
        };
        Ok(Self {
            role: listen().map_err(TransportError::io(reason::cannot_listen()))?,
            end: order.role,
        })
    }
}

impl<R: Send + Sync + 'static> Endpoint for TcpEnd<R> {
    type Connection = Connection;
    type Executor = Blocking;

    fn executor(&self) -> &Blocking {
        &Blocking
    }

    // What a reader must know to compare this stack with others: a value, or why there is none.
    fn facts(&self) -> Facts {
        let unknown = || Text::from(format!("{}: std does not tell it", stack::NOT_KNOWN));
        let stated = StackFacts {
            initial_window: unknown(),
            slow_start_exit: unknown(),
            pacing: unknown(),
            packet_size: unknown(),
            first_flight: "not applicable: a SYN carries no data".into(),
            cipher: "none".into(),
            crypto: "none".into(),
            key_exchange: stack::no_tls(),
            certificate: stack::no_tls(),
            threads: stack::KERNEL_THREAD.into(),
            offloads: stack::OF_INTERFACE.into(),
            acknowledgements: unknown(),
            flow_control: "tuned by the kernel".into(),
        };
        let end = self.end.name();
        let mut facts = stated.of_end(end);
        facts.insert(format!("congestion_control.{end}"), unknown());
        facts
    }
}

// A blocking driver: its async functions never yield. An asynchronous one holds a
// current-thread runtime and runs the future on it.

impl Client for TcpEnd<Connecting> {
    async fn connect(
        &self,
        peer: SocketAddr,
        _: Purpose,
        until: MonotonicTime,
        stop: &Stop,
    ) -> Result<Connection, TransportError> {
        let socket = TcpStream::connect_timeout(&peer, until.remaining()).map_err(
            TransportError::io(reason::cannot_connect(&peer.to_string())),
        )?;
        Connection::new(socket, stop)
    }
}

impl Server for TcpEnd<Listening> {
    fn address(&self) -> SocketAddr {
        self.role.address
    }

    async fn accept(
        &self,
        until: MonotonicTime,
        stop: &Stop,
        admit: &mut (impl FnMut(&[u8]) -> bool + Send),
    ) -> Result<Accepted<Connection>, TransportError> {
        let begun = MonotonicTime::now();
        loop {
            match self.role.listener.accept() {
                // Data ports are for the announced peer alone.
                Ok((_, address)) if address.ip() != self.role.peer => {}
                Ok((socket, _)) => {
                    admit(&[]);
                    return Connection::new(socket, stop).map(Accepted::Connection);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if stop.wait_until(MonotonicTime::now() + POLL_INTERVAL) {
                        return Err(TransportError::Cancelled);
                    }
                    if until.has_passed() {
                        return Err(TransportError::timed_out_since(reason::connection(), begun));
                    }
                }
                Err(error) => return Err(TransportError::io(reason::cannot_accept())(error)),
            }
        }
    }
}

// 3. A connection, with one stream, since TCP does not multiplex.
struct Connection {
    socket: Arc<Socket>,
    taken: AtomicBool,
}

struct Socket(TcpStream);

// Blocked calls return when the trial is stopped, at its deadline for instance.
impl Abort for Socket {
    fn abort(&self) {
        // A socket that is not connected any more needs no waking.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

impl Connection {
    fn new(socket: TcpStream, stop: &Stop) -> Result<Self, TransportError> {
        socket
            .set_nonblocking(false)
            .and_then(|()| socket.set_nodelay(true))
            .map_err(TransportError::io(reason::cannot_set_up_connection()))?;
        let socket = Arc::new(Socket(socket));
        stop.on_stop(&socket);
        Ok(Self {
            socket,
            taken: AtomicBool::new(false),
        })
    }
}

impl StreamConnection for Connection {
    type Stream = Stream;

    async fn open_stream(&self) -> Result<Stream, TransportError> {
        if self.taken.swap(true, Ordering::Relaxed) {
            return Err(TransportError::Protocol {
                what: reason::one_tcp_stream(),
            });
        }
        Ok(Stream(Arc::clone(&self.socket)))
    }

    async fn accept_stream(&self, _: MonotonicTime) -> Result<Stream, TransportError> {
        self.open_stream().await
    }

    // Values that the stack does not report are absent from the results, never zero.
    fn statistics(&self) -> Arc<dyn StatisticsSource> {
        struct Nothing;
        impl StatisticsSource for Nothing {
            fn sample(&self) -> Option<ProtocolSample> {
                Some(ProtocolSample::default())
            }
        }
        Arc::new(Nothing)
    }

    async fn close(self, _: MonotonicTime) {}
}

// 4. The stream: the workloads are written once against this.
struct Stream(Arc<Socket>);

impl ByteStream for Stream {
    async fn send_message(&mut self, header: &[u8], payload: &Bytes) -> Result<(), TransportError> {
        let mut socket = &self.0.0;
        socket
            .write_all(header)
            .and_then(|()| socket.write_all(payload))
            .map_err(TransportError::io(reason::cannot_send()))
    }

    async fn flush(&mut self) -> Result<(), TransportError> {
        Ok(())
    }

    async fn receive(
        &mut self,
        scratch: &mut [u8],
        until: MonotonicTime,
        consume: &mut (impl FnMut(&[u8]) + Send),
    ) -> Result<Received, TransportError> {
        let failed = || TransportError::io(reason::cannot_receive());
        // A time limit of zero would mean none.
        let limit = (until != MonotonicTime::NEVER)
            .then(|| until.remaining().max(Duration::from_micros(1)));
        let mut socket = &self.0.0;
        socket.set_read_timeout(limit).map_err(failed())?;
        match socket.read(scratch) {
            Ok(0) => Ok(Received::Closed),
            Ok(received) => {
                consume(&scratch[..received]);
                Ok(Received::Bytes(received))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Received::TimedOut),
            Err(error) => Err(failed()(error)),
        }
    }

    async fn finish(&mut self) -> Result<(), TransportError> {
        self.0
            .0
            .shutdown(Shutdown::Write)
            .map_err(TransportError::io(reason::cannot_finish_sending()))
    }
}

// 5. The contract of every driver, one test for each clause: sizes from one byte up, deadline,
// vanished peers, strangers.
regatta_test_contract::contract_tests! { tcp_std: streams => &TcpStd }
