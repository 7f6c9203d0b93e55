//! Messages between the controller, the daemon and the guest.

use std::{path::PathBuf, time::Duration};

use regatta_model::{Clock, Problem};
use serde::{Deserialize, Serialize};

/// Version of these messages; all ends are the same program, so a difference is a bug.
pub(super) const PROTOCOL_VERSION: u32 = 4;

/// Settings of a guest: its kernel, its clock and memory, and the program that it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Path of the kernel.
    pub kernel: PathBuf,
    /// Clock of the guest.
    pub clock: Clock,
    /// Seed of the guest's random numbers where its clock is virtual; with a real clock they are
    /// the host's.
    pub seed: u64,
    /// Memory of the guest, in MiB. The host provides only the part that is used.
    pub memory_mib: u32,
    /// Arguments of the program, which is the same as the one that starts the guest.
    pub arguments: Vec<String>,
    /// Additions to the environment that the program inherits.
    pub environment: Vec<(String, String)>,
    /// Directory of the host that the guest may write to; in the guest its path is
    /// [`super::FILES`].
    pub files: Option<PathBuf>,
    /// Text that the program reads with [`super::payload`].
    pub payload: String,
}

impl Order {
    /// Default memory of a guest, in MiB.
    pub const DEFAULT_MEMORY_MIB: u32 = 1024;
}

/// First line on the daemon's standard input: the order and the file descriptors of the wires.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Instructions {
    pub protocol: u32,
    pub order: Order,
    /// File descriptors of the daemon that are ends of wires; the guest has them as `vec0`, `vec1`,
    /// ….
    pub wires: Vec<i32>,
}

/// Messages from a guest or about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum GuestMessage {
    /// The guest is ready and starts the program.
    Started {
        /// Release of the guest's kernel.
        release: String,
    },
    /// Sign of life, sent every [`GuestMessage::HEARTBEAT`] with a real clock, so that a guest that hangs is
    /// noticed. With a virtual clock there is no time at which to expect one.
    Heartbeat,
    /// A line of the kernel's console.
    Console {
        /// The line without its line feed.
        line: String,
    },
    /// A line of the program's standard output or error.
    Output {
        /// The line without its line feed.
        line: String,
    },
    /// Message that the program sent with [`super::send_message`].
    Message {
        /// The message, unchanged.
        text: String,
    },
    /// The program has ended, and with it the guest. Last message of a guest.
    Ended {
        /// Exit code of the program; 128 and the signal's number if it was killed.
        code: i32,
    },
    /// The guest could not be started, or ended before the program did. Last message of a guest.
    Failed(Problem),
}

impl GuestMessage {
    /// Time from one [`GuestMessage::Heartbeat`] to the next.
    pub const HEARTBEAT: Duration = Duration::from_secs(2);
}
