//! Transfers of more than one whole flow, over every stack.

use regatta_transport::testing::lanes;
use regatta_transport_quic::drivers;

#[test]
fn every_stack_carries_lanes() {
    for driver in drivers() {
        lanes::hold(*driver);
    }
}
