//! Code for noq that differs from the code for quinn.

#[cfg(feature = "qlog")]
mod event_log;

use std::{
    io,
    net::{SocketAddr, UdpSocket},
    num::NonZeroUsize,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use noq::{
    AsyncUdpSocket, Connection, ConnectionStats, PathId, PathStats, RecvStream, Runtime,
    TokioRuntime, UdpSender,
    congestion::Controller,
    udp::{RecvMeta, Transmit},
};

pub(crate) use noq as quic;
pub(crate) use noq::congestion::{Bbr3 as Bbr, Bbr3Config as BbrConfig};
pub(crate) use noq_proto::RttEstimator;

/// Whether the packets of the handshake are padded to the connection's packet size, and not to the least that a path
/// must carry.
pub(crate) const PADS_TO_PACKET_SIZE: bool = false;

/// Name of the stack.
pub(crate) const STACK: &str = "noq";

/// Version of the stack that this crate is built with.
pub(crate) const VERSION: &str = "1.4.0";

/// Title of the driver.
pub(crate) const TITLE: &str = "QUIC, noq";

/// Summary of the driver, in one sentence without a full stop.
pub(crate) const SUMMARY: &str =
    "QUIC version 1 with TLS 1.3 by noq, a fork of quinn with BBR version 3";

/// The driver's name.
pub(crate) const NAME: &str = "quic-noq";

/// Socket type that noq takes.
pub(crate) type Socket = Box<dyn AsyncUdpSocket>;

/// Largest flow-control window of a stream, in packets.
///
/// noq ends a connection in which a stream has more than 2048 packets that the application has not
/// read, whether there are gaps between them or not (`TooManyChunks`); quinn joins them since
/// quinn-proto 0.11.18 (quinn issue 2809). A quarter is left for packets that are not full.
pub(crate) const MAX_WINDOW_PACKETS: u64 = 1536;

/// Maximum number of packets that noq hands to the kernel at once.
const MAX_SEGMENTS: usize = 10;

/// noq's own socket with a lower limit on packets per call of the kernel, for packet sizes of which
/// ten are more than the kernel takes, or without ECN, which noq has no setting for: its packets are not ECN-capable, so that
/// its validation (RFC 9000 §13.4.2) turns ECN off.
#[derive(Debug)]
struct LimitedSocket<T> {
    inner: T,
    most: NonZeroUsize,
    ecn: bool,
}

impl AsyncUdpSocket for LimitedSocket<Socket> {
    fn create_sender(&self) -> Pin<Box<dyn UdpSender>> {
        Box::pin(LimitedSocket {
            inner: self.inner.create_sender(),
            most: self.most,
            ecn: self.ecn,
        })
    }

    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        buffers: &mut [io::IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.inner.poll_recv(cx, buffers, meta)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_receive_segments(&self) -> NonZeroUsize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

impl UdpSender for LimitedSocket<Pin<Box<dyn UdpSender>>> {
    fn poll_send(
        mut self: Pin<&mut Self>,
        transmit: &Transmit<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let is_capable = self.ecn;
        let inner = self.inner.as_mut();
        match is_capable {
            true => inner.poll_send(transmit, cx),
            false => {
                let transmit = Transmit {
                    ecn: None,
                    ..transmit.clone()
                };
                inner.poll_send(&transmit, cx)
            }
        }
    }

    fn max_transmit_segments(&self) -> NonZeroUsize {
        self.inner.max_transmit_segments().min(self.most)
    }
}

/// Wraps a socket for noq, which then gives the kernel at most `most` packets at once, ECN-capable only with `ecn`. Returns
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
    let can = inner.create_sender().max_transmit_segments().get();
    let is_limited = can > most && most < MAX_SEGMENTS;
    let wrapped: Socket = match NonZeroUsize::new(most) {
        Some(most) if is_limited || !ecn => Box::new(LimitedSocket { inner, most, ecn }),
        _ => inner,
    };
    let send_packets = can.min(most).min(MAX_SEGMENTS);
    let receive_packets = wrapped.max_receive_segments().get();
    Ok((wrapped, send_packets, receive_packets))
}

/// Returns the statistics of a connection and of its path. Without multipath, which is not negotiated, a connection
/// has one path, whose number does not change when the path moves to another address.
pub(crate) fn stats(connection: &Connection) -> (ConnectionStats, PathStats) {
    let path = connection.path_stats(PathId::ZERO).unwrap_or_default();
    (connection.stats(), path)
}

/// Returns the numbers of packets sent, and of those declared lost (RFC 9002 §6).
pub(crate) const fn packets(stats: &ConnectionStats, _: &PathStats) -> (u64, u64) {
    (stats.sent_packets, stats.lost_packets)
}

/// Returns the minimum round-trip time (RFC 9002 §5.2), which noq does not report.
pub(crate) const fn min_rtt(_: &PathStats) -> Option<Duration> {
    None
}

/// Returns the number of DATA_BLOCKED and STREAM_DATA_BLOCKED frames sent. It stays 0: noq sends none.
pub(crate) const fn blocked_frames(_: &ConnectionStats) -> Option<u64> {
    None
}

/// Address of the other end; `None` once the path is closed.
pub(crate) fn remote(connection: &Connection) -> Option<SocketAddr> {
    connection.path(PathId::ZERO)?.remote_address().ok()
}

/// Returns a copy of the congestion controller of a connection.
pub(crate) fn congestion_state(connection: &Connection) -> Option<Box<dyn Controller>> {
    connection.congestion_state(PathId::ZERO)
}

/// Reads pieces of a stream, in order; `None` at its end.
///
/// # Errors
/// The error that ended the stream.
pub(crate) async fn read_chunks(
    stream: &mut RecvStream,
    pieces: &mut [Bytes],
) -> Result<Option<usize>, noq::ReadError> {
    stream.read_many_chunks(pieces).await
}

/// Whether this build can write events: noq with its feature for them forms those of every packet, also where no log is
/// written.
pub(crate) const LOGS_EVENTS: bool = cfg!(feature = "qlog");

/// Does nothing: this build writes no events.
#[cfg(not(feature = "qlog"))]
pub(crate) fn log_events(
    _transport: &mut noq::TransportConfig,
    _log: regatta_transport_quic_common::files::EventLog,
) {
}

#[cfg(feature = "qlog")]
pub(crate) use event_log::log_events;
