//! `quic-quiche`: Cloudflare's quiche on BoringSSL, one current-thread runtime per end.
//!
//! quiche does no input and output of its own: its connections (`entry`, `end`) and what they share
//! (`protocol`) run on the I/O loop that all such protocols have in common; the application's calls
//! (`stream`, `datagram`, `connection`) act on them under the same lock.

mod connection;
mod datagram;
mod end;
mod endpoint;
mod entry;
mod files;
mod migration;
mod options;
mod protocol;
mod statistics;
mod stream;
mod tls;

use regatta_model::IpProtocol;
use regatta_transport::{Carries, DriverDescriptor, MessageSession, StreamSession};
use regatta_transport_quic_common::driver::{QuicDriver, Sessions};
use regatta_transport_sockets::endpoints::{Connecting, Listening};

/// Version of quiche that this crate is built with.
pub const QUICHE_VERSION: &str = "0.30.0";

/// The driver `quic-quiche`.
pub static DRIVER: QuicDriver = QuicDriver {
    descriptor: &DESCRIPTOR,
    streams: Sessions {
        client: |order, context| {
            let end = endpoint::streams::<Connecting>(order)?;
            Ok(StreamSession::new(end, order, context)?)
        },
        server: |order, context| {
            let end = endpoint::streams::<Listening>(order)?;
            Ok(StreamSession::new(end, order, context)?)
        },
    },
    datagrams: Sessions {
        client: |order, context| {
            let end = endpoint::datagrams::<Connecting>(order)?;
            Ok(MessageSession::new(end, order, context)?)
        },
        server: |order, context| {
            let end = endpoint::datagrams::<Listening>(order)?;
            Ok(MessageSession::new(end, order, context)?)
        },
    },
};

static DESCRIPTOR: DriverDescriptor = DriverDescriptor {
    name: "quic-quiche",
    title: "QUIC, quiche",
    ip_protocol: Some(IpProtocol::Udp),
    summary: "QUIC version 1 with TLS 1.3 by Cloudflare's quiche on BoringSSL",
    carries: Carries::Streams,
    reliable: true,
    encrypted: true,
    multiplexes: true,
    congestion_control_choosable: true,
    capabilities: &[
        "resumption",
        "0-rtt",
        "retry",
        "datagram",
        "migration",
        "keylog",
        "qlog",
    ],
    stack: "quiche",
    stack_version: QUICHE_VERSION,
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
            "name = \"quiche\"\nversion = \"{QUICHE_VERSION}\""
        )));
    }

    #[test]
    fn options_are_checked_before_any_trial() {
        let check =
            |name: &str, value| DRIVER.check_options(&BTreeMap::from([(name.to_owned(), value)]));
        for &name in CongestionControl::VARIANTS {
            assert_eq!(check("cc", OptionValue::Text(name.to_owned())), Ok(()));
        }
        let error = check("cc", OptionValue::Text("hybla".to_owned())).expect_err("unknown");
        assert_eq!(error.hint(), "write one of `cubic`, `reno`, `bbr2`");
        assert!(check("migrate_after", OptionValue::Number(1)).is_err());
    }
}
