//! SCTP twice: of the running kernel (`kernel`), and in user space, with `sctp-proto` at both ends
//! and its packets as payload of UDP (as RFC 6951; `userspace`, which the feature of that name, on by
//! default, compiles).
//!
//! - `association` is what an association of either stack does for the workloads; `connection` and
//!   `flow` carry streams and messages on it, and `session` makes them an end of a trial.

mod association;
mod connection;
mod flow;
mod kernel;
mod session;
#[cfg(feature = "userspace")]
mod userspace;

use regatta_transport::Driver;

/// Returns the drivers of this crate: `sctp`, `sctp-userspace`.
#[must_use]
pub fn drivers() -> &'static [&'static dyn Driver] {
    &[
        &kernel::driver::Sctp,
        #[cfg(feature = "userspace")]
        &userspace::driver::SctpUserspace,
    ]
}
