//! Options that mean the same for every stack: definitions and parser.

use std::{collections::BTreeMap, str::FromStr};

use regatta_model::OptionValue;
pub use regatta_transport::options::{
    GSO, RECEIVE_BUFFER, SEND_BUFFER, congestion_control, flag, size, time,
};
use regatta_transport::{Carries, OptionDefinition, OptionKind};
use strum::{EnumString, IntoStaticStr, VariantNames};

/// Largest value of a QUIC variable-length integer (RFC 9000 §16).
pub const MAX_VARINT: u64 = (1 << 62) - 1;

/// Reads an option that is one of a few names from options that were checked.
pub fn choice<T: FromStr + Default>(
    definition: &OptionDefinition,
    options: &BTreeMap<String, OptionValue>,
) -> T {
    let named = definition.text(options).and_then(|name| name.parse().ok());
    named.unwrap_or_default()
}

/// Name of what carries datagrams (RFC 9221).
pub const FRAMES: &str = "DATAGRAM frames";

/// Carrier of the messages of a transfer: streams or DATAGRAM frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum Mode {
    /// Streams (RFC 9000 §2).
    #[default]
    Stream,
    /// DATAGRAM frames (RFC 9221), one per message.
    Datagram,
}

impl Mode {
    /// Reads the mode from options that were checked.
    #[must_use]
    pub fn read(options: &BTreeMap<String, OptionValue>) -> Self {
        choice(&MODE, options)
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
            |option: &OptionDefinition| option.size(options).map(|size| size.min(MAX_VARINT));
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
}

/// Definition of the option for the carrier of messages.
pub const MODE: OptionDefinition = OptionDefinition {
    name: "mode",
    kind: OptionKind::OneOf(Mode::VARIANTS),
    default: "stream",
    help: "send over streams, or each message in a DATAGRAM frame (RFC 9221), which is not retransmitted",
};

/// Definition of the option for path MTU discovery.
pub const MTU_DISCOVERY: OptionDefinition = flag(
    "mtu_discovery",
    false,
    "begin with packets of 1200 bytes and search for the largest size (RFC 8899), instead of using the path's size from the start",
);

/// Definition of the option for the flow-control window of a stream.
pub const STREAM_WINDOW: OptionDefinition = size(
    "stream_window",
    "flow-control window of a stream; from the path if not set",
);

/// Definition of the option for a migration in mid-transfer.
pub const MIGRATE_AFTER: OptionDefinition = time(
    "migrate_after",
    "time after the handshake at which the connecting end changes its local port (RFC 9000, 9)",
);

/// Definition of the option for the logs of events.
pub const EVENT_LOG: OptionDefinition = flag(
    "qlog",
    false,
    "write the events of each connection to `sender.sqlog`, `sender-2.sqlog`, … (qlog, JSON text sequences), which costs CPU time in the trial",
);

/// Definition of the option for the log of secrets.
pub const KEY_LOG: OptionDefinition = flag(
    "keylog",
    false,
    "write the TLS secrets of the connections to `sender.keylog` and `receiver.keylog`, with which Wireshark decrypts a capture",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_round_trip() {
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
