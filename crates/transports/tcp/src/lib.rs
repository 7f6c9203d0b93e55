//! TCP of the running kernel, plain and with TLS 1.3.
//!
//! Both drivers share one blocking endpoint; what differs is the layer between the socket and the
//! workload: none, or TLS.

mod driver;
mod endpoint;
mod info;
mod plain;
mod socket;
mod tls;

use regatta_transport::Driver;

/// The drivers of this crate: `tcp`, `tcp-tls`.
#[must_use]
pub fn drivers() -> &'static [&'static dyn Driver] {
    &[&driver::Tcp, &driver::TcpTls]
}
