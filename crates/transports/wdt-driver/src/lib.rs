//! Warp Data Transfer as a transport of studies: `wdt`.
//!
//! The protocol is in a crate of its own, `wdt-protocol`, which does not depend on the
//! bench. This crate adds the parts that a trial needs: content that is generated and checked in
//! memory, sockets that are set up and sampled as those of `tcp` are, and the driver's options.

mod content;
mod driver;
mod endpoint;
mod host;
mod options;

use regatta_transport::Driver;

/// The driver of this crate: `wdt`.
#[must_use]
pub fn drivers() -> &'static [&'static dyn Driver] {
    &[&driver::Wdt]
}
