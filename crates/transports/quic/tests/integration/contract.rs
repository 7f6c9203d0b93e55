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

macro_rules! contract_tests_over_streams {
    ([$($stack:ident $name:literal $package:ident;)*]) => {
        regatta_test_contract::contract_tests! {
            $($stack: streams => driver(concat!("quic-", $name));)*
        }
    };
}

regatta_transport_quic::stacks!(contract_tests_over_streams);

#[test]
fn every_driver_has_its_cases() {
    contract::drivers_have_cases(&tested_drivers(), drivers());
}
