//! Network as it is, without an emulator: between two machines, or a direct link between two namespaces.

use regatta_model::{Condition, Emulator, Offloads, PathSetup};

use super::{Path, error::DaemonError, namespaces::Namespace, netem::Chain};
use crate::messages::PathForm;

/// The network, or this machine's end of it.
pub(super) struct RealPath {
    /// The host in the network namespace of this process, or both at a pair of virtual Ethernets.
    pub(super) link: Chain,
    pub(super) offloads: Offloads,
}

impl Path for RealPath {
    fn form(&self) -> PathForm {
        PathForm {
            setup: PathSetup {
                emulator: Emulator::None,
                offloads: self.offloads,
                ..PathSetup::default()
            },
            kernel: String::new(),
            seeded: false,
            is_real: true,
        }
    }

    fn hosts(&self) -> Vec<&Namespace> {
        self.link.hosts()
    }

    /// Accepts a condition that changes nothing but, of a direct link, the MTU.
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
