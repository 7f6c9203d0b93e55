//! TCP of the running kernel: plain, with TLS 1.3, and over several paths (MPTCP).
//!
//! The drivers share one blocking endpoint; they differ in the layer between the socket and the
//! workload, which is none or TLS, and in the protocol of the socket.

mod buffer;
mod connection;
mod driver;
mod endpoint;
mod info;
mod layer;
mod layered;
mod mptcp;
mod pages;
pub mod parts;
mod plain;
mod settings;
mod socket;
mod sockets;
mod stack;
mod tls;

use regatta_transport::Driver;

/// The drivers of this crate: `tcp`, `tcp-tls`, `mptcp`.
#[must_use]
pub fn drivers() -> &'static [&'static dyn Driver] {
    static DRIVERS: [&dyn Driver; 3] = [&driver::TCP, &driver::TCP_TLS, &driver::MPTCP];
    &DRIVERS
}
