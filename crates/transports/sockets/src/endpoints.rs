//! One end of a trial as an endpoint of streams or of messages, for stacks on tokio.

use std::{future::Future, net::SocketAddr};

use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use regatta_control::TrialOrder;
use regatta_model::{Facts, Warning, reason};
use regatta_transport::{
    MessageEndpoint, MessageFlow, MonotonicTime, Purpose, Stop, StreamConnection, StreamEndpoint,
    TransportError, stream::Accepted,
};
use tokio::sync::Mutex;

use crate::{executor::Tokio, wait::in_time};

/// Parts that every end of a trial has.
#[derive(Debug)]
pub struct EndBase {
    /// The runtime that the end's futures run on.
    pub runtime: Tokio,
    /// The address that the end listens on, if it does.
    pub listen_address: Option<SocketAddr>,
    /// Facts about the end, by their full names.
    pub facts: Facts,
    /// Warnings for the reader of the results.
    pub warnings: Vec<Warning>,
}

/// One end of a trial, whose connections can carry streams or messages. A connection is registered with the stop that
/// belongs to it by [`Make`].
pub trait TrialEnd: Send + Sync + 'static {
    /// An established connection.
    type Handle: Send + Sync + 'static;

    /// Returns the parts that every end has.
    fn base(&self) -> &EndBase;

    /// Returns the moment until which a flow of messages that begins now has to be connected.
    fn connect_deadline(&self) -> MonotonicTime;

    /// Connects to the announced peer; returns when the connection can carry data.
    fn connect(
        &self,
        peer: SocketAddr,
        purpose: Purpose,
        until: MonotonicTime,
        stop: &Stop,
    ) -> impl Future<Output = Result<Self::Handle, TransportError>>;

    /// Accepts a connection from the peer, as [`StreamEndpoint::accept`] promises it.
    fn accept(
        &self,
        until: MonotonicTime,
        stop: &Stop,
        arrived: &mut (impl FnMut() + Send),
    ) -> impl Future<Output = Result<Accepted<Self::Handle>, TransportError>>;

    /// Returns facts about the end, by their full names.
    fn facts(&self) -> Facts {
        self.base().facts.clone()
    }
}

/// An end whose connections can be accepted by their first message.
pub trait AdmittingEnd: TrialEnd {
    /// Waits for the next connection that the peer opens, whether it is established or not. Attempts that failed are
    /// left out.
    ///
    /// # Errors
    /// The error that makes listening impossible.
    fn next(&self) -> impl Future<Output = Result<Self::Handle, TransportError>>;

    /// Waits for the next message of a connection that [`AdmittingEnd::next`] returned.
    ///
    /// # Errors
    /// The reason for which the connection has ended before.
    fn message(
        handle: &Self::Handle,
    ) -> impl Future<Output = Result<Vec<u8>, TransportError>> + Send;
}

/// Checks that the end of `order` may connect to `peer`: that it connects at all, and to this host.
///
/// # Errors
/// [`TransportError::Order`].
pub fn check_peer(order: &TrialOrder, peer: SocketAddr) -> Result<(), TransportError> {
    let (ip, announced) = (peer.ip(), order.peer);
    let what = if !order.connects() {
        reason::listening_does_not_connect()
    } else if ip.to_canonical() != announced.to_canonical() {
        reason::other_peer(&ip.to_string(), &announced.to_string())
    } else {
        return Ok(());
    };
    Err(TransportError::order(what))
}

/// Maker of what a workload uses from an established connection, which it registers with the stop. The flag is whether
/// this end has opened the connection.
pub type Make<H, C> = Box<dyn Fn(H, bool, &Stop) -> Result<C, TransportError> + Send + Sync>;

/// Endpoint of byte streams.
pub struct StreamEnd<E: TrialEnd, C> {
    /// The end.
    pub end: E,
    /// Maker of the connections.
    pub make: Make<E::Handle, C>,
}

impl<E: TrialEnd, C: StreamConnection + 'static> StreamEndpoint for StreamEnd<E, C> {
    type Connection = C;
    type Executor = Tokio;

    fn executor(&self) -> &Tokio {
        &self.end.base().runtime
    }

    fn listen_address(&self) -> Option<SocketAddr> {
        self.end.base().listen_address
    }

    async fn connect(
        &self,
        peer: SocketAddr,
        purpose: Purpose,
        until: MonotonicTime,
        stop: &Stop,
    ) -> Result<C, TransportError> {
        let handle = self.end.connect(peer, purpose, until, stop).await?;
        (self.make)(handle, true, stop)
    }

    async fn accept(
        &self,
        until: MonotonicTime,
        stop: &Stop,
        arrived: &mut (impl FnMut() + Send),
    ) -> Result<Accepted<C>, TransportError> {
        Ok(match self.end.accept(until, stop, arrived).await? {
            Accepted::Connection(handle) => {
                (self.make)(handle, false, stop).map_or_else(Accepted::Failed, Accepted::Connection)
            }
            Accepted::Failed(error) => Accepted::Failed(error),
        })
    }

    fn facts(&self) -> Facts {
        self.end.facts()
    }

    fn warnings(&self) -> Vec<Warning> {
        self.end.base().warnings.clone()
    }
}

/// Connections of which no message was admitted, each with the wait for its next message.
type Unclaimed<H> = FuturesUnordered<BoxFuture<'static, (H, Result<Vec<u8>, TransportError>)>>;

/// Endpoint of messages.
pub struct MessageEnd<E: TrialEnd, F> {
    /// Before the end, so that its connections are dropped first.
    unclaimed: Mutex<Unclaimed<E::Handle>>,
    pub(crate) end: E,
    longest: usize,
    reliable: bool,
    make: Make<E::Handle, F>,
}

impl<E: AdmittingEnd, F> MessageEnd<E, F> {
    /// Makes an endpoint of an end for messages of at most `longest` bytes; `reliable` is whether every message arrives,
    /// or the flow fails.
    pub fn new(
        end: E,
        longest: usize,
        reliable: bool,
        make: impl Fn(E::Handle, bool, &Stop) -> Result<F, TransportError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            unclaimed: Mutex::default(),
            end,
            longest,
            reliable,
            make: Box::new(make),
        }
    }

    /// Waits for a connection whose first message `admit` accepts. Other messages are dropped, as are connections that
    /// end before.
    pub(crate) async fn admitted(
        &self,
        admit: &mut (impl FnMut(&[u8]) -> bool + Send),
    ) -> Result<E::Handle, TransportError> {
        let first = |handle: E::Handle| {
            let message = async move {
                let message = E::message(&handle).await;
                (handle, message)
            };
            message.boxed()
        };
        // A second one that waits at this end waits for the first.
        let mut unclaimed = self.unclaimed.lock().await;
        loop {
            tokio::select! {
                biased;
                Some((handle, message)) = unclaimed.next() => match message {
                    Ok(message) if admit(&message) => return Ok(handle),
                    Ok(_) => unclaimed.push(first(handle)),
                    Err(_) => {}
                },
                handle = self.end.next() => unclaimed.push(first(handle?)),
            }
        }
    }
}

impl<E: AdmittingEnd, F: MessageFlow + 'static> MessageEndpoint for MessageEnd<E, F> {
    type Flow = F;
    type Executor = Tokio;

    fn executor(&self) -> &Tokio {
        &self.end.base().runtime
    }

    fn listen_address(&self) -> Option<SocketAddr> {
        self.end.base().listen_address
    }

    fn longest_message(&self) -> usize {
        self.longest
    }

    fn reliable(&self) -> bool {
        self.reliable
    }

    async fn connect(
        &self,
        peer: SocketAddr,
        purpose: Purpose,
        stop: &Stop,
    ) -> Result<F, TransportError> {
        let until = self.end.connect_deadline();
        let handle = self.end.connect(peer, purpose, until, stop).await?;
        (self.make)(handle, true, stop)
    }

    async fn accept(
        &self,
        until: MonotonicTime,
        stop: &Stop,
        admit: &mut (impl FnMut(&[u8]) -> bool + Send),
    ) -> Result<F, TransportError> {
        let admitted = async {
            loop {
                let handle = self.admitted(admit).await?;
                // One that has failed meanwhile is left out, as one that failed before its first message.
                if let Ok(flow) = (self.make)(handle, false, stop) {
                    return Ok(flow);
                }
            }
        };
        in_time(
            until,
            reason::opening_of_flow(),
            stop.unless_raised(admitted),
        )
        .await
    }

    fn facts(&self) -> Facts {
        self.end.facts()
    }

    fn warnings(&self, _message_bytes: usize) -> Vec<Warning> {
        self.end.base().warnings.clone()
    }
}
