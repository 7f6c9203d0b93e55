//! Parsed options of `quic-quiche`.

use std::{collections::BTreeMap, time::Duration};

use quiche::CongestionControlAlgorithm;
use regatta_control::TrialOrder;
use regatta_model::{OptionValue, StackFacts, Text};
use regatta_transport::OptionDefinition;
use strum::{EnumString, IntoStaticStr, VariantNames};

use regatta_transport_quic_common::{
    facts::{first_flight, stack_facts},
    options::{self as common, Common},
    path::{MIN_PAYLOAD_BYTES, Sizes},
};

/// A congestion control that quiche has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub(crate) enum CongestionControl {
    /// RFC 9438.
    #[default]
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

/// Congestion control.
const CC: OptionDefinition = common::congestion_control(
    CongestionControl::VARIANTS,
    "congestion control of the sender, quiche's own: RFC 9438, RFC 9002, or BBR version 2 as ported from Google's stack",
);

/// HyStart++.
const HYSTART: OptionDefinition = common::flag(
    "hystart",
    true,
    "end slow start when the delay rises (HyStart++, RFC 9406), with `cubic` and `reno`",
);

/// Pacing.
const PACING: OptionDefinition = common::flag(
    "pacing",
    true,
    "spread packets over the round-trip time, in bursts of 1 ms; quiche does this only with `bbr2`",
);

/// Options of the driver, in the order of help.
pub(crate) const DEFINITIONS: &[OptionDefinition] = &[
    CC,
    common::MODE,
    HYSTART,
    PACING,
    common::GSO.definition,
    common::MTU_DISCOVERY,
    common::STREAM_WINDOW,
    common::RECEIVE_BUFFER.definition,
    common::SEND_BUFFER.definition,
    common::MIGRATE_AFTER,
    common::KEY_LOG,
    common::EVENT_LOG,
];

/// The options of a trial, with their defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Options {
    /// Options that every stack has.
    pub common: Common,
    /// Congestion control of the sender.
    pub congestion_control: CongestionControl,
    /// Whether slow start ends early when delay rises (RFC 9406).
    pub hystart: bool,
    /// Whether a congestion control that can do so spreads packets over the round-trip time.
    pub pacing: bool,
    /// Time from the beginning of the connection after which the connecting end moves to another
    /// port.
    pub migrate_after: Option<Duration>,
    /// Whether quiche's log of events is written to files.
    pub qlog: bool,
}

impl Options {
    /// Reads options that were checked against the driver's descriptor.
    pub(crate) fn read(options: &BTreeMap<String, OptionValue>) -> Self {
        Self {
            common: Common::read(options),
            congestion_control: common::choice(&CC, options),
            hystart: HYSTART.flag(options),
            pacing: PACING.flag(options),
            migrate_after: common::MIGRATE_AFTER.time(options),
            qlog: common::EVENT_LOG.flag(options),
        }
    }

    /// Whether packets wait for the time that the congestion control sets (pacing).
    pub(crate) const fn paces(&self) -> bool {
        self.congestion_control.paces() && self.pacing
    }

    /// Returns the settings of quiche at an end, for the comparison of stacks.
    pub(crate) fn stack_facts(
        &self,
        sizes: &Sizes,
        order: &TrialOrder,
        offloads: &Text,
    ) -> StackFacts {
        let control = self.congestion_control;
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
    use super::*;

    #[test]
    fn names_round_trip() {
        for &name in CongestionControl::VARIANTS {
            let control: CongestionControl = name.parse().expect("a name");
            assert_eq!(control.into_str(), name);
        }
        let options = Options::read(&BTreeMap::new());
        assert_eq!(options.congestion_control.into_str(), "cubic");
        assert!(options.hystart && options.pacing && !options.qlog);
        assert_eq!(options.migrate_after, None);
    }
}
