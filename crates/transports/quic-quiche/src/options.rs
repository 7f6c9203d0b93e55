//! Parsed options of `quic-quiche`.

use std::time::Duration;

use quiche::CongestionControlAlgorithm;
use regatta_control::TrialOrder;
use regatta_model::{StackFacts, Text};
use regatta_transport::{driver_options, options::Choice};
use strum::{EnumString, IntoStaticStr, VariantNames};

use regatta_transport_quic_common::{
    facts::{first_flight, stack_facts},
    options::{Common, EVENT_LOG, MIGRATE_AFTER},
    path::{MIN_PAYLOAD_BYTES, Sizes},
};

/// A congestion control that quiche has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub(crate) enum CongestionControl {
    /// RFC 9438.
    Cubic,
    /// RFC 9002 §7.
    Reno,
    /// BBR version 2, ported from Google's stack.
    Bbr2,
}

impl CongestionControl {
    /// Returns quiche's value for this congestion control.
    pub(crate) const fn algorithm(self) -> CongestionControlAlgorithm {
        match self {
            Self::Cubic => CongestionControlAlgorithm::CUBIC,
            Self::Reno => CongestionControlAlgorithm::Reno,
            Self::Bbr2 => CongestionControlAlgorithm::Bbr2Gcongestion,
        }
    }

    /// Whether quiche spreads the packets of this congestion control over the round-trip time.
    pub(crate) const fn paces(self) -> bool {
        matches!(self, Self::Bbr2)
    }
}

impl Choice for CongestionControl {
    const NAMES: &'static [&'static str] = Self::VARIANTS;
}

driver_options! {
    /// Options of `quic-quiche`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Options with common: Common {
        cc: CongestionControl = "cubic",
            "congestion control of the sender, quiche's own: RFC 9438, RFC 9002, or BBR version 2 as ported from \
             Google's stack";
        ..Common::{mode};
        hystart: bool = true, "end slow start when the delay rises (HyStart++, RFC 9406), with `cubic` and `reno`";
        pacing: bool = true,
            "spread packets over the round-trip time, in bursts of 1 ms; quiche does this only with `bbr2`";
        ..Common::{gso, mtu_discovery, stream_window, receive_buffer, send_buffer};
        migrate_after: Option<Duration> = MIGRATE_AFTER;
        ..Common::{keylog};
        qlog: bool = EVENT_LOG;
    }
}

impl Options {
    /// Whether packets wait for the time that the congestion control sets (pacing).
    pub(crate) const fn paces(&self) -> bool {
        self.cc.paces() && self.pacing
    }

    /// Returns the settings of quiche at an end, for the comparison of stacks.
    pub(crate) fn stack_facts(
        &self,
        sizes: &Sizes,
        order: &TrialOrder,
        offloads: &Text,
    ) -> StackFacts {
        let control = self.cc;
        let common = stack_facts(
            &self.common,
            sizes,
            order,
            control.into_str(),
            "BoringSSL",
            offloads,
        );
        StackFacts {
            slow_start_exit: match (control, self.hystart) {
                (CongestionControl::Cubic | CongestionControl::Reno, true) => "HyStart++".into(),
                _ => common.slow_start_exit,
            },
            pacing: match self.paces() {
                true => "by the stack".into(),
                false => "none".into(),
            },
            // The packets of the handshake are padded to the least that a path must carry, whatever the path's size.
            first_flight: first_flight(MIN_PAYLOAD_BYTES, order.local),
            acknowledgements: "each batch of packets that the socket gives, at once".into(),
            ..common
        }
    }
}

#[cfg(test)]
mod tests {
    use regatta_transport::OptionValues;

    use super::*;

    #[test]
    fn names_round_trip() {
        for &name in CongestionControl::VARIANTS {
            let control: CongestionControl = name.parse().expect("a name");
            assert_eq!(control.into_str(), name);
        }
        let options = Options::read(&OptionValues::new());
        assert_eq!(options.cc.into_str(), "cubic");
        assert!(options.hystart && options.pacing && !options.qlog);
        assert_eq!(options.migrate_after, None);
    }
}
