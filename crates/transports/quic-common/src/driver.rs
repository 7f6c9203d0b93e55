//! Entry of a QUIC stack in the registry.

use std::collections::BTreeMap;

use regatta_control::TrialOrder;
use regatta_model::OptionValue;
use regatta_transport::{Carries, Driver, DriverDescriptor, Result, Session, TrialContext};

use crate::options::{Common, Mode};

/// Maker of one end of one trial.
type Prepare = fn(&TrialOrder, TrialContext) -> Result<Box<dyn Session>>;

/// Driver of a QUIC stack.
#[derive(Debug)]
pub struct QuicDriver {
    /// Description of the driver.
    pub descriptor: &'static DriverDescriptor,
    /// Maker of an end whose messages travel on streams.
    pub streams: Prepare,
    /// Maker of an end whose messages travel in DATAGRAM frames.
    pub datagrams: Prepare,
}

impl Driver for QuicDriver {
    fn descriptor(&self) -> &'static DriverDescriptor {
        self.descriptor
    }

    fn carries(&self, options: &BTreeMap<String, OptionValue>) -> Carries {
        Common::mode.read(options).carries()
    }

    fn prepare(&self, order: &TrialOrder, context: TrialContext) -> Result<Box<dyn Session>> {
        self.check_options(&order.transport.options)?;
        match Common::mode.read(&order.transport.options) {
            Mode::Stream => (self.streams)(order, context),
            Mode::Datagram => (self.datagrams)(order, context),
        }
    }
}
