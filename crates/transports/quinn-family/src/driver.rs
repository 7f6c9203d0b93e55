//! The driver.

use regatta_model::IpProtocol;
use regatta_transport::{Carries, DriverDescriptor, MessageSession, StreamSession};
use regatta_transport_quic_common::driver::{QuicDriver, Sessions};

use crate::{
    datagram::datagrams,
    endpoint::{QuicEndpoint, streams},
    options::Options,
    stack,
};

/// Driver of the stack, on tokio: one current-thread runtime per end.
pub static DRIVER: QuicDriver = QuicDriver {
    descriptor: &DESCRIPTOR,
    streams: Sessions {
        client: |order, context| {
            let end = streams(QuicEndpoint::client(order)?);
            Ok(StreamSession::new(end, order, context)?)
        },
        server: |order, context| {
            let end = streams(QuicEndpoint::server(order)?);
            Ok(StreamSession::new(end, order, context)?)
        },
    },
    datagrams: Sessions {
        client: |order, context| {
            let end = datagrams(QuicEndpoint::client(order)?);
            Ok(MessageSession::new(end, order, context)?)
        },
        server: |order, context| {
            let end = datagrams(QuicEndpoint::server(order)?);
            Ok(MessageSession::new(end, order, context)?)
        },
    },
};

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
    ip_protocol: Some(IpProtocol::Udp),
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
    options: Options::DEFINITIONS,
    metrics: DriverDescriptor::ALL_LEVELS,
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use regatta_model::OptionValue;
    use regatta_transport::Driver as _;
    use strum::VariantNames as _;

    use super::*;
    use crate::controller::CongestionControl;

    #[test]
    fn stack_version_matches_the_built_crate() {
        let lock = include_str!("../../../../Cargo.lock");
        let (name, version) = (stack::STACK, stack::VERSION);
        assert!(lock.contains(&format!("name = \"{name}\"\nversion = \"{version}\"")));
    }

    #[test]
    fn options_are_checked_before_any_trial() {
        let check =
            |name: &str, value| DRIVER.check_options(&BTreeMap::from([(name.to_owned(), value)]));
        for &name in CongestionControl::VARIANTS {
            assert_eq!(check("cc", OptionValue::Text(name.to_owned())), Ok(()));
        }
        let error = check("cc", OptionValue::Text("hybla".to_owned())).expect_err("unknown");
        let names = CongestionControl::VARIANTS.join("`, `");
        assert_eq!(error.hint(), format!("write one of `{names}`"));
        assert!(check("gso", OptionValue::Number(1)).is_err());
        assert!(check("migrate_after", OptionValue::Text("0s".to_owned())).is_err());
        assert!(check("stream_window", OptionValue::Text("4 parsec".to_owned())).is_err());
    }
}
