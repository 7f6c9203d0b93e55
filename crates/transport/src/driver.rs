//! Drivers in the registry, and the sessions that they make.

use std::{collections::BTreeMap, net::SocketAddr};

use regatta_control::{SideReport, TrialOrder};
use regatta_model::{OptionValue, Workload, WorkloadKind};

use crate::{
    applicable,
    context::TrialContext,
    descriptor::{Carries, DriverDescriptor, OptionError},
    error::{Result, Unsupported},
};

/// A transport, as the registry holds it.
pub trait Driver: Send + Sync {
    /// Returns the driver's description.
    fn descriptor(&self) -> &'static DriverDescriptor;

    /// Checks names and values of options; needs nothing of a host.
    ///
    /// # Errors
    /// The first option that is unknown or has a wrong value.
    fn check_options(&self, options: &BTreeMap<String, OptionValue>) -> Result<(), OptionError> {
        self.descriptor().check(options)
    }

    /// Returns the unit that the transport carries with these options.
    fn carries(&self, options: &BTreeMap<String, OptionValue>) -> Carries {
        let _ = options;
        self.descriptor().carries
    }

    /// Checks whether the transport can do what a workload asks for, with these options: the
    /// handshake, several streams of one connection. Needs nothing of a host. The default goes by
    /// the descriptor.
    ///
    /// # Errors
    /// [`Unsupported`] with the reason and a hint.
    fn applicable(
        &self,
        options: &BTreeMap<String, OptionValue>,
        workload: &WorkloadKind,
    ) -> Result<(), Unsupported> {
        applicable::check(self.descriptor(), self.carries(options), workload)
    }

    /// Checks whether the probe under load can travel on what a workload asks for, with these
    /// options. Needs nothing of a host.
    ///
    /// # Errors
    /// [`Unsupported`] with the reason and a hint.
    fn probe_applicable(
        &self,
        options: &BTreeMap<String, OptionValue>,
        workload: &Workload,
    ) -> Result<(), Unsupported> {
        applicable::check_probe(self.descriptor(), self.carries(options), workload)
    }

    /// Whether a sender with these options is never held back: by a window, by a rate, by the path.
    fn never_waits(&self, options: &BTreeMap<String, OptionValue>) -> bool {
        let _ = options;
        false
    }

    /// Checks whether this host can run the transport with these options. The default is for a stack
    /// that needs no more of a host than UDP sockets.
    ///
    /// # Errors
    /// [`Unsupported`] with the reason and a hint.
    fn supported(&self, options: &BTreeMap<String, OptionValue>) -> Result<(), Unsupported> {
        let _ = options;
        Ok(())
    }

    /// Creates the connecting end of a trial; sends nothing.
    ///
    /// # Errors
    /// Errors of the order: options that this driver, build or host does not support.
    fn client(&self, order: &TrialOrder, context: TrialContext) -> Result<Box<dyn ClientSession>>;

    /// Creates the listening end of a trial. It listens when this returns.
    ///
    /// # Errors
    /// As [`Driver::client`], and errors of opening the listening socket.
    fn server(&self, order: &TrialOrder, context: TrialContext) -> Result<Box<dyn ServerSession>>;

    /// Creates the end of a trial that `order` names: the connecting or the listening one.
    ///
    /// # Errors
    /// As [`Driver::client`] and [`Driver::server`].
    fn session(&self, order: &TrialOrder, context: TrialContext) -> Result<Session> {
        Ok(match order.connects() {
            true => Session::Client(self.client(order, context)?),
            false => Session::Server(self.server(order, context)?),
        })
    }
}

/// Connecting end of a trial.
pub trait ClientSession: Send {
    /// Runs the trial at this end and returns its report. Blocks, so it is called on a thread of its own, once both
    /// ends have been created; `peer` is the address on which the other end listens.
    ///
    /// # Errors
    /// Any error after which this end has no measurement. Returns in bounded time in any case.
    fn run(self: Box<Self>, peer: SocketAddr) -> Result<SideReport>;
}

/// Listening end of a trial.
pub trait ServerSession: Send {
    /// Returns the address on which this end listens.
    fn address(&self) -> SocketAddr;

    /// Runs the trial at this end and returns its report. Blocks, so it is called on a thread of its own, as soon as
    /// this end has been created.
    ///
    /// # Errors
    /// Any error after which this end has no measurement. Returns in bounded time in any case.
    fn run(self: Box<Self>) -> Result<SideReport>;
}

/// One end of one trial.
pub enum Session {
    /// The end that connects.
    Client(Box<dyn ClientSession>),
    /// The end that listens.
    Server(Box<dyn ServerSession>),
}

impl Session {
    /// Returns the address on which this end listens; `None` at a client.
    #[must_use]
    pub fn listen_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Client(_) => None,
            Self::Server(server) => Some(server.address()),
        }
    }

    /// Runs the trial at this end, blocking; `peer` is the address on which the other end listens, needed at a client.
    ///
    /// # Errors
    /// Any error after which this end has no measurement.
    ///
    /// # Panics
    /// At a client without an address.
    #[cfg(any(test, feature = "testing"))]
    pub fn run(self, peer: Option<SocketAddr>) -> Result<SideReport> {
        match self {
            Self::Client(client) => client.run(peer.expect("the address of the server")),
            Self::Server(server) => server.run(),
        }
    }
}
