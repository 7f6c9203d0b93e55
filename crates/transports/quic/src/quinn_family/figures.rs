//! Figures of a connection and its socket, whichever stack they come from.

use std::time::Duration;

/// How many packets pass one call of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offload {
    /// Sent at once, at most (UDP_SEGMENT); one if the kernel cannot do that.
    pub send_packets: usize,
    /// Received at once, at most (UDP_GRO); one if the kernel cannot do that.
    pub receive_packets: usize,
}

impl Offload {
    /// `off`, or how many at most.
    #[must_use]
    pub fn in_words(packets: usize) -> String {
        match packets {
            0 | 1 => "off".to_owned(),
            packets => format!("on, {packets} packets at most"),
        }
    }
}

/// What a stack knows of a connection; counts are since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// RFC 9002 §5.3.
    pub smoothed_rtt: Duration,
    /// RFC 9002 §5.2; absent where the stack does not tell.
    pub min_rtt: Option<Duration>,
    /// Congestion window, in bytes.
    pub window_bytes: u64,
    /// Packets sent, those that repeat content included.
    pub packets_sent: u64,
    /// Packets declared lost (RFC 9002 §6).
    pub packets_lost: u64,
    /// How often the congestion control was told of congestion.
    pub congestion_events: u64,
    /// How often the path was found to swallow large packets (RFC 8899 §4.3).
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
