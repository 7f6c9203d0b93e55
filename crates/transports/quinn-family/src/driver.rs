//! The driver.

use std::collections::BTreeMap;

use regatta_control::TrialOrder;
use regatta_model::OptionValue;
use regatta_transport::{
    Carries, Driver, DriverDescriptor, MessageSession, Session, StreamSession, TransportError,
    TrialContext, Unsupported,
};
use regatta_transport_quic_common::options::Mode;

use crate::{
    datagram::QuicDatagramEndpoint,
    endpoint::QuicEndpoint,
    options::{self, Options},
    stack,
};

/// Driver of the stack, on tokio: one current-thread runtime per end.
#[derive(Debug, Clone, Copy)]
pub struct Quic;

/// Capabilities of both stacks, and last the one that a build may be without.
const CAPABILITIES: &[&str] = &[
    "resumption",
    "0-rtt",
    "retry",
    "datagram",
    "migration",
    "keylog",
    "qlog",
];

static DESCRIPTOR: DriverDescriptor = DriverDescriptor {
    name: stack::NAME,
    title: stack::TITLE,
    summary: stack::SUMMARY,
    carries: Carries::Streams,
    reliable: true,
    encrypted: true,
    multiplexes: true,
    congestion_control_choosable: true,
    capabilities: match CAPABILITIES.split_last() {
        Some((_event_logs, others)) if !stack::LOGS_EVENTS => others,
        _ => CAPABILITIES,
    },
    stack: stack::STACK,
    stack_version: stack::VERSION,
    options: options::DEFINITIONS,
};

impl Driver for Quic {
    fn descriptor(&self) -> &'static DriverDescriptor {
        &DESCRIPTOR
    }

    fn carries(&self, options: &BTreeMap<String, OptionValue>) -> Carries {
        Mode::read(options).carries()
    }

    fn prepare(
        &self,
        order: &TrialOrder,
        context: TrialContext,
    ) -> Result<Box<dyn Session>, TransportError> {
        self.check_options(&order.transport.options)?;
        if !stack::LOGS_EVENTS && Options::read(&order.transport.options).event_log {
            return Err(TransportError::Unsupported(Unsupported {
                reason: format!("this build writes no `qlog` of {}", stack::NAME),
                hint: "build Regatta with `--features noq-qlog`, which costs all trials of noq a third more CPU time, or \
                       take `quic-quinn`"
                    .to_owned(),
            }));
        }
        let endpoint = QuicEndpoint::new(order)?;
        Ok(match self.carries(&order.transport.options) {
            Carries::Messages => {
                let endpoint = QuicDatagramEndpoint::new(endpoint);
                Box::new(MessageSession::new(endpoint, order, context)?)
            }
            _ => Box::new(StreamSession::new(endpoint, order, context)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::CongestionControl;

    #[test]
    fn the_version_is_the_one_that_is_built() {
        let lock = include_str!("../../../../Cargo.lock");
        let (name, version) = (stack::STACK, stack::VERSION);
        assert!(lock.contains(&format!("name = \"{name}\"\nversion = \"{version}\"")));
    }

    #[test]
    fn options_are_checked_before_any_trial() {
        let check =
            |name: &str, value| Quic.check_options(&BTreeMap::from([(name.to_owned(), value)]));
        for name in CongestionControl::NAMES {
            assert_eq!(check("cc", OptionValue::Text(name.to_owned())), Ok(()));
        }
        let error = check("cc", OptionValue::Text("hybla".to_owned())).expect_err("unknown");
        let names = CongestionControl::NAMES.join("`, `");
        assert_eq!(error.hint(), format!("write one of `{names}`"));
        assert!(check("gso", OptionValue::Number(1)).is_err());
        assert!(check("migrate_after", OptionValue::Text("0s".to_owned())).is_err());
        assert!(check("stream_window", OptionValue::Text("4 parsec".to_owned())).is_err());
    }
}
