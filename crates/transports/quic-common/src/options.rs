//! Options that mean the same for every stack.

use std::time::Duration;

use regatta_model::Bytes;
use regatta_transport::{
    Carries, driver_options,
    options::{Choice, GSO, RECEIVE_BUFFER, SEND_BUFFER, TypedOption},
};
use strum::{EnumString, IntoStaticStr, VariantNames};

/// Largest value of a QUIC variable-length integer (RFC 9000 §16).
pub const MAX_VARINT: u64 = (1 << 62) - 1;

/// Name of what carries datagrams (RFC 9221).
pub const FRAMES: &str = "DATAGRAM frames";

/// Carrier of the messages of a transfer: streams or DATAGRAM frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum Mode {
    /// Streams (RFC 9000 §2).
    Stream,
    /// DATAGRAM frames (RFC 9221), one per message.
    Datagram,
}

impl Choice for Mode {
    const NAMES: &'static [&'static str] = Self::VARIANTS;
}

impl Mode {
    /// Returns the workloads that a driver carries in this mode.
    #[must_use]
    pub const fn carries(self) -> Carries {
        match self {
            Self::Stream => Carries::Streams,
            Self::Datagram => Carries::Messages,
        }
    }
}

driver_options! {
    /// Options of every stack.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Common {
        mode: Mode = "stream",
            "send over streams, or each message in a DATAGRAM frame (RFC 9221), which is not retransmitted";
        gso: bool = GSO;
        mtu_discovery: bool = false,
            "begin with packets of 1200 bytes and search for the largest size (RFC 8899), instead of using the path's \
             size from the start";
        stream_window: Option<Bytes>, "flow-control window of a stream; from the path if not set";
        receive_buffer: Option<Bytes> = RECEIVE_BUFFER;
        send_buffer: Option<Bytes> = SEND_BUFFER;
        keylog: bool = false,
            "write the TLS secrets of the connections to `sender.keylog` and `receiver.keylog`, with which Wireshark \
             decrypts a capture";
    }
}

/// Time at which the connecting end migrates, of stacks that can do so.
pub const MIGRATE_AFTER: TypedOption<Option<Duration>> = TypedOption::new(
    "migrate_after",
    "",
    "time after the handshake at which the connecting end changes its local port (RFC 9000, 9)",
);

/// Logs of events, of stacks that have these.
pub const EVENT_LOG: TypedOption<bool> = TypedOption::new(
    "qlog",
    "false",
    "write the events of each connection to `sender.sqlog`, `sender-2.sqlog`, … (qlog, JSON text sequences), which costs CPU time in the trial",
);

#[cfg(test)]
mod tests {
    use regatta_model::OptionValue;
    use regatta_transport::OptionValues;

    use super::*;

    #[test]
    fn options_round_trip() {
        let text = |text: &str| OptionValue::Text(text.to_owned());
        let options = Common::read(&OptionValues::from([
            ("mode".to_owned(), text("datagram")),
            ("stream_window".to_owned(), text("1MiB")),
            ("keylog".to_owned(), OptionValue::Flag(true)),
        ]));
        assert_eq!(options.mode.carries(), Carries::Messages);
        assert_eq!(options.stream_window, Some(Bytes(1 << 20)));
        assert!(options.keylog);
    }
}
