//! Statistics of a TCP connection from the kernel (`TCP_INFO`).

use std::{collections::BTreeMap, mem, os::fd::RawFd, time::Duration};

use regatta_model::metric::id;
use regatta_transport::{ProtocolSample, WindowLimited};

/// The beginning of the kernel's `struct tcp_info` (`linux/tcp.h`), as far as it is used. An older
/// kernel fills less of it and returns the length.
#[repr(C)]
#[derive(Default)]
pub(crate) struct TcpInfo {
    bytes: [u8; 8],
    rto: u32,
    ato: u32,
    snd_mss: u32,
    rcv_mss: u32,
    unacked: u32,
    sacked: u32,
    lost: u32,
    retrans: u32,
    fackets: u32,
    last_data_sent: u32,
    last_ack_sent: u32,
    last_data_recv: u32,
    last_ack_recv: u32,
    pmtu: u32,
    rcv_ssthresh: u32,
    rtt: u32,
    rttvar: u32,
    snd_ssthresh: u32,
    snd_cwnd: u32,
    advmss: u32,
    reordering: u32,
    rcv_rtt: u32,
    rcv_space: u32,
    total_retrans: u32,
    pacing_rate: u64,
    max_pacing_rate: u64,
    bytes_acked: u64,
    bytes_received: u64,
    segs_out: u32,
    segs_in: u32,
    notsent_bytes: u32,
    min_rtt: u32,
    data_segs_in: u32,
    data_segs_out: u32,
    delivery_rate: u64,
    busy_time: u64,
    rwnd_limited: u64,
    sndbuf_limited: u64,
    delivered: [u32; 2],
    bytes_sent: u64,
    bytes_retrans: u64,
    dsack_dups: u32,
    reord_seen: u32,
    rcv_ooopack: u32,
    windows: [u32; 2],
    rehash: u32,
    total_rto: u16,
    total_rto_recoveries: u16,
    total_rto_time: u32,
}

/// Reads the statistics of a connected socket; `None` if the kernel has none.
pub(crate) fn sample(socket: RawFd) -> Option<ProtocolSample> {
    read(socket).map(|(info, filled)| info.sample(filled))
}

/// Reads the statistics of a connected socket with the metrics of its retransmission time-outs.
pub(crate) fn sample_and_time_outs(
    socket: RawFd,
) -> Option<(ProtocolSample, BTreeMap<&'static str, f64>)> {
    read(socket).map(|(info, filled)| (info.sample(filled), info.time_outs(filled)))
}

/// Returns the congestion window of a socket in packets, and its path's largest IP packet in bytes;
/// of MPTCP those of the first subflow.
pub(crate) fn window_and_packet(socket: RawFd) -> Option<(u32, u32)> {
    let (info, _) = read(socket)?;
    Some((info.snd_cwnd, info.pmtu))
}

/// Reads `TCP_INFO`; returns it with the number of bytes that the kernel has written.
fn read(socket: RawFd) -> Option<(TcpInfo, usize)> {
    let mut info = TcpInfo::default();
    let mut length = mem::size_of::<TcpInfo>() as libc::socklen_t;
    // SAFETY: `info` is a plain structure of `length` bytes, every bit pattern of which is valid.
    let result = unsafe {
        libc::getsockopt(
            socket,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return None;
    }
    Some((info, length as usize))
}

impl TcpInfo {
    /// Returns the retransmission time-outs, and the time of recovery from them, by the names of
    /// the metrics; nothing from kernels before Linux 6.7.
    fn time_outs(&self, filled: usize) -> BTreeMap<&'static str, f64> {
        if filled < mem::size_of::<Self>() {
            return BTreeMap::new();
        }
        let recovery = Duration::from_millis(self.total_rto_time.into());
        BTreeMap::from([
            (id::RETRANSMISSION_TIMEOUTS, f64::from(self.total_rto)),
            (id::TIMEOUT_RECOVERY_TIME_NS, recovery.as_nanos() as f64),
        ])
    }

    /// Converts to a sample; the kernel has written the first `filled` bytes of the structure.
    pub(crate) fn sample(&self, filled: usize) -> ProtocolSample {
        // A field counts only where the kernel has written it.
        let known = |end: usize| filled >= end;
        let microseconds = |value: u64| Duration::from_micros(value);
        let mss = u64::from(self.snd_mss);
        let in_flight =
            (self.unacked + self.retrans).saturating_sub(self.sacked.saturating_add(self.lost));
        let min_rtt_end = mem::offset_of!(TcpInfo, min_rtt) + 4;
        let limited_end = mem::offset_of!(TcpInfo, rwnd_limited) + 8;
        let sent_end = mem::offset_of!(TcpInfo, data_segs_out) + 4;
        ProtocolSample {
            smoothed_rtt: (self.rtt > 0).then(|| microseconds(self.rtt.into())),
            // The kernel starts from the largest number, before it has measured.
            min_rtt: (known(min_rtt_end) && self.min_rtt != u32::MAX)
                .then(|| microseconds(self.min_rtt.into())),
            congestion_window_bytes: Some(u64::from(self.snd_cwnd) * mss),
            bytes_in_flight: Some(u64::from(in_flight) * mss),
            packets_sent: known(sent_end).then_some(self.data_segs_out.into()),
            retransmitted_packets: Some(self.total_retrans.into()),
            congestion_events: None,
            window_limited: known(limited_end).then(|| WindowLimited {
                time: microseconds(self.rwnd_limited),
                hint: "raise the last value of `net.ipv4.tcp_rmem` on the receiver with `sysctl -w`",
            }),
        }
    }
}
