//! One end of quiche in one trial as a [`StreamEndpoint`].

use std::{
    collections::BTreeMap,
    fmt,
    future::poll_fn,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    task::Poll,
    time::Duration,
};

use regatta_control::{Role, TrialOrder};
use regatta_model::{Handshake, Warning};
use regatta_transport::{
    MonotonicTime, Purpose, StreamEndpoint, TransportError, stop::Stop, stream::Accepted,
};
use tokio::runtime::Handle;

use super::{
    connection::{Link, Owner, QuicheConnection},
    drive,
    end::End,
    files::Files,
    migration,
    options::Options,
    port::Port,
    state::{Setup, Shared, State},
    statistics::Statistics,
    tls::{self, RetryTokens},
};
use crate::{
    executor::Tokio,
    path::Sizes,
    socket::{self, Buffers, Counters},
    wait::{timed_out, within},
};

/// Maximum duration of the handshake of an accepted attempt.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// Maximum time for which an end stays to tell the other end that a connection has ended.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Interval between checks for the end of that wait.
const LOOK: Duration = Duration::from_millis(2);

/// Maximum number of packets that the kernel takes at once: `UDP_MAX_SEGMENTS` of older kernels.
const MOST_SEGMENTS: usize = 64;

/// End of a trial: its runtime, its connections, its socket.
pub struct QuicheEndpoint {
    runtime: Tokio,
    pub(super) shared: Arc<Shared>,
    role: Role,
    connects: bool,
    peer: IpAddr,
    local: SocketAddr,
    options: Options,
    pub(super) sizes: Sizes,
    counters: Arc<Counters>,
    buffers: Buffers,
    pub(super) facts: BTreeMap<String, String>,
}

impl fmt::Debug for QuicheEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuicheEndpoint")
            .field("role", &self.role)
            .field("local", &self.local)
            .finish_non_exhaustive()
    }
}

impl QuicheEndpoint {
    /// Creates the end of a trial that the order describes; a listening end listens when this
    /// returns.
    ///
    /// # Errors
    /// [`TransportError::Unsupported`] for a path with too small packets, [`TransportError::Order`]
    /// or [`TransportError::Stack`] for TLS material that cannot be used, [`TransportError::Io`]
    /// for a socket that cannot be opened.
    pub fn new(order: &TrialOrder) -> Result<Self, TransportError> {
        let options = Options::read(&order.transport.options);
        let sizes = Sizes::of(&order.path, order.local, &options.common)?;
        let config = tls::config(order, &options, &sizes)?;
        let files = Files::new(order, &options)?;
        let asked = options
            .common
            .receive_buffer_bytes
            .unwrap_or(sizes.windows.socket_buffer_bytes);
        let (socket, buffers) = socket::bind(
            order.local,
            order.ports,
            asked,
            options
                .common
                .send_buffer_bytes
                .unwrap_or(sizes.windows.socket_buffer_bytes),
        )?;
        let counters = Arc::new(
            Counters::of(&socket).map_err(TransportError::io("cannot copy a descriptor"))?,
        );
        let runtime = Tokio::new()?;
        let port = {
            let _inside = runtime.enter();
            Port::new(socket).map_err(TransportError::io("cannot set up a UDP socket"))?
        };
        let local = port.address;
        let most_segments = if options.common.gso {
            port.most_segments()
                .min(sizes.most_segments())
                .clamp(1, MOST_SEGMENTS)
        } else {
            1
        };
        let side = order.role.name();
        let mut facts = options.common.facts(side, &sizes, &buffers);
        let hystart = if options.hystart { "on" } else { "off" };
        facts.insert(format!("hystart.{side}"), hystart.to_owned());
        let offload = |segments: usize| match segments {
            0 | 1 => "off".to_owned(),
            segments => format!("on, {segments} packets at most"),
        };
        let gso = offload(most_segments);
        let gro = offload(port.receive_segments());
        let offloads = match order.role {
            Role::Sender => &gso,
            Role::Receiver => &gro,
        };
        let stated = options.stack_facts(&sizes, order.local, offloads);
        facts.extend(stated.of_end(side));
        facts.insert(format!("gso.{side}"), gso);
        facts.insert(format!("gro.{side}"), gro);
        facts.extend(files.facts(&options, side));

        let handshake = order.workload.kind.handshake();
        let connects = order.connects();
        let retry = if !connects && handshake == Handshake::Retry {
            Some(RetryTokens::new()?)
        } else {
            None
        };
        let state = State::new(Setup {
            config,
            listens: !connects,
            retry,
            peer: order.peer,
            server_name: order.tls.server_name.clone(),
            most_segments,
            paces: options.congestion_control.paces() && options.pacing,
            spare_ids: options.migrate_after.is_some(),
            keeps_tickets: connects
                && matches!(handshake, Handshake::Resumed | Handshake::EarlyData),
            port,
            files,
        });
        let shared = Arc::new(Shared::new(state));
        runtime.spawn(drive::run(Arc::clone(&shared)));
        Ok(Self {
            runtime,
            shared,
            role: order.role,
            connects,
            peer: order.peer,
            local,
            options,
            sizes,
            counters,
            buffers,
            facts,
        })
    }

    pub(super) fn statistics(&self, link: &Link) -> Arc<Statistics> {
        Statistics::new(
            link.clone(),
            self.role.name(),
            self.options,
            Arc::clone(&self.counters),
        )
    }

    /// Address that this end listens on.
    pub(super) fn listens_at(&self) -> Option<SocketAddr> {
        (!self.connects).then_some(self.local)
    }

    /// Connects to `peer`; returns when streams can be opened.
    pub(super) async fn connected(
        &self,
        peer: SocketAddr,
        moment: MonotonicTime,
        stop: &Stop,
    ) -> Result<Owner, TransportError> {
        let since = MonotonicTime::now();
        if !self.connects {
            return Err(TransportError::Order {
                what: "the end that listens does not connect".to_owned(),
            });
        }
        if peer.ip().to_canonical() != self.peer.to_canonical() {
            return Err(TransportError::Order {
                what: format!("`{}` is not the announced peer `{}`", peer.ip(), self.peer),
            });
        }
        let id = self.shared.lock().connect(peer)?;
        let owner = Owner::new(Link::new(&self.shared, id), stop);
        owner.link.changed();
        match within(moment, owner.usable()).await {
            Some(Ok(())) => {}
            Some(Err(End::Stopped)) => return Err(TransportError::Cancelled),
            Some(Err(end)) => {
                let what = format!("cannot connect to `{}`", peer.ip());
                return Err(TransportError::stack(what)(end));
            }
            None => {
                let what = format!("QUIC handshake with `{}`", peer.ip());
                return Err(timed_out(what, since));
            }
        }
        if let Some(after) = self.options.migrate_after {
            tokio::spawn(migration::run(
                owner.link.clone(),
                Arc::downgrade(&self.shared),
                after,
                self.sizes.windows.socket_buffer_bytes,
            ));
        }
        Ok(owner)
    }

    /// Accepts a connection from the peer; returns when streams can be opened.
    pub(super) async fn accepted(
        &self,
        moment: MonotonicTime,
        stop: &Stop,
        arrived: &mut (impl FnMut() + Send),
    ) -> Result<Accepted<Owner>, TransportError> {
        let since = MonotonicTime::now();
        let shared = &self.shared;
        let attempt = poll_fn(|context| {
            let mut state = shared.lock();
            if state.has_attempt() {
                return Poll::Ready(Ok(()));
            }
            state.acceptor = Some(context.waker().clone());
            Poll::Pending
        });
        // The moment bounds the wait for an attempt; one that came has time for its handshake.
        match within(moment, stop.unless_raised(attempt)).await {
            Some(attempt) => attempt?,
            None => return Err(timed_out("QUIC connection", since)),
        }
        let since = MonotonicTime::now();
        let accepted = async {
            arrived();
            let Some((from, begun)) = shared.lock().accept() else {
                return Err(TransportError::Closed {
                    flow: "QUIC endpoint",
                });
            };
            let failed =
                || TransportError::stack(format!("the QUIC handshake with `{from}` failed"));
            let owner = match begun {
                Ok(id) => Owner::new(Link::new(shared, id), stop),
                Err(error) => return Ok(Accepted::Failed(error)),
            };
            owner.link.changed();
            match owner.usable().await {
                Ok(()) => Ok(Accepted::Connection(owner)),
                Err(End::Stopped) => Err(TransportError::Cancelled),
                Err(end) => Ok(Accepted::Failed(failed()(end))),
            }
        };
        match within(since + HANDSHAKE_TIME, accepted).await {
            Some(accepted) => accepted,
            None => Ok(Accepted::Failed(timed_out("QUIC handshake", since))),
        }
    }

    /// Returns the warnings about this end for the reader of the results.
    pub(super) fn notes(&self) -> Vec<Warning> {
        let warning = self.buffers.warning(self.role.name());
        warning.into_iter().collect()
    }
}

impl Drop for QuicheEndpoint {
    fn drop(&mut self) {
        self.shared.lock().release_all();
        self.shared.changed.notify_one();
        // A connection that was closed just now still has to say so to the other end, and to say it
        // again should that be lost: the other end would otherwise wait for its idle timeout.
        // Inside a runtime there is no other to be had.
        if Handle::try_current().is_err() {
            self.runtime.block_on(async {
                let _ = tokio::time::timeout(LAST_WORDS, async {
                    while self.shared.lock().has_last_words() {
                        tokio::time::sleep(LOOK).await;
                    }
                })
                .await;
            });
        }
    }
}

impl StreamEndpoint for QuicheEndpoint {
    type Connection = QuicheConnection;
    type Executor = Tokio;

    fn executor(&self) -> &Tokio {
        &self.runtime
    }

    fn listen_address(&self) -> Option<SocketAddr> {
        self.listens_at()
    }

    async fn connect(
        &self,
        peer: SocketAddr,
        _purpose: Purpose,
        moment: MonotonicTime,
        stop: &Stop,
    ) -> Result<QuicheConnection, TransportError> {
        let owner = self.connected(peer, moment, stop).await?;
        let statistics = self.statistics(&owner.link);
        Ok(QuicheConnection::new(owner, statistics))
    }

    async fn accept(
        &self,
        moment: MonotonicTime,
        stop: &Stop,
        arrived: &mut (impl FnMut() + Send),
    ) -> Result<Accepted<QuicheConnection>, TransportError> {
        Ok(match self.accepted(moment, stop, arrived).await? {
            Accepted::Connection(owner) => {
                let statistics = self.statistics(&owner.link);
                Accepted::Connection(QuicheConnection::new(owner, statistics))
            }
            Accepted::Failed(error) => Accepted::Failed(error),
        })
    }

    fn facts(&self) -> BTreeMap<String, String> {
        self.facts.clone()
    }

    fn warnings(&self) -> Vec<Warning> {
        self.notes()
    }
}
