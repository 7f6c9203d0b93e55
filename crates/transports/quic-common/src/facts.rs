//! Facts that every stack reports of its end and of each connection.

use std::{fmt::Display, net::IpAddr};

use regatta_control::TrialOrder;
use regatta_model::{Facts, StackFacts, Text, fact, phrase, stack};
use regatta_transport_sockets::socket::Buffers;
use regatta_transport_tls as tls;

use crate::{
    options::{Common, Mode},
    path::{INITIAL_WINDOW_PACKETS, Sizes, headers_bytes},
};

/// Returns facts of an end, keyed by their full names, of their short names and values.
pub fn of_end<const N: usize, V: Display>(
    end: &str,
    facts: [(&str, V); N],
) -> [(String, String); N] {
    facts.map(|(name, value)| (format!("{name}.{end}"), value.to_string()))
}

/// Describes an offload: `off`, or the maximum number of packets that pass the kernel as one.
#[must_use]
pub fn offload(packets: usize) -> Text {
    match packets {
        0 | 1 => "off".into(),
        packets => fact::on_for_packets(packets as u64).into(),
    }
}

/// Figures of a connection from which its facts are made.
#[derive(Debug, Default)]
pub struct ConnectionFacts<'a> {
    /// Congestion control as read back; absent if it is not known here.
    pub congestion_control: Option<&'static str>,
    /// Name of the cipher suite, once it is negotiated.
    pub cipher_suite: Option<&'a str>,
    /// Application protocol, once it is negotiated.
    pub alpn: Option<&'a [u8]>,
    /// UDP payload of a full packet, in bytes.
    pub payload_bytes: usize,
    /// DATA_BLOCKED and STREAM_DATA_BLOCKED frames sent (RFC 9000 §19.12 f.); absent where the stack sends none.
    pub blocked_frames: Option<u64>,
    /// Packets that did not fit the receive buffer; absent where the kernel does not count them.
    pub receive_buffer_drops: Option<u64>,
}

impl ConnectionFacts<'_> {
    /// Returns the facts of the connection at `end`, `sender` or `receiver`, keyed by the full name of the fact.
    #[must_use]
    pub fn of_end(self, end: &str) -> Facts {
        let cipher = self
            .cipher_suite
            .filter(|_| end == "sender")
            .map(stack::cipher);
        let alpn = self.alpn.map(String::from_utf8_lossy);
        let connection = [
            ("tls.version", Some("1.3")),
            ("quic.version", Some("1")),
            ("tls.cipher_suite", self.cipher_suite),
            ("cipher.sender", cipher.as_deref()),
            ("tls.alpn", alpn.as_deref()),
        ];
        let counts = [
            ("udp_payload_bytes", Some(self.payload_bytes as u64)),
            ("quic.flow_control_blocked_frames", self.blocked_frames),
            ("receive_buffer_drops", self.receive_buffer_drops),
        ];
        let texts = [
            (
                "congestion_control",
                self.congestion_control.unwrap_or("unknown"),
            ),
            (
                "retransmitted_packets",
                "packets declared lost (RFC 9002); QUIC sends their content again in new packets",
            ),
        ];
        let connection = (connection.into_iter())
            .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
        let counts = (counts.into_iter())
            .filter_map(|(name, count)| Some((format!("{name}.{end}"), count?.to_string())));
        connection.chain(counts).chain(of_end(end, texts)).collect()
    }
}

impl Common {
    /// Returns the facts of an end that are known before any connection, keyed by the full name of
    /// the fact.
    pub fn facts(&self, side: &str, sizes: &Sizes, buffers: &Buffers) -> Facts {
        let discovery = if self.mtu_discovery { "on" } else { "off" };
        let payload = if self.mtu_discovery {
            format!("searched, at most {}", sizes.payload_bytes)
        } else {
            format!("{}, fixed", sizes.payload_bytes)
        };
        let mut facts = Facts::from(buffers.facts(side));
        facts.extend(
            [
                ("quic.mode", <&str>::from(self.mode).to_owned()),
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
/// the number of packets that pass the kernel as one. The first flight is that of a stack that pads it to its packet size.
pub fn stack_facts(
    options: &Common,
    sizes: &Sizes,
    order: &TrialOrder,
    control: &str,
    crypto: &'static str,
    offloads: &Text,
) -> StackFacts {
    let headers = headers_bytes(order.local);
    let full = sizes.payload_bytes + headers;
    StackFacts {
        initial_window: phrase::packets(u64::from(INITIAL_WINDOW_PACKETS)).into(),
        slow_start_exit: if control.starts_with("bbr") {
            "bandwidth plateau".into()
        } else {
            "loss".into()
        },
        pacing: "by the stack".into(),
        packet_size: if options.mtu_discovery {
            let first = sizes.first_payload_bytes + headers;
            fact::searched_size(first.into(), full.into()).into()
        } else {
            fact::fixed_size(full.into()).into()
        },
        first_flight: first_flight(sizes.first_payload_bytes, order.local),
        cipher: stack::cipher(regatta_transport_tls::CIPHER_SUITE).into(),
        crypto: crypto.into(),
        key_exchange: tls::KEY_EXCHANGE.into(),
        certificate: tls::certificate_fact(&order.tls),
        threads: stack::USER_SPACE_THREAD.into(),
        offloads: match offloads.as_str() {
            "off" => "none".into(),
            _ => fact::of_the_socket(offloads.clone()).into(),
        },
        acknowledgements: fact::every_second_packet(std::time::Duration::from_millis(25)).into(),
        flow_control: match options.mode {
            Mode::Stream => {
                fact::stream_windows(sizes.windows.stream_bytes, sizes.windows.connection_bytes)
                    .into()
            }
            Mode::Datagram => "none for DATAGRAM frames".into(),
        },
    }
}

/// Returns the packet size of the first flight of a stack whose first UDP payload is this long.
#[must_use]
pub fn first_flight(payload_bytes: u16, local: IpAddr) -> Text {
    fact::size(u64::from(payload_bytes + headers_bytes(local))).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_packet_batches_count_as_no_offload() {
        assert_eq!(offload(0), "off");
        assert_eq!(offload(1), "off");
        assert_eq!(offload(10), "on, 10 packets at most");
    }
}
