//! Sizes of flow-control windows and buffers from the known properties of the path: one policy for
//! all drivers that size them.
//!
//! Under a kernel's defaults (`Tuning::Defaults`) sockets keep the buffers that the kernel gives them.
//!
//! `udp` and `udp-reliable` have no flow-control window, and socket buffers of a fixed size instead, the same on every
//! path, unless their options `receive_buffer` and `send_buffer` say otherwise.

use std::ops::RangeInclusive;

use regatta_control::PathHints;
use regatta_model::Tuning;

/// Assumed rate where the path has none, in bits per second: more than a stack moves on one core.
const RATE_WITHOUT_LIMIT_BPS: f64 = 1e10;

/// Minimum size of a socket's buffers, in bytes of payload.
const MIN_SOCKET_BUFFER_BYTES: u64 = 8 << 20;

/// Flow-control windows that a stack can use, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowRange {
    /// Windows where the path has a rate.
    pub with_rate: RangeInclusive<u64>,
    /// Windows where it has none.
    pub without_rate: RangeInclusive<u64>,
}

impl WindowRange {
    /// Returns the window for a path: the path's own (`Condition::flow_control_window`), and where
    /// it has no rate the bytes that arrive in one round trip at 10 Gbit/s.
    fn window(&self, path: &PathHints) -> u64 {
        let (window, range) = match path.window_bytes {
            Some(window) => (window, &self.with_rate),
            None => {
                let held = RATE_WITHOUT_LIMIT_BPS / 8.0 * path.round_trip_delay.as_secs_f64();
                (held as u64, &self.without_rate)
            }
        };
        window.max(*range.start()).min(*range.end())
    }
}

/// Sizes of the windows and buffers of one end of one trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowSizes {
    /// Flow-control window of a stream, or of an association, in bytes.
    pub stream_bytes: u64,
    /// Flow-control window of a connection with several streams, in bytes: a stream's, and room
    /// for small streams beside it.
    pub connection_bytes: u64,
    /// Send buffer of the stack, sent and unsent data of the application together, in bytes.
    pub send_buffer_bytes: u64,
    /// Bytes of payload that a receive or send buffer below the stack holds.
    pub socket_buffer_bytes: usize,
    /// Receive and send buffer to request of the socket below the stack, in bytes of payload: `socket_buffer_bytes`;
    /// `None` under a kernel's defaults.
    pub requested_socket_bytes: Option<usize>,
}

impl WindowSizes {
    /// Returns the sizes for a path, unless an option of the transport gives the stream's window in
    /// bytes (`configured`), which is taken as it is.
    #[must_use]
    pub fn of(path: &PathHints, configured: Option<u64>, range: &WindowRange) -> Self {
        let stream_bytes = configured.unwrap_or_else(|| range.window(path));
        // The kernel charges a packet of 1500 bytes with up to 2304, and doubles what it is asked
        // for to allow for that.
        let socket_buffer = stream_bytes.max(MIN_SOCKET_BUFFER_BYTES);
        let socket_buffer_bytes = usize::try_from(socket_buffer).unwrap_or(usize::MAX);
        Self {
            stream_bytes,
            connection_bytes: stream_bytes.saturating_add(stream_bytes / 4),
            send_buffer_bytes: stream_bytes.saturating_mul(2),
            socket_buffer_bytes,
            requested_socket_bytes: (path.tuning == Tuning::Bench).then_some(socket_buffer_bytes),
        }
    }
}

/// Returns the size of the kernel's TCP buffer of one end from which a flow fills the path, in bytes as the kernel counts
/// them; `None` where the path has no rate.
///
/// A flow that continues while a lost packet is retransmitted has two bandwidth-delay products under way, and the kernel
/// needs about as much for its own bookkeeping. The size is even: the kernel doubles what it is asked for.
#[must_use]
pub fn tcp_buffer_bytes(path: &PathHints) -> Option<usize> {
    let needed = path.bandwidth_delay_product()?.saturating_mul(4);
    Some(usize::try_from(needed).unwrap_or(usize::MAX) & !1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const RANGE: WindowRange = WindowRange {
        with_rate: 131_072..=(64 << 20),
        without_rate: (512 << 10)..=(16 << 20),
    };

    fn path(window_bytes: Option<u64>, round_trip: Duration) -> PathHints {
        PathHints {
            round_trip_delay: round_trip,
            longest_one_way: round_trip,
            typical_one_way: round_trip,
            link_rate_bps: window_bytes.map(|_| 100_000_000),
            window_bytes,
            mtu_bytes: 1500,
            clock_offset_ns: Some(0),
            keeps_order: true,
            is_real_network: false,
            treats_alike: true,
            tuning: regatta_model::Tuning::default(),
            keeps_tcp_limits: false,
        }
    }

    fn stream(window_bytes: Option<u64>, milliseconds: u64) -> u64 {
        let path = path(window_bytes, Duration::from_millis(milliseconds));
        WindowSizes::of(&path, None, &RANGE).stream_bytes
    }

    #[test]
    fn window_is_clamped_to_the_range_of_the_stack() {
        assert_eq!(stream(Some(704_531), 30), 704_531);
        assert_eq!(stream(Some(1), 30), 131_072);
        assert_eq!(stream(Some(1 << 40), 30), 64 << 20);
    }

    #[test]
    fn window_without_a_rate_covers_one_round_trip() {
        assert_eq!(stream(None, 8), 10_000_000);
        assert_eq!(stream(None, 0), 512 << 10);
        assert_eq!(stream(None, 1000), 16 << 20);
    }

    #[test]
    fn a_tcp_buffer_holds_four_bandwidth_delay_products() {
        let with_rate = path(Some(704_531), Duration::from_millis(30));
        assert_eq!(tcp_buffer_bytes(&with_rate), Some(4 * 375_000));
        let without_rate = path(None, Duration::from_millis(30));
        assert_eq!(tcp_buffer_bytes(&without_rate), None);
    }

    #[test]
    fn sockets_keep_the_kernels_buffers_under_its_defaults() {
        let mut path = path(Some(704_531), Duration::from_millis(30));
        let requested =
            |path: &PathHints| WindowSizes::of(path, None, &RANGE).requested_socket_bytes;
        assert_eq!(requested(&path), Some(8 << 20));
        path.tuning = Tuning::Defaults;
        assert_eq!(requested(&path), None);
    }

    #[test]
    fn window_option_overrides_derived_sizes() {
        let path = path(Some(704_531), Duration::from_millis(30));
        let sizes = WindowSizes::of(&path, Some(20_000_000), &RANGE);
        assert_eq!(sizes.stream_bytes, 20_000_000);
        assert_eq!(sizes.connection_bytes, 25_000_000);
        assert_eq!(sizes.send_buffer_bytes, 40_000_000);
        assert_eq!(sizes.socket_buffer_bytes, 20_000_000);
        let small = WindowSizes::of(&path, None, &RANGE);
        assert_eq!(small.socket_buffer_bytes, 8 << 20);
        let largest = WindowSizes::of(&path, Some(u64::MAX), &RANGE);
        assert_eq!(largest.send_buffer_bytes, u64::MAX);
    }
}
