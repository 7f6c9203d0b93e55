//! Entry of a QUIC stack in the registry.

use std::collections::BTreeMap;

use regatta_control::TrialOrder;
use regatta_model::OptionValue;
use regatta_transport::{
    Carries, ClientSession, Driver, DriverDescriptor, Result, ServerSession, TrialContext,
};

use crate::options::{Common, Mode};

/// Makers of the sessions of both ends of a trial.
#[derive(Debug)]
pub struct Sessions {
    /// Maker of the end that connects.
    pub client: fn(&TrialOrder, TrialContext) -> Result<Box<dyn ClientSession>>,
    /// Maker of the end that listens.
    pub server: fn(&TrialOrder, TrialContext) -> Result<Box<dyn ServerSession>>,
}

/// Driver of a QUIC stack.
#[derive(Debug)]
pub struct QuicDriver {
    /// Description of the driver.
    pub descriptor: &'static DriverDescriptor,
    /// Ends whose messages travel on streams.
    pub streams: Sessions,
    /// Ends whose messages travel in DATAGRAM frames.
    pub datagrams: Sessions,
}

impl QuicDriver {
    /// Returns the makers for the mode of an order.
    fn sessions(&self, order: &TrialOrder) -> Result<&Sessions> {
        self.check_options(&order.transport.options)?;
        Ok(match Common::mode.read(&order.transport.options) {
            Mode::Stream => &self.streams,
            Mode::Datagram => &self.datagrams,
        })
    }
}

impl Driver for QuicDriver {
    fn descriptor(&self) -> &'static DriverDescriptor {
        self.descriptor
    }

    fn carries(&self, options: &BTreeMap<String, OptionValue>) -> Carries {
        Common::mode.read(options).carries()
    }

    fn client(&self, order: &TrialOrder, context: TrialContext) -> Result<Box<dyn ClientSession>> {
        (self.sessions(order)?.client)(order, context)
    }

    fn server(&self, order: &TrialOrder, context: TrialContext) -> Result<Box<dyn ServerSession>> {
        (self.sessions(order)?.server)(order, context)
    }
}
