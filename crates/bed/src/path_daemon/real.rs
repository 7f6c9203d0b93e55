//! Network as it is, without an emulator: between two machines, or a direct link between two namespaces.

use regatta_model::{Condition, Emulator, Offloads, PathSetup};

use super::{Path, error::DaemonError, namespaces::Namespace, netem::Chain, tun::MTU_RANGE};
use crate::messages::PathForm;

/// The network, or this machine's end of it.
#[derive(Debug)]
pub(super) enum RealPath {
    /// One end, in the network namespace of this process.
    End(Namespace),
    /// Both ends of a pair of virtual Ethernets.
    Link(Box<Chain>, Offloads),
}

impl RealPath {
    /// Opens the network namespace of this process.
    ///
    /// # Errors
    /// If `/proc` does not show it.
    pub(super) fn up() -> Result<Self, DaemonError> {
        Namespace::own().map(Self::End)
    }
}

impl Path for RealPath {
    fn form(&self) -> PathForm {
        PathForm {
            setup: PathSetup {
                emulator: Emulator::None,
                offloads: match self {
                    Self::End(_) => Offloads::On,
                    Self::Link(_, offloads) => *offloads,
                },
                ..PathSetup::default()
            },
            kernel: String::new(),
            seeded: false,
            is_real: true,
        }
    }

    fn hosts(&self) -> Vec<&Namespace> {
        match self {
            Self::End(host) => vec![host],
            Self::Link(link, _) => link.hosts(),
        }
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
        match self {
            Self::End(_) => Ok(()),
            Self::Link(..) if !MTU_RANGE.contains(&condition.mtu_bytes) => {
                Err(DaemonError::Mtu(condition.mtu_bytes))
            }
            Self::Link(link, _) => link.set_mtu(condition.mtu_bytes),
        }
    }
}
