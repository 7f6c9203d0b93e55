//! `quic-s2n`: s2n-quic on tokio, one current-thread runtime per end.

mod connection;
mod controller;
mod datagram;
mod end;
mod endpoint;
mod events;
mod flow;
mod options;
mod statistics;
mod stream;

use regatta_model::IpProtocol;
use regatta_transport::{Carries, DriverDescriptor, MessageSession, StreamSession};
use regatta_transport_quic_common::driver::{QuicDriver, Sessions};

pub use endpoint::{S2nEndpoint, streams};

/// Version of s2n-quic that this crate is built with.
pub const S2N_QUIC_VERSION: &str = "1.91.0";

/// The driver `quic-s2n`.
pub static DRIVER: QuicDriver = QuicDriver {
    descriptor: &DESCRIPTOR,
    streams: Sessions {
        client: |order, context| {
            let end = streams(S2nEndpoint::client(order)?);
            Ok(StreamSession::new(end, order, context)?)
        },
        server: |order, context| {
            let end = streams(S2nEndpoint::server(order)?);
            Ok(StreamSession::new(end, order, context)?)
        },
    },
    datagrams: Sessions {
        client: |order, context| {
            let end = flow::datagrams(S2nEndpoint::client(order)?);
            Ok(MessageSession::new(end, order, context)?)
        },
        server: |order, context| {
            let end = flow::datagrams(S2nEndpoint::server(order)?);
            Ok(MessageSession::new(end, order, context)?)
        },
    },
};

static DESCRIPTOR: DriverDescriptor = DriverDescriptor {
    name: "quic-s2n",
    title: "QUIC, s2n-quic",
    ip_protocol: Some(IpProtocol::Udp),
    summary: "QUIC version 1 with TLS 1.3 by s2n-quic, one stream for the transfer",
    carries: Carries::Streams,
    reliable: true,
    encrypted: true,
    multiplexes: true,
    congestion_control_choosable: true,
    capabilities: &["retry", "datagram", "keylog"],
    stack: "s2n-quic",
    stack_version: S2N_QUIC_VERSION,
    options: options::Options::DEFINITIONS,
    metrics: DriverDescriptor::ALL_LEVELS,
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use regatta_model::OptionValue;
    use regatta_transport::Driver as _;
    use strum::VariantNames as _;

    use super::*;
    use crate::options::CongestionControl;

    #[test]
    fn stack_version_matches_the_built_crate() {
        let lock = include_str!("../../../../Cargo.lock");
        assert!(lock.contains(&format!(
            "name = \"s2n-quic\"\nversion = \"{S2N_QUIC_VERSION}\""
        )));
    }

    #[test]
    fn options_are_checked_before_any_trial() {
        let check =
            |name: &str, value| DRIVER.check_options(&BTreeMap::from([(name.to_owned(), value)]));
        for &name in CongestionControl::VARIANTS {
            assert_eq!(check("cc", OptionValue::Text(name.to_owned())), Ok(()));
        }
        let error = check("cc", OptionValue::Text("newreno".to_owned())).expect_err("unknown");
        assert_eq!(error.hint(), "write one of `cubic`, `bbr`");
        assert!(check("gso", OptionValue::Number(1)).is_err());
        assert!(check("stream_window", OptionValue::Text("4 parsec".to_owned())).is_err());
    }
}
