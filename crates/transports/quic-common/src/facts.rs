//! Facts that every stack reports of its end.

use std::{collections::BTreeMap, net::IpAddr};

use regatta_model::{StackFacts, stack};
use regatta_transport_sockets::socket::Buffers;

use crate::{
    options::{Common, Mode},
    path::{INITIAL_WINDOW_PACKETS, LEAST_PAYLOAD_BYTES, Sizes},
};

impl Common {
    /// Returns the facts of an end that are known before any connection, keyed by the full name of
    /// the fact.
    pub fn facts(&self, side: &str, sizes: &Sizes, buffers: &Buffers) -> BTreeMap<String, String> {
        let discovery = if self.mtu_discovery { "on" } else { "off" };
        let payload = if self.mtu_discovery {
            format!("searched, at most {}", sizes.payload_bytes)
        } else {
            format!("{}, fixed", sizes.payload_bytes)
        };
        let mut facts = BTreeMap::from(buffers.facts(side));
        facts.extend(
            [
                ("quic.mode", self.mode.name().to_owned()),
                ("mtu_discovery", discovery.to_owned()),
                ("packet_payload_bytes", payload),
                (
                    "quic.stream_window_bytes",
                    sizes.windows.stream_bytes.to_string(),
                ),
                (
                    "quic.connection_window_bytes",
                    sizes.windows.connection_bytes.to_string(),
                ),
            ]
            .map(|(name, value)| (name.to_owned(), value)),
        );
        facts
    }
}

/// Returns the facts that all stacks report, for the comparison of stacks; `crypto` is the library of
/// the encryption, `offloads` is `off`, or
/// the number of packets that pass the kernel as one.
pub fn stack_facts(
    options: &Common,
    sizes: &Sizes,
    local: IpAddr,
    control: &str,
    crypto: &'static str,
    offloads: &str,
) -> StackFacts {
    let headers = if local.is_ipv4() { 20 + 8 } else { 40 + 8 };
    let full = sizes.payload_bytes + headers;
    StackFacts {
        initial_window: format!("{INITIAL_WINDOW_PACKETS} packets").into(),
        slow_start_exit: if control.starts_with("bbr") {
            "bandwidth plateau".into()
        } else {
            "loss".into()
        },
        pacing: "by the stack".into(),
        packet_size: if options.mtu_discovery {
            let first = LEAST_PAYLOAD_BYTES + headers;
            format!("{first} B, searched up to {full} B").into()
        } else {
            format!("{full} B, fixed").into()
        },
        cipher: stack::cipher(regatta_transport_tls::CIPHER_SUITE).into(),
        crypto: crypto.into(),
        threads: stack::USER_SPACE_THREAD.into(),
        offloads: match offloads {
            "off" => "none".into(),
            on => format!("of the socket: {on}").into(),
        },
        acknowledgements: "every second packet, or after 25 ms".into(),
        flow_control: match options.mode {
            Mode::Stream => format!(
                "stream {} B, connection {} B",
                sizes.windows.stream_bytes, sizes.windows.connection_bytes
            )
            .into(),
            Mode::Datagram => "none for DATAGRAM frames".into(),
        },
    }
}
