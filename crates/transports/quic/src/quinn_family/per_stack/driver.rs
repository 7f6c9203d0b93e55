//! Driver functions that are the same for both stacks.

use std::collections::BTreeMap;

use regatta_control::TrialOrder;
use regatta_model::OptionValue;
use regatta_transport::{
    Carries, MessageSession, Session, StreamSession, TransportError, TrialContext,
};

use super::{datagram::QuicDatagramEndpoint, endpoint::QuicEndpoint};
use crate::options::Mode;

/// Further capabilities of the driver, by name.
pub(super) const CAPABILITIES: &[&str] = &[
    "resumption",
    "0-rtt",
    "retry",
    "datagram",
    "migration",
    "keylog",
    "qlog",
];

/// Returns the workloads that the driver carries with these options.
pub(super) fn carries(options: &BTreeMap<String, OptionValue>) -> Carries {
    Mode::read(options).carries()
}

/// Creates one end of one trial from options that were checked.
///
/// # Errors
/// Those of [`QuicEndpoint::new`], and a workload that the driver cannot carry.
pub(super) fn prepare(
    order: &TrialOrder,
    context: TrialContext,
) -> Result<Box<dyn Session>, TransportError> {
    let endpoint = QuicEndpoint::new(order)?;
    Ok(match carries(&order.transport.options) {
        Carries::Messages => {
            let endpoint = QuicDatagramEndpoint::new(endpoint);
            Box::new(MessageSession::new(endpoint, order, context)?)
        }
        _ => Box::new(StreamSession::new(endpoint, order, context)?),
    })
}
