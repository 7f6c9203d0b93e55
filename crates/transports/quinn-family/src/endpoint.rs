//! One end of the stack in one trial.

use std::{
    future::{Future, ready},
    io,
    net::SocketAddr,
    sync::Arc,
};

use futures_util::FutureExt as _;
use regatta_control::{Role, TrialOrder};
use regatta_model::{Facts, Handshake, StackFacts, Warning, reason};
use regatta_transport::{
    self as transport, Accepted, Client, MonotonicTime, Purpose, Result, Server, TransportError,
    stop::Stop,
};
use regatta_transport_tls::{HandshakeWatch, uses_tickets};
use tokio::sync::{Mutex, mpsc};

use regatta_transport_quic_common::{
    facts::{self, first_flight, stack_facts},
    files::Files,
    handshake::complete,
    path::{MIN_PAYLOAD_BYTES, Sizes},
};
use regatta_transport_sockets::{
    endpoints::{self, ConnectionRole, EndBase, StreamEnd, check_peer},
    executor::Tokio,
    socket::{self, Counters},
    timer,
    wait::in_time,
};

use crate::{
    closer::{Closer, DONE, Shared},
    connection::{Beginning, QuicConnection},
    drops::Drops,
    migration::Migration,
    options::{Needs, Options},
    runtime::WatchingRuntime,
    stack::{
        self,
        quic::{
            ClientConfig, Connection, ConnectionError, Endpoint, EndpointConfig, Incoming,
            ServerConfig, TransportConfig,
        },
    },
    tls::{client_config, server_config},
    watch::Watch,
};

/// End of a trial: its runtime, its socket, and what only its role has.
pub struct QuicEndpoint<R> {
    role: R,
    order: TrialOrder,
    stack_runtime: Arc<WatchingRuntime>,
    endpoint: Endpoint,
    handshake: Handshake,
    options: Options,
    needs: Needs,
    pub(crate) shared: Arc<Shared>,
    /// With the runtime of the stack's tasks; the last field, so that it is dropped last.
    base: EndBase,
}

/// Role of the end that connects: its configuration, including its tickets.
pub struct Connecting(ClientConfig);

/// Role of the end that listens.
pub struct Listening {
    config: ServerConfig,
    address: SocketAddr,
    /// Queue of the results of concurrent handshakes.
    done: mpsc::UnboundedSender<Result<Arc<Closer>>>,
    /// Receiver of the results; each caller that waits for a connection takes the next.
    next: Mutex<mpsc::UnboundedReceiver<Result<Arc<Closer>>>>,
}

impl ConnectionRole for Connecting {
    const CONNECTS: bool = true;
}

impl ConnectionRole for Listening {
    const CONNECTS: bool = false;
}

/// Options, needs and files that an order gives to an end.
struct Asked {
    options: Options,
    needs: Needs,
    files: Files,
}

impl Asked {
    fn of(order: &TrialOrder) -> Result<Self> {
        let options = Options::read(&order.transport.options);
        if options.qlog && !stack::LOGS_EVENTS {
            return Err(TransportError::unsupported(
                reason::no_qlog(stack::NAME),
                reason::build_with_qlog(),
            ));
        }
        Ok(Self {
            needs: Needs::of(order, &options)?,
            files: Files::new(order, options.common.keylog, options.qlog),
            options,
        })
    }
}

/// Established connection, or one that can carry early data.
pub struct Established {
    pub(crate) closer: Arc<Closer>,
    beginning: Beginning,
}

impl QuicEndpoint<Connecting> {
    /// Creates the end of a trial that connects.
    ///
    /// # Errors
    /// [`TransportError::Unsupported`] for a path with too small packets or a log of events that this build does not
    /// write, [`TransportError::Order`]
    /// for TLS material that cannot be read, [`TransportError::Io`] for a socket that cannot be
    /// opened or a file that cannot be made.
    pub fn client(order: &TrialOrder) -> Result<Self> {
        let asked = Asked::of(order)?;
        let config = client_config(order, &asked.files, asked.options.crypto)?;
        Self::new(order, asked, None, |_| Connecting(config))
    }
}

impl QuicEndpoint<Listening> {
    /// Creates the listening end of a trial. Its socket listens when this returns.
    ///
    /// # Errors
    /// As [`QuicEndpoint::client`].
    pub fn server(order: &TrialOrder) -> Result<Self> {
        let asked = Asked::of(order)?;
        let config = server_config(order, &asked.files, asked.options.crypto)?;
        let (done, next) = mpsc::unbounded_channel();
        Self::new(order, asked, Some(config.clone()), |address| Listening {
            config,
            address,
            done,
            next: Mutex::new(next),
        })
    }
}

impl<R: ConnectionRole> QuicEndpoint<R> {
    fn new(
        order: &TrialOrder,
        asked: Asked,
        server: Option<ServerConfig>,
        role: impl FnOnce(SocketAddr) -> R,
    ) -> Result<Self> {
        let Asked {
            options,
            needs,
            files,
        } = asked;
        let sizes = &needs.sizes;
        let (receive, send) = sizes.socket_buffers_bytes;
        let (socket, buffers) = socket::bind(order.local, order.ports, receive, send)?;
        let drops = Arc::new(Drops::new(
            Counters::of(&socket).map_err(TransportError::io(reason::cannot_copy_descriptor()))?,
        ));
        let runtime = Tokio::new()?;
        let stack_runtime = Arc::new(WatchingRuntime::default());
        let made = || -> io::Result<(Endpoint, usize, usize)> {
            let _inside = runtime.enter();
            let (socket, send_packets, receive_packets) =
                stack::wrap(socket, (sizes.most_segments(), options.ecn))?;
            let mut config = EndpointConfig::default();
            config
                .max_udp_payload_size(sizes.payload_bytes)
                .map_err(io::Error::other)?;
            let endpoint = Endpoint::new_with_abstract_socket(
                config,
                server,
                socket,
                Arc::<WatchingRuntime>::clone(&stack_runtime),
            )?;
            Ok((endpoint, send_packets, receive_packets))
        };
        let (endpoint, send_packets, receive_packets) =
            made().map_err(TransportError::io(reason::cannot_make_endpoint()))?;
        let address = endpoint
            .local_addr()
            .map_err(TransportError::io(reason::cannot_read_socket_address()))?;

        let migrate_after = options.migrate_after.filter(|_| R::CONNECTS);
        let migration = migrate_after.map(|after| {
            Migration::new(
                after,
                order.local,
                (*sizes, options.ecn),
                Arc::clone(&drops),
            )
        });
        let handshake = order.workload.kind.handshake();
        let end = order.role.name();
        let warnings = [buffers.warning(end), files.warning(), needs.warning()];
        let mut facts = options.common.facts(end, sizes, &buffers);
        facts.extend(offload_facts(
            order,
            &options,
            sizes,
            send_packets,
            receive_packets,
        ));
        Ok(Self {
            role: role(address),
            order: order.clone(),
            stack_runtime,
            endpoint,
            handshake,
            options,
            shared: Arc::new(Shared {
                end,
                drops,
                files,
                retries: handshake == Handshake::Retry,
                sizes: needs.sizes,
                migration,
            }),
            needs,
            base: EndBase {
                runtime,
                facts,
                warnings: warnings.into_iter().flatten().collect(),
            },
        })
    }

    /// Returns the transport configuration for a new connection, and the watch on its congestion
    /// control.
    fn transport(&self) -> Result<(Arc<TransportConfig>, Arc<Watch>)> {
        let watch = Arc::new(Watch::default());
        let mut transport = self.options.transport(&self.needs, &watch);
        if let Some(log) = self.shared.files.next_event_log()? {
            stack::log_events(&mut transport, log);
        }
        Ok((Arc::new(transport), watch))
    }
}

impl QuicEndpoint<Connecting> {
    /// Connects; returns when the handshake is done, or early data can be sent.
    ///
    /// # Errors
    /// Errors of the stack; [`TransportError::TimedOut`] at `moment`.
    async fn establish(
        &self,
        peer: SocketAddr,
        moment: MonotonicTime,
        stop: &Stop,
    ) -> Result<Established> {
        let mut client = self.role.0.clone();
        check_peer(&self.order, peer)?;
        let (transport, watch) = self.transport()?;
        client.transport_config(transport);
        let server_name = &self.order.tls.server_name;
        let connect = || {
            let failed = TransportError::stack(reason::cannot_connect(&peer.ip().to_string()));
            let connecting = self.endpoint.connect_with(client, peer, server_name);
            connecting.map_err(failed)
        };
        let (connecting, beginning) = if !uses_tickets(self.handshake) {
            (connect()?, Beginning::Full)
        } else {
            let tickets = Arc::new(HandshakeWatch::default());
            let mut connecting = self.stack_runtime.watched(&tickets, connect)?;
            if self.handshake == Handshake::EarlyData {
                match connecting.into_0rtt() {
                    Ok((connection, accepted)) => {
                        return Ok(Established {
                            closer: Closer::new(connection, watch),
                            beginning: Beginning::EarlyData(accepted.shared(), tickets),
                        });
                    }
                    // There is no ticket yet.
                    Err(unchanged) => connecting = unchanged,
                }
            }
            (connecting, Beginning::Ticket(tickets))
        };
        let connection = complete(connecting, peer.ip(), moment, stop).await?;
        let closer = Closer::new(connection, watch);
        Ok(Established { closer, beginning })
    }

    /// Schedules this end's migration in mid-transfer, if the options ask for it and this is the
    /// transfer's first connection.
    fn schedule_migration(&self, closer: &Arc<Closer>) {
        let Some(due) = self.shared.migration.as_ref().and_then(Migration::due) else {
            return;
        };
        let (endpoint, shared) = (self.endpoint.clone(), Arc::clone(&self.shared));
        // Without a handle of the connection, which would keep it open.
        let closer = Arc::downgrade(closer);
        self.base.runtime.spawn(async move {
            timer::sleep_until(due).await;
            let open = closer
                .upgrade()
                .is_some_and(|closer| closer.connection.close_reason().is_none());
            if let (true, Some(migration)) = (open, &shared.migration) {
                migration.make(&endpoint);
            }
        });
    }
}

impl QuicEndpoint<Listening> {
    /// Begins the handshake of an incoming attempt; its result is queued with the finished
    /// attempts.
    fn begin(&self, incoming: Incoming) -> Result<()> {
        let from = incoming.remote_address().ip();
        let failed = move |error: ConnectionError| {
            TransportError::stack(reason::quic_handshake_failed(&from.to_string()))(error)
        };
        let (transport, watch) = self.transport()?;
        let mut server = self.role.config.clone();
        server.transport_config(transport);
        let connecting = match incoming.accept_with(Arc::new(server)) {
            Ok(connecting) if self.handshake == Handshake::EarlyData => connecting.into_0rtt(),
            Ok(connecting) => Err(connecting),
            Err(error) => {
                // The receiving half is beside it.
                let _ = self.role.done.send(Err(failed(error)));
                return Ok(());
            }
        };
        match connecting {
            // Early data is there before the handshake is done, and is answered at once. It is so in its turn:
            // connections whose packets came before have theirs first, to end their handshakes and give their
            // tickets before anybody closes them.
            Ok((connection, _)) => self.queue(ready(Ok(connection)), watch),
            Err(connecting) => self.queue(async move { connecting.await.map_err(failed) }, watch),
        }
        Ok(())
    }

    /// Queues the connection that a handshake makes as a finished attempt.
    fn queue(
        &self,
        handshake: impl Future<Output = Result<Connection>> + Send + 'static,
        watch: Arc<Watch>,
    ) {
        let done = self.role.done.clone();
        self.base.runtime.spawn(async move {
            let made = handshake.await;
            // An endpoint that was dropped takes none.
            let _ = done.send(made.map(|connection| Closer::new(connection, watch)));
        });
    }

    /// Returns the result of the next finished attempt, and begins those that come in meanwhile.
    ///
    /// # Errors
    /// Errors that make listening impossible.
    async fn attempted(
        &self,
        admit: &mut (impl FnMut(&[u8]) -> bool + Send),
    ) -> Result<Result<Established>> {
        let beginning = match uses_tickets(self.handshake) {
            true => Beginning::Unknown,
            false => Beginning::Full,
        };
        loop {
            tokio::select! {
                biased;
                Some(made) = async { self.role.next.lock().await.recv().await } => {
                    return Ok(made.map(|closer| Established { closer, beginning }));
                }
                incoming = self.endpoint.accept() => {
                    let incoming = incoming.ok_or(TransportError::Closed {
                        flow: "QUIC endpoint",
                    })?;
                    self.accept_or_refuse(incoming, admit)?;
                }
            }
        }
    }

    /// Begins an attempt of the announced peer, or sends it a Retry packet to validate its address;
    /// refuses any other peer.
    fn accept_or_refuse(
        &self,
        incoming: Incoming,
        admit: &mut (impl FnMut(&[u8]) -> bool + Send),
    ) -> Result<()> {
        if incoming.remote_address().ip().to_canonical() != self.order.peer.to_canonical() {
            incoming.refuse();
            return Ok(());
        }
        admit(&[]);
        if self.handshake == Handshake::Retry && !incoming.remote_address_validated() {
            // One that may not get another Retry has shown the token of another peer.
            if let Err(refused) = incoming.retry() {
                refused.into_incoming().refuse();
            }
            return Ok(());
        }
        self.begin(incoming)
    }
}

impl<R> Drop for QuicEndpoint<R> {
    fn drop(&mut self) {
        self.endpoint.close(DONE, b"done");
        self.base.runtime.send_the_rest();
    }
}

impl<R: ConnectionRole> transport::Endpoint for QuicEndpoint<R> {
    type Connection = Established;
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

impl Client for QuicEndpoint<Connecting> {
    async fn connect(
        &self,
        peer: SocketAddr,
        purpose: Purpose,
        moment: MonotonicTime,
        stop: &Stop,
    ) -> Result<Established> {
        let established = self.establish(peer, moment, stop).await?;
        if purpose == Purpose::Transfer {
            self.schedule_migration(&established.closer);
        }
        Ok(established)
    }
}

impl Server for QuicEndpoint<Listening> {
    fn address(&self) -> SocketAddr {
        self.role.address
    }

    async fn accept(
        &self,
        moment: MonotonicTime,
        stop: &Stop,
        admit: &mut (impl FnMut(&[u8]) -> bool + Send),
    ) -> Result<Accepted<Established>> {
        let attempted = stop.unless_raised(self.attempted(admit));
        let made = in_time(moment, reason::connection_of("QUIC"), attempted).await?;
        Ok(made.map_or_else(Accepted::Failed, Accepted::Connection))
    }
}

impl endpoints::Incoming for QuicEndpoint<Listening> {
    async fn next(&self) -> Result<Established> {
        loop {
            if let Ok(established) = self.attempted(&mut |_| true).await? {
                return Ok(established);
            }
        }
    }

    async fn message(established: &Established) -> Result<Vec<u8>> {
        let message = established.closer.connection.read_datagram().await;
        message
            .map(Vec::from)
            .map_err(TransportError::stack(reason::no_quic_datagram()))
    }
}

/// Makes an end whose connections carry streams.
pub fn streams<R: ConnectionRole>(
    end: QuicEndpoint<R>,
) -> StreamEnd<QuicEndpoint<R>, QuicConnection> {
    let shared = Arc::clone(&end.shared);
    let make = Box::new(move |Established { closer, beginning }, stop: &_| {
        let shared = Arc::clone(&shared);
        Ok(QuicConnection::new(closer, shared, beginning, stop))
    });
    StreamEnd { end, make }
}

/// Returns the facts of an end for the comparison of stacks, and of its offloads: the maximum numbers of packets that the
/// kernel takes and hands over at once.
fn offload_facts(
    order: &TrialOrder,
    options: &Options,
    sizes: &Sizes,
    send_packets: usize,
    receive_packets: usize,
) -> Facts {
    let gso = facts::offload(if options.common.gso { send_packets } else { 1 });
    let gro = facts::offload(receive_packets);
    let offloads = match order.role {
        Role::Sender => &gso,
        Role::Receiver => &gro,
    };
    let (control, crypto) = (options.cc.into_str(), options.crypto.name());
    let stated = stack_facts(&options.common, sizes, order, control, crypto, offloads);
    let stated = StackFacts {
        first_flight: match stack::PADS_TO_PACKET_SIZE {
            true => stated.first_flight,
            false => first_flight(MIN_PAYLOAD_BYTES, order.local),
        },
        ..stated
    };
    let end = order.role.name();
    let mut facts = stated.of_end(end);
    facts.extend([(format!("gso.{end}"), gso), (format!("gro.{end}"), gro)]);
    facts
}
