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

    /// Makes one end of one trial. A server listens when this returns; a client has sent
    /// nothing.
    ///
    /// # Errors
    /// The error that keeps it from listening or from reading the order.
    fn prepare(&self, order: &TrialOrder, context: TrialContext) -> Result<Box<dyn Session>>;
}

/// One end of one trial.
pub trait Session: Send {
    /// Returns the address on which a server listens; `None` at a client.
    fn listen_address(&self) -> Option<SocketAddr>;

    /// Runs this end to the end, blocking: the host gives it a thread of its own. A server is
    /// run as soon as it is prepared, a client when both are, with the server's address.
    ///
    /// # Errors
    /// The error that keeps this end from a measurement; always in bounded time.
    fn run(self: Box<Self>, peer: Option<SocketAddr>) -> Result<SideReport>;
}
