//! One end of a trial as an endpoint of streams or of messages, for stacks on tokio.

use std::{collections::BTreeMap, future::Future, net::SocketAddr};

use regatta_control::TrialOrder;
use regatta_model::Warning;
use regatta_transport::{
    MessageEndpoint, MessageFlow, MonotonicTime, Purpose, Stop, StreamConnection, StreamEndpoint,
    TransportError, stream::Accepted,
};

use crate::executor::Tokio;

/// Parts that every end of a trial has.
#[derive(Debug)]
pub struct EndBase {
    /// The runtime that the end's futures run on.
    pub runtime: Tokio,
    /// The address that the end listens on, if it does.
    pub listen_address: Option<SocketAddr>,
    /// Facts about the end, by their full names.
    pub facts: BTreeMap<String, String>,
    /// Warnings for the reader of the results.
    pub warnings: Vec<Warning>,
}

/// One end of a trial, whose connections can carry streams or messages. What its methods return is registered with the
/// stop that they take.
pub trait TrialEnd: Send + Sync + 'static {
    /// An established connection.
    type Handle: 'static;

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
}

/// An end that can accept a connection by its first message.
pub trait AdmittingEnd: TrialEnd {
    /// Accepts a connection whose first message `admit` accepts.
    fn accept_admitted(
        &self,
        until: MonotonicTime,
        stop: &Stop,
        admit: &mut (impl FnMut(&[u8]) -> bool + Send),
    ) -> impl Future<Output = Result<Self::Handle, TransportError>>;
}

/// Checks that the end of `order` may connect to `peer`: that it connects at all, and to this host.
///
/// # Errors
/// [`TransportError::Order`].
pub fn check_peer(order: &TrialOrder, peer: SocketAddr) -> Result<(), TransportError> {
    let (ip, announced) = (peer.ip(), order.peer);
    let what = if !order.connects() {
        "an end that listens does not connect".to_owned()
    } else if ip.to_canonical() != announced.to_canonical() {
        format!("`{ip}` is not the announced peer `{announced}`")
    } else {
        return Ok(());
    };
    Err(TransportError::Order { what })
}

/// Maker of what a workload uses from an established connection. The flag is whether this end has
/// opened it.
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
            Accepted::Connection(handle) => Accepted::Connection((self.make)(handle, false, stop)?),
            Accepted::Failed(error) => Accepted::Failed(error),
        })
    }

    fn facts(&self) -> BTreeMap<String, String> {
        self.end.base().facts.clone()
    }

    fn warnings(&self) -> Vec<Warning> {
        self.end.base().warnings.clone()
    }
}

/// Endpoint of messages.
pub struct MessageEnd<E: TrialEnd, F> {
    /// The end.
    pub end: E,
    /// Size of the longest message, in bytes.
    pub longest: usize,
    /// Whether every message arrives, or the flow fails.
    pub reliable: bool,
    /// Maker of the flows.
    pub make: Make<E::Handle, F>,
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
        let handle = self.end.accept_admitted(until, stop, admit).await?;
        (self.make)(handle, false, stop)
    }

    fn facts(&self) -> BTreeMap<String, String> {
        self.end.base().facts.clone()
    }

    fn warnings(&self, _message_bytes: usize) -> Vec<Warning> {
        self.end.base().warnings.clone()
    }
}
