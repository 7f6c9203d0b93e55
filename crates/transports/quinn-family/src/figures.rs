//! Figures of a connection and its socket, the same for both stacks.

use std::time::Duration;

/// Maximum number of packets in one call of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offload {
    /// Maximum number of packets sent at once (UDP_SEGMENT); one if the kernel cannot do that.
    pub(crate) send_packets: usize,
    /// Maximum number of packets received at once (UDP_GRO); one if the kernel cannot do that.
    pub(crate) receive_packets: usize,
}

/// Statistics of a connection as its stack reports them; counts are since its beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Smoothed round-trip time (RFC 9002 §5.3).
    pub(crate) smoothed_rtt: Duration,
    /// Minimum round-trip time (RFC 9002 §5.2); absent where the stack does not report it.
    pub(crate) min_rtt: Option<Duration>,
    /// Congestion window, in bytes.
    pub(crate) window_bytes: u64,
    /// Packets sent, including retransmitted content.
    pub(crate) packets_sent: u64,
    /// Packets declared lost (RFC 9002 §6).
    pub(crate) packets_lost: u64,
    /// Number of congestion events reported to the congestion control.
    pub(crate) congestion_events: u64,
    /// Number of times the path was found to drop large packets (black hole, RFC 8899 §4.3).
    pub(crate) black_holes: u64,
    /// UDP payload of a full packet, in bytes.
    pub(crate) payload_bytes: u16,
    /// DATA_BLOCKED and STREAM_DATA_BLOCKED frames sent (RFC 9000 §19.12 f.); absent where the stack
    /// sends none.
    pub(crate) blocked_frames: Option<u64>,
    /// DATAGRAM frames sent (RFC 9221).
    pub(crate) datagram_frames_sent: u64,
    /// DATAGRAM frames received.
    pub(crate) datagram_frames_received: u64,
}
