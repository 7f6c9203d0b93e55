//! Congestion controls of the stack.

use std::{sync::Arc, time::Instant};

use regatta_transport_quic_common::path::Sizes;

use crate::{
    stack::{
        controller::{BBR, Bbr, BbrConfig, Watched},
        quic::congestion::{
            Controller, ControllerFactory, Cubic, CubicConfig, NewReno, NewRenoConfig,
        },
    },
    watch::Watch,
};

/// A congestion control that the stack has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CongestionControl {
    /// RFC 9438.
    #[default]
    Cubic,
    /// RFC 9002 §7.
    NewReno,
    /// BBR, in the version that the stack has.
    Bbr,
}

impl CongestionControl {
    /// All congestion controls of the stack.
    pub const ALL: [Self; 3] = [Self::Cubic, Self::NewReno, Self::Bbr];

    /// Names of the congestion controls, as written in a study.
    pub const NAMES: [&'static str; 3] = ["cubic", "newreno", BBR];

    /// Returns the name of the congestion control, as written in a study.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::NewReno => "newreno",
            Self::Bbr => BBR,
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
            Self::Bbr => {
                let mut config = BbrConfig::default();
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
