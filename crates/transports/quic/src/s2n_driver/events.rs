//! Events of s2n-quic's connections, kept where other threads can read them.

use std::{
    collections::VecDeque,
    fmt,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use s2n_quic::{
    connection,
    provider::{
        congestion_controller::{self, PathInfo},
        endpoint_limits::{ConnectionAttempt, Limiter, Outcome},
        event::{ConnectionInfo, ConnectionMeta, Meta, Subscriber, events},
    },
};
use tokio::sync::Notify;

use super::options::CongestionControl;

/// State of one connection as its stack reports it. Times in nanoseconds, sizes in bytes.
///
/// Only the endpoint's task writes, so that reading a value and writing the next need not be one
/// step.
#[derive(Debug, Default)]
pub(super) struct Watch {
    packets_sent: AtomicU64,
    packets_lost: AtomicU64,
    congestion_events: AtomicU64,
    blocked_frames: AtomicU64,
    /// Largest end of stream data that was sent, over all streams: of one stream, what it has sent at all.
    stream_sent_bytes: AtomicU64,
    /// Whether somebody waits for stream data to be sent.
    is_awaited: AtomicBool,
    stream_sent: Notify,
    smoothed_rtt_ns: AtomicU64,
    min_rtt_ns: AtomicU64,
    congestion_window_bytes: AtomicU32,
    bytes_in_flight: AtomicU32,
    /// UDP payload of a full packet, in bytes.
    payload_bytes: AtomicU32,
    cipher_suite: OnceLock<String>,
    alpn: OnceLock<String>,
    handshake_complete: AtomicBool,
    closed: Signal,
}

/// Flag that is raised once, and can be waited for.
#[derive(Debug, Default)]
struct Signal {
    raised: AtomicBool,
    changed: Notify,
}

impl Signal {
    fn raise(&self) {
        self.raised.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }

    fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Acquire)
    }

    async fn wait(&self) {
        let mut changed = std::pin::pin!(self.changed.notified());
        // From here on no raising is missed.
        changed.as_mut().enable();
        if !self.is_raised() {
            changed.await;
        }
    }
}

/// Snapshot of a connection's recovery state (RFC 9002).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Recovery {
    pub(super) smoothed_rtt: Duration,
    pub(super) min_rtt: Duration,
    pub(super) congestion_window_bytes: u64,
    pub(super) bytes_in_flight: u64,
}

fn add_one(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Watch {
    pub(super) fn packets_sent(&self) -> u64 {
        self.packets_sent.load(Ordering::Relaxed)
    }

    /// Returns the number of packets declared lost, except for probes of the packet size.
    pub(super) fn packets_lost(&self) -> u64 {
        self.packets_lost.load(Ordering::Relaxed)
    }

    pub(super) fn congestion_events(&self) -> u64 {
        self.congestion_events.load(Ordering::Relaxed)
    }

    /// Returns the number of frames that tell the other end that a flow-control window holds this
    /// end back.
    pub(super) fn blocked_frames(&self) -> u64 {
        self.blocked_frames.load(Ordering::Relaxed)
    }

    /// Records the end of stream data that was sent.
    fn on_stream_sent(&self, end: u64) {
        if end > self.stream_sent_bytes.load(Ordering::Relaxed) {
            self.stream_sent_bytes.store(end, Ordering::Relaxed);
            if self.is_awaited.load(Ordering::Relaxed) {
                self.stream_sent.notify_waiters();
            }
        }
    }

    /// Waits until the connection holds no more of `written` bytes of a stream than `most` says for its congestion
    /// window, or is closed. Of several streams the one that has sent most counts, so that the others wait for less.
    pub(super) async fn until_held(&self, written: u64, most: impl Fn(u64) -> u64) {
        self.is_awaited.store(true, Ordering::Relaxed);
        loop {
            let mut sent = std::pin::pin!(self.stream_sent.notified());
            // Before the counters are looked at, so that no packet is missed.
            sent.as_mut().enable();
            let relaxed = Ordering::Relaxed;
            let window = u64::from(self.congestion_window_bytes.load(relaxed));
            let in_flight = u64::from(self.bytes_in_flight.load(relaxed));
            let unsent = written.saturating_sub(self.stream_sent_bytes.load(relaxed));
            // With nothing unsent no packet of new data will come to end the wait.
            if unsent == 0 || unsent + in_flight <= most(window) {
                return;
            }
            tokio::select! {
                () = sent => {}
                () = self.closed() => return,
            }
        }
    }

    /// Returns the recovery state; `None` before anything was acknowledged.
    pub(super) fn recovery(&self) -> Option<Recovery> {
        let smoothed = self.smoothed_rtt_ns.load(Ordering::Relaxed);
        (smoothed > 0).then(|| Recovery {
            smoothed_rtt: Duration::from_nanos(smoothed),
            min_rtt: Duration::from_nanos(self.min_rtt_ns.load(Ordering::Relaxed)),
            congestion_window_bytes: self.congestion_window_bytes.load(Ordering::Relaxed).into(),
            bytes_in_flight: self.bytes_in_flight.load(Ordering::Relaxed).into(),
        })
    }

    pub(super) fn payload_bytes(&self) -> u32 {
        self.payload_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn cipher_suite(&self) -> Option<&str> {
        self.cipher_suite.get().map(String::as_str)
    }

    pub(super) fn alpn(&self) -> Option<&str> {
        self.alpn.get().map(String::as_str)
    }

    /// Waits until one of the ends has closed the connection, or the connection failed.
    pub(super) async fn closed(&self) {
        self.closed.wait().await;
    }
}

/// State of an end as its stack reports it.
#[derive(Debug, Default)]
pub(super) struct Board {
    inbox: Mutex<Inbox>,
    congestion_control: OnceLock<Option<CongestionControl>>,
    /// Number of packets that are handed to the kernel at once; 1 if it has no such offload.
    segments: AtomicUsize,
    /// Whether the kernel hands over several packets at once.
    receive_offload: AtomicBool,
}

/// Attempts to connect to a listening end.
#[derive(Debug, Default)]
struct Inbox {
    begun: usize,
    failed: VecDeque<connection::Error>,
    waker: Option<Waker>,
}

impl Board {
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        // Nothing that can panic runs under this lock.
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Consumes one connection attempt that has come in; `false` if there is none.
    pub(super) fn take_begun(&self) -> bool {
        let mut inbox = self.inbox();
        let any = inbox.begun > 0;
        inbox.begun = inbox.begun.saturating_sub(1);
        any
    }

    /// Returns the error of a failed attempt; wakes the task when an attempt fails or begins.
    pub(super) fn poll_failed(&self, context: &mut Context<'_>) -> Poll<connection::Error> {
        let mut inbox = self.inbox();
        if let Some(error) = inbox.failed.pop_front() {
            return Poll::Ready(error);
        }
        inbox.waker = Some(context.waker().clone());
        Poll::Pending
    }

    fn tell(&self, change: impl FnOnce(&mut Inbox)) {
        let mut inbox = self.inbox();
        change(&mut inbox);
        let waker = inbox.waker.take();
        drop(inbox);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Returns the congestion control of the connections, from the type name of their controller;
    /// `None` for a type that is not known here, or before the first connection.
    pub(super) fn congestion_control(&self) -> Option<CongestionControl> {
        self.congestion_control.get().copied().flatten()
    }

    pub(super) fn segments(&self) -> usize {
        self.segments.load(Ordering::Relaxed)
    }

    pub(super) fn receive_offload(&self) -> bool {
        self.receive_offload.load(Ordering::Relaxed)
    }
}

/// Context of a connection in the stack's events, dropped with the connection.
#[derive(Debug)]
pub(super) struct Followed {
    pub(super) watch: Arc<Watch>,
    /// Whether this is a connection of a listening end.
    accepts: bool,
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.watch.closed.raise();
    }
}

/// Subscriber to the stack's events, which records them.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) board: Arc<Board>,
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
            self.board.tell(|inbox| inbox.begun += 1);
        }
        Followed {
            watch: Arc::default(),
            accepts,
        }
    }

    fn on_packet_sent(
        &mut self,
        followed: &mut Followed,
        _meta: &ConnectionMeta,
        _event: &events::PacketSent,
    ) {
        add_one(&followed.watch.packets_sent);
    }

    fn on_packet_lost(
        &mut self,
        followed: &mut Followed,
        _meta: &ConnectionMeta,
        event: &events::PacketLost<'_>,
    ) {
        if !event.is_mtu_probe {
            add_one(&followed.watch.packets_lost);
        }
    }

    fn on_congestion(
        &mut self,
        followed: &mut Followed,
        _meta: &ConnectionMeta,
        _event: &events::Congestion<'_>,
    ) {
        add_one(&followed.watch.congestion_events);
    }

    fn on_frame_sent(
        &mut self,
        followed: &mut Followed,
        _meta: &ConnectionMeta,
        event: &events::FrameSent,
    ) {
        match event.frame {
            events::Frame::DataBlocked { .. } | events::Frame::StreamDataBlocked { .. } => {
                add_one(&followed.watch.blocked_frames);
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
        let relaxed = Ordering::Relaxed;
        watch.min_rtt_ns.store(nanos(event.min_rtt), relaxed);
        watch
            .congestion_window_bytes
            .store(event.congestion_window, relaxed);
        watch.bytes_in_flight.store(event.bytes_in_flight, relaxed);
        watch
            .smoothed_rtt_ns
            .store(nanos(event.smoothed_rtt), relaxed);
    }

    fn on_mtu_updated(
        &mut self,
        followed: &mut Followed,
        _meta: &ConnectionMeta,
        event: &events::MtuUpdated,
    ) {
        followed
            .watch
            .payload_bytes
            .store(event.mtu.into(), Ordering::Relaxed);
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
        let name = String::from_utf8_lossy(event.chosen_application_protocol).into_owned();
        let _ = followed.watch.alpn.set(name);
    }

    fn on_handshake_status_updated(
        &mut self,
        followed: &mut Followed,
        _meta: &ConnectionMeta,
        event: &events::HandshakeStatusUpdated,
    ) {
        if matches!(event.status, events::HandshakeStatus::Complete { .. }) {
            followed
                .watch
                .handshake_complete
                .store(true, Ordering::Relaxed);
        }
    }

    fn on_connection_closed(
        &mut self,
        followed: &mut Followed,
        _meta: &ConnectionMeta,
        event: &events::ConnectionClosed,
    ) {
        followed.watch.closed.raise();
        // One whose handshake is complete is handed over, and says itself that it is closed.
        if followed.accepts && !followed.watch.handshake_complete.load(Ordering::Relaxed) {
            self.board.tell(|inbox| inbox.failed.push_back(event.error));
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
pub(super) struct Admission {
    pub(super) peer: IpAddr,
    pub(super) retry: bool,
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

/// Factory of congestion controllers that records the type of the first one.
pub(super) struct Named<E> {
    pub(super) inner: E,
    pub(super) board: Arc<Board>,
}

impl<E: fmt::Debug> fmt::Debug for Named<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<E: congestion_controller::Endpoint> congestion_controller::Endpoint for Named<E> {
    type CongestionController = E::CongestionController;

    fn new_congestion_controller(&mut self, path: PathInfo<'_>) -> Self::CongestionController {
        let made = self.inner.new_congestion_controller(path);
        let name = std::any::type_name_of_val(&made);
        self.board
            .congestion_control
            .get_or_init(|| CongestionControl::of_type(name));
        made
    }
}

#[cfg(test)]
mod tests {
    use std::{future::Future, pin::pin};

    use super::*;

    /// Returns a watch with this many bytes of a stream sent, and as many in flight.
    fn watch(sent: u32) -> Watch {
        let watch = Watch::default();
        watch.on_stream_sent(sent.into());
        watch.bytes_in_flight.store(sent, Ordering::Relaxed);
        watch
    }

    #[test]
    fn what_is_held_is_waited_for_until_enough_was_sent() {
        let watch = watch(1000);
        let mut context = Context::from_waker(Waker::noop());
        let mut held = pin!(watch.until_held(3000, |_| 1500));
        assert!(held.as_mut().poll(&mut context).is_pending());
        // All but 400 bytes are sent, and the first ones acknowledged.
        watch.bytes_in_flight.store(1000, Ordering::Relaxed);
        watch.on_stream_sent(2600);
        assert!(held.as_mut().poll(&mut context).is_ready());
    }

    #[test]
    fn nothing_is_waited_for_that_cannot_come() {
        let mut context = Context::from_waker(Waker::noop());
        // The congestion window collapsed with everything in flight: no new data will be sent.
        let all_sent = watch(3000);
        let held = pin!(all_sent.until_held(3000, |_| 1500));
        assert!(held.poll(&mut context).is_ready());
        let closed = watch(1000);
        let mut held = pin!(closed.until_held(3000, |_| 1500));
        assert!(held.as_mut().poll(&mut context).is_pending());
        closed.closed.raise();
        assert!(held.as_mut().poll(&mut context).is_ready());
    }
}
