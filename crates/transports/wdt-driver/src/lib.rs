//! Warp Data Transfer as a transport of studies: `wdt`.
//!
//! The protocol is in a crate of its own, `regatta-transport-wdt`, which knows nothing of the bench.
//! Here is what a trial needs: content that is made and checked in memory, sockets that are set up
//! and sampled as those of `tcp` are, and the driver's options.

mod content;
mod driver;
mod endpoint;
mod host;

use regatta_transport::Driver;

/// The driver of this crate: `wdt`.
#[must_use]
pub fn drivers() -> &'static [&'static dyn Driver] {
    &[&driver::Wdt]
}
