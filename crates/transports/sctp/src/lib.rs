//! SCTP twice: of the running kernel (`kernel`), and in user space, with `sctp-proto` at both ends
//! and its packets as payload of UDP (as RFC 6951). All rooms but `kernel` are the latter's; `link`
//! and `timer` have what both use to wait.
//!
//! - `driver` says what it is; `options` reads what a study sets and sizes windows.
//! - `core` has one end's socket and associations and drives them; `association` is one of them;
//!   `socket` moves packets in batches; `wire` reads of them what the stack does not tell.
//! - `endpoint`, `connection` and `messages` are what the workloads use; `link` is their hold on
//!   an association.

mod association;
mod connection;
mod core;
mod driver;
mod endpoint;
mod kernel;
mod link;
mod messages;
mod options;
mod socket;
mod statistics;
mod wire;

use regatta_transport::Driver;

/// The drivers of this crate: `sctp`, `sctp-userspace`.
#[must_use]
pub fn drivers() -> &'static [&'static dyn Driver] {
    &[&kernel::driver::Sctp, &driver::SctpUserspace]
}
