//! Transfers of more than one whole flow, over TCP and TLS.

use regatta_transport::{Driver, testing::lanes};
use regatta_transport_tcp::drivers;

fn driver(name: &str) -> &'static dyn Driver {
    *drivers()
        .iter()
        .find(|driver| driver.descriptor().name == name)
        .expect("a driver of this crate")
}

#[test]
fn tcp_carries_lanes() {
    lanes::hold(driver("tcp"));
}

#[test]
fn tcp_tls_carries_lanes() {
    lanes::hold(driver("tcp-tls"));
}
