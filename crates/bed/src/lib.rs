//! Test bed of a study: two hosts and the path between them.
//!
//! [`Bed::up`] starts a process that keeps the path (`path-keeper`, [`keeper::main`]): two network
//! namespaces, a TUN device in each, and one thread that carries packets between them through
//! [`regatta_emulation`]. Agents are started inside the namespaces. All of them end with the
//! controller: when it ends, however it ends, the keeper and the agents end, and with the last
//! process in them the namespaces are removed.

mod bed;
pub mod capture;
mod error;
mod far;
pub mod guest;
pub mod keeper;
mod messages;
mod process;
pub mod program;
mod two_guests;

pub use bed::{Bed, Host};
pub use error::{BedError, Reported};
pub use far::{COMMAND as FAR_COMMAND, FarProcess, FarStreams, main as far_main};
pub use messages::{LinkCounters, PathCounters, Untold};
pub use two_guests::{AgentOfTwo, TwoGuests};
