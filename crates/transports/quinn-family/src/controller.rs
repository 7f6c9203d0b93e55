//! Congestion controls of the stack, in a wrapper that reports the number of bytes in flight, which
//! the stack does not, and opens the window for the packet that closes a connection.

#[cfg(feature = "noq")]
use std::time::Duration;
use std::{any::Any, sync::Arc, time::Instant};

use regatta_transport::options::Choice;
use regatta_transport_quic_common::path::Sizes;
use strum::{EnumString, IntoStaticStr, VariantNames};

use crate::{
    stack::{
        Bbr, BbrConfig, RttEstimator,
        quic::congestion::{
            Controller, ControllerFactory, ControllerMetrics, Cubic, CubicConfig, NewReno,
            NewRenoConfig,
        },
    },
    watch::{OPEN_WINDOW_BYTES, Watch},
};

/// A congestion control that the stack has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub(crate) enum CongestionControl {
    /// RFC 9438.
    Cubic,
    /// RFC 9002 §7.
    Reno,
    /// BBR version 1 of quinn, or version 3 (draft-ietf-ccwg-bbr) of noq.
    #[cfg_attr(feature = "noq", strum(serialize = "bbr3"))]
    Bbr,
}

impl Choice for CongestionControl {
    const NAMES: &'static [&'static str] = Self::VARIANTS;
}

impl CongestionControl {
    /// Returns the congestion control that `controller` implements; `None` for one that is not
    /// listed here.
    pub(crate) fn of(controller: Box<dyn Controller>) -> Option<Self> {
        let any = controller.into_any();
        if any.is::<Cubic>() {
            Some(Self::Cubic)
        } else if any.is::<NewReno>() {
            Some(Self::Reno)
        } else if any.is::<Bbr>() {
            Some(Self::Bbr)
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
    /// default of the stack's controllers is a number of bytes.
    fn controller(self, now: Instant, payload_bytes: u16) -> Box<dyn Controller> {
        let window = Sizes::initial_window_bytes(payload_bytes).into();
        let factory: Arc<dyn ControllerFactory> = match self {
            Self::Cubic => Arc::new(CubicConfig::default().initial_window(window).clone()),
            Self::Reno => Arc::new(NewRenoConfig::default().initial_window(window).clone()),
            Self::Bbr => Arc::new(BbrConfig::default().initial_window(window).clone()),
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

/// One of the stack's controllers, which does all the work, and the [`Watch`] that it reports to.
#[cfg_attr(feature = "noq", derive(Debug))]
struct Watched {
    inner: Box<dyn Controller>,
    watch: Arc<Watch>,
}

impl Watched {
    fn on_lost(&self, bytes: u64) {
        let in_flight = self.watch.in_flight_bytes().saturating_sub(bytes);
        self.watch.set_in_flight(in_flight);
    }
}

impl Controller for Watched {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.watch.on_sent(bytes);
        self.inner.on_sent(now, bytes, last_packet_number);
    }

    #[cfg(feature = "quinn")]
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

    #[cfg(feature = "noq")]
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

    #[cfg(feature = "quinn")]
    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        self.on_lost(lost_bytes);
        self.inner
            .on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
    }

    #[cfg(feature = "noq")]
    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        is_ecn: bool,
        lost_bytes: u64,
        largest_lost: u64,
    ) {
        self.on_lost(lost_bytes);
        self.inner.on_congestion_event(
            now,
            sent,
            is_persistent_congestion,
            is_ecn,
            lost_bytes,
            largest_lost,
        );
    }

    #[cfg(feature = "noq")]
    fn on_packet_sent(&mut self, now: Instant, bytes: u16, packet_number: u64) {
        self.inner.on_packet_sent(now, bytes, packet_number);
    }

    #[cfg(feature = "noq")]
    fn on_cwnd_limited(&mut self) {
        self.inner.on_cwnd_limited();
    }

    #[cfg(feature = "noq")]
    fn on_packet_lost(&mut self, lost_bytes: u16, packet_number: u64, now: Instant) {
        self.inner.on_packet_lost(lost_bytes, packet_number, now);
    }

    #[cfg(feature = "noq")]
    fn on_spurious_congestion_event(&mut self) {
        self.inner.on_spurious_congestion_event();
    }

    #[cfg(feature = "noq")]
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
        if cfg!(feature = "noq") && self.watch.is_closing() {
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
    use regatta_transport_quic_common::path::MIN_PAYLOAD_BYTES;

    #[test]
    fn congestion_control_is_read_from_the_controller() {
        for name in CongestionControl::VARIANTS {
            let control: CongestionControl = name.parse().expect("a name");
            let watch = Arc::new(Watch::default());
            let now = Instant::now();
            let mut controller = control.watched(&watch).build(now, MIN_PAYLOAD_BYTES);
            assert_eq!(controller.initial_window(), 12_000, "ten packets");
            assert_eq!(controller.window(), 12_000);
            controller.on_sent(now, 1200, 0);
            assert_eq!(watch.in_flight_bytes(), 1200);
            let before = controller.window();
            watch.close();
            assert!(controller.window() > before.max(u64::from(u32::MAX)));
            assert_eq!(CongestionControl::of(controller), Some(control));
        }
    }
}
