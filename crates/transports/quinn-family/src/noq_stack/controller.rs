//! noq's congestion controllers, in a wrapper that reports the number of bytes in flight, which
//! the stack does not, and opens the window for the packet that closes a connection.

use std::{
    any::Any,
    sync::Arc,
    time::{Duration, Instant},
};

pub(crate) use noq::congestion::{Bbr3 as Bbr, Bbr3Config as BbrConfig};
use noq::congestion::{Controller, ControllerMetrics};
use noq_proto::RttEstimator;

use crate::watch::{OPEN_WINDOW_BYTES, Watch};

/// Name of BBR version 3 (draft-ietf-ccwg-bbr), as written in a study.
pub(crate) const BBR: &str = "bbr3";

/// One of the stack's controllers, which does all the work, and the [`Watch`] that it reports to.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) inner: Box<dyn Controller>,
    pub(crate) watch: Arc<Watch>,
}

impl Controller for Watched {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.watch.on_sent(bytes);
        self.inner.on_sent(now, bytes, last_packet_number);
    }

    fn on_packet_sent(&mut self, now: Instant, bytes: u16, packet_number: u64) {
        self.inner.on_packet_sent(now, bytes, packet_number);
    }

    fn on_cwnd_limited(&mut self) {
        self.inner.on_cwnd_limited();
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        packet_number: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.inner
            .on_ack(now, sent, bytes, packet_number, app_limited, rtt);
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
        is_ecn: bool,
        lost_bytes: u64,
        largest_lost: u64,
    ) {
        let in_flight = self.watch.in_flight_bytes().saturating_sub(lost_bytes);
        self.watch.set_in_flight(in_flight);
        self.inner.on_congestion_event(
            now,
            sent,
            is_persistent_congestion,
            is_ecn,
            lost_bytes,
            largest_lost,
        );
    }

    fn on_packet_lost(&mut self, lost_bytes: u16, packet_number: u64, now: Instant) {
        self.inner.on_packet_lost(lost_bytes, packet_number, now);
    }

    fn on_spurious_congestion_event(&mut self) {
        self.inner.on_spurious_congestion_event();
    }

    fn on_ack_frequency_update(&mut self, threshold: u64, requested_max_ack_delay: Duration) {
        self.inner
            .on_ack_frequency_update(threshold, requested_max_ack_delay);
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
        let mut metrics = self.inner.metrics();
        if self.watch.is_closing() {
            // What noq paces by: no rate, and a window too large for pacing.
            metrics.congestion_window = OPEN_WINDOW_BYTES;
            metrics.pacing_rate = None;
        }
        metrics
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
