//! Events of s2n-quic's connections, kept where other threads can read them.

use std::{
    net::IpAddr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

use regatta_model::{Text, units::nanoseconds};
use s2n_quic::{
    connection,
    provider::{
        endpoint_limits::{ConnectionAttempt, Limiter, Outcome},
        event::{ConnectionInfo, ConnectionMeta, Meta, Subscriber, events},
    },
};
use tokio::sync::{Notify, SetOnce, mpsc};

use regatta_transport_quic_common::facts::offload;

/// Figure that one task writes and others read, so that reading a value and writing the next need not be one step.
#[derive(Debug, Default)]
pub(crate) struct Figure(AtomicU64);

impl Figure {
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    fn add_one(&self) {
        self.set(self.get() + 1);
    }
}

/// State of one connection as its stack reports it, written by the endpoint's task alone. Times in nanoseconds, sizes in
/// bytes.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(crate) packets_sent: Figure,
    /// Packets declared lost, except for probes of the packet size.
    pub(crate) packets_lost: Figure,
    pub(crate) congestion_events: Figure,
    /// Frames that report to the other end that a flow-control window holds this end back.
    pub(crate) blocked_frames: Figure,
    /// Largest end of stream data that was sent, over all streams: of one stream, what it has sent at all.
    stream_sent_bytes: Figure,
    /// Whether a task waits for stream data to be sent.
    is_awaited: AtomicBool,
    stream_sent: Notify,
    /// Zero before anything was acknowledged; the three figures of recovery (RFC 9002) after it are not known then.
    pub(crate) smoothed_rtt_ns: Figure,
    pub(crate) min_rtt_ns: Figure,
    pub(crate) congestion_window_bytes: Figure,
    pub(crate) bytes_in_flight: Figure,
    /// UDP payload of a full packet, in bytes.
    pub(crate) payload_bytes: Figure,
    pub(crate) cipher_suite: OnceLock<String>,
    pub(crate) alpn: OnceLock<Vec<u8>>,
    /// Set when one of the ends has closed the connection, or the connection failed.
    closed: SetOnce<()>,
}

impl Watch {
    /// Records the end of stream data that was sent.
    fn on_stream_sent(&self, end: u64) {
        if end > self.stream_sent_bytes.get() {
            self.stream_sent_bytes.set(end);
            if self.is_awaited.load(Ordering::Relaxed) {
                self.stream_sent.notify_waiters();
            }
        }
    }

    /// Waits until the connection holds no more of `written` bytes of a stream than `most` says for its congestion
    /// window, or is closed. Of several streams the one that has sent most counts, so that the others wait for less.
    pub(crate) async fn until_held(&self, written: u64, most: impl Fn(u64) -> u64) {
        self.is_awaited.store(true, Ordering::Relaxed);
        loop {
            let mut sent = std::pin::pin!(self.stream_sent.notified());
            // Before the counters are looked at, so that no packet is missed.
            sent.as_mut().enable();
            let unsent = written.saturating_sub(self.stream_sent_bytes.get());
            let held = unsent + self.bytes_in_flight.get();
            // With nothing unsent no packet of new data will come to end the wait.
            if unsent == 0 || held <= most(self.congestion_window_bytes.get()) {
                return;
            }
            tokio::select! {
                () = sent => {}
                () = self.closed() => return,
            }
        }
    }

    fn close(&self) {
        // It may be closed already.
        let _ = self.closed.set(());
    }

    /// Waits until one of the ends has closed the connection, or the connection failed.
    pub(crate) async fn closed(&self) {
        self.closed.wait().await;
    }
}

/// State of an end as its stack reports it.
#[derive(Debug, Default)]
pub(crate) struct Offloads {
    /// Number of packets that are handed to the kernel at once; 1 if it has no such offload.
    segments: AtomicUsize,
    /// Whether the kernel hands over several packets at once.
    receive_offload: AtomicBool,
}

/// Attempt to connect to a listening end.
#[derive(Debug)]
pub(crate) enum Attempt {
    Begun,
    Failed(connection::Error),
}

impl Offloads {
    /// Describes the offloads of sending and of receiving.
    pub(crate) fn offloads(&self) -> (Text, Text) {
        let gro = match self.receive_offload.load(Ordering::Relaxed) {
            true => "on",
            false => "off",
        };
        (offload(self.segments.load(Ordering::Relaxed)), gro.into())
    }
}

/// Context of a connection in the stack's events, dropped with the connection.
#[derive(Debug)]
pub(crate) struct Followed {
    pub(crate) watch: Arc<Watch>,
    /// Whether this is a connection of a listening end.
    accepts: bool,
    handshake_complete: bool,
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.watch.close();
    }
}

/// Subscriber to the stack's events, which records them.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) board: Arc<Offloads>,
    /// Queue of attempts, which are not taken at a connecting end or at an end that was dropped.
    pub(crate) attempts: mpsc::UnboundedSender<Attempt>,
}

impl Subscriber for Writer {
    type ConnectionContext = Followed;

    fn create_connection_context(
        &mut self,
        meta: &ConnectionMeta,
        _info: &ConnectionInfo<'_>,
    ) -> Followed {
        let accepts = matches!(meta.endpoint_type(), events::EndpointType::Server { .. });
        if accepts {
            let _ = self.attempts.send(Attempt::Begun);
        }
        Followed {
            watch: Arc::default(),
            accepts,
            handshake_complete: false,
        }
    }

    fn on_packet_sent(
        &mut self,
        followed: &mut Followed,
        _meta: &ConnectionMeta,
        _event: &events::PacketSent,
    ) {
        followed.watch.packets_sent.add_one();
    }

    fn on_packet_lost(
        &mut self,
        followed: &mut Followed,
        _meta: &ConnectionMeta,
        event: &events::PacketLost<'_>,
    ) {
        if !event.is_mtu_probe {
            followed.watch.packets_lost.add_one();
        }
    }

    fn on_congestion(
        &mut self,
        followed: &mut Followed,
        _meta: &ConnectionMeta,
        _event: &events::Congestion<'_>,
    ) {
        followed.watch.congestion_events.add_one();
    }

    fn on_frame_sent(
        &mut self,
        followed: &mut Followed,
        _meta: &ConnectionMeta,
        event: &events::FrameSent,
    ) {
        match event.frame {
            events::Frame::DataBlocked { .. } | events::Frame::StreamDataBlocked { .. } => {
                followed.watch.blocked_frames.add_one();
            }
            events::Frame::Stream { offset, len, .. } => {
                followed.watch.on_stream_sent(offset + u64::from(len));
            }
            _ => {}
        }
    }

    fn on_recovery_metrics(
        &mut self,
        followed: &mut Followed,
        _meta: &ConnectionMeta,
        event: &events::RecoveryMetrics<'_>,
    ) {
        let watch = &followed.watch;
        watch.min_rtt_ns.set(nanoseconds(event.min_rtt));
        watch
            .congestion_window_bytes
            .set(event.congestion_window.into());
        watch.bytes_in_flight.set(event.bytes_in_flight.into());
        watch.smoothed_rtt_ns.set(nanoseconds(event.smoothed_rtt));
    }

    fn on_mtu_updated(
        &mut self,
        followed: &mut Followed,
        _meta: &ConnectionMeta,
        event: &events::MtuUpdated,
    ) {
        followed.watch.payload_bytes.set(event.mtu.into());
    }

    fn on_key_update(
        &mut self,
        followed: &mut Followed,
        _meta: &ConnectionMeta,
        event: &events::KeyUpdate,
    ) {
        if matches!(event.key_type, events::KeyType::OneRtt { .. }) {
            // The name of TLS, as every driver writes it, has the version in it.
            let suite = event.cipher_suite.as_str().replacen("TLS_", "TLS13_", 1);
            let _ = followed.watch.cipher_suite.set(suite);
        }
    }

    fn on_application_protocol_information(
        &mut self,
        followed: &mut Followed,
        _meta: &ConnectionMeta,
        event: &events::ApplicationProtocolInformation<'_>,
    ) {
        let name = event.chosen_application_protocol.to_vec();
        let _ = followed.watch.alpn.set(name);
    }

    fn on_handshake_status_updated(
        &mut self,
        followed: &mut Followed,
        _meta: &ConnectionMeta,
        event: &events::HandshakeStatusUpdated,
    ) {
        if matches!(event.status, events::HandshakeStatus::Complete { .. }) {
            followed.handshake_complete = true;
        }
    }

    fn on_connection_closed(
        &mut self,
        followed: &mut Followed,
        _meta: &ConnectionMeta,
        event: &events::ConnectionClosed,
    ) {
        followed.watch.close();
        // One whose handshake is complete is handed over, and reports itself that it is closed.
        if followed.accepts && !followed.handshake_complete {
            let _ = self.attempts.send(Attempt::Failed(event.error));
        }
    }

    fn on_platform_feature_configured(
        &mut self,
        _meta: &events::EndpointMeta,
        event: &events::PlatformFeatureConfigured,
    ) {
        match event.configuration {
            events::PlatformFeatureConfiguration::Gso { max_segments, .. } => {
                self.board.segments.store(max_segments, Ordering::Relaxed);
            }
            events::PlatformFeatureConfiguration::Gro { enabled, .. } => {
                self.board.receive_offload.store(enabled, Ordering::Relaxed);
            }
            _ => {}
        }
    }
}

/// Admission of the announced peer and no other, on request only after its address is validated.
#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) peer: IpAddr,
    pub(crate) retry: bool,
}

fn address(address: &events::SocketAddress<'_>) -> Option<IpAddr> {
    match address {
        events::SocketAddress::IpV4 { ip, .. } => Some(IpAddr::from(**ip)),
        events::SocketAddress::IpV6 { ip, .. } => Some(IpAddr::from(**ip)),
        _ => None,
    }
}

impl Limiter for Admission {
    /// Decides on attempts without a token. An attempt with a token that this end gave to its
    /// address, in a Retry packet, is admitted by the stack without a call.
    fn on_connection_attempt(&mut self, attempt: &ConnectionAttempt<'_>) -> Outcome {
        let from = address(&attempt.remote_address).map(|from| from.to_canonical());
        if from != Some(self.peer.to_canonical()) {
            Outcome::close()
        } else if self.retry {
            Outcome::retry()
        } else {
            Outcome::allow()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::Future,
        pin::pin,
        task::{Context, Waker},
    };

    use super::*;

    /// Returns a watch with this many bytes of a stream sent, and as many in flight.
    fn watch(sent: u32) -> Watch {
        let watch = Watch::default();
        watch.on_stream_sent(sent.into());
        watch.bytes_in_flight.set(sent.into());
        watch
    }

    #[test]
    fn wait_for_the_send_buffer_ends_when_enough_was_sent() {
        let watch = watch(1000);
        let mut context = Context::from_waker(Waker::noop());
        let mut held = pin!(watch.until_held(3000, |_| 1500));
        assert!(held.as_mut().poll(&mut context).is_pending());
        // All but 400 bytes are sent, and the first ones acknowledged.
        watch.bytes_in_flight.set(1000);
        watch.on_stream_sent(2600);
        assert!(held.as_mut().poll(&mut context).is_ready());
    }

    #[test]
    fn wait_ends_when_no_more_can_be_sent() {
        let mut context = Context::from_waker(Waker::noop());
        // The congestion window collapsed with everything in flight: no new data will be sent.
        let all_sent = watch(3000);
        let held = pin!(all_sent.until_held(3000, |_| 1500));
        assert!(held.poll(&mut context).is_ready());
        let closed = watch(1000);
        let mut held = pin!(closed.until_held(3000, |_| 1500));
        assert!(held.as_mut().poll(&mut context).is_pending());
        closed.close();
        assert!(held.as_mut().poll(&mut context).is_ready());
    }
}
