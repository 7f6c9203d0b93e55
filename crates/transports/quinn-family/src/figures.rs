//! Figures of a connection and its socket, the same for both stacks.

use std::time::Duration;

/// Maximum number of packets in one call of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offload {
    /// Maximum number of packets sent at once (UDP_SEGMENT); one if the kernel cannot do that.
    pub send_packets: usize,
    /// Maximum number of packets received at once (UDP_GRO); one if the kernel cannot do that.
    pub receive_packets: usize,
}

impl Offload {
    /// Describes an offload: `off`, or the maximum number of packets.
    #[must_use]
    pub fn in_words(packets: usize) -> String {
        match packets {
            0 | 1 => "off".to_owned(),
            packets => format!("on, {packets} packets at most"),
        }
    }
}

/// Statistics of a connection as its stack reports them; counts are since its beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// Smoothed round-trip time (RFC 9002 §5.3).
    pub smoothed_rtt: Duration,
    /// Minimum round-trip time (RFC 9002 §5.2); absent where the stack does not report it.
    pub min_rtt: Option<Duration>,
    /// Congestion window, in bytes.
    pub window_bytes: u64,
    /// Packets sent, including retransmitted content.
    pub packets_sent: u64,
    /// Packets declared lost (RFC 9002 §6).
    pub packets_lost: u64,
    /// Number of congestion events reported to the congestion control.
    pub congestion_events: u64,
    /// Number of times the path was found to drop large packets (black hole, RFC 8899 §4.3).
    pub black_holes: u64,
    /// UDP payload of a full packet, in bytes.
    pub payload_bytes: u16,
    /// DATA_BLOCKED and STREAM_DATA_BLOCKED frames sent (RFC 9000 §19.12 f.); absent where the stack
    /// sends none.
    pub blocked_frames: Option<u64>,
    /// DATAGRAM frames sent (RFC 9221).
    pub datagram_frames_sent: u64,
    /// DATAGRAM frames received.
    pub datagram_frames_received: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_packet_at_a_time_is_no_offload() {
        assert_eq!(Offload::in_words(0), "off");
        assert_eq!(Offload::in_words(1), "off");
        assert_eq!(Offload::in_words(10), "on, 10 packets at most");
    }
}
