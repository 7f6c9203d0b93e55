//! Network as it is, without an emulator: between two machines, a direct link between two namespaces, or the loopback of
//! one.

use regatta_model::{Condition, PathSetup};

use super::{Path, error::DaemonError, namespaces::Namespace, netem::Chain};
use crate::messages::PathForm;

/// The network, or this machine's end of it.
pub(super) struct RealPath {
    /// The host in the network namespace of this process, both at a pair of virtual Ethernets, or both in one namespace.
    pub(super) link: Chain,
    /// Emulator, which is [absent](regatta_model::Emulator::is_absent), and offloads.
    pub(super) setup: PathSetup,
}

impl Path for RealPath {
    fn form(&self) -> PathForm {
        PathForm {
            setup: self.setup,
            kernel: String::new(),
            seeded: false,
            is_real: true,
        }
    }

    fn hosts(&self) -> Vec<&Namespace> {
        self.link.hosts()
    }

    /// Accepts a condition that changes nothing but, of a direct link and of the loopback, the MTU.
    ///
    /// # Errors
    /// [`DaemonError::AsItIs`] for any other.
    fn set(&mut self, condition: &Condition, _seed: u64) -> Result<(), DaemonError> {
        if !condition.changes_nothing() {
            return Err(DaemonError::AsItIs {
                condition: condition.name.clone(),
            });
        }
        self.link.set_mtu(condition.mtu_bytes)
    }
}
