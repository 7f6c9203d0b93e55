//! Ends of a driver in one trial, and their guarantees to the workloads.
//!
//! A driver has an [`Endpoint`] for each end: a [`Client`], which connects, and a [`Server`], which listens. Their
//! connections are [`StreamConnection`](crate::StreamConnection)s or [`MessageFlow`](crate::MessageFlow)s.
//!
//! All functions that wait are `async` so that one workload serves blocking and asynchronous stacks. A blocking driver's
//! functions block and never yield, and its executor is [`Blocking`](crate::Blocking). An asynchronous driver has its own
//! current-thread runtime.

use std::{future::Future, net::SocketAddr};

use regatta_model::{Facts, Warning};

use crate::{
    clock::MonotonicTime,
    error::{Result, TransportError},
    executor::Executor,
    opening::Purpose,
    stop::Stop,
};

/// One end of a driver in one trial.
pub trait Endpoint: Send + Sync + Sized + 'static {
    /// Connection that the endpoint makes.
    type Connection;

    /// Executor of the driver's futures: [`Blocking`](crate::Blocking) for a stack whose calls block.
    type Executor: Executor;

    /// Returns the executor of this end's futures.
    fn executor(&self) -> &Self::Executor;

    /// Returns facts about this end, by the full name of the fact. Facts about a connection take precedence.
    fn facts(&self) -> Facts {
        Facts::default()
    }

    /// Returns warnings about this end, over this path.
    fn warnings(&self) -> Vec<Warning> {
        Vec::new()
    }
}

/// Connecting end.
pub trait Client: Endpoint {
    /// Connects; returns when the connection can carry data. `purpose` is [`Purpose::Transfer`] or one of the probes, whose
    /// small messages must not be held back.
    ///
    /// A flow of messages that needs no handshake is made without sending anything.
    ///
    /// The connection, and the attempt, are registered with `stop`.
    ///
    /// # Errors
    /// The error of the stack; [`TransportError::TimedOut`] at `until`.
    fn connect(
        &self,
        peer: SocketAddr,
        purpose: Purpose,
        until: MonotonicTime,
        stop: &Stop,
    ) -> impl Future<Output = Result<Self::Connection>>;
}

/// Listening end. It listens from its creation on.
pub trait Server: Endpoint {
    /// Returns the address on which this end listens.
    fn address(&self) -> SocketAddr;

    /// Waits for a connection from the announced peer; others are refused without ending the wait.
    ///
    /// `admit` is called for each attempt, before any work for it. Over streams its argument is empty and its result is
    /// ignored. Over messages its argument is the first message of a new flow; if it returns false, the message is
    /// dropped and the wait continues.
    ///
    /// The accepted connection is registered with `stop`; the listening socket is not. The wait ends within some tens
    /// of milliseconds after `stop` is raised.
    ///
    /// An attempt that fails in its handshake is [`Accepted::Failed`], after which the caller may wait again.
    ///
    /// Several tasks may wait at once; each connection goes to one of them.
    ///
    /// # Errors
    /// Errors after which this end cannot listen any more; [`TransportError::TimedOut`] at `until`.
    fn accept(
        &self,
        until: MonotonicTime,
        stop: &Stop,
        admit: &mut (impl FnMut(&[u8]) -> bool + Send),
    ) -> impl Future<Output = Result<Accepted<Self::Connection>>>;
}

/// Result of one attempt to connect.
#[derive(Debug)]
pub enum Accepted<C> {
    /// A connection.
    Connection(C),
    /// The attempt failed, and why. Listening goes on.
    Failed(TransportError),
}

impl<C> Accepted<C> {
    /// Makes something else of a connection, which can fail.
    pub fn and_then<D>(self, make: impl FnOnce(C) -> Result<D>) -> Accepted<D> {
        match self {
            Self::Connection(connection) => {
                make(connection).map_or_else(Accepted::Failed, Accepted::Connection)
            }
            Self::Failed(error) => Accepted::Failed(error),
        }
    }
}
