//! Properties of `quic-quinn` and `quic-noq` beyond the contract of every driver.

/// Makes one test for each of these functions and both drivers: functions of one argument, the driver.
macro_rules! for_both {
    ($($test:ident),+ $(,)?) => {
        regatta_test_contract::driver_tests! {
            [$($test),+]
            quinn => &regatta_transport_quic_quinn::DRIVER;
            noq => &regatta_transport_quic_noq::DRIVER;
        }
    };
}

mod files;
mod handshakes;
mod migration;
mod relay;
mod stack;

use regatta_control::TrialOrder;
use regatta_model::OptionValue;
use regatta_transport::{
    Driver,
    testing::{Pair, run_pair},
};
fn pair(driver: &dyn Driver, size: u64, change: impl Fn(&mut TrialOrder)) -> Pair {
    run_pair(driver, size, 10_000, change).expect("both ends can be prepared")
}

fn option(order: &mut TrialOrder, name: &str, value: OptionValue) {
    order.transport.options.insert(name.to_owned(), value);
}

fn text(value: &str) -> OptionValue {
    OptionValue::Text(value.to_owned())
}
