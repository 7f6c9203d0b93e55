//! The options of `quic-quiche`, read.

use std::{collections::BTreeMap, time::Duration};

use quiche::CongestionControlAlgorithm;
use regatta_model::{Bytes, OptionValue, units::parse_duration};

/// Largest value of a QUIC integer (RFC 9000 §16).
const MOST_VARINT: u64 = (1 << 62) - 1;

/// A congestion control that quiche has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CongestionControl {
    /// RFC 9438.
    #[default]
    Cubic,
    /// RFC 9002 §7.
    Reno,
    /// BBR version 2, ported from Google's stack.
    Bbr2,
}

impl CongestionControl {
    /// As written in a study.
    pub const NAMES: [&'static str; 3] = ["cubic", "reno", "bbr2"];

    /// As written in a study.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Reno => "reno",
            Self::Bbr2 => "bbr2",
        }
    }

    fn from_name(name: &str) -> Self {
        match name {
            "reno" => Self::Reno,
            "bbr2" => Self::Bbr2,
            _ => Self::Cubic,
        }
    }

    /// As quiche calls it.
    #[must_use]
    pub const fn algorithm(self) -> CongestionControlAlgorithm {
        match self {
            Self::Cubic => CongestionControlAlgorithm::CUBIC,
            Self::Reno => CongestionControlAlgorithm::Reno,
            Self::Bbr2 => CongestionControlAlgorithm::Bbr2Gcongestion,
        }
    }

    /// Whether quiche spreads the packets of this one over the round-trip time.
    #[must_use]
    pub const fn paces(self) -> bool {
        matches!(self, Self::Bbr2)
    }
}

/// What a connection of the trial carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Streams.
    #[default]
    Stream,
    /// Datagrams (RFC 9221).
    Datagram,
}

impl Mode {
    /// As written in a study.
    pub const NAMES: [&'static str; 2] = ["stream", "datagram"];
}

/// The options of a trial, with their defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Streams or datagrams.
    pub mode: Mode,
    /// Congestion control of the sender.
    pub congestion_control: CongestionControl,
    /// Whether slow start ends early when delay rises (RFC 9406).
    pub hystart: bool,
    /// Whether a congestion control that can spreads packets over the round-trip time.
    pub pacing: bool,
    /// Segmentation offload.
    pub gso: bool,
    /// Whether the packet size is searched for.
    pub mtu_discovery: bool,
    /// Flow-control window of a stream, in bytes.
    pub stream_window_bytes: Option<u64>,
    /// Receive buffer of the socket, in bytes.
    pub receive_buffer_bytes: Option<usize>,
    /// Send buffer of the socket, in bytes.
    pub send_buffer_bytes: Option<usize>,
    /// When the connecting end moves to another port, from the beginning of the connection.
    pub migrate_after: Option<Duration>,
    /// Whether the secrets of connections are written to files.
    pub keylog: bool,
    /// Whether quiche's log of events is written to files.
    pub qlog: bool,
}

impl Options {
    /// Reads options that were checked against the driver's descriptor.
    #[must_use]
    pub fn read(options: &BTreeMap<String, OptionValue>) -> Self {
        let flag = |name: &str, default| match options.get(name) {
            Some(OptionValue::Flag(flag)) => *flag,
            _ => default,
        };
        let text = |name: &str| match options.get(name) {
            Some(OptionValue::Text(text)) => Some(text.as_str()),
            _ => None,
        };
        let size = |name: &str| {
            text(name)
                .and_then(|text| text.parse::<Bytes>().ok())
                .map(|size| size.0.min(MOST_VARINT))
        };
        let buffer =
            |name: &str| size(name).map(|size| usize::try_from(size).unwrap_or(usize::MAX));
        Self {
            mode: match text("mode") {
                Some("datagram") => Mode::Datagram,
                _ => Mode::Stream,
            },
            congestion_control: text("cc")
                .map(CongestionControl::from_name)
                .unwrap_or_default(),
            hystart: flag("hystart", true),
            pacing: flag("pacing", true),
            gso: flag("gso", true),
            mtu_discovery: flag("mtu_discovery", false),
            stream_window_bytes: size("stream_window"),
            receive_buffer_bytes: buffer("receive_buffer"),
            send_buffer_bytes: buffer("send_buffer"),
            migrate_after: text("migrate_after").and_then(|text| parse_duration(text).ok()),
            keylog: flag("keylog", false),
            qlog: flag("qlog", false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for name in CongestionControl::NAMES {
            assert_eq!(CongestionControl::from_name(name).name(), name);
        }
        let options = Options::read(&BTreeMap::new());
        assert_eq!(options.congestion_control.name(), "cubic");
        assert!(options.gso && options.hystart && options.pacing && !options.mtu_discovery);
        assert_eq!((options.mode, options.migrate_after), (Mode::Stream, None));
    }
}
