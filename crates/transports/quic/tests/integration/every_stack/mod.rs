//! Properties of every stack beyond the contract of every driver.

/// Makes one test for each of these functions and each stack: functions of one argument, the driver.
macro_rules! for_each_stack {
    ($($test:ident),+ $(,)?) => {
        regatta_transport_quic::stacks!(driver_tests_of $($test)+);
    };
}

macro_rules! driver_tests_of {
    ([$($stack:ident $name:literal $package:ident;)*] $($test:ident)+) => {
        driver_tests_of!(@ [$($test),+] $($stack $name)*);
    };
    (@ $tests:tt $($stack:ident $name:literal)*) => {
        regatta_test_contract::driver_tests! {
            $tests
            $($stack => $crate::every_stack::driver(concat!("quic-", $name));)*
        }
    };
}

mod datagrams;
mod lost_close;
mod refusals;
mod strangers;

use std::{net::UdpSocket, time::Duration};

use regatta_control::{ProblemKind, Role, TrialOrder};
use regatta_model::OptionValue;
use regatta_transport::{
    Driver,
    testing::{order_for, trial_context},
};
use regatta_transport_quic::drivers;

fn driver(name: &str) -> &'static dyn Driver {
    *drivers()
        .iter()
        .find(|driver| driver.descriptor().name == name)
        .expect("the driver is registered")
}

fn in_datagrams(order: &mut TrialOrder) {
    let mode = OptionValue::Text("datagram".to_owned());
    order.transport.options.insert("mode".to_owned(), mode);
    order.path.mtu_bytes = 1500;
}

for_each_stack! {
    a_peer_that_never_answers_is_timed_out,
}

fn a_peer_that_never_answers_is_timed_out(driver: &dyn Driver) {
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let peer = silent.local_addr().expect("an address");
    let changes: [fn(&mut TrialOrder); 3] = [
        |_| {},
        |order| order.workload.probe.under_load = true,
        in_datagrams,
    ];
    for change in changes {
        let mut order = order_for(Role::Sender, driver.descriptor().name, 1000, 1000);
        order.connect_deadline = Duration::from_millis(400);
        change(&mut order);
        let (context, _) = trial_context();
        let sender = driver.session(&order, context).expect("a sender");
        let error = sender.run(Some(peer)).expect_err("nobody answers");
        assert_eq!(error.kind(), ProblemKind::TimedOut, "{error}");
        assert_eq!(error.to_string(), "no connection within 400 ms");
    }
}
