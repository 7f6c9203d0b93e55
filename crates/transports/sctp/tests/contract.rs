//! The contract of every driver, held by the streams of `sctp-userspace` and by its messages.

use std::{collections::BTreeMap, sync::LazyLock};

use regatta_control::TrialOrder;
use regatta_model::OptionValue;
use regatta_transport::{
    Carries, Driver, DriverDescriptor, Session, TransportError, TrialContext, Unsupported, testing,
};

fn driver() -> &'static dyn Driver {
    regatta_transport_sctp::drivers()[0]
}

/// The same driver with `ordered = false`.
struct Unordered;

static UNORDERED: LazyLock<DriverDescriptor> = LazyLock::new(|| DriverDescriptor {
    carries: Carries::Messages,
    ..*driver().descriptor()
});

impl Driver for Unordered {
    fn descriptor(&self) -> &'static DriverDescriptor {
        &UNORDERED
    }

    fn supported(&self, options: &BTreeMap<String, OptionValue>) -> Result<(), Unsupported> {
        driver().supported(options)
    }

    fn prepare(
        &self,
        order: &TrialOrder,
        context: TrialContext,
    ) -> Result<Box<dyn Session>, TransportError> {
        let mut order = order.clone();
        let unordered = OptionValue::Flag(false);
        order
            .transport
            .options
            .insert("ordered".to_owned(), unordered);
        driver().prepare(&order, context)
    }
}

#[test]
fn streams_hold_the_contract() {
    testing::contract::holds(driver());
}

#[test]
fn unordered_messages_hold_the_contract() {
    testing::contract::holds(&Unordered);
}
