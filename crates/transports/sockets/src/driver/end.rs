//! One end of a trial over a sans-IO protocol.

use std::{
    future::poll_fn,
    net::SocketAddr,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use parking_lot::Mutex;
use regatta_control::{Role, TrialOrder};
use regatta_model::{Facts, Text, Warning, fact, reason};
use regatta_transport::{
    Accepted, Client, Endpoint, MonotonicTime, Purpose, Server, Stop, TransportError,
};
use tokio::runtime;

use super::{
    Admission, Connection as _, Protocol,
    handle::Handle,
    outbox::Segmentation,
    port::Port,
    state::{self, Driver},
};
use crate::{
    endpoints::{Connecting, EndBase, Incoming, Listening, SocketRole, check_peer},
    executor::Tokio,
    socket::{self, Buffers, Counters},
    wait::{in_time, within},
};

/// Maximum duration of the handshake of an attempt that came in time.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// Maximum time for which an end that is dropped waits for room for the packets that close or abort its connections.
const CLOSING: Duration = Duration::from_millis(500);

/// Properties of an end's socket.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Receive buffer of the socket, in bytes.
    pub receive_buffer_bytes: Option<usize>,
    /// Send buffer of the socket, in bytes.
    pub send_buffer_bytes: Option<usize>,
    /// Maximum number of packets that are handed to the kernel as one.
    pub most_segments: usize,
    /// Longest packet that the path takes in one piece, in bytes.
    pub packet_bytes: usize,
    /// Whether longer packets are sent in fragments.
    pub fragments: bool,
}

type Opening<P> = Vec<(Arc<Handle<P>>, MonotonicTime)>;

/// End of a trial of a role: its runtime, its connections, its socket.
pub struct End<P: Protocol, R> {
    /// Runtime, facts and warnings; a driver adds its own facts to those of the socket.
    pub base: EndBase,
    pub(super) driver: Arc<Driver<P>>,
    set_up: R,
    order: TrialOrder,
    /// Sizes of the socket's buffers.
    pub buffers: Buffers,
    /// Counters of the socket.
    pub counters: Arc<Counters>,
    /// Connections that the other end has opened and that are not taken, with the moments of their attempts, the oldest
    /// first.
    opening: Mutex<Opening<P>>,
}

impl<P: Protocol, R: SocketRole> End<P, R> {
    /// Creates the end of a trial that the order describes; a listening end listens when this returns.
    ///
    /// # Errors
    /// [`TransportError::Io`] for a socket that cannot be opened.
    pub fn new(
        order: &TrialOrder,
        settings: Settings,
        protocol: P,
    ) -> Result<Self, TransportError> {
        let (socket, buffers) = socket::bind(
            order.local,
            order.ports,
            settings.receive_buffer_bytes,
            settings.send_buffer_bytes,
        )?;
        let counters =
            Counters::of(&socket).map_err(TransportError::io(reason::cannot_copy_descriptor()))?;
        let runtime = Tokio::new()?;
        let port = {
            let _inside = runtime.enter();
            Port::new(socket, settings.fragments)
                .map_err(TransportError::io(reason::cannot_set_up_udp_socket()))?
        };
        let segmentation = Segmentation {
            packets: settings.most_segments.clamp(1, port.most_segments().max(1)),
            packet_bytes: settings.packet_bytes,
        };
        let side = order.role.name();
        let offload = |segments: usize| match segments {
            0 | 1 => Text::from("off"),
            segments => fact::on_for_packets(segments as u64).into(),
        };
        let mut facts = Facts::from(buffers.facts(side));
        facts.extend([
            (format!("gso.{side}"), offload(segmentation.packets)),
            (format!("gro.{side}"), offload(port.receive_segments())),
        ]);
        let local = port.address;
        let driver = Driver::new(protocol, port, segmentation, order.peer);
        runtime.spawn(Arc::clone(&driver).run());
        Ok(Self {
            base: EndBase {
                runtime,
                facts,
                warnings: Vec::new(),
            },
            driver,
            set_up: R::at(local),
            order: order.clone(),
            buffers,
            counters: Arc::new(counters),
            opening: Mutex::default(),
        })
    }

    /// Describes the offloads of this end's direction.
    pub fn offloads(&self) -> &Text {
        let offload = match self.order.role {
            Role::Sender => "gso",
            Role::Receiver => "gro",
        };
        &self.base.facts[&format!("{offload}.{}", self.order.role.name())]
    }
}

impl<P: Protocol, R> End<P, R> {
    /// Waits until the packets that close or abort the connections have been handed to the kernel, at most until `until`.
    fn wait_until_closed(&self, until: MonotonicTime) {
        self.driver.changed.notify_one();
        // Inside a runtime there is no other to be had.
        if runtime::Handle::try_current().is_err() {
            let closed = poll_fn(|context| self.driver.state.lock().poll_closed(context));
            self.base.runtime.block_on(async {
                let _ = within(until, closed).await;
            });
        }
    }
}

impl<P: Protocol> End<P, Listening> {
    /// Takes the next event.
    fn poll_incoming(&self, context: &Context<'_>) -> Poll<Result<Arc<Handle<P>>, TransportError>> {
        // Apart, as dropping a handle takes the lock.
        let incoming = self.driver.state.lock().poll_incoming(context);
        Poll::Ready(match ready!(incoming) {
            state::Incoming::Connection(number) => Ok(Handle::new(&self.driver, number)),
            state::Incoming::Refused(error) => Err(error),
        })
    }

    /// Takes the next connection that is established.
    fn poll_accept(
        &self,
        context: &mut Context<'_>,
        admit: &mut impl FnMut(&[u8]) -> bool,
    ) -> Poll<Accepted<Arc<Handle<P>>>> {
        while let Poll::Ready(incoming) = self.poll_incoming(context) {
            match incoming {
                Ok(handle) => {
                    admit(&[]);
                    self.opening.lock().push((handle, MonotonicTime::now()));
                }
                Err(error) => return Poll::Ready(Accepted::Failed(error)),
            }
        }
        let mut opening = self.opening.lock();
        for index in 0..opening.len() {
            let (handle, _) = &opening[index];
            let open = |connection: &mut P::Connection, context: &mut Context<'_>| {
                connection.poll_open(context)
            };
            if let Poll::Ready(is_open) = handle.poll_now(context, open) {
                let (handle, _) = opening.remove(index);
                return Poll::Ready(match is_open {
                    Ok(()) => Accepted::Connection(handle),
                    Err(error) => Accepted::Failed(error),
                });
            }
            // It may have begun only now.
            handle.changed();
        }
        Poll::Pending
    }
}

impl<P: Protocol, R: SocketRole> Endpoint for End<P, R> {
    type Connection = Arc<Handle<P>>;
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

impl<P: Protocol> Client for End<P, Connecting> {
    async fn connect(
        &self,
        peer: SocketAddr,
        purpose: Purpose,
        until: MonotonicTime,
        stop: &Stop,
    ) -> Result<Arc<Handle<P>>, TransportError> {
        check_peer(&self.order, peer)?;
        let number = {
            let mut state = self.driver.state.lock();
            let state = &mut *state;
            let local = state.local();
            state
                .protocol
                .connect(local, peer, purpose, &mut state.connections)?
        };
        let handle = Handle::new(&self.driver, number);
        handle.send();
        let opened = handle.poll(|connection, context| connection.poll_open(context));
        let what = reason::handshake_with(P::NAME, &peer.ip().to_string());
        in_time(until, what, stop.unless_raised(opened)).await?;
        Ok(handle)
    }
}

impl<P: Protocol> Server for End<P, Listening> {
    fn address(&self) -> SocketAddr {
        self.set_up.address
    }

    async fn accept(
        &self,
        until: MonotonicTime,
        stop: &Stop,
        admit: &mut (impl FnMut(&[u8]) -> bool + Send),
    ) -> Result<Accepted<Arc<Handle<P>>>, TransportError> {
        let since = MonotonicTime::now();
        let accepted = poll_fn(|context| self.poll_accept(context, admit).map(Ok));
        let mut accepted = std::pin::pin!(stop.unless_raised(accepted));
        let mut until = until;
        loop {
            if let Some(accepted) = within(until, accepted.as_mut()).await {
                return accepted;
            }
            // The moment bounds the wait for an attempt; one that came has time for its handshake.
            let first = |opening: &Opening<P>| opening.first().map(|(_, since)| *since);
            let Some(oldest) = first(&self.opening.lock()) else {
                let what = reason::connection_of(P::NAME);
                return Err(TransportError::timed_out_since(what, since));
            };
            until = oldest + HANDSHAKE_TIME;
            let mut opening = self.opening.lock();
            if until.has_passed() && first(&opening) == Some(oldest) {
                opening.remove(0);
                let what = reason::handshake_of(P::NAME);
                let failed = TransportError::timed_out_since(what, oldest);
                return Ok(Accepted::Failed(failed));
            }
        }
    }
}

impl<P: Protocol<Connection: Admission>> Incoming for End<P, Listening> {
    async fn next(&self) -> Result<Arc<Handle<P>>, TransportError> {
        loop {
            if let Ok(handle) = poll_fn(|context| self.poll_incoming(context)).await {
                return Ok(handle);
            }
        }
    }

    async fn message(handle: &Arc<Handle<P>>) -> Result<Vec<u8>, TransportError> {
        let message = handle.poll(|connection, context| {
            let message = connection.poll_message(context);
            // It may have begun only now.
            handle.changed();
            message
        });
        message.await
    }
}

impl<P: Protocol, R> Drop for End<P, R> {
    fn drop(&mut self) {
        let until = MonotonicTime::now() + CLOSING;
        // Their drop takes the lock.
        self.opening.lock().clear();
        self.driver.state.lock().release_all();
        self.wait_until_closed(until);
        // Those that close in good order only when the other end answers.
        self.driver.state.lock().abort_all();
        self.wait_until_closed(until);
        self.driver.state.lock().drop_all();
    }
}

impl<P: Protocol, R> std::fmt::Debug for End<P, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("End")
            .field("protocol", &P::NAME)
            .field("role", &self.order.role)
            .field("base", &self.base)
            .finish_non_exhaustive()
    }
}
