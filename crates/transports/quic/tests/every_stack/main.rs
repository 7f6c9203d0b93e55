//! What every stack promises beside the contract of every driver.

mod datagrams;
mod refusals;
mod strangers;

use std::{net::UdpSocket, time::Duration};

use regatta_control::{FailureKind, Role, TrialOrder};
use regatta_model::OptionValue;
use regatta_transport::testing::{order_for, trial_context};
use regatta_transport_quic::drivers;

fn in_datagrams(order: &mut TrialOrder) {
    let mode = OptionValue::Text("datagram".to_owned());
    order.transport.options.insert("mode".to_owned(), mode);
    order.path.mtu_bytes = 1500;
}

#[test]
fn a_peer_that_never_answers_is_timed_out() {
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let peer = silent.local_addr().expect("an address");
    let changes: [fn(&mut TrialOrder); 3] = [
        |_| {},
        |order| order.workload.probe.under_load = true,
        in_datagrams,
    ];
    for driver in drivers() {
        for change in changes {
            let mut order = order_for(Role::Sender, driver.descriptor().name, 1000, 1000);
            order.deadline = Duration::from_millis(400);
            change(&mut order);
            let (context, _) = trial_context();
            let sender = driver.prepare(&order, context).expect("a sender");
            let error = sender.run(Some(peer)).expect_err("nobody answers");
            assert_eq!(error.kind(), FailureKind::TimedOut, "{error}");
            assert_eq!(error.to_string(), "no connection within 0.4 s");
        }
    }
}
