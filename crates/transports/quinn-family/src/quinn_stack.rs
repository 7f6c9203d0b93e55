//! Code for quinn that differs from the code for noq.

use std::{
    io,
    net::{SocketAddr, UdpSocket},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use quinn::{
    AsyncUdpSocket, Connection, ConnectionStats, PathStats, QlogConfig, RecvStream, Runtime,
    TokioRuntime, TransportConfig, UdpPoller,
    congestion::Controller,
    udp::{RecvMeta, Transmit},
};

use regatta_transport_quic_common::files::EventLog;

pub(crate) use quinn as quic;
pub(crate) use quinn::congestion::{Bbr, BbrConfig};
pub(crate) use quinn_proto::RttEstimator;
pub(crate) use regatta_transport_quic_common::path::MAX_WINDOW_PACKETS;

/// Whether the packets of the handshake are padded to the connection's packet size, and not to the least that a path
/// must carry.
pub(crate) const PADS_TO_PACKET_SIZE: bool = true;

/// Name of the stack.
pub(crate) const STACK: &str = "quinn";

/// Version of the stack that this crate is built with.
pub(crate) const VERSION: &str = "0.11.12";

/// Title of the driver.
pub(crate) const TITLE: &str = "QUIC, quinn";

/// Summary of the driver, in one sentence without a full stop.
pub(crate) const SUMMARY: &str =
    "QUIC version 1 with TLS 1.3 by quinn, over streams or DATAGRAM frames";

/// The driver's name.
pub(crate) const NAME: &str = "quic-quinn";

/// Socket type that quinn takes.
pub(crate) type Socket = Arc<dyn AsyncUdpSocket>;

/// Maximum number of packets that quinn hands to the kernel at once.
const MAX_SEGMENTS: usize = 10;

/// quinn's own socket with a lower limit on packets per call of the kernel, for packet sizes of
/// which ten are more than the kernel takes, or without ECN, which quinn has no setting for: its packets are not
/// ECN-capable, so that its validation (RFC 9000 §13.4.2) turns ECN off.
#[derive(Debug)]
struct LimitedSocket {
    inner: Socket,
    most: usize,
    ecn: bool,
}

impl AsyncUdpSocket for LimitedSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Arc::clone(&self.inner).create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        match self.ecn {
            true => self.inner.try_send(transmit),
            false => self.inner.try_send(&Transmit {
                ecn: None,
                ..transmit.clone()
            }),
        }
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [io::IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.inner.poll_recv(cx, buffers, meta)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.inner.max_transmit_segments().min(self.most)
    }

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

/// Wraps a socket for quinn, which then gives the kernel at most `most` packets at once, ECN-capable only with `ecn`. Returns
/// it with the maximum numbers of packets sent (UDP_SEGMENT) and received (UDP_GRO) at once, one if the kernel cannot do
/// that.
///
/// # Errors
/// An error of the runtime that does not take the socket.
pub(crate) fn wrap(
    socket: UdpSocket,
    (most, ecn): (usize, bool),
) -> io::Result<(Socket, usize, usize)> {
    let inner = TokioRuntime.wrap_udp_socket(socket)?;
    let is_limited = inner.max_transmit_segments() > most && most < MAX_SEGMENTS;
    let wrapped: Socket = if is_limited || !ecn {
        Arc::new(LimitedSocket { inner, most, ecn })
    } else {
        inner
    };
    let send_packets = wrapped.max_transmit_segments().min(MAX_SEGMENTS);
    let receive_packets = wrapped.max_receive_segments();
    Ok((wrapped, send_packets, receive_packets))
}

/// Returns the statistics of a connection and of its path.
pub(crate) fn stats(connection: &Connection) -> (ConnectionStats, PathStats) {
    let stats = connection.stats();
    (stats, stats.path)
}

/// Returns the numbers of packets sent, and of those declared lost (RFC 9002 §6).
pub(crate) const fn packets(_: &ConnectionStats, path: &PathStats) -> (u64, u64) {
    (path.sent_packets, path.lost_packets)
}

/// Returns the minimum round-trip time (RFC 9002 §5.2).
pub(crate) const fn min_rtt(path: &PathStats) -> Option<Duration> {
    Some(path.min_rtt)
}

/// Returns the number of DATA_BLOCKED and STREAM_DATA_BLOCKED frames sent (RFC 9000 §19.12 f.).
pub(crate) const fn blocked_frames(stats: &ConnectionStats) -> Option<u64> {
    Some(stats.frame_tx.data_blocked + stats.frame_tx.stream_data_blocked)
}

/// Address of the other end.
pub(crate) fn remote(connection: &Connection) -> Option<SocketAddr> {
    Some(connection.remote_address())
}

/// Returns a copy of the congestion controller of a connection.
pub(crate) fn congestion_state(connection: &Connection) -> Option<Box<dyn Controller>> {
    Some(connection.congestion_state())
}

/// Reads pieces of a stream, in order; `None` at its end.
///
/// # Errors
/// The error that ended the stream.
pub(crate) async fn read_chunks(
    stream: &mut RecvStream,
    pieces: &mut [Bytes],
) -> Result<Option<usize>, quinn::ReadError> {
    stream.read_chunks(pieces).await
}

/// Whether this build can write events.
pub(crate) const LOGS_EVENTS: bool = true;

/// Makes the stack write the events of one connection to `log`.
pub(crate) fn log_events(transport: &mut TransportConfig, log: EventLog) {
    let mut config = QlogConfig::default();
    config
        .writer(log.writer)
        .title(Some(log.title))
        .start_time(Instant::now());
    transport.qlog_stream(config.into_stream());
}
