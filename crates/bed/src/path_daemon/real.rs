//! Network between two machines as it is, without an emulator.

use regatta_model::{Condition, Emulator, LossBy, Offloads, Placement};

use super::{Path, error::DaemonError, namespaces::Namespace};
use crate::messages::PathForm;

/// This machine's end of the network.
#[derive(Debug)]
pub(super) struct RealPath {
    host: Namespace,
}

impl RealPath {
    /// Opens the network namespace of this process.
    ///
    /// # Errors
    /// If `/proc` does not show it.
    pub(super) fn up() -> Result<Self, DaemonError> {
        Namespace::own().map(|host| Self { host })
    }
}

impl Path for RealPath {
    fn form(&self) -> PathForm {
        PathForm {
            emulator: Emulator::Userspace,
            placement: Placement::default(),
            loss_by: LossBy::default(),
            offloads: Offloads::On,
            kernel: String::new(),
            seeded: false,
            is_real: true,
        }
    }

    fn hosts(&self) -> Vec<&Namespace> {
        vec![&self.host]
    }

    /// Accepts a condition that changes nothing.
    ///
    /// # Errors
    /// [`DaemonError::AsItIs`] for any other.
    fn set(&mut self, condition: &Condition, _seed: u64) -> Result<(), DaemonError> {
        if !condition.changes_nothing() {
            return Err(DaemonError::AsItIs {
                condition: condition.name.clone(),
            });
        }
        Ok(())
    }
}
