//! An end of a sans-IO protocol as an endpoint of streams or of messages.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use regatta_model::Warning;
use regatta_transport::{
    MessageEndpoint, MessageFlow, MonotonicTime, Purpose, Stop, StreamConnection, StreamEndpoint,
    TransportError, stream::Accepted,
};

use super::{Admission, End, Handle, Protocol};
use crate::executor::Tokio;

/// Maker of what a workload uses from an established connection. The flag is whether this end has
/// opened it.
type Make<P, C> =
    Box<dyn Fn(Arc<Handle<P>>, bool, &Stop) -> Result<C, TransportError> + Send + Sync>;

/// Endpoint of byte streams.
pub struct StreamEnd<P: Protocol, C> {
    end: End<P>,
    make: Make<P, C>,
}

impl<P: Protocol, C> StreamEnd<P, C> {
    /// Makes an endpoint whose connections `make` makes; its second argument is whether this end has
    /// opened the connection.
    pub fn new(
        end: End<P>,
        make: impl Fn(Arc<Handle<P>>, bool, &Stop) -> Result<C, TransportError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            end,
            make: Box::new(make),
        }
    }
}

impl<P: Protocol, C: StreamConnection + 'static> StreamEndpoint for StreamEnd<P, C> {
    type Connection = C;
    type Executor = Tokio;

    fn executor(&self) -> &Tokio {
        &self.end.runtime
    }

    fn listen_address(&self) -> Option<SocketAddr> {
        self.end.listen_address()
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
        self.end.facts.clone()
    }

    fn warnings(&self) -> Vec<Warning> {
        self.end.warnings.clone()
    }
}

/// Endpoint of messages.
pub struct MessageEnd<P: Protocol, F> {
    end: End<P>,
    longest: usize,
    reliable: bool,
    make: Make<P, F>,
}

impl<P: Protocol, F> MessageEnd<P, F> {
    /// Makes an endpoint for messages of at most `longest` bytes, which are all delivered or not, and
    /// whose flows `make` makes; its second argument is whether this end has opened the flow.
    pub fn new(
        end: End<P>,
        longest: usize,
        reliable: bool,
        make: impl Fn(Arc<Handle<P>>, bool, &Stop) -> Result<F, TransportError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            end,
            longest,
            reliable,
            make: Box::new(make),
        }
    }
}

impl<P: Protocol, F: MessageFlow + 'static> MessageEndpoint for MessageEnd<P, F>
where
    P::Connection: Admission,
{
    type Flow = F;
    type Executor = Tokio;

    fn executor(&self) -> &Tokio {
        &self.end.runtime
    }

    fn listen_address(&self) -> Option<SocketAddr> {
        self.end.listen_address()
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
        let until = MonotonicTime::now() + self.end.connect_deadline;
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
        self.end.facts.clone()
    }

    fn warnings(&self, _message_bytes: usize) -> Vec<Warning> {
        self.end.warnings.clone()
    }
}
