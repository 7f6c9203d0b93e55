//! Statistics of a TCP connection from the kernel (`TCP_INFO`).

use std::{collections::BTreeMap, mem::offset_of, os::fd::AsRawFd, time::Duration};

use libc::tcp_info as TcpInfo;
use regatta_model::metric::id;
use regatta_transport::{
    ProtocolSample, WindowLimit, WindowLimited,
    socket_option::{Plain as _, get_into},
};

/// Returns the statistics of a connected socket; `None` if the kernel has none.
#[must_use]
pub fn sample(socket: &impl AsRawFd) -> Option<ProtocolSample> {
    read(socket).map(|(info, filled)| of_info(&info, filled))
}

/// Reads the statistics of a connected socket with the metrics of its retransmission time-outs.
pub(crate) fn sample_and_time_outs(
    socket: &impl AsRawFd,
) -> Option<(ProtocolSample, BTreeMap<&'static str, f64>)> {
    read(socket).map(|(info, filled)| (of_info(&info, filled), time_outs(&info, filled)))
}

/// Returns the congestion window of a socket in packets, and its path's largest IP packet in bytes;
/// of MPTCP those of the first subflow.
pub(crate) fn window_and_packet(socket: &impl AsRawFd) -> Option<(u32, u32)> {
    let (info, _) = read(socket)?;
    Some((info.tcpi_snd_cwnd, info.tcpi_pmtu))
}

/// `TCPI_OPT_ECN`: both ends agreed to use ECN (RFC 3168 §6.1.1).
const OPTION_ECN: u8 = 8;

/// Whether the handshake of a connected socket agreed to use ECN; `None` if the kernel does not tell.
pub(crate) fn has_ecn(socket: &impl AsRawFd) -> Option<bool> {
    read(socket).map(|(info, _)| info.tcpi_options & OPTION_ECN != 0)
}

/// Reads `TCP_INFO`; returns it with the number of bytes that the kernel has written: an older one fills less of it.
fn read(socket: &impl AsRawFd) -> Option<(TcpInfo, usize)> {
    let mut info = TcpInfo::zeroed();
    let filled = get_into(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info).ok()?;
    Some((info, filled))
}

/// Returns the retransmission time-outs, and the time of recovery from them, by the names of
/// the metrics; nothing from kernels before Linux 6.7.
fn time_outs(info: &TcpInfo, filled: usize) -> BTreeMap<&'static str, f64> {
    if filled < offset_of!(TcpInfo, tcpi_total_rto_time) + 4 {
        return BTreeMap::new();
    }
    let recovery = Duration::from_millis(info.tcpi_total_rto_time.into());
    BTreeMap::from([
        (id::RETRANSMISSION_TIMEOUTS, f64::from(info.tcpi_total_rto)),
        (id::TIMEOUT_RECOVERY_TIME_NS, recovery.as_nanos() as f64),
    ])
}

/// Converts to a sample; the kernel has written the first `filled` bytes of the structure.
pub(crate) fn of_info(info: &TcpInfo, filled: usize) -> ProtocolSample {
    // A field counts only where the kernel has written it.
    let known = |end: usize| filled >= end;
    let mss = u64::from(info.tcpi_snd_mss);
    let left_network = info.tcpi_sacked.saturating_add(info.tcpi_lost);
    let in_flight = (info.tcpi_unacked + info.tcpi_retrans).saturating_sub(left_network);
    let min_rtt_end = offset_of!(TcpInfo, tcpi_min_rtt) + 4;
    let limited_end = offset_of!(TcpInfo, tcpi_rwnd_limited) + 8;
    let sent_end = offset_of!(TcpInfo, tcpi_data_segs_out) + 4;
    let micros = |time: u32| Duration::from_micros(time.into());
    ProtocolSample {
        smoothed_rtt: (info.tcpi_rtt > 0).then(|| micros(info.tcpi_rtt)),
        // The kernel starts from the largest number, before it has measured.
        min_rtt: (known(min_rtt_end) && info.tcpi_min_rtt != u32::MAX)
            .then(|| micros(info.tcpi_min_rtt)),
        congestion_window_bytes: Some(u64::from(info.tcpi_snd_cwnd) * mss),
        bytes_in_flight: Some(u64::from(in_flight) * mss),
        packets_sent: known(sent_end).then_some(info.tcpi_data_segs_out.into()),
        retransmitted_packets: Some(info.tcpi_total_retrans.into()),
        congestion_events: None,
        window_limited: known(limited_end).then(|| WindowLimited {
            time: Duration::from_micros(info.tcpi_rwnd_limited),
            by: WindowLimit::ReceiveBuffers,
        }),
    }
}
