//! quinn's congestion controllers, watched: how many bytes are in flight, which quinn does not
//! tell, and a window that does not hold back the packet that closes a connection.

use std::{
    any::Any,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use quinn::congestion::{Controller, ControllerFactory, ControllerMetrics};
use quinn_proto::RttEstimator;

/// Window of a connection that is closing, in bytes: quinn sends without pacing above 4 GiB.
const OPEN_WINDOW_BYTES: u64 = 1 << 40;

/// What one connection's controller shares with its driver.
#[derive(Debug, Default)]
pub struct Watch {
    closing: AtomicBool,
    in_flight_bytes: AtomicU64,
}

impl Watch {
    /// To be called before a connection is closed with data under way.
    ///
    /// quinn 0.11 holds CONNECTION_CLOSE back while stream data waits for the congestion window,
    /// and a closed connection takes no acknowledgements, so that the window never opens again and
    /// the other end would learn nothing before its idle timeout.
    pub fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }

    /// Whether [`Watch::close`] was called.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// Bytes sent, not acknowledged and not declared lost (RFC 9002 §2).
    #[must_use]
    pub fn in_flight_bytes(&self) -> u64 {
        self.in_flight_bytes.load(Ordering::Relaxed)
    }
}

/// Makes watched controllers; one for each connection.
pub(super) struct WatchedFactory {
    pub(super) inner: Arc<dyn ControllerFactory + Send + Sync>,
    pub(super) watch: Arc<Watch>,
}

impl ControllerFactory for WatchedFactory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Watched {
            inner: Arc::clone(&self.inner).build(now, current_mtu),
            watch: Arc::clone(&self.watch),
        })
    }
}

/// A controller of quinn's that does all the work, and its watch.
struct Watched {
    inner: Box<dyn Controller>,
    watch: Arc<Watch>,
}

impl Controller for Watched {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        // Only the connection's own task writes, so that load and store need not be one step.
        let in_flight = self.watch.in_flight_bytes() + bytes;
        self.watch
            .in_flight_bytes
            .store(in_flight, Ordering::Relaxed);
        self.inner.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        self.watch
            .in_flight_bytes
            .store(in_flight, Ordering::Relaxed);
        self.inner
            .on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        let in_flight = self.watch.in_flight_bytes().saturating_sub(lost_bytes);
        self.watch
            .in_flight_bytes
            .store(in_flight, Ordering::Relaxed);
        self.inner
            .on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        if self.watch.is_closing() {
            OPEN_WINDOW_BYTES
        } else {
            self.inner.window()
        }
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self {
            inner: self.inner.clone_box(),
            watch: Arc::clone(&self.watch),
        })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self.inner.into_any()
    }
}
