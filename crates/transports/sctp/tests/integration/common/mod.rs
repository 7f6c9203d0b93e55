//! Helpers for the tests of both drivers.

use regatta_control::TrialOrder;
use regatta_model::OptionValue;
use regatta_transport::{
    Carries, ClientSession, Driver, DriverDescriptor, ServerSession, TransportError, TrialContext,
    Unsupported,
};

/// Returns a driver of this crate.
pub fn driver(name: &str) -> &'static dyn Driver {
    *regatta_transport_sctp::drivers()
        .iter()
        .find(|driver| driver.descriptor().name == name)
        .expect("the driver is registered")
}

/// Driver of this crate with `ordered = false`.
pub struct Unordered {
    driver: &'static dyn Driver,
    descriptor: &'static DriverDescriptor,
}

impl Unordered {
    /// Wraps the driver of this name.
    pub fn of(name: &str) -> Self {
        let driver = driver(name);
        Self {
            driver,
            // Once in a test; a descriptor lives as long as the process.
            descriptor: Box::leak(Box::new(DriverDescriptor {
                carries: Carries::Messages,
                ..*driver.descriptor()
            })),
        }
    }
}

impl Driver for Unordered {
    fn descriptor(&self) -> &'static DriverDescriptor {
        self.descriptor
    }

    fn supported(
        &self,
        options: &std::collections::BTreeMap<String, OptionValue>,
    ) -> Result<(), Unsupported> {
        self.driver.supported(options)
    }

    fn client(
        &self,
        order: &TrialOrder,
        context: TrialContext,
    ) -> Result<Box<dyn ClientSession>, TransportError> {
        self.driver.client(&self.changed(order), context)
    }

    fn server(
        &self,
        order: &TrialOrder,
        context: TrialContext,
    ) -> Result<Box<dyn ServerSession>, TransportError> {
        self.driver.server(&self.changed(order), context)
    }
}

impl Unordered {
    fn changed(&self, order: &TrialOrder) -> TrialOrder {
        let mut order = order.clone();
        let unordered = OptionValue::Flag(false);
        order
            .transport
            .options
            .insert("ordered".to_owned(), unordered);
        order
    }
}
