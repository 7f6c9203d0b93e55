//! The options of `quic-quinn`, read, and what quinn is told.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use quinn::{
    MtuDiscoveryConfig, TransportConfig, VarInt,
    congestion::{
        Bbr, BbrConfig, Controller, ControllerFactory, Cubic, CubicConfig, NewReno, NewRenoConfig,
    },
};
use regatta_model::{Bytes, OptionValue};

use super::controller::{Watch, WatchedFactory};
use crate::path::{LEAST_PAYLOAD_BYTES, Sizes};

/// A connection without a packet from the peer for so long is dead. quinn's own default, and what
/// other stacks use.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Largest value of a QUIC integer (RFC 9000 §16).
const MOST_VARINT: u64 = (1 << 62) - 1;

/// A congestion control that quinn has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CongestionControl {
    /// RFC 9438.
    #[default]
    Cubic,
    /// RFC 9002 §7.
    NewReno,
    /// BBR version 1.
    Bbr,
}

impl CongestionControl {
    /// As written in a study.
    pub const NAMES: [&'static str; 3] = ["cubic", "newreno", "bbr"];

    /// As written in a study.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::NewReno => "newreno",
            Self::Bbr => "bbr",
        }
    }

    fn from_name(name: &str) -> Self {
        match name {
            "newreno" => Self::NewReno,
            "bbr" => Self::Bbr,
            _ => Self::Cubic,
        }
    }

    fn factory(self) -> Arc<dyn ControllerFactory + Send + Sync> {
        match self {
            Self::Cubic => Arc::new(CubicConfig::default()),
            Self::NewReno => Arc::new(NewRenoConfig::default()),
            Self::Bbr => Arc::new(BbrConfig::default()),
        }
    }

    /// Which one a connection runs, as its controller says; `None` for one that is not listed
    /// here.
    #[must_use]
    pub fn of(controller: Box<dyn Controller>) -> Option<Self> {
        let any = controller.into_any();
        if any.is::<Cubic>() {
            Some(Self::Cubic)
        } else if any.is::<NewReno>() {
            Some(Self::NewReno)
        } else if any.is::<Bbr>() {
            Some(Self::Bbr)
        } else {
            None
        }
    }
}

/// The options of a trial, with their defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Congestion control of the sender.
    pub congestion_control: CongestionControl,
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
            congestion_control: text("cc")
                .map(CongestionControl::from_name)
                .unwrap_or_default(),
            gso: flag("gso", true),
            mtu_discovery: flag("mtu_discovery", false),
            stream_window_bytes: size("stream_window"),
            receive_buffer_bytes: buffer("receive_buffer"),
            send_buffer_bytes: buffer("send_buffer"),
        }
    }

    /// What quinn is told for a connection of the trial, at both ends alike.
    #[must_use]
    pub fn transport(&self, sizes: &Sizes, watch: &Arc<Watch>) -> TransportConfig {
        let window = |bytes: u64| VarInt::from_u64(bytes.min(MOST_VARINT)).unwrap_or(VarInt::MAX);
        let mut transport = TransportConfig::default();
        transport
            .stream_receive_window(window(sizes.stream_window_bytes))
            .receive_window(window(sizes.connection_window_bytes))
            .send_window(sizes.send_window_bytes)
            .enable_segmentation_offload(self.gso)
            .congestion_controller_factory(Arc::new(WatchedFactory {
                inner: self.congestion_control.factory(),
                watch: Arc::clone(watch),
            }))
            .max_idle_timeout(IDLE_TIMEOUT.try_into().ok())
            // Unidirectional streams and datagrams are not used.
            .max_concurrent_uni_streams(VarInt::from_u32(0))
            .datagram_receive_buffer_size(None);
        if self.mtu_discovery {
            let mut discovery = MtuDiscoveryConfig::default();
            discovery.upper_bound(sizes.payload_bytes);
            transport
                .initial_mtu(LEAST_PAYLOAD_BYTES)
                .mtu_discovery_config(Some(discovery));
        } else {
            // The path's packet size is known, so nothing is searched for; and random loss must
            // not be taken for a path that swallows large packets, so it is the least one too.
            transport
                .initial_mtu(sizes.payload_bytes)
                .min_mtu(sizes.payload_bytes)
                .mtu_discovery_config(None);
        }
        transport
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn what_a_connection_runs_is_read_from_its_controller() {
        for asked in [
            CongestionControl::Cubic,
            CongestionControl::NewReno,
            CongestionControl::Bbr,
        ] {
            let watch = Arc::new(Watch::default());
            let factory = Arc::new(WatchedFactory {
                inner: asked.factory(),
                watch: Arc::clone(&watch),
            });
            let mut controller = factory.build(Instant::now(), LEAST_PAYLOAD_BYTES);
            controller.on_sent(Instant::now(), 1200, 0);
            assert_eq!(watch.in_flight_bytes(), 1200);
            let before = controller.window();
            watch.close();
            assert!(controller.window() > before.max(u64::from(u32::MAX)));
            assert_eq!(CongestionControl::of(controller), Some(asked));
            assert_eq!(CongestionControl::from_name(asked.name()), asked);
            assert!(CongestionControl::NAMES.contains(&asked.name()));
        }
    }

    #[test]
    fn defaults_are_those_of_the_descriptor() {
        let options = Options::read(&BTreeMap::new());
        assert_eq!(options.congestion_control.name(), "cubic");
        assert!(options.gso && !options.mtu_discovery);
        assert_eq!(options.stream_window_bytes, None);
    }
}
