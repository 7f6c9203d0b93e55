//! Parsed options of the driver, and the stack's configuration made from them.

use std::{sync::Arc, time::Duration};

use regatta_control::{Role, TrialOrder};
use regatta_model::{Bytes, Warning, warning};
use regatta_transport::{Unsupported, driver_options};

use regatta_transport_quic_common::{
    options::{Common, EVENT_LOG, MAX_VARINT, MIGRATE_AFTER, Mode},
    path::{Sizes, idle_timeout},
};
use regatta_transport_tls::{Crypto, crypto_option};

use crate::{
    controller::CongestionControl,
    stack::{
        self,
        quic::{MtuDiscoveryConfig, TransportConfig, VarInt},
    },
    watch::Watch,
};

/// Number of streams that the other end may have open at once, beside those that a workload asks
/// for. The stack allocates memory for all of them with the connection, so this is not more than
/// its default.
const STREAMS: u32 = 100;

/// Capacity of the stack's queue of messages, as time at the path's rate. Messages that wait at the
/// deadline are still sent within this time.
const QUEUE_TIME: Duration = Duration::from_millis(100);

/// Capacity of the queue of messages where the rate is not known, in bytes.
const MAX_QUEUE_BYTES: usize = 256 << 10;

/// Minimum capacity of the queue of messages, in full packets.
const MIN_QUEUED: usize = 10;

driver_options! {
    /// Options of `quic-quinn` or `quic-noq`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Options with common: Common {
        cc: CongestionControl = "cubic", "congestion control of the sender, the stack's own implementation, read back";
        // The stacks' own default; `docs/stacks.md` compares it with AWS-LC.
        crypto: Crypto = crypto_option(Crypto::Ring);
        ..Common::{mode, gso, mtu_discovery};
        ecn: bool = true, "packets of this end are ECN-capable (ECT(0)); without it a queue that marks drops them";
        migrate_after: Option<Duration> = MIGRATE_AFTER;
        ..Common::{stream_window, receive_buffer, send_buffer, keylog};
        qlog: bool = EVENT_LOG;
    }
}

impl Options {
    /// Returns the transport configuration for a connection of the trial, the same at both ends.
    pub(crate) fn transport(&self, needs: &Needs, watch: &Arc<Watch>) -> TransportConfig {
        let sizes = &needs.sizes;
        let window = |bytes: u64| VarInt::from_u64(bytes.min(MAX_VARINT)).unwrap_or(VarInt::MAX);
        let mut discovery = MtuDiscoveryConfig::default();
        discovery.upper_bound(sizes.payload_bytes);
        let mut transport = TransportConfig::default();
        transport
            .stream_receive_window(window(sizes.windows.stream_bytes))
            .receive_window(window(sizes.windows.connection_bytes))
            .send_window(sizes.held_bytes(0))
            // Random loss must not be taken for a path that swallows large packets, so the first size is the least one
            // too.
            .initial_mtu(sizes.first_payload_bytes)
            .min_mtu(sizes.first_payload_bytes)
            .mtu_discovery_config(self.common.mtu_discovery.then_some(discovery))
            .enable_segmentation_offload(self.common.gso)
            .congestion_controller_factory(self.cc.watched(watch))
            .max_idle_timeout(needs.idle_timeout.try_into().ok())
            .max_concurrent_bidi_streams(VarInt::from_u32(needs.streams))
            // They are not used.
            .max_concurrent_uni_streams(VarInt::from_u32(0));
        match self.common.mode {
            // For the probe's messages.
            Mode::Stream => transport.datagram_receive_buffer_size(Some(PROBE_BUFFER_BYTES)),
            Mode::Datagram => transport
                .datagram_receive_buffer_size(Some(sizes.windows.socket_buffer_bytes))
                .datagram_send_buffer_size(needs.datagram_queue_bytes),
        };
        transport
    }
}

/// Overhead of a packet beside a message, in bytes: one byte of flags, a connection identifier of 8
/// bytes, the longest packet number, the AEAD's tag, and the longest header of a DATAGRAM frame
/// (RFC 9000 §17.3.1, RFC 9221 §4).
const OVERHEAD_BYTES: usize = 1 + 8 + 4 + 16 + 9;

/// Returns the largest message that packets with this payload carry, in bytes.
pub(crate) const fn longest_message(payload_bytes: u16) -> usize {
    (payload_bytes as usize).saturating_sub(OVERHEAD_BYTES)
}

/// Maximum number of bytes of probe messages that wait for the application.
const PROBE_BUFFER_BYTES: usize = 64 << 10;

/// Requirements of a trial's connections, from its path and its workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Sizes of packets, windows and buffers.
    pub(crate) sizes: Sizes,
    /// Idle time-out of a connection.
    pub(crate) idle_timeout: Duration,
    /// Number of streams that may be open at once.
    pub(crate) streams: u32,
    /// Capacity of the stack's queue of messages, in bytes.
    pub(crate) datagram_queue_bytes: usize,
    /// Bandwidth-delay product of the path, at a receiver whose stack holds no window of that size.
    pub(crate) window_missed_bytes: Option<u64>,
}

impl Needs {
    /// Returns the requirements of this end of a trial.
    ///
    /// # Errors
    /// [`Unsupported`] if the path's packets are too small for QUIC.
    pub(crate) fn of(order: &TrialOrder, options: &Options) -> Result<Self, Unsupported> {
        let (path, common) = (&order.path, &options.common);
        let sizes = Sizes::with_at_most(stack::MAX_WINDOW_PACKETS, path, order.local, common)?;
        let rate = path.link_rate_bps.unwrap_or_default() as f64;
        let in_flight = (rate / 8.0 * path.round_trip_delay.as_secs_f64()) as u64;
        let is_short = common.stream_window.is_none()
            && order.role == Role::Receiver
            && in_flight > sizes.windows.stream_bytes;
        let streams = order
            .workload
            .kind
            .parallel_streams()
            .saturating_add(STREAMS);
        let queue = order.path.link_rate_bps.map_or(MAX_QUEUE_BYTES, |rate| {
            let bytes = rate as f64 / 8.0 * QUEUE_TIME.as_secs_f64();
            (bytes as usize).min(MAX_QUEUE_BYTES)
        });
        Ok(Self {
            sizes,
            idle_timeout: idle_timeout(order),
            streams,
            datagram_queue_bytes: queue.max(MIN_QUEUED * usize::from(sizes.payload_bytes)),
            window_missed_bytes: is_short.then_some(in_flight),
        })
    }

    /// Returns the warning that the stack's window, not the path, is the limit.
    pub(crate) fn warning(&self) -> Option<Warning> {
        let missed = self.window_missed_bytes?;
        let window = Bytes(self.sizes.windows.stream_bytes);
        let missed = Bytes(missed);
        Some(warning::stream_window_limited(window, stack::STACK, missed))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use regatta_model::OptionValue;
    use strum::VariantNames as _;

    use super::*;

    #[test]
    fn defaults_are_those_of_the_definitions() {
        let options = Options::read(&BTreeMap::new());
        assert_eq!(options.cc.into_str(), "cubic");
        assert_eq!(options.crypto, Crypto::Ring);
        assert!(!options.qlog && options.ecn);
        assert_eq!(options.migrate_after, None);
    }

    #[test]
    fn window_beyond_the_stack_limit_is_warned_about() {
        let warning = |rate, role| {
            let mut order = regatta_transport::testing::order_for(role, stack::NAME, 1, 1);
            order.path.mtu_bytes = 1500;
            order.path.round_trip_delay = Duration::from_millis(100);
            order.path.link_rate_bps = Some(rate);
            order.path.window_bytes = Some(rate / 40);
            let options = Options::read(&order.transport.options);
            Needs::of(&order, &options)
                .expect("packets large enough")
                .warning()
        };
        assert_eq!(warning(100_000_000, Role::Receiver), None);
        assert_eq!(warning(1_000_000_000, Role::Sender), None);
        let is_limited = stack::STACK == "noq";
        assert_eq!(warning(1_000_000_000, Role::Receiver).is_some(), is_limited);
    }

    #[test]
    fn options_round_trip() {
        let text = |text: &str| OptionValue::Text(text.to_owned());
        for &name in CongestionControl::VARIANTS {
            let options = BTreeMap::from([("cc".to_owned(), text(name))]);
            assert_eq!(Options::read(&options).cc.into_str(), name);
        }
        let options = Options::read(&BTreeMap::from([
            ("migrate_after".to_owned(), text("500ms")),
            ("qlog".to_owned(), OptionValue::Flag(true)),
            ("ecn".to_owned(), OptionValue::Flag(false)),
        ]));
        assert_eq!(options.migrate_after, Some(Duration::from_millis(500)));
        assert!(options.qlog && !options.ecn);
    }
}
