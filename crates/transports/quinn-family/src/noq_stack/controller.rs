//! noq's congestion controllers in a wrapper that reports the number of bytes in flight, which noq
//! does not, and opens the window for the packet that closes a connection.

use std::{
    any::Any,
    sync::Arc,
    time::{Duration, Instant},
};

use noq::congestion::{
    Bbr3, Bbr3Config, Controller, ControllerFactory, ControllerMetrics, Cubic, CubicConfig,
    NewReno, NewRenoConfig,
};
use noq_proto::RttEstimator;

use regatta_transport_quic_common::path::Sizes;

use crate::watch::{OPEN_WINDOW_BYTES, Watch};

/// A congestion control that noq has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CongestionControl {
    /// RFC 9438.
    #[default]
    Cubic,
    /// RFC 9002 §7.
    NewReno,
    /// BBR version 3 (draft-ietf-ccwg-bbr).
    Bbr3,
}

impl CongestionControl {
    /// All congestion controls of noq.
    pub const ALL: [Self; 3] = [Self::Cubic, Self::NewReno, Self::Bbr3];

    /// Names of the congestion controls, as written in a study.
    pub const NAMES: [&'static str; 3] = ["cubic", "newreno", "bbr3"];

    /// Returns the name of the congestion control, as written in a study.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::NewReno => "newreno",
            Self::Bbr3 => "bbr3",
        }
    }

    /// Returns the congestion control that `controller` implements; `None` for one that is not
    /// listed here.
    #[must_use]
    pub fn of(controller: Box<dyn Controller>) -> Option<Self> {
        let any = controller.into_any();
        if any.is::<Cubic>() {
            Some(Self::Cubic)
        } else if any.is::<NewReno>() {
            Some(Self::NewReno)
        } else if any.is::<Bbr3>() {
            Some(Self::Bbr3)
        } else {
            None
        }
    }

    /// Returns a factory of this congestion control's controllers that report to `watch`.
    pub(crate) fn watched(self, watch: &Arc<Watch>) -> Arc<dyn ControllerFactory + Send + Sync> {
        Arc::new(WatchedFactory {
            control: self,
            watch: Arc::clone(watch),
        })
    }

    /// Creates a controller whose initial window is the same number of packets for every stack; the
    /// default of noq's controllers is a number of bytes.
    fn controller(self, now: Instant, payload_bytes: u16) -> Box<dyn Controller> {
        let window = Sizes::initial_window_bytes(payload_bytes).into();
        let factory: Arc<dyn ControllerFactory> = match self {
            Self::Cubic => {
                let mut config = CubicConfig::default();
                config.initial_window(window);
                Arc::new(config)
            }
            Self::NewReno => {
                let mut config = NewRenoConfig::default();
                config.initial_window(window);
                Arc::new(config)
            }
            Self::Bbr3 => {
                let mut config = Bbr3Config::default();
                config.initial_window(window);
                Arc::new(config)
            }
        };
        factory.build(now, payload_bytes)
    }
}

struct WatchedFactory {
    control: CongestionControl,
    watch: Arc<Watch>,
}

impl ControllerFactory for WatchedFactory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Watched {
            inner: self.control.controller(now, current_mtu),
            watch: Arc::clone(&self.watch),
        })
    }
}

/// One of noq's controllers, which does all the work, and the [`Watch`] that it reports to.
#[derive(Debug)]
struct Watched {
    inner: Box<dyn Controller>,
    watch: Arc<Watch>,
}

impl Controller for Watched {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.watch
            .set_in_flight(self.watch.in_flight_bytes() + bytes);
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

#[cfg(test)]
mod tests {
    use super::*;
    use regatta_transport_quic_common::path::LEAST_PAYLOAD_BYTES;

    #[test]
    fn what_a_connection_runs_is_read_from_its_controller() {
        for asked in CongestionControl::ALL {
            let watch = Arc::new(Watch::default());
            let now = Instant::now();
            let mut controller = asked.watched(&watch).build(now, LEAST_PAYLOAD_BYTES);
            assert_eq!(controller.initial_window(), 12_000, "ten packets");
            assert_eq!(controller.window(), 12_000);
            controller.on_sent(now, 1200, 0);
            assert_eq!(watch.in_flight_bytes(), 1200);
            let before = controller.window();
            watch.close();
            assert!(controller.window() > before.max(u64::from(u32::MAX)));
            assert_eq!(CongestionControl::of(controller), Some(asked));
        }
        assert_eq!(
            CongestionControl::ALL.map(CongestionControl::name),
            CongestionControl::NAMES
        );
    }
}
