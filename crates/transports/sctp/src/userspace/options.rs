//! Parsed options of `sctp-userspace`, and the configuration of the stack made from them.

use std::{net::IpAddr, sync::Arc, time::Duration};

use regatta_control::PathHints;
use regatta_model::{Bytes, StackFacts, Text, fact, reason, stack};
use regatta_transport::{
    Unsupported, WindowRange, WindowSizes, driver_options,
    options::{GSO, RECEIVE_BUFFER, SEND_BUFFER, saturating_usize},
};
use sctp_proto::{EndpointConfig, ServerConfig, TransportConfig};

use super::{
    association::{Limits, MAX_OUTSTANDING_CHUNKS, MAX_STREAMS},
    wire::{COMMON_HEADER_BYTES, DATA_HEADER_BYTES},
};
use crate::{
    association::LONGEST_STREAM_MESSAGE_BYTES,
    session::{self, DeliveryOptions, RTO_INITIAL, RTO_MAX, RTO_MIN, whole_milliseconds},
};

/// Longest user message, in bytes.
pub(crate) const LONGEST_MESSAGE_BYTES: usize = LONGEST_STREAM_MESSAGE_BYTES;

/// Largest receive window, in bytes. Gaps in the received data are reported with offsets of 16
/// bits.
const MAX_WINDOW_BYTES: u32 = 64 << 20;

/// Minimum limit on chunks handed over and not acknowledged.
const MIN_OUTSTANDING_CHUNKS: u64 = 1024;

/// Minimum limit on chunks that wait in the stack to be sent.
const MIN_WAITING_CHUNKS: u64 = 8;

/// Reserve, in bytes, that keeps packets within the path's size: when the stack puts two chunks
/// into one packet, it counts neither the header of the second nor their padding.
const BUNDLING_RESERVE_BYTES: usize = DATA_HEADER_BYTES + 4;

/// Largest UDP payload in use, that of a jumbo frame over IPv4, in bytes.
const MAX_PAYLOAD_BYTES: usize = 8972;

/// Minimum UDP payload that a path must carry, in bytes: the minimum for IPv4 (RFC 9260 §6.10).
const MIN_PAYLOAD_BYTES: usize = 512;

/// Receive windows, in bytes. They hold two whole messages, since the stack delivers no parts of
/// them. Where the path has no rate: more than loopback needs, and no more than that, as the stack's
/// work for each packet grows with what is in flight.
const WINDOWS: WindowRange = WindowRange {
    with_rate: 2 * LONGEST_MESSAGE_BYTES as u64..=MAX_WINDOW_BYTES as u64,
    without_rate: 512 << 10..=8 << 20,
};

driver_options! {
    /// Options of `sctp-userspace`.
    #[derive(Debug, Clone)]
    pub(crate) struct Options with delivery: DeliveryOptions {
        ..DeliveryOptions::{ordered};
        streams: u16 = session::streams_option(MAX_STREAMS);
        rto_initial: Duration = RTO_INITIAL.or("1s");
        rto_min: Duration = RTO_MIN.or("1s");
        rto_max: Duration = RTO_MAX.or("60s");
        receive_window: Option<Bytes>,
            "receive window of an association, from 128 KiB to 64 MiB; from the path if not set";
        receive_buffer: Option<Bytes> = RECEIVE_BUFFER;
        send_buffer: Option<Bytes> = SEND_BUFFER;
        gso: bool = GSO;
    }
}

/// Returns a time of which the stack counts whole milliseconds.
pub(super) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(whole_milliseconds(time).as_millis()).unwrap_or(u64::MAX)
}

impl Options {
    /// Returns the configured receive window, in bytes.
    fn window_bytes(&self) -> Option<u32> {
        let window = u32::try_from(self.receive_window?.0).unwrap_or(MAX_WINDOW_BYTES);
        Some(window.clamp(2 * LONGEST_MESSAGE_BYTES as u32, MAX_WINDOW_BYTES))
    }
}

/// Sizes for one end of one trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Maximum user data of one DATA chunk, in bytes.
    pub chunk_bytes: usize,
    /// Headers of IP and UDP, in bytes.
    pub ip_headers_bytes: usize,
    /// Receive window, in bytes.
    pub window_bytes: u32,
    /// Receive buffer of the socket, in bytes; `None` for the kernel's.
    pub receive_buffer_bytes: Option<usize>,
    /// Send buffer of the socket, in bytes; `None` for the kernel's.
    pub send_buffer_bytes: Option<usize>,
}

impl Sizes {
    /// Returns the sizes for a path between this end and another one of the same IP version: the
    /// window is the path's.
    ///
    /// # Errors
    /// [`Unsupported`] if the path's packets are too small.
    pub(crate) fn of(
        path: &PathHints,
        local: IpAddr,
        options: &Options,
    ) -> Result<Self, Unsupported> {
        let headers = if local.is_ipv4() { 20 + 8 } else { 40 + 8 };
        let payload = (path.mtu_bytes as usize).saturating_sub(headers);
        let payload = payload.min(MAX_PAYLOAD_BYTES);
        if payload < MIN_PAYLOAD_BYTES {
            let least = MIN_PAYLOAD_BYTES + headers;
            return Err(Unsupported::new(
                reason::path_too_small(path.mtu_bytes.into(), least as u64),
                reason::larger_mtu(least as u64),
            ));
        }
        let overhead = COMMON_HEADER_BYTES + DATA_HEADER_BYTES + BUNDLING_RESERVE_BYTES;
        // A multiple of four bytes, so that a full chunk needs no padding.
        let chunk_bytes = (payload - overhead) & !3;

        let windows = WindowSizes::of(path, options.window_bytes().map(u64::from), &WINDOWS);
        let buffer = |configured: Option<Bytes>| {
            let configured = configured.map(saturating_usize);
            configured.or(windows.requested_socket_bytes)
        };
        Ok(Self {
            ip_headers_bytes: headers,
            chunk_bytes,
            window_bytes: u32::try_from(windows.stream_bytes).unwrap_or(MAX_WINDOW_BYTES),
            receive_buffer_bytes: buffer(options.receive_buffer),
            send_buffer_bytes: buffer(options.send_buffer),
        })
    }

    pub(crate) fn limits(&self, options: &Options, linger: Duration) -> Limits {
        // Enough beyond what may be in flight that the stack always has something to send.
        let in_flight = u64::from(self.window_bytes) / self.chunk_bytes as u64;
        Limits {
            chunk_bytes: self.chunk_bytes,
            outstanding_chunks: (in_flight + in_flight / 2)
                .clamp(MIN_OUTSTANDING_CHUNKS, MAX_OUTSTANDING_CHUNKS),
            waiting_chunks: MIN_WAITING_CHUNKS,
            arrived_bytes: 4 * self.window_bytes as usize,
            streams: options.streams,
            ordered: options.delivery.ordered,
            linger,
        }
    }

    /// Returns the settings of the stack, for the comparison of stacks. Its initial window is that
    /// of RFC 9260 §7.2.1, and cannot be chosen.
    pub(crate) fn stack_facts(&self, offloads: &Text) -> StackFacts {
        let packet = (self.chunk_bytes + COMMON_HEADER_BYTES + DATA_HEADER_BYTES) as u64;
        let window = (4 * packet).min((2 * packet).max(4380));
        StackFacts {
            initial_window: stack::packets(window, packet),
            slow_start_exit: "loss".into(),
            pacing: "none".into(),
            packet_size: fact::fixed_size(packet + self.ip_headers_bytes as u64).into(),
            first_flight: fact::not_applicable(fact::init_carries_no_data()).into(),
            cipher: "none".into(),
            crypto: "none".into(),
            key_exchange: stack::no_tls(),
            certificate: stack::no_tls(),
            threads: stack::USER_SPACE_THREAD.into(),
            offloads: match offloads.as_str() {
                "off" => "none".into(),
                _ => fact::of_the_socket(offloads.clone()).into(),
            },
            acknowledgements: fact::every_second_packet(Duration::from_millis(200)).into(),
            flow_control: fact::association_window(self.window_bytes as u64).into(),
        }
    }

    pub(crate) fn transport(&self, options: &Options) -> Arc<TransportConfig> {
        let [initial, least, most] =
            [options.rto_initial, options.rto_min, options.rto_max].map(milliseconds);
        let transport = TransportConfig::default()
            .with_max_receive_buffer_size(self.window_bytes)
            .with_max_send_message_size(LONGEST_MESSAGE_BYTES as u32)
            .with_max_receive_message_size(LONGEST_MESSAGE_BYTES as u32)
            .with_rto_initial_ms(initial)
            .with_rto_min_ms(least)
            .with_rto_max_ms(most.max(least));
        Arc::new(transport)
    }

    pub(crate) fn stack(
        &self,
        transport: &Arc<TransportConfig>,
        listens: bool,
    ) -> sctp_proto::Endpoint {
        let mut config = EndpointConfig::new();
        config.max_payload_size(self.chunk_bytes as u32);
        // The stack wants the configuration of a server at an end that only connects too, or it
        // panics at the first packet that asks for an association.
        let mut server = ServerConfig::new();
        server.transport = Arc::clone(transport);
        let mut stack = sctp_proto::Endpoint::new(Arc::new(config), Some(Arc::new(server)));
        if !listens {
            stack.reject_new_associations();
        }
        stack
    }
}

impl Limits {
    /// Returns the limits for an association of a probe, whose messages are few and small: they are
    /// handed over on schedule, however long the path delivers nothing.
    pub(crate) fn of_probe(self) -> Self {
        Self {
            outstanding_chunks: MAX_OUTSTANDING_CHUNKS,
            waiting_chunks: MAX_OUTSTANDING_CHUNKS,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use regatta_model::OptionValue;
    use regatta_transport::OptionValues;

    use super::*;

    fn path(mtu_bytes: u32, link_rate_bps: Option<u64>) -> PathHints {
        PathHints {
            round_trip_delay: Duration::from_millis(30),
            longest_one_way: Duration::from_millis(45),
            typical_one_way: Duration::from_millis(45),
            link_rate_bps,
            window_bytes: link_rate_bps.map(|rate| rate / 8 * 60 / 1000),
            mtu_bytes,
            clock_offset_ns: Some(0),
            keeps_order: true,
            is_real_network: false,
            treats_alike: true,
            tuning: regatta_model::Tuning::default(),
            keeps_tcp_limits: false,
        }
    }

    fn defaults() -> Options {
        Options::read(&OptionValues::new())
    }

    fn sizes(mtu_bytes: u32, rate: Option<u64>, local: IpAddr) -> Result<Sizes, Unsupported> {
        Sizes::of(&path(mtu_bytes, rate), local, &defaults())
    }

    const IPV4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const IPV6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

    #[test]
    fn a_packet_of_two_chunks_never_exceeds_the_path() {
        for (local, headers) in [(IPV4, 28), (IPV6, 48)] {
            for mtu in 560..9100 {
                let sizes = sizes(mtu, None, local).expect("large enough");
                // What the stack may put into one packet: its own limit, and the header and the
                // padding that it does not count.
                let stack_limit = sizes.chunk_bytes + COMMON_HEADER_BYTES + DATA_HEADER_BYTES;
                assert!(stack_limit + DATA_HEADER_BYTES + 3 + headers <= mtu as usize);
            }
        }
        assert!(sizes(539, None, IPV4).is_err());
        assert!(sizes(0, None, IPV6).is_err());
    }

    #[test]
    fn window_follows_the_path_within_limits() {
        let window = |rate| sizes(1500, rate, IPV4).map(|sizes| sizes.window_bytes);
        assert_eq!(window(Some(1_000_000_000)), Ok(7_500_000));
        assert_eq!(window(Some(1_000_000)), Ok(131_072));
        assert_eq!(window(None), Ok(8 << 20));
        assert_eq!(window(Some(100_000_000_000)), Ok(MAX_WINDOW_BYTES));
    }

    #[test]
    fn outstanding_chunks_stay_below_half_the_sequence_space() {
        for rate in [None, Some(1_000_000_000_000)] {
            let sizes = sizes(600, rate, IPV4).expect("large enough");
            let limits = sizes.limits(&defaults(), Duration::ZERO);
            let message_chunks = LONGEST_MESSAGE_BYTES.div_ceil(sizes.chunk_bytes) as u64;
            assert!(limits.outstanding_chunks + message_chunks < 1 << 15);
        }
    }

    #[test]
    fn options_are_read_with_their_units() {
        let text = |text: &str| OptionValue::Text(text.to_owned());
        let options = Options::read(&OptionValues::from([
            ("rto_min".to_owned(), text("200ms")),
            ("receive_window".to_owned(), text("4MiB")),
            ("ordered".to_owned(), OptionValue::Flag(false)),
            ("streams".to_owned(), OptionValue::Number(7)),
        ]));
        assert_eq!(milliseconds(options.rto_min), 200);
        assert_eq!(milliseconds(options.rto_initial), 1000);
        assert_eq!(options.window_bytes(), Some(4 << 20));
        let sizes = sizes(1500, None, IPV4).expect("large enough");
        let limits = sizes.limits(&options, Duration::ZERO);
        assert_eq!(limits.streams, 7);
        assert!(!limits.ordered);
    }
}
