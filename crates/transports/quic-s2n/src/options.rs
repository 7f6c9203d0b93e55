//! Parsed options of `quic-s2n`, and the configuration of s2n-quic made from them.

use std::time::Duration;

use regatta_control::TrialOrder;
use regatta_model::{Bytes, StackFacts, Text, fact, reason};
use regatta_transport::{OptionValues, Result, TransportError, driver_options, options::Choice};
use regatta_transport_tls::Crypto;
use s2n_quic::provider::limits::Limits;
use strum::{EnumString, IntoStaticStr, VariantNames};

use regatta_transport_quic_common::{
    facts::stack_facts,
    options::Common,
    path::{Sizes, idle_timeout},
};

/// Maximum duration of a handshake, s2n-quic's default; a trial that gives connections longer gets
/// more.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// Number of streams that a connection may have open at once, beside those of the workload.
/// s2n-quic's default.
const OPEN_STREAMS: u64 = 100;

/// Largest flow-control window and send buffer, in bytes: they are 32 bits wide in s2n-quic.
const MAX_WINDOW_BYTES: u64 = u32::MAX as u64;

/// A congestion control that s2n-quic has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub(crate) enum CongestionControl {
    /// RFC 9438.
    Cubic,
    /// BBR version 2.
    Bbr,
}

impl CongestionControl {
    /// Returns the congestion control of the controller whose type has this name; `None` for one
    /// that is not listed here.
    pub(crate) fn of_type(name: &str) -> Option<Self> {
        if name.ends_with("::CubicCongestionController") {
            Some(Self::Cubic)
        } else if name.ends_with("::BbrCongestionController") {
            Some(Self::Bbr)
        } else {
            None
        }
    }
}

impl Choice for CongestionControl {
    const NAMES: &'static [&'static str] = Self::VARIANTS;
}

driver_options! {
    /// Options of `quic-s2n`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Options with common: Common {
        cc: CongestionControl = "cubic",
            "congestion control of the sender, s2n-quic's own: RFC 9438 with hybrid slow start, or BBR version 2";
        ..Common::{mode, gso, mtu_discovery, stream_window, receive_buffer, send_buffer, keylog};
    }
}

impl Options {
    /// Reads options that were checked, with no larger window than s2n-quic has.
    pub(crate) fn of_stack(options: &OptionValues) -> Self {
        let mut options = Self::read(options);
        let window = &mut options.common.stream_window;
        *window = window.map(|size| size.min(Bytes(MAX_WINDOW_BYTES)));
        options
    }

    /// Returns the settings of s2n-quic at an end, for the comparison of stacks. s2n-quic also
    /// implements HyStart++, but it is switched off.
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
            CRYPTO.name(),
            offloads,
        );
        StackFacts {
            slow_start_exit: match control {
                CongestionControl::Cubic => "HyStart".into(),
                CongestionControl::Bbr => common.slow_start_exit,
            },
            acknowledgements: fact::every_tenth_packet(Duration::from_millis(25)).into(),
            ..common
        }
    }
}

/// Library of the encryption. s2n-quic protects packets with it, whatever rustls is given.
pub(crate) const CRYPTO: Crypto = Crypto::AwsLc;

/// Returns the limits of every connection of the trial, the same at both ends.
///
/// # Errors
/// [`TransportError::Stack`] for a value that it refuses.
pub(crate) fn limits(order: &TrialOrder, sizes: &Sizes) -> Result<Limits> {
    let stream_window = sizes.windows.stream_bytes.min(MAX_WINDOW_BYTES);
    let connection_window = sizes.windows.connection_bytes.min(MAX_WINDOW_BYTES);
    let open_streams = OPEN_STREAMS + u64::from(order.workload.kind.parallel_streams());
    let send_buffer = u32::try_from(sizes.windows.send_buffer_bytes).unwrap_or(u32::MAX);
    let made = || {
        Limits::new()
            .with_data_window(connection_window)?
            .with_bidirectional_local_data_window(stream_window)?
            .with_bidirectional_remote_data_window(stream_window)?
            .with_max_open_local_bidirectional_streams(open_streams)?
            .with_max_open_remote_bidirectional_streams(open_streams)?
            // Unidirectional streams are not used.
            .with_max_open_remote_unidirectional_streams(0)?
            .with_max_send_buffer_size(send_buffer)?
            .with_max_idle_timeout(idle_timeout(order))?
            .with_max_handshake_duration(order.connect_deadline.max(HANDSHAKE_TIME))
    };
    made()
        .map_err(|error| TransportError::stack(reason::cannot_set_path_limits())(error.to_string()))
}

#[cfg(test)]
mod tests {
    use regatta_control::Role;
    use regatta_transport::testing::order_for;

    use super::*;

    #[test]
    fn defaults_are_those_of_the_descriptor() {
        let options = Options::of_stack(&OptionValues::new());
        assert_eq!(options.cc.into_str(), "cubic");
        assert_eq!(options.common, Common::read(&OptionValues::new()));
    }

    #[test]
    fn windows_are_clamped_to_the_stack_limit() {
        let order = order_for(Role::Sender, "quic-s2n", 1, 1);
        let mut common = Common::read(&OptionValues::new());
        for window in [1, 1 << 32, u64::MAX / 4] {
            common.stream_window = Some(Bytes(window));
            let sizes = Sizes::of(&order.path, order.local, &common).expect("large enough");
            assert!(limits(&order, &sizes).is_ok());
        }
    }
}
