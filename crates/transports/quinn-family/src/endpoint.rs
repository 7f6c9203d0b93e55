//! One end of the stack in one trial.

use std::{
    future::{Future, ready},
    io,
    net::SocketAddr,
    sync::Arc,
};

use futures_util::FutureExt as _;
use regatta_control::{Role, TrialOrder};
use regatta_model::{Facts, Handshake, StackFacts, reason};
use regatta_transport::{
    MonotonicTime, Purpose, Result, TransportError, stop::Stop, stream::Accepted,
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
    endpoints::{AdmittingEnd, EndBase, StreamEnd, TrialEnd, check_peer},
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

/// End of a trial: its runtime, its socket, its configuration.
pub struct QuicEndpoint {
    order: TrialOrder,
    stack_runtime: Arc<WatchingRuntime>,
    endpoint: Endpoint,
    /// Configuration of the connecting end, including its tickets.
    client: Option<ClientConfig>,
    /// Configuration of the listening end.
    server: Option<ServerConfig>,
    handshake: Handshake,
    options: Options,
    needs: Needs,
    /// Queue of the results of concurrent handshakes at the listening end.
    done: mpsc::UnboundedSender<Result<Arc<Closer>>>,
    /// Receiver of the results; each caller that waits for a connection takes the next.
    next: Mutex<mpsc::UnboundedReceiver<Result<Arc<Closer>>>>,
    pub(crate) shared: Arc<Shared>,
    /// With the runtime of the stack's tasks; the last field, so that it is dropped last.
    base: EndBase,
}

/// Established connection, or one that can carry early data.
pub struct Established {
    pub(crate) closer: Arc<Closer>,
    beginning: Beginning,
}

impl QuicEndpoint {
    /// Creates the end of a trial that the order describes; a listening end listens when this
    /// returns.
    ///
    /// # Errors
    /// [`TransportError::Unsupported`] for a path with too small packets or a log of events that this build does not
    /// write, [`TransportError::Order`]
    /// for TLS material that cannot be read, [`TransportError::Io`] for a socket that cannot be
    /// opened or a file that cannot be made.
    pub fn new(order: &TrialOrder) -> Result<Self> {
        let options = Options::read(&order.transport.options);
        if options.qlog && !stack::LOGS_EVENTS {
            return Err(TransportError::unsupported(
                reason::no_qlog(stack::NAME),
                reason::build_with_qlog(),
            ));
        }
        let needs = Needs::of(order, &options)?;
        let sizes = &needs.sizes;
        let files = Files::new(order, options.common.keylog, options.qlog);
        let (mut client, mut server) = (None, None);
        if order.connects() {
            client = Some(client_config(order, &files, options.crypto)?);
        } else {
            server = Some(server_config(order, &files, options.crypto)?);
        }

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
                stack::wrap(socket, sizes.most_segments())?;
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
            Ok((endpoint, send_packets, receive_packets))
        };
        let (endpoint, send_packets, receive_packets) =
            made().map_err(TransportError::io(reason::cannot_make_endpoint()))?;
        let address = endpoint
            .local_addr()
            .map_err(TransportError::io(reason::cannot_read_socket_address()))?;

        let migrate_after = options.migrate_after.filter(|_| order.connects());
        let migration = migrate_after
            .map(|after| Migration::new(after, order.local, *sizes, Arc::clone(&drops)));
        let handshake = order.workload.kind.handshake();
        let (done, next) = mpsc::unbounded_channel();
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
            order: order.clone(),
            stack_runtime,
            endpoint,
            client,
            server,
            handshake,
            options,
            needs,
            done,
            next: Mutex::new(next),
            shared: Arc::new(Shared {
                end,
                drops,
                files,
                retries: handshake == Handshake::Retry,
                sizes: needs.sizes,
                migration,
            }),
            base: EndBase {
                runtime,
                listen_address: (!order.connects()).then_some(address),
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
        let mut client = self
            .client
            .clone()
            .ok_or_else(|| TransportError::order(reason::listening_does_not_connect()))?;
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

    /// Begins the handshake of an incoming attempt; its result is queued with the finished
    /// attempts.
    fn begin(&self, incoming: Incoming) -> Result<()> {
        let from = incoming.remote_address().ip();
        let failed = move |error: ConnectionError| {
            TransportError::stack(reason::quic_handshake_failed(&from.to_string()))(error)
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
            Ok(connecting) if self.handshake == Handshake::EarlyData => connecting.into_0rtt(),
            Ok(connecting) => Err(connecting),
            Err(error) => {
                // The receiving half is beside it.
                let _ = self.done.send(Err(failed(error)));
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
        let done = self.done.clone();
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
    async fn attempted(&self, arrived: &mut (impl FnMut() + Send)) -> Result<Result<Established>> {
        let beginning = match uses_tickets(self.handshake) {
            true => Beginning::Unknown,
            false => Beginning::Full,
        };
        loop {
            tokio::select! {
                biased;
                Some(made) = async { self.next.lock().await.recv().await } => {
                    return Ok(made.map(|closer| Established { closer, beginning }));
                }
                incoming = self.endpoint.accept() => {
                    let incoming = incoming.ok_or(TransportError::Closed {
                        flow: "QUIC endpoint",
                    })?;
                    self.accept_or_refuse(incoming, arrived)?;
                }
            }
        }
    }

    /// Begins an attempt of the announced peer, or sends it a Retry packet to validate its address;
    /// refuses any other peer.
    fn accept_or_refuse(
        &self,
        incoming: Incoming,
        arrived: &mut (impl FnMut() + Send),
    ) -> Result<()> {
        if incoming.remote_address().ip().to_canonical() != self.order.peer.to_canonical() {
            incoming.refuse();
            return Ok(());
        }
        arrived();
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

impl Drop for QuicEndpoint {
    fn drop(&mut self) {
        self.endpoint.close(DONE, b"done");
        self.base.runtime.send_the_rest();
    }
}

impl TrialEnd for QuicEndpoint {
    type Handle = Established;

    fn base(&self) -> &EndBase {
        &self.base
    }

    fn connect_deadline(&self) -> MonotonicTime {
        MonotonicTime::now() + self.order.connect_deadline
    }

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

    async fn accept(
        &self,
        moment: MonotonicTime,
        stop: &Stop,
        arrived: &mut (impl FnMut() + Send),
    ) -> Result<Accepted<Established>> {
        let attempted = stop.unless_raised(self.attempted(arrived));
        let made = in_time(moment, reason::connection_of("QUIC"), attempted).await?;
        Ok(made.map_or_else(Accepted::Failed, Accepted::Connection))
    }
}

impl AdmittingEnd for QuicEndpoint {
    async fn next(&self) -> Result<Established> {
        loop {
            if let Ok(established) = self.attempted(&mut || {}).await? {
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

/// Creates the end of a trial whose connections carry streams.
///
/// # Errors
/// As [`QuicEndpoint::new`].
pub fn streams(order: &TrialOrder) -> Result<StreamEnd<QuicEndpoint, QuicConnection>> {
    let end = QuicEndpoint::new(order)?;
    let shared = Arc::clone(&end.shared);
    let make = Box::new(move |Established { closer, beginning }, _, stop: &_| {
        let shared = Arc::clone(&shared);
        Ok(QuicConnection::new(closer, shared, beginning, stop))
    });
    Ok(StreamEnd { end, make })
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
