//! What `quic-quiche` promises beside the contract of every driver.

use regatta_transport::testing::contract;
use regatta_transport_quic::quiche_driver::QuicQuiche;

#[test]
fn it_keeps_the_contract_of_streams() {
    contract::holds(&QuicQuiche);
}
