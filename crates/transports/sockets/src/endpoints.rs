//! Ends of stacks on tokio, and the ends of streams or of messages that are made of them.

use std::{future::Future, net::SocketAddr};

use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use regatta_control::TrialOrder;
use regatta_model::{Facts, Warning, reason};
use regatta_transport::{
    Accepted, Client, Endpoint, MessageEndpoint, MessageFlow, MonotonicTime, Purpose, Server, Stop,
    StreamConnection, TransportError,
};
use tokio::sync::Mutex;

use crate::{executor::Tokio, wait::in_time};

/// Parts that every end has.
#[derive(Debug)]
pub struct EndBase {
    /// The runtime that the end's futures run on.
    pub runtime: Tokio,
    /// Facts about the end, by their full names.
    pub facts: Facts,
    /// Warnings for the reader of the results.
    pub warnings: Vec<Warning>,
}

/// Role of an end in the set-up of connections, with what only that role has.
pub trait ConnectionRole: Send + Sync + 'static {
    /// Whether the end connects.
    const CONNECTS: bool;
}

/// Role that needs nothing but a socket.
pub trait SocketRole: ConnectionRole {
    /// Makes the role of an end whose socket has this address.
    fn at(address: SocketAddr) -> Self;
}

/// Role of the end that connects.
#[derive(Debug)]
pub struct Connecting;

/// Role of the end that listens.
#[derive(Debug)]
pub struct Listening {
    /// Address on which it listens.
    pub address: SocketAddr,
}

impl ConnectionRole for Connecting {
    const CONNECTS: bool = true;
}

impl SocketRole for Connecting {
    fn at(_: SocketAddr) -> Self {
        Self
    }
}

impl ConnectionRole for Listening {
    const CONNECTS: bool = false;
}

impl SocketRole for Listening {
    fn at(address: SocketAddr) -> Self {
        Self { address }
    }
}

/// Checks that `peer` is the host that the order announces.
///
/// # Errors
/// [`TransportError::Order`].
pub fn check_peer(order: &TrialOrder, peer: SocketAddr) -> Result<(), TransportError> {
    let (ip, announced) = (peer.ip(), order.peer);
    match ip.to_canonical() == announced.to_canonical() {
        true => Ok(()),
        false => {
            let what = reason::other_peer(&ip.to_string(), &announced.to_string());
            Err(TransportError::order(what))
        }
    }
}

/// Maker of what a workload uses from an established connection of a stack, which it registers with the stop.
pub type Make<H, C> = Box<dyn Fn(H, &Stop) -> Result<C, TransportError> + Send + Sync>;

/// End of byte streams, made of the end of a stack.
pub struct StreamEnd<E: Endpoint, C> {
    /// End of the stack.
    pub end: E,
    /// Maker of the connections.
    pub make: Make<E::Connection, C>,
}

impl<E: Endpoint<Connection: 'static>, C: StreamConnection + 'static> Endpoint for StreamEnd<E, C> {
    type Connection = C;
    type Executor = E::Executor;

    fn executor(&self) -> &E::Executor {
        self.end.executor()
    }

    fn facts(&self) -> Facts {
        self.end.facts()
    }

    fn warnings(&self) -> Vec<Warning> {
        self.end.warnings()
    }
}

impl<E: Client<Connection: 'static>, C: StreamConnection + 'static> Client for StreamEnd<E, C> {
    async fn connect(
        &self,
        peer: SocketAddr,
        purpose: Purpose,
        until: MonotonicTime,
        stop: &Stop,
    ) -> Result<C, TransportError> {
        let connection = self.end.connect(peer, purpose, until, stop).await?;
        (self.make)(connection, stop)
    }
}

impl<E: Server<Connection: 'static>, C: StreamConnection + 'static> Server for StreamEnd<E, C> {
    fn address(&self) -> SocketAddr {
        self.end.address()
    }

    async fn accept(
        &self,
        until: MonotonicTime,
        stop: &Stop,
        admit: &mut (impl FnMut(&[u8]) -> bool + Send),
    ) -> Result<Accepted<C>, TransportError> {
        let accepted = self.end.accept(until, stop, admit).await?;
        Ok(accepted.and_then(|connection| (self.make)(connection, stop)))
    }
}

/// End of a stack that listens, whose connections can be accepted by their first message.
pub trait Incoming: Server<Connection: Send + Sync + 'static> {
    /// Waits for the next connection that the peer opens, whether it is established or not. Attempts that failed are
    /// left out.
    ///
    /// # Errors
    /// Errors after which this end cannot listen any more.
    fn next(&self) -> impl Future<Output = Result<Self::Connection, TransportError>>;

    /// Waits for the next message of a connection that [`Incoming::next`] returned.
    ///
    /// # Errors
    /// The reason for which the connection has ended before.
    fn message(
        connection: &Self::Connection,
    ) -> impl Future<Output = Result<Vec<u8>, TransportError>> + Send;
}

/// Connections of which no message was admitted, each with the wait for its next message.
type Unclaimed<H> = FuturesUnordered<BoxFuture<'static, (H, Result<Vec<u8>, TransportError>)>>;

/// End of messages, made of the end of a stack.
pub struct MessageEnd<E: Endpoint, F> {
    /// Before the end, so that its connections are dropped first. At a client there are none.
    unclaimed: Mutex<Unclaimed<E::Connection>>,
    pub(crate) end: E,
    longest: usize,
    reliable: bool,
    make: Make<E::Connection, F>,
}

impl<E: Endpoint, F> MessageEnd<E, F> {
    /// Makes an end for messages of at most `longest` bytes; `reliable` is whether every message arrives,
    /// or the flow fails.
    pub fn new(
        end: E,
        longest: usize,
        reliable: bool,
        make: impl Fn(E::Connection, &Stop) -> Result<F, TransportError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            unclaimed: Mutex::default(),
            end,
            longest,
            reliable,
            make: Box::new(make),
        }
    }
}

impl<E: Incoming, F> MessageEnd<E, F> {
    /// Waits for a connection whose first message `admit` accepts. Other messages are dropped, as are connections that
    /// end before.
    pub(crate) async fn admitted(
        &self,
        admit: &mut (impl FnMut(&[u8]) -> bool + Send),
    ) -> Result<E::Connection, TransportError> {
        let first = |connection: E::Connection| {
            let message = async move {
                let message = E::message(&connection).await;
                (connection, message)
            };
            message.boxed()
        };
        // A second one that waits at this end waits for the first.
        let mut unclaimed = self.unclaimed.lock().await;
        loop {
            tokio::select! {
                biased;
                Some((connection, message)) = unclaimed.next() => match message {
                    Ok(message) if admit(&message) => return Ok(connection),
                    Ok(_) => unclaimed.push(first(connection)),
                    Err(_) => {}
                },
                connection = self.end.next() => unclaimed.push(first(connection?)),
            }
        }
    }
}

impl<E: Endpoint<Connection: Send + Sync + 'static>, F: MessageFlow + 'static> Endpoint
    for MessageEnd<E, F>
{
    type Connection = F;
    type Executor = E::Executor;

    fn executor(&self) -> &E::Executor {
        self.end.executor()
    }

    fn facts(&self) -> Facts {
        self.end.facts()
    }

    fn warnings(&self) -> Vec<Warning> {
        self.end.warnings()
    }
}

impl<E: Endpoint<Connection: Send + Sync + 'static>, F: MessageFlow + 'static> MessageEndpoint
    for MessageEnd<E, F>
{
    fn longest_message(&self) -> usize {
        self.longest
    }

    fn reliable(&self) -> bool {
        self.reliable
    }
}

impl<E: Client<Connection: Send + Sync + 'static>, F: MessageFlow + 'static> Client
    for MessageEnd<E, F>
{
    async fn connect(
        &self,
        peer: SocketAddr,
        purpose: Purpose,
        until: MonotonicTime,
        stop: &Stop,
    ) -> Result<F, TransportError> {
        let connection = self.end.connect(peer, purpose, until, stop).await?;
        (self.make)(connection, stop)
    }
}

impl<E: Incoming, F: MessageFlow + 'static> Server for MessageEnd<E, F> {
    fn address(&self) -> SocketAddr {
        self.end.address()
    }

    async fn accept(
        &self,
        until: MonotonicTime,
        stop: &Stop,
        admit: &mut (impl FnMut(&[u8]) -> bool + Send),
    ) -> Result<Accepted<F>, TransportError> {
        let admitted = async {
            loop {
                let connection = self.admitted(admit).await?;
                // One that has failed meanwhile is left out, as one that failed before its first message.
                if let Ok(flow) = (self.make)(connection, stop) {
                    return Ok(Accepted::Connection(flow));
                }
            }
        };
        let what = reason::opening_of_flow();
        in_time(until, what, stop.unless_raised(admitted)).await
    }
}
