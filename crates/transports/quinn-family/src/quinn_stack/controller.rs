//! quinn's congestion controllers, in a wrapper that reports the number of bytes in flight, which
//! the stack does not, and opens the window for the packet that closes a connection.

use std::{any::Any, sync::Arc, time::Instant};

pub(crate) use quinn::congestion::{Bbr, BbrConfig};
use quinn::congestion::{Controller, ControllerMetrics};
use quinn_proto::RttEstimator;

use crate::watch::{OPEN_WINDOW_BYTES, Watch};

/// Name of BBR version 1, as written in a study.
pub(crate) const BBR: &str = "bbr";

/// One of the stack's controllers, which does all the work, and the [`Watch`] that it reports to.
pub(crate) struct Watched {
    pub(crate) inner: Box<dyn Controller>,
    pub(crate) watch: Arc<Watch>,
}

impl Controller for Watched {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.watch.on_sent(bytes);
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
        self.watch.set_in_flight(in_flight);
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
        self.watch.set_in_flight(in_flight);
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
