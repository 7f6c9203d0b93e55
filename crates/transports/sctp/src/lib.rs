//! SCTP twice: of the running kernel (`kernel`), and in user space, with `sctp-proto` at both ends
//! and its packets as payload of UDP (as RFC 6951). All modules but `kernel` and `wait` belong to
//! the latter, and the feature `userspace`, on by default, compiles them.
//!
//! - `driver` has the descriptor; `options` reads a study's options and sizes windows.
//! - `core` has one end's socket and associations and drives them; `association` is one of them;
//!   `socket` moves packets in batches; `wire` parses them for figures that the stack lacks.
//! - `endpoint`, `connection` and `messages` are used by the workloads; `link` is their handle to
//!   an association.

#[cfg(feature = "userspace")]
mod association;
#[cfg(feature = "userspace")]
mod connection;
#[cfg(feature = "userspace")]
mod driver;
#[cfg(feature = "userspace")]
mod endpoint;
mod kernel;
#[cfg(feature = "userspace")]
mod messages;
#[cfg(feature = "userspace")]
mod options;
#[cfg(feature = "userspace")]
mod protocol;
#[cfg(feature = "userspace")]
mod statistics;
#[cfg(feature = "userspace")]
mod wire;

use regatta_transport::Driver;

/// Returns the drivers of this crate: `sctp`, `sctp-userspace`.
#[must_use]
pub fn drivers() -> &'static [&'static dyn Driver] {
    &[
        &kernel::driver::Sctp,
        #[cfg(feature = "userspace")]
        &driver::SctpUserspace,
    ]
}
