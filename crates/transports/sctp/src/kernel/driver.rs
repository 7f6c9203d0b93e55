//! Descriptor and capabilities of the driver `sctp`.

use std::net::Ipv4Addr;

use regatta_control::TrialOrder;
use regatta_model::{IpProtocol, OptionValue, Phrase, metric::id, reason};
use regatta_transport::{
    Carries, ClientSession, Driver, DriverDescriptor, OptionError, OptionValues, Result,
    ServerSession, TrialContext, Unsupported, loads_modules,
};

use super::{
    endpoint::End,
    options::{LONGEST_MESSAGE_BYTES, LONGEST_SACK_DELAY, Options},
    socket,
};
use crate::session::{self, whole_milliseconds};

/// The driver `sctp`.
pub(crate) struct Sctp;

static DESCRIPTOR: DriverDescriptor = DriverDescriptor {
    name: "sctp",
    title: "SCTP",
    ip_protocol: Some(IpProtocol::Sctp),
    summary: "SCTP of the running kernel, one-to-one sockets, over one path or several",
    multiplexes: true,
    capabilities: &["unordered", "multihoming"],
    options: Options::DEFINITIONS,
    metrics: &[
        id::RETRANSMITTED_PACKETS,
        id::RETRANSMIT_RATIO,
        id::FAIL_OVER_TIME_NS,
        id::SMOOTHED_RTT_MEAN_NS,
        id::SMOOTHED_RTT_P50_NS,
        id::SMOOTHED_RTT_LAST_NS,
        id::CONGESTION_WINDOW_MEAN_BYTES,
        id::CONGESTION_WINDOW_MAX_BYTES,
        id::BYTES_IN_FLIGHT_MAX_BYTES,
    ],
    ..DriverDescriptor::PLAIN
};

/// Checks that SCTP is available by opening a socket; the kernel loads its module if it may.
fn check_kernel() -> Result<(), Unsupported> {
    let Err(error) = socket::open(Ipv4Addr::LOCALHOST.into()) else {
        return Ok(());
    };
    // `EPROTONOSUPPORT` or `ESOCKTNOSUPPORT` where there is none; any other error is reported as it is.
    let missing = matches!(
        error.raw_os_error(),
        Some(libc::EPROTONOSUPPORT | libc::ESOCKTNOSUPPORT)
    );
    Err(match missing {
        true => Unsupported::new(
            reason::no_sctp(&error.to_string()),
            missing_hint(loads_modules()),
        ),
        false => Unsupported::new(reason::no_sctp_socket(&error.to_string()), ""),
    })
}

/// Returns the hint where the kernel, which `loads_modules` or not, has no SCTP.
fn missing_hint(loads_modules: bool) -> Phrase {
    match loads_modules {
        true => reason::load_sctp(),
        false => reason::sctp_elsewhere(),
    }
}

impl Driver for Sctp {
    fn descriptor(&self) -> &'static DriverDescriptor {
        &DESCRIPTOR
    }

    fn check_options(&self, options: &OptionValues) -> Result<(), OptionError> {
        self.descriptor().check(options)?;
        let above = |one: Option<_>, other: Option<_>| one.zip(other).is_some_and(|(a, b)| a > b);
        let set = Options::read(options);
        let [initial, least, most, sack_delay] =
            [set.rto_initial, set.rto_min, set.rto_max, set.sack_delay]
                .map(|time| time.map(whole_milliseconds));
        let rules = [
            (
                above(least, most),
                "rto_min",
                "it must not be above `rto_max`",
            ),
            (
                above(initial, most) || above(least, initial),
                "rto_initial",
                "it must be between `rto_min` and `rto_max`",
            ),
            (
                above(sack_delay, Some(LONGEST_SACK_DELAY)),
                "sack_delay",
                "it must be `500ms` at most (RFC 9260 §6.2)",
            ),
            (
                set.primary_down_after.is_some() && !set.multihoming,
                "primary_down_after",
                "also set `multihoming = true`",
            ),
        ];
        let Some((_, name, hint)) = rules.into_iter().find(|(is_violated, ..)| *is_violated) else {
            return Ok(());
        };
        let (driver, hint) = (DESCRIPTOR.name, hint.to_owned());
        let value = match options.get(name) {
            Some(OptionValue::Text(text)) => text.clone(),
            _ => String::new(),
        };
        Err(OptionError::Value {
            driver,
            name,
            value,
            hint,
        })
    }

    fn carries(&self, options: &OptionValues) -> Carries {
        session::carries(options)
    }

    fn supported(&self, _options: &OptionValues) -> Result<(), Unsupported> {
        check_kernel()
    }

    fn client(&self, order: &TrialOrder, context: TrialContext) -> Result<Box<dyn ClientSession>> {
        self.check_options(&order.transport.options)?;
        self.supported(&order.transport.options)?;
        session::client(End::client(order)?, LONGEST_MESSAGE_BYTES, order, context)
    }

    fn server(&self, order: &TrialOrder, context: TrialContext) -> Result<Box<dyn ServerSession>> {
        self.check_options(&order.transport.options)?;
        self.supported(&order.transport.options)?;
        session::server(End::server(order)?, LONGEST_MESSAGE_BYTES, order, context)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn refused(set: &[(&str, OptionValue)]) -> Option<&'static str> {
        let options = set
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect();
        match Sctp.check_options(&options) {
            Err(OptionError::Value { name, .. }) => Some(name),
            other => {
                assert_eq!(other, Ok(()));
                None
            }
        }
    }

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        let time = |text: &str| OptionValue::Text(text.to_owned());
        for (set, expected) in [
            (
                vec![("rto_min", time("2s")), ("rto_max", time("1s"))],
                Some("rto_min"),
            ),
            (
                vec![("rto_initial", time("2s")), ("rto_max", time("1s"))],
                Some("rto_initial"),
            ),
            (vec![("sack_delay", time("501ms"))], Some("sack_delay")),
            (vec![("sack_delay", time("500ms"))], None),
            (
                vec![("primary_down_after", time("1s"))],
                Some("primary_down_after"),
            ),
            (
                vec![
                    ("primary_down_after", time("1s")),
                    ("multihoming", OptionValue::Flag(true)),
                ],
                None,
            ),
        ] {
            assert_eq!(refused(&set), expected, "{set:?}");
        }
    }

    #[test]
    fn missing_sctp_is_reported_with_commands_to_type() {
        if let Err(unsupported) = Sctp.supported(&BTreeMap::new()) {
            assert!(unsupported.reason.contains("SCTP"), "{unsupported}");
            for line in ["`--bed uml`", "`sctp-userspace`"] {
                assert!(unsupported.hint.contains(line), "{}", unsupported.hint);
            }
        }
        assert!(missing_hint(true).to_string().contains("`modprobe sctp`"));
        assert!(!missing_hint(false).to_string().contains("modprobe"));
    }
}
