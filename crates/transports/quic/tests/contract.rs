//! What every driver must do.

use regatta_transport::testing::contract;
use regatta_transport_quic::drivers;

#[test]
fn every_driver_keeps_the_contract() {
    for driver in drivers() {
        contract::holds(*driver);
    }
}
