//! Options that mean the same for every stack: definitions, parser, and the facts that report them.

use std::{collections::BTreeMap, net::IpAddr};

use regatta_model::{OptionValue, StackFacts, stack};
pub use regatta_transport::options::{
    GSO, RECEIVE_BUFFER, SEND_BUFFER, congestion_control, flag, size, time,
};
use regatta_transport::{Carries, OptionDefinition, OptionKind};
use regatta_transport_sockets::socket::Buffers;

use crate::path::{INITIAL_WINDOW_PACKETS, LEAST_PAYLOAD_BYTES, Sizes};

/// Largest value of a QUIC variable-length integer (RFC 9000 §16).
pub const MOST_VARINT: u64 = (1 << 62) - 1;

/// Carrier of the messages of a transfer: streams or DATAGRAM frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Streams (RFC 9000 §2).
    #[default]
    Stream,
    /// DATAGRAM frames (RFC 9221), one per message.
    Datagram,
}

impl Mode {
    /// Names of the modes, as written in a study.
    pub const NAMES: [&'static str; 2] = ["stream", "datagram"];

    /// Returns the name of the mode, as written in a study.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Datagram => "datagram",
        }
    }

    /// Reads the mode from options that were checked.
    #[must_use]
    pub fn read(options: &BTreeMap<String, OptionValue>) -> Self {
        match MODE.text(options) {
            Some("datagram") => Self::Datagram,
            _ => Self::Stream,
        }
    }

    /// Returns the workloads that a driver carries in this mode.
    #[must_use]
    pub const fn carries(self) -> Carries {
        match self {
            Self::Stream => Carries::Streams,
            Self::Datagram => Carries::Messages,
        }
    }
}

/// The options that every stack has, with their defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Common {
    /// Carrier of messages.
    pub mode: Mode,
    /// Segmentation offload.
    pub gso: bool,
    /// Whether the stack searches for the packet size (path MTU discovery).
    pub mtu_discovery: bool,
    /// Flow-control window of a stream, in bytes.
    pub stream_window_bytes: Option<u64>,
    /// Receive buffer of the socket, in bytes.
    pub receive_buffer_bytes: Option<usize>,
    /// Send buffer of the socket, in bytes.
    pub send_buffer_bytes: Option<usize>,
    /// Whether the secrets of the connections are written to a file.
    pub key_log: bool,
}

impl Common {
    /// Reads options that were checked against the driver's descriptor.
    #[must_use]
    pub fn read(options: &BTreeMap<String, OptionValue>) -> Self {
        let size =
            |option: &OptionDefinition| option.size(options).map(|size| size.min(MOST_VARINT));
        let buffer = |option: &OptionDefinition| {
            size(option).map(|size| usize::try_from(size).unwrap_or(usize::MAX))
        };
        Self {
            mode: Mode::read(options),
            gso: GSO.flag(options),
            mtu_discovery: MTU_DISCOVERY.flag(options),
            stream_window_bytes: size(&STREAM_WINDOW),
            receive_buffer_bytes: buffer(&RECEIVE_BUFFER),
            send_buffer_bytes: buffer(&SEND_BUFFER),
            key_log: KEY_LOG.flag(options),
        }
    }

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

/// Definition of the option for the carrier of messages.
pub const MODE: OptionDefinition = OptionDefinition {
    name: "mode",
    kind: OptionKind::OneOf(&Mode::NAMES),
    default: "stream",
    help: "send over streams, or each message in a DATAGRAM frame (RFC 9221), which is not sent again when it is lost",
};

/// Definition of the option for path MTU discovery.
pub const MTU_DISCOVERY: OptionDefinition = flag(
    "mtu_discovery",
    false,
    "begin with 1200 bytes and search for the packet size (RFC 8899) instead of filling the path's packets from the start",
);

/// Definition of the option for the flow-control window of a stream.
pub const STREAM_WINDOW: OptionDefinition = size(
    "stream_window",
    "flow-control window of a stream; from the path if not set",
);

/// Definition of the option for the log of secrets.
pub const KEY_LOG: OptionDefinition = flag(
    "keylog",
    false,
    "leave the secrets of the connections in a file, with which Wireshark reads a capture of them",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let text = |text: &str| OptionValue::Text(text.to_owned());
        let options = Common::read(&BTreeMap::from([
            ("mode".to_owned(), text("datagram")),
            ("stream_window".to_owned(), text("1MiB")),
            ("keylog".to_owned(), OptionValue::Flag(true)),
        ]));
        assert_eq!(options.mode.carries(), Carries::Messages);
        assert_eq!(options.stream_window_bytes, Some(1 << 20));
        assert!(options.key_log);
    }
}
