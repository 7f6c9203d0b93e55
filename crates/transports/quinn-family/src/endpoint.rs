//! One end of the stack in one trial as a [`StreamEndpoint`].

use std::{
    collections::BTreeMap,
    future::{Future, ready},
    io,
    net::SocketAddr,
    sync::Arc,
};

use bytes::Bytes;
use futures_util::FutureExt as _;
use regatta_control::{Role, TrialOrder};
use regatta_model::{Handshake, Warning};
use regatta_transport::{
    MonotonicTime, Purpose, Result, StreamEndpoint, TransportError, Unsupported, stop::Stop,
    stream::Accepted,
};
use regatta_transport_tls::{HandshakeWatch, uses_tickets};
use tokio::sync::{Mutex, mpsc};

use regatta_transport_quic_common::{
    facts::{self, of_end, stack_facts},
    files::Files,
    handshake::complete,
    options::Mode,
};
use regatta_transport_sockets::{
    endpoints::check_peer,
    executor::Tokio,
    socket::{self, Buffers, Counters},
    timer,
    wait::in_time,
};

use crate::{
    connection::{Beginning, Closer, DONE, QuicConnection, Shared},
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
    pub(crate) order: TrialOrder,
    runtime: Tokio,
    stack_runtime: Arc<WatchingRuntime>,
    endpoint: Endpoint,
    listen: Option<SocketAddr>,
    /// Configuration of the connecting end, including its tickets.
    client: Option<ClientConfig>,
    /// Configuration of the listening end.
    server: Option<ServerConfig>,
    handshake: Handshake,
    options: Options,
    needs: Needs,
    /// Queue of the results of concurrent handshakes at the listening end.
    done: mpsc::UnboundedSender<Result<Attempt>>,
    /// Receiver of the results; each caller that waits for a connection takes the next.
    next: Mutex<mpsc::UnboundedReceiver<Result<Attempt>>>,
    buffers: Buffers,
    /// Maximum numbers of packets that the kernel takes and hands over at once.
    send_packets: usize,
    receive_packets: usize,
    pub(crate) shared: Arc<Shared>,
}

/// Accepted connection.
pub(crate) struct Attempt {
    pub(crate) closer: Arc<Closer>,
    /// First message of the connection, in datagram mode.
    pub(crate) first: Option<Bytes>,
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
        if options.event_log && !stack::LOGS_EVENTS {
            return Err(TransportError::Unsupported(Unsupported {
                reason: format!("this build writes no `qlog` of {}", stack::NAME),
                hint: "build Regatta with `--features noq-qlog`, which costs all trials of noq a third more CPU time, or \
                       take `quic-quinn`"
                    .to_owned(),
            }));
        }
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
            made().map_err(TransportError::io("cannot make a QUIC endpoint"))?;
        let address = endpoint
            .local_addr()
            .map_err(TransportError::io("cannot read the address of the socket"))?;

        let migrate_after = options.migrate_after.filter(|_| order.connects());
        let migration = migrate_after
            .map(|after| Migration::new(after, order.local, *sizes, Arc::clone(&drops)));
        let handshake = order.workload.kind.handshake();
        let (done, next) = mpsc::unbounded_channel();
        Ok(Self {
            order: order.clone(),
            runtime,
            stack_runtime,
            endpoint,
            listen: (!order.connects()).then_some(address),
            client,
            server,
            handshake,
            options,
            needs,
            done,
            next: Mutex::new(next),
            buffers,
            send_packets,
            receive_packets,
            shared: Arc::new(Shared {
                end: order.role.name(),
                drops,
                files,
                retries: handshake == Handshake::Retry,
                sizes: needs.sizes,
                migration,
            }),
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
    pub(crate) async fn establish(
        &self,
        peer: SocketAddr,
        moment: MonotonicTime,
        stop: &Stop,
    ) -> Result<(Arc<Closer>, Beginning)> {
        let mut client = self
            .client
            .clone()
            .ok_or_else(|| TransportError::order("a listening end does not connect"))?;
        check_peer(&self.order, peer)?;
        let (transport, watch) = self.transport()?;
        client.transport_config(transport);
        let server_name = &self.order.tls.server_name;
        let connect = || {
            let failed = TransportError::stack(format!("cannot connect to `{}`", peer.ip()));
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
                        let beginning = Beginning::EarlyData(accepted.shared(), tickets);
                        return Ok((Closer::new(connection, watch), beginning));
                    }
                    // There is no ticket yet.
                    Err(whole) => connecting = whole,
                }
            }
            (connecting, Beginning::Ticket(tickets))
        };
        let connection = complete(connecting, peer.ip(), moment, stop).await?;
        Ok((Closer::new(connection, watch), beginning))
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
    fn begin(&self, incoming: Incoming) -> Result<()> {
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

    /// Queues the connection that a handshake makes as a finished attempt, in datagram mode with its next message.
    pub(crate) fn queue(
        &self,
        handshake: impl Future<Output = Result<Connection>> + Send + 'static,
        watch: Arc<Watch>,
    ) {
        let done = self.done.clone();
        let messages = self.options.common.mode == Mode::Datagram;
        let attempt = async move {
            let connection = handshake.await?;
            let mut first = None;
            if messages {
                let message = connection.read_datagram().await;
                first = Some(message.map_err(TransportError::stack("no QUIC datagram came"))?);
            }
            let closer = Closer::new(connection, watch);
            Ok(Attempt { closer, first })
        };
        self.runtime.spawn(async move {
            // An endpoint that is gone takes none.
            let _ = done.send(attempt.await);
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
    ) -> Result<Result<Attempt>> {
        stop.unless_raised(async {
            loop {
                tokio::select! {
                    biased;
                    Some(attempt) = async { self.next.lock().await.recv().await } => return Ok(attempt),
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
    fn meet(&self, incoming: Incoming, arrived: &mut (impl FnMut() + Send)) -> Result<()> {
        if incoming.remote_address().ip().to_canonical() != self.order.peer.to_canonical() {
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
        self.listen
    }

    async fn connect(
        &self,
        peer: SocketAddr,
        purpose: Purpose,
        moment: MonotonicTime,
        stop: &Stop,
    ) -> Result<QuicConnection> {
        let (closer, beginning) = self.establish(peer, moment, stop).await?;
        if purpose == Purpose::Transfer {
            self.schedule_migration(&closer);
        }
        let shared = Arc::clone(&self.shared);
        Ok(QuicConnection::new(closer, shared, beginning, stop))
    }

    async fn accept(
        &self,
        moment: MonotonicTime,
        stop: &Stop,
        arrived: &mut (impl FnMut() + Send),
    ) -> Result<Accepted<QuicConnection>> {
        let attempt = in_time(moment, "QUIC connection", self.next_attempt(stop, arrived)).await?;
        let beginning = match uses_tickets(self.handshake) {
            true => Beginning::Unknown,
            false => Beginning::Full,
        };
        let shared = Arc::clone(&self.shared);
        let made = attempt.map(|it| QuicConnection::new(it.closer, shared, beginning, stop));
        Ok(made.map_or_else(Accepted::Failed, Accepted::Connection))
    }

    fn facts(&self) -> BTreeMap<String, String> {
        let (options, sizes, end) = (&self.options, &self.needs.sizes, self.shared.end);
        let send_packets = match options.common.gso {
            true => self.send_packets,
            false => 1,
        };
        let gso = facts::offload(send_packets);
        let gro = facts::offload(self.receive_packets);
        let offloads = match self.order.role {
            Role::Sender => &gso,
            Role::Receiver => &gro,
        };
        let (control, crypto) = (options.congestion_control.into_str(), options.crypto.name());
        let local = self.order.local;
        let stated = stack_facts(&options.common, sizes, local, control, crypto, offloads);
        let mut facts = options.common.facts(end, sizes, &self.buffers);
        facts.extend(stated.of_end(end));
        facts.extend(of_end(end, [("gso", gso), ("gro", gro)]));
        facts
    }

    fn warnings(&self) -> Vec<Warning> {
        let buffer = self.buffers.warning(self.shared.end);
        [buffer, self.shared.files.warning(), self.needs.warning()]
            .into_iter()
            .flatten()
            .collect()
    }
}
