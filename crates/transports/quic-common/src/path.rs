//! Sizes of packets, windows and buffers from the known properties of the path.

use std::{net::IpAddr, time::Duration};

use regatta_control::{PathHints, TrialOrder};
use regatta_model::{Bytes, WorkloadKind, reason};
use regatta_transport::{Unsupported, WindowRange, WindowSizes, options::saturating_usize};

use crate::options::{Common, MAX_VARINT};

/// Minimum UDP payload that a path must carry for QUIC.
///
/// Source: RFC 9000 §14.
pub const MIN_PAYLOAD_BYTES: u16 = 1200;

/// Largest UDP payload in use, that of a jumbo frame over IPv4. Receive buffers grow with it, and a
/// congestion window of ten packets of 1200 bytes must still hold one.
pub const MAX_PAYLOAD_BYTES: u16 = 8972;

/// Largest UDP payload of one call of the kernel, whole GSO batch: an IPv4 packet without its
/// headers.
const MAX_BATCH_BYTES: usize = 65_507;

/// Initial congestion window of every stack, in packets: that of Linux, and of RFC 9002 §7.2 for packets
/// of up to 1472 bytes.
pub const INITIAL_WINDOW_PACKETS: u16 = 10;

/// Smallest window where the path has no rate, in bytes: more than loopback holds in flight.
const MIN_WINDOW_WITHOUT_RATE_BYTES: u64 = 4 << 20;

/// Largest window where the path has no rate, in packets. A stream buffer of quinn fails above 1024
/// gaps; with one packet in twenty lost, a window of this size has about 820.
const MAX_WINDOW_WITHOUT_RATE_PACKETS: u64 = 16_384;

/// Largest window of a stack that has no limit.
pub const MAX_WINDOW_PACKETS: u64 = u64::MAX;

/// Minimum of the application data that a stack buffers where the buffer follows the congestion window, in bytes.
const MIN_HELD_BYTES: u64 = 1 << 20;

/// Data of the application that a stack holds then, in congestion windows: what is in flight, as much to double it in
/// slow start, and room for a write.
const HELD_CONGESTION_WINDOWS: u64 = 4;

/// Returns the size of the headers of IP and UDP before a payload, in bytes.
#[must_use]
pub const fn headers_bytes(local: IpAddr) -> u16 {
    match local {
        IpAddr::V4(_) => 20 + 8,
        IpAddr::V6(_) => 40 + 8,
    }
}

/// Sizes for one end of one trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// UDP payload of a full packet, in bytes.
    pub payload_bytes: u16,
    /// UDP payload of a connection's first full packets, in bytes: less where the stack searches for the packet size.
    pub first_payload_bytes: u16,
    /// Sizes of windows and buffers.
    pub windows: WindowSizes,
    /// Receive and send buffer that is requested of the socket, in bytes; `None` for the kernel's.
    pub socket_buffers_bytes: (Option<usize>, Option<usize>),
    /// Whether what the stack holds of the application's data follows the congestion window ([`Self::held_bytes`]): over
    /// a path whose rate is not known. The flow-control window there is that of a fast path. With a send buffer of that
    /// size, what the application has written when its time is up can be on its way for a minute over a slow one.
    pub follows_congestion_window: bool,
}

/// Idle time-out of a connection on which no silence is planned.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns the idle time-out of the connections of a trial: longer than any silence of a script, whose waits end at the
/// deadline. No stack sends packets that only keep a connection alive.
#[must_use]
pub fn idle_timeout(order: &TrialOrder) -> Duration {
    match order.workload.kind {
        WorkloadKind::Script(_) => IDLE_TIMEOUT + order.longest_transfer(),
        _ => IDLE_TIMEOUT,
    }
}

impl Sizes {
    /// Returns the sizes for a path between this end and another one of the same IP version.
    ///
    /// The stream's window is the path's, unless the option `stream_window` gives it.
    ///
    /// # Errors
    /// [`Unsupported`] if the path's packets are too small for QUIC.
    pub fn of(path: &PathHints, local: IpAddr, options: &Common) -> Result<Self, Unsupported> {
        Self::with_at_most(MAX_WINDOW_PACKETS, path, local, options)
    }

    /// Returns the sizes for a stack whose stream windows hold at most `packets` full packets,
    /// unless the option `stream_window` gives the window.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn with_at_most(
        packets: u64,
        path: &PathHints,
        local: IpAddr,
        options: &Common,
    ) -> Result<Self, Unsupported> {
        let headers = u32::from(headers_bytes(local));
        let payload = path.mtu_bytes.saturating_sub(headers);
        if payload < u32::from(MIN_PAYLOAD_BYTES) {
            let (mtu, least) = (path.mtu_bytes, u32::from(MIN_PAYLOAD_BYTES) + headers);
            return Err(Unsupported::new(
                reason::path_too_small_for_quic(mtu.into(), least.into()),
                reason::larger_mtu(least.into()),
            ));
        }
        let payload_bytes =
            u16::try_from(payload).map_or(MAX_PAYLOAD_BYTES, |bytes| bytes.min(MAX_PAYLOAD_BYTES));

        let most = |packets: u64| packets.saturating_mul(payload_bytes.into());
        let range = WindowRange {
            with_rate: 0..=most(packets),
            without_rate: MIN_WINDOW_WITHOUT_RATE_BYTES
                ..=most(packets.min(MAX_WINDOW_WITHOUT_RATE_PACKETS)),
        };
        let limited = |size: Bytes| size.min(Bytes(MAX_VARINT));
        let stream_window = options.stream_window.map(|size| limited(size).0);
        let windows = WindowSizes::of(path, stream_window, &range);
        let buffer = |configured: Option<Bytes>| {
            let configured = configured.map(|size| saturating_usize(limited(size)));
            configured.or(windows.requested_socket_bytes)
        };
        Ok(Self {
            payload_bytes,
            first_payload_bytes: match options.mtu_discovery {
                true => MIN_PAYLOAD_BYTES,
                false => payload_bytes,
            },
            windows,
            socket_buffers_bytes: (buffer(options.receive_buffer), buffer(options.send_buffer)),
            // A direct link without delay is as fast as the hosts.
            follows_congestion_window: path.link_rate_bps.is_none()
                && !path.round_trip_delay.is_zero()
                && options.stream_window.is_none()
                && windows.send_buffer_bytes > MIN_HELD_BYTES,
        })
    }

    /// Returns the most that the stack holds of the application's data, sent and unsent together, with a congestion
    /// window of this size; all in bytes.
    #[must_use]
    pub fn held_bytes(&self, congestion_window: u64) -> u64 {
        let most = self.windows.send_buffer_bytes;
        match self.follows_congestion_window {
            true => (congestion_window.saturating_mul(HELD_CONGESTION_WINDOWS))
                .max(MIN_HELD_BYTES)
                .min(most),
            false => most,
        }
    }

    /// Returns the size of [`INITIAL_WINDOW_PACKETS`] packets with this payload, in bytes.
    #[must_use]
    pub fn initial_window_bytes(payload_bytes: u16) -> u32 {
        u32::from(INITIAL_WINDOW_PACKETS) * u32::from(payload_bytes)
    }

    /// Returns the maximum number of packets in one call of the kernel with segmentation offload.
    #[must_use]
    pub fn most_segments(&self) -> usize {
        MAX_BATCH_BYTES / usize::from(self.payload_bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeMap,
        net::{Ipv4Addr, Ipv6Addr},
        time::Duration,
    };

    use super::*;

    const IPV4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const IPV6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

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

    fn sizes(path: &PathHints, local: IpAddr) -> Result<Sizes, Unsupported> {
        Sizes::of(path, local, &Common::read(&BTreeMap::new()))
    }

    #[test]
    fn payload_fills_the_path_mtu() {
        let payload = |mtu, local| sizes(&path(mtu, None), local).map(|s| s.payload_bytes);
        assert_eq!(payload(1500, IPV4), Ok(1472));
        assert_eq!(payload(1500, IPV6), Ok(1452));
        assert_eq!(payload(9000, IPV4), Ok(8972));
        assert_eq!(payload(65_536, IPV4), Ok(MAX_PAYLOAD_BYTES));
        assert_eq!(payload(1228, IPV4), Ok(1200));
        assert!(payload(1227, IPV4).is_err());
        assert!(payload(0, IPV6).is_err());
    }

    #[test]
    fn batch_size_is_below_the_kernel_limit() {
        for mtu in [1228, 1500, 9000, 65_536] {
            let sizes = sizes(&path(mtu, None), IPV4).expect("large enough");
            assert!(sizes.most_segments() * usize::from(sizes.payload_bytes) <= 65_507);
        }
    }

    #[test]
    fn stream_window_is_that_of_the_path() {
        let window = |rate| sizes(&path(1500, rate), IPV4).map(|sizes| sizes.windows.stream_bytes);
        assert_eq!(window(Some(1_000_000_000)), Ok(7_500_000));
        assert_eq!(window(Some(10_000_000)), Ok(75_000));
        assert_eq!(window(None), Ok(16_384 * 1472));
    }

    /// 30 ms at 10 Gbit/s are 37 MB, with which 5 Mbit/s would be busy for a minute.
    #[test]
    fn buffer_limit_follows_the_congestion_window_without_a_rate() {
        let held = |path: &PathHints, configured: Option<u64>, congestion_window| {
            let mut common = Common::read(&BTreeMap::new());
            common.stream_window = configured.map(Bytes);
            let sizes = Sizes::of(path, IPV4, &common).expect("large enough");
            sizes.held_bytes(congestion_window)
        };
        let most = 2 * 16_384 * 1472;
        let unknown = path(1500, None);
        assert_eq!(held(&unknown, None, 14_000), 1 << 20);
        assert_eq!(held(&unknown, None, 1 << 20), 4 << 20);
        assert_eq!(held(&unknown, None, 1 << 40), most);
        assert_eq!(
            held(&unknown, Some(8 << 20), 14_000),
            16 << 20,
            "the user's own window"
        );
        assert_eq!(
            held(&path(1500, Some(1_000_000_000)), None, 14_000),
            15_000_000,
            "a known rate"
        );
        let mut direct = unknown;
        direct.round_trip_delay = Duration::ZERO;
        assert_eq!(held(&direct, None, 14_000), 8 << 20, "a direct link");
    }

    #[test]
    fn window_is_limited_by_the_stack_unless_configured() {
        let window = |rate, common: &Common| {
            Sizes::with_at_most(1000, &path(1500, rate), IPV4, common)
                .map(|sizes| sizes.windows.stream_bytes)
        };
        let mut common = Common::read(&BTreeMap::new());
        assert_eq!(window(Some(10_000_000), &common), Ok(75_000));
        assert_eq!(window(Some(1_000_000_000), &common), Ok(1_472_000));
        assert_eq!(window(None, &common), Ok(1_472_000));
        common.stream_window = Some(Bytes(4 << 20));
        assert_eq!(window(None, &common), Ok(4 << 20));
    }
}
