//! One end of the stack in one trial as a [`StreamEndpoint`].

use std::{
    collections::BTreeMap,
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use regatta_control::{Role, TrialOrder};
use regatta_model::{Handshake, Warning};
use regatta_transport::{
    MonotonicTime, Purpose, StreamEndpoint, TransportError, stop::Stop, stream::Accepted,
};
use regatta_transport_tls::{HandshakeWatch, Resumption};
use tokio::sync::{Mutex, mpsc};

use regatta_transport_quic_common::{
    facts::stack_facts, files::Files, options::Mode, path::LEAST_PAYLOAD_BYTES,
};
use regatta_transport_sockets::{
    executor::Tokio,
    socket::{self, Buffers, Counters},
    timer,
    wait::{timed_out, within},
};

use crate::{
    connection::{Beginning, Closer, DONE, QuicConnection, Shared},
    drops::Drops,
    figures::Offload,
    migration::Migration,
    options::{Needs, Options},
    runtime::WatchingRuntime,
    stack::{
        self,
        quic::{
            ClientConfig, Connecting, Connection, ConnectionError, Endpoint, EndpointConfig,
            Incoming, ServerConfig, TransportConfig,
        },
    },
    tls::{client_config, resumption, server_config},
    watch::Watch,
};

/// End of a trial: its runtime, its socket, its configuration.
pub struct QuicEndpoint {
    runtime: Tokio,
    stack_runtime: Arc<WatchingRuntime>,
    endpoint: Endpoint,
    peer: IpAddr,
    listen: Option<SocketAddr>,
    server_name: String,
    /// Configuration of the connecting end, including its tickets.
    client: Option<ClientConfig>,
    /// Configuration of the listening end.
    server: Option<ServerConfig>,
    handshake: Handshake,
    connect_deadline: Duration,
    options: Options,
    needs: Needs,
    attempts: Attempts,
    buffers: Buffers,
    facts: BTreeMap<String, String>,
    shared: Arc<Shared>,
}

/// Accepted connection.
pub(crate) struct Attempt {
    pub(crate) connection: Connection,
    pub(crate) watch: Arc<Watch>,
    /// First message of the connection, in datagram mode.
    pub(crate) first: Option<Bytes>,
}

/// Concurrent handshakes of the listening end, and a queue of their results.
struct Attempts {
    done: mpsc::UnboundedSender<Result<Attempt, TransportError>>,
    /// Receiver of the results; each caller that waits for a connection takes the next.
    next: Mutex<mpsc::UnboundedReceiver<Result<Attempt, TransportError>>>,
}

impl fmt::Debug for QuicEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuicEndpoint")
            .field("end", &self.shared.end)
            .field("listen", &self.listen)
            .finish_non_exhaustive()
    }
}

impl QuicEndpoint {
    /// Creates the end of a trial that the order describes; a listening end listens when this
    /// returns.
    ///
    /// # Errors
    /// [`TransportError::Unsupported`] for a path with too small packets, [`TransportError::Order`]
    /// for TLS material that cannot be read, [`TransportError::Io`] for a socket that cannot be
    /// opened or a file that cannot be made.
    pub fn new(order: &TrialOrder) -> Result<Self, TransportError> {
        let options = Options::read(&order.transport.options);
        let needs = Needs::of(order, &options)?;
        let sizes = &needs.sizes;
        let files = Files::new(order, options.common.key_log, options.event_log);
        let (mut client, mut server) = (None, None);
        if order.connects() {
            client = Some(client_config(order, &files, options.crypto)?);
        } else {
            server = Some(server_config(order, &files, options.crypto)?);
        }

        let (receive, send) = sizes.socket_buffers_bytes;
        let (socket, buffers) = socket::bind(order.local, order.ports, receive, send)?;
        let drops = Arc::new(Drops::new(
            Counters::of(&socket).map_err(TransportError::io("cannot copy a descriptor"))?,
        ));
        let runtime = Tokio::new()?;
        let stack_runtime = Arc::new(WatchingRuntime::default());
        let made = || -> io::Result<(Endpoint, Offload)> {
            let _inside = runtime.enter();
            let (socket, offload) = stack::wrap(socket, sizes.most_segments())?;
            let mut config = EndpointConfig::default();
            config
                .max_udp_payload_size(sizes.payload_bytes)
                .map_err(io::Error::other)?;
            let endpoint = Endpoint::new_with_abstract_socket(
                config,
                server.clone(),
                socket,
                Arc::<WatchingRuntime>::clone(&stack_runtime),
            )?;
            Ok((endpoint, offload))
        };
        let (endpoint, offload) =
            made().map_err(TransportError::io("cannot make a QUIC endpoint"))?;
        let address = endpoint
            .local_addr()
            .map_err(TransportError::io("cannot read the address of the socket"))?;

        let migration = options
            .migrate_after
            .filter(|_| order.connects())
            .map(|after| {
                Migration::new(
                    after,
                    order.local,
                    sizes.socket_buffers_bytes,
                    sizes.most_segments(),
                    Arc::clone(&drops),
                )
            });
        let handshake = order.workload.kind.handshake();
        let (done, next) = mpsc::unbounded_channel();
        Ok(Self {
            runtime,
            stack_runtime,
            endpoint,
            peer: order.peer,
            listen: (!order.connects()).then_some(address),
            server_name: order.tls.server_name.clone(),
            client,
            server,
            handshake,
            connect_deadline: order.connect_deadline,
            options,
            needs,
            attempts: Attempts {
                done,
                next: Mutex::new(next),
            },
            buffers,
            facts: facts(order, &options, &needs, buffers, offload),
            shared: Arc::new(Shared {
                end: order.role.name(),
                initial_payload_bytes: if options.common.mtu_discovery {
                    LEAST_PAYLOAD_BYTES
                } else {
                    needs.sizes.payload_bytes
                },
                drops,
                files,
                retries: handshake == Handshake::Retry,
                sizes: needs.sizes,
                migration,
            }),
        })
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn listens(&self) -> Option<SocketAddr> {
        self.listen
    }

    /// Returns the maximum duration of a handshake.
    pub(crate) fn handshake_limit(&self) -> Duration {
        self.connect_deadline
    }

    /// Returns the UDP payload of the connection's first full packets, in bytes.
    pub(crate) fn least_payload_bytes(&self) -> u16 {
        self.shared.initial_payload_bytes
    }

    /// Returns the facts that are known before any connection, keyed by the full name of the fact.
    pub(crate) fn facts_of_end(&self) -> BTreeMap<String, String> {
        self.facts.clone()
    }

    /// Returns the warnings about this end for the reader of the results.
    pub(crate) fn warnings_of_end(&self) -> Vec<Warning> {
        let buffer = self.buffers.warning(self.shared.end);
        [buffer, self.shared.files.warning(), self.needs.warning()]
            .into_iter()
            .flatten()
            .collect()
    }

    /// Returns the transport configuration for a new connection, and the watch on its congestion
    /// control.
    fn transport(&self) -> Result<(Arc<TransportConfig>, Arc<Watch>), TransportError> {
        let watch = Arc::new(Watch::default());
        let mut transport = self.options.transport(&self.needs, &watch);
        if let Some(log) = self.shared.files.next_event_log()? {
            stack::log_events(&mut transport, log);
        }
        Ok((Arc::new(transport), watch))
    }

    /// Connects; returns when the handshake is done, or early data can be sent.
    ///
    /// # Errors
    /// Errors of the stack; [`TransportError::TimedOut`] at `moment`.
    pub(crate) async fn establish(
        &self,
        peer: SocketAddr,
        moment: MonotonicTime,
        stop: &Stop,
    ) -> Result<(Connection, Arc<Watch>, Beginning), TransportError> {
        let since = MonotonicTime::now();
        let what = || format!("cannot connect to `{}`", peer.ip());
        let mut client = self.client.clone().ok_or_else(|| TransportError::Order {
            what: "a listening end does not connect".to_owned(),
        })?;
        if peer.ip().to_canonical() != self.peer.to_canonical() {
            return Err(TransportError::Order {
                what: format!("`{}` is not the announced peer `{}`", peer.ip(), self.peer),
            });
        }
        let (transport, watch) = self.transport()?;
        client.transport_config(transport);
        let connect = || self.endpoint.connect_with(client, peer, &self.server_name);
        let (mut connecting, mut beginning) = match resumption(self.handshake) {
            Resumption::Off => (connect(), Beginning::Full),
            _ => {
                let handshake = Arc::new(HandshakeWatch::default());
                let connecting = self.stack_runtime.watched(&handshake, connect);
                (connecting, Beginning::Ticket(handshake))
            }
        };
        if let (Handshake::EarlyData, Beginning::Ticket(handshake)) = (self.handshake, &beginning) {
            match connecting.map(Connecting::into_0rtt) {
                Ok(Ok((connection, accepted))) => {
                    beginning = Beginning::early(accepted, Arc::clone(handshake));
                    return Ok((connection, watch, beginning));
                }
                // There is no ticket yet.
                Ok(Err(whole)) => connecting = Ok(whole),
                Err(error) => connecting = Err(error),
            }
        }
        let connecting = connecting.map_err(TransportError::stack(what()))?;
        let connected =
            stop.unless_raised(async { connecting.await.map_err(TransportError::stack(what())) });
        match within(moment, connected).await {
            Some(connection) => Ok((connection?, watch, beginning)),
            None => Err(timed_out(
                format!("QUIC handshake with `{}`", peer.ip()),
                since,
            )),
        }
    }

    /// Schedules this end's migration in mid-transfer, if the options ask for it and this is the
    /// transfer's first connection.
    pub(crate) fn schedule_migration(&self, closer: &Arc<Closer>) {
        let Some(due) = self.shared.migration.as_ref().and_then(Migration::due) else {
            return;
        };
        let (endpoint, shared) = (self.endpoint.clone(), Arc::clone(&self.shared));
        // Without a handle of the connection, which would keep it open.
        let closer = Arc::downgrade(closer);
        self.runtime.spawn(async move {
            timer::sleep_until(due).await;
            let open = closer
                .upgrade()
                .is_some_and(|closer| closer.connection.close_reason().is_none());
            if let (true, Some(migration)) = (open, &shared.migration) {
                migration.make(&endpoint);
            }
        });
    }

    /// Begins the handshake of an incoming attempt; its result is queued with the finished
    /// attempts.
    fn begin(&self, incoming: Incoming) -> Result<(), TransportError> {
        let from = incoming.remote_address().ip();
        let failed = move |error: ConnectionError| {
            TransportError::stack(format!("the QUIC handshake with `{from}` failed"))(error)
        };
        let (transport, watch) = self.transport()?;
        let accepted = match self.server.clone() {
            Some(mut server) => {
                server.transport_config(transport);
                incoming.accept_with(Arc::new(server))
            }
            None => incoming.accept(),
        };
        let connecting = match accepted {
            Ok(connecting) => connecting,
            Err(error) => {
                self.attempts.add(Err(failed(error)));
                return Ok(());
            }
        };
        let connecting = if self.handshake == Handshake::EarlyData {
            match connecting.into_0rtt() {
                // Early data is there before the handshake is done, and is answered at once.
                Ok((connection, _)) => {
                    self.established(connection, watch);
                    return Ok(());
                }
                Err(connecting) => connecting,
            }
        } else {
            connecting
        };
        let done = self.attempts.done.clone();
        let messages = self.options.common.mode == Mode::Datagram;
        self.runtime.spawn(async move {
            let attempt = match connecting.await {
                Ok(connection) if messages => first_message(connection, watch).await,
                Ok(connection) => Ok(Attempt {
                    connection,
                    watch,
                    first: None,
                }),
                Err(error) => Err(failed(error)),
            };
            // An endpoint that is gone takes none.
            let _ = done.send(attempt);
        });
        Ok(())
    }

    /// Queues a connection, which may be there before its handshake is done, as a finished attempt;
    /// in datagram mode, waits for its first message before.
    fn established(&self, connection: Connection, watch: Arc<Watch>) {
        if self.options.common.mode == Mode::Datagram {
            self.await_message(connection, watch);
            return;
        }
        let done = self.attempts.done.clone();
        // In its turn: connections whose packets came before have theirs first, to end their
        // handshakes and give their tickets before anybody closes them.
        self.runtime.spawn(async move {
            let _ = done.send(Ok(Attempt {
                connection,
                watch,
                first: None,
            }));
        });
    }

    /// Waits for a connection's next message in a task of its own.
    pub(crate) fn await_message(&self, connection: Connection, watch: Arc<Watch>) {
        let done = self.attempts.done.clone();
        self.runtime.spawn(async move {
            let _ = done.send(first_message(connection, watch).await);
        });
    }

    /// Returns the next finished attempt, and begins those that come in meanwhile.
    ///
    /// # Errors
    /// [`TransportError::Cancelled`], and errors that make listening impossible.
    pub(crate) async fn next_attempt(
        &self,
        stop: &Stop,
        arrived: &mut (impl FnMut() + Send),
    ) -> Result<Result<Attempt, TransportError>, TransportError> {
        stop.unless_raised(async {
            loop {
                tokio::select! {
                    biased;
                    Some(attempt) = self.attempts.take() => return Ok(attempt),
                    incoming = self.endpoint.accept() => {
                        let incoming = incoming.ok_or(TransportError::Closed {
                            flow: "QUIC endpoint",
                        })?;
                        self.meet(incoming, arrived)?;
                    }
                }
            }
        })
        .await
    }

    /// Begins an attempt of the announced peer, or sends it a Retry packet to validate its address;
    /// refuses any other peer.
    fn meet(
        &self,
        incoming: Incoming,
        arrived: &mut (impl FnMut() + Send),
    ) -> Result<(), TransportError> {
        if incoming.remote_address().ip().to_canonical() != self.peer.to_canonical() {
            incoming.refuse();
            return Ok(());
        }
        arrived();
        if self.handshake == Handshake::Retry && !incoming.remote_address_validated() {
            // One that may not be asked again has shown a token of somebody else.
            if let Err(refused) = incoming.retry() {
                refused.into_incoming().refuse();
            }
            return Ok(());
        }
        self.begin(incoming)
    }
}

impl Attempts {
    fn add(&self, attempt: Result<Attempt, TransportError>) {
        // The receiving half is beside it.
        let _ = self.done.send(attempt);
    }

    async fn take(&self) -> Option<Result<Attempt, TransportError>> {
        self.next.lock().await.recv().await
    }
}

async fn first_message(
    connection: Connection,
    watch: Arc<Watch>,
) -> Result<Attempt, TransportError> {
    let first = connection
        .read_datagram()
        .await
        .map_err(TransportError::stack("no QUIC datagram came"))?;
    Ok(Attempt {
        connection,
        watch,
        first: Some(first),
    })
}

fn facts(
    order: &TrialOrder,
    options: &Options,
    needs: &Needs,
    buffers: Buffers,
    offload: Offload,
) -> BTreeMap<String, String> {
    let send_packets = if options.common.gso {
        offload.send_packets
    } else {
        1
    };
    let end = order.role.name();
    let mut facts = options.common.facts(end, &needs.sizes, &buffers);
    let gso = Offload::in_words(send_packets);
    let gro = Offload::in_words(offload.receive_packets);
    let stated = stack_facts(
        &options.common,
        &needs.sizes,
        order.local,
        options.congestion_control.name(),
        options.crypto.name(),
        match order.role {
            Role::Sender => &gso,
            Role::Receiver => &gro,
        },
    );
    facts.extend(stated.of_end(end));
    facts.insert(format!("gso.{end}"), gso);
    facts.insert(format!("gro.{end}"), gro);
    facts
}

impl Drop for QuicEndpoint {
    fn drop(&mut self) {
        self.endpoint.close(DONE, b"done");
        self.runtime.send_the_rest();
    }
}

impl StreamEndpoint for QuicEndpoint {
    type Connection = QuicConnection;
    type Executor = Tokio;

    fn executor(&self) -> &Tokio {
        &self.runtime
    }

    fn listen_address(&self) -> Option<SocketAddr> {
        self.listens()
    }

    async fn connect(
        &self,
        peer: SocketAddr,
        purpose: Purpose,
        moment: MonotonicTime,
        stop: &Stop,
    ) -> Result<QuicConnection, TransportError> {
        let (connection, watch, beginning) = self.establish(peer, moment, stop).await?;
        let connection = QuicConnection::new(
            (connection, watch),
            Arc::clone(&self.shared),
            beginning,
            stop,
        );
        if purpose == Purpose::Transfer {
            self.schedule_migration(connection.closer());
        }
        Ok(connection)
    }

    async fn accept(
        &self,
        moment: MonotonicTime,
        stop: &Stop,
        arrived: &mut (impl FnMut() + Send),
    ) -> Result<Accepted<QuicConnection>, TransportError> {
        let since = MonotonicTime::now();
        let attempt = match within(moment, self.next_attempt(stop, arrived)).await {
            Some(attempt) => attempt?,
            None => return Err(timed_out("QUIC connection", since)),
        };
        let beginning = match resumption(self.handshake) {
            Resumption::Off => Beginning::Full,
            _ => Beginning::Unknown,
        };
        Ok(match attempt {
            Ok(Attempt {
                connection, watch, ..
            }) => Accepted::Connection(QuicConnection::new(
                (connection, watch),
                Arc::clone(&self.shared),
                beginning,
                stop,
            )),
            Err(error) => Accepted::Failed(error),
        })
    }

    fn facts(&self) -> BTreeMap<String, String> {
        self.facts_of_end()
    }

    fn warnings(&self) -> Vec<Warning> {
        self.warnings_of_end()
    }
}
