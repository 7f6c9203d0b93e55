//! Contract of every driver, over loopback.

use regatta_test_contract::contract;
use regatta_transport::Driver;
use regatta_transport_quic::drivers;

fn driver(name: &str) -> &'static dyn Driver {
    *drivers()
        .iter()
        .find(|driver| driver.descriptor().name == name)
        .expect("the driver is registered")
}

regatta_test_contract::contract_tests! {
    quinn: streams => driver("quic-quinn");
    noq: streams => driver("quic-noq");
    quiche: streams => driver("quic-quiche");
    s2n: streams => driver("quic-s2n");
}

#[test]
fn every_driver_has_its_cases() {
    contract::drivers_have_cases(&tested_drivers(), drivers());
}
