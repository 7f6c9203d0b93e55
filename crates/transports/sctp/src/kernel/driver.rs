//! Descriptor and capabilities of the driver `sctp`.

use std::{collections::BTreeMap, io, net::Ipv4Addr};

use regatta_control::TrialOrder;
use regatta_model::OptionValue;
use regatta_transport::{
    Carries, Driver, DriverDescriptor, MessageSession, OptionDefinition, OptionError, OptionKind,
    Session, StreamSession, TransportError, TrialContext, Unsupported, options,
};

use super::{
    endpoint::{End, MessageEnd, StreamEnd},
    options::{LONGEST_SACK_DELAY, MOST_STREAMS, Options},
    socket,
};

/// The driver `sctp`.
pub(crate) struct Sctp;

/// Returns the kind of an option that is a count; the kernel holds these in 16 bits.
const fn count(least: i64) -> OptionKind {
    OptionKind::Number {
        least,
        most: u16::MAX as i64,
    }
}

static DESCRIPTOR: DriverDescriptor = DriverDescriptor {
    name: "sctp",
    title: "SCTP",
    summary: "SCTP of the running kernel, one-to-one sockets, over one path or several",
    carries: Carries::Streams,
    reliable: true,
    encrypted: false,
    multiplexes: true,
    congestion_control_choosable: false,
    capabilities: &["unordered", "multihoming"],
    stack: "Linux kernel",
    stack_version: "",
    options: &[
        ORDERED,
        STREAMS,
        SCHEDULER,
        NODELAY,
        RTO_INITIAL,
        RTO_MIN,
        RTO_MAX,
        SACK_DELAY,
        SACK_EVERY,
        HEARTBEAT,
        HB_INTERVAL,
        PATH_MAX_RETRANS,
        PF_RETRANS,
        ASSOCIATION_MAX_RETRANS,
        RECEIVE_WINDOW,
        MULTIHOMING,
        PRIMARY_DOWN_AFTER,
    ],
};

pub(super) const ORDERED: OptionDefinition = options::flag(
    "ordered",
    true,
    "whether each stream is delivered in order; if not, every message is delivered \
           as it comes, and the driver carries messages instead of streams",
);

pub(super) const STREAMS: OptionDefinition = OptionDefinition {
    name: "streams",
    kind: OptionKind::Number {
        least: 1,
        most: MOST_STREAMS as i64,
    },
    default: "1024",
    help: "streams that each end of an association may open (SCTP_INITMSG)",
};

pub(super) const SCHEDULER: OptionDefinition = OptionDefinition {
    name: "scheduler",
    kind: OptionKind::OneOf(&["rr", "fcfs"]),
    default: "rr",
    help: "which stream's message is sent next: streams in turn, or as they were written",
};

pub(super) const NODELAY: OptionDefinition = options::flag(
    "nodelay",
    true,
    "send small messages at once instead of waiting for more data (SCTP_NODELAY)",
);

pub(super) const RTO_INITIAL: OptionDefinition = options::time(
    "rto_initial",
    "retransmission time-out before the first measurement (RFC 9260, RTO.Initial); \
           the kernel's if not set",
);

pub(super) const RTO_MIN: OptionDefinition = options::time(
    "rto_min",
    "least retransmission time-out (RFC 9260, RTO.Min); the kernel's if not set",
);

pub(super) const RTO_MAX: OptionDefinition = options::time(
    "rto_max",
    "largest retransmission time-out (RFC 9260, RTO.Max); the kernel's if not set",
);

pub(super) const SACK_DELAY: OptionDefinition = options::time(
    "sack_delay",
    "longest delay of an acknowledgement, 500 ms at most; the kernel's if not set",
);

pub(super) const SACK_EVERY: OptionDefinition = OptionDefinition {
    name: "sack_every",
    kind: count(1),
    default: "",
    help: "packets after which an acknowledgement is sent; the kernel's if not set",
};

pub(super) const HEARTBEAT: OptionDefinition = options::flag(
    "heartbeat",
    true,
    "whether idle paths are probed with heartbeats",
);

pub(super) const HB_INTERVAL: OptionDefinition = options::time(
    "hb_interval",
    "time between heartbeats, beside the time-out (RFC 9260, HB.interval); the \
           kernel's if not set",
);

pub(super) const PATH_MAX_RETRANS: OptionDefinition = OptionDefinition {
    name: "path_max_retrans",
    kind: count(1),
    default: "",
    help: "time-outs after which a path is inactive (RFC 9260, Path.Max.Retrans); the \
           kernel's if not set",
};

pub(super) const PF_RETRANS: OptionDefinition = OptionDefinition {
    name: "pf_retrans",
    kind: count(0),
    default: "",
    help: "time-outs after which a path is potentially failed, so that new data takes \
           another one (RFC 7829, PFMR); the kernel's if not set",
};

pub(super) const ASSOCIATION_MAX_RETRANS: OptionDefinition = OptionDefinition {
    name: "association_max_retrans",
    kind: count(1),
    default: "",
    help: "time-outs after which the association is given up (RFC 9260, \
           Association.Max.Retrans); the kernel's if not set",
};

pub(super) const RECEIVE_WINDOW: OptionDefinition = options::size(
    "receive_window",
    "receive window, and memory for data that is sent; what the path holds with \
           its queue full if not set",
);

pub(super) const MULTIHOMING: OptionDefinition = options::flag(
    "multihoming",
    false,
    "use every IPv4 address of the path's interface: one path each (RFC 9260 §6.4)",
);

pub(super) const PRIMARY_DOWN_AFTER: OptionDefinition = options::time(
    "primary_down_after",
    "lose every packet of the primary path so long after the transfer began; needs \
           `multihoming`",
);

/// Checks that SCTP is available by opening a socket; the kernel loads its module if it may.
fn check_kernel() -> Result<(), Unsupported> {
    let Err(error) = socket::open(Ipv4Addr::LOCALHOST.into()) else {
        return Ok(());
    };
    // `EPROTONOSUPPORT` or `ESOCKTNOSUPPORT` where there is none; anything else is said as it is.
    let missing = matches!(
        error.raw_os_error(),
        Some(libc::EPROTONOSUPPORT | libc::ESOCKTNOSUPPORT)
    );
    Err(Unsupported {
        reason: if missing {
            format!("this kernel has no SCTP: {error}")
        } else {
            format!("an SCTP socket cannot be opened: {error}")
        },
        hint: if missing {
            "run `modprobe sctp` as root; or give `--bed uml`, whose kernel has it; or use \
             `sctp-userspace`"
                .to_owned()
        } else {
            String::new()
        },
    })
}

impl Driver for Sctp {
    fn descriptor(&self) -> &'static DriverDescriptor {
        &DESCRIPTOR
    }

    fn check_options(&self, options: &BTreeMap<String, OptionValue>) -> Result<(), OptionError> {
        self.descriptor().check(options)?;
        let read = Options::read(options);
        let wrong = |name: &'static str, hint: &str| {
            let value = match options.get(name) {
                Some(OptionValue::Text(text)) => text.clone(),
                _ => String::new(),
            };
            Err(OptionError::Value {
                driver: DESCRIPTOR.name,
                name,
                value,
                hint: hint.to_owned(),
            })
        };
        if let (Some(least), Some(most)) = (read.rto_min, read.rto_max)
            && least > most
        {
            return wrong("rto_min", "it must not be above `rto_max`");
        }
        if let Some(initial) = read.rto_initial
            && (read.rto_max.is_some_and(|most| initial > most)
                || read.rto_min.is_some_and(|least| initial < least))
        {
            return wrong("rto_initial", "it must be between `rto_min` and `rto_max`");
        }
        if read
            .sack_delay
            .is_some_and(|delay| delay > LONGEST_SACK_DELAY)
        {
            return wrong("sack_delay", "it must be `500ms` at most (RFC 9260 §6.2)");
        }
        if read.primary_down_after.is_some() && !read.multihoming {
            return wrong("primary_down_after", "also set `multihoming = true`");
        }
        Ok(())
    }

    fn carries(&self, options: &BTreeMap<String, OptionValue>) -> Carries {
        if Options::read(options).ordered {
            Carries::Streams
        } else {
            Carries::Messages
        }
    }

    fn supported(&self, _options: &BTreeMap<String, OptionValue>) -> Result<(), Unsupported> {
        check_kernel()
    }

    fn prepare(
        &self,
        order: &TrialOrder,
        context: TrialContext,
    ) -> Result<Box<dyn Session>, TransportError> {
        self.check_options(&order.transport.options)?;
        self.supported(&order.transport.options)?;
        let end = End::new(order)?;
        Ok(match self.carries(&order.transport.options) {
            Carries::Messages => {
                Box::new(MessageSession::new(MessageEnd::new(end), order, context)?)
            }
            _ => Box::new(StreamSession::new(StreamEnd(end), order, context)?),
        })
    }
}

/// Returns the error of a system call that sets up a socket.
pub(crate) fn cannot(what: &str) -> impl FnOnce(io::Error) -> TransportError + use<> {
    TransportError::io(format!("cannot {what}"))
}

#[cfg(test)]
mod tests {
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
    fn a_host_without_it_says_what_to_type() {
        if let Err(unsupported) = Sctp.supported(&BTreeMap::new()) {
            assert!(unsupported.reason.contains("SCTP"), "{unsupported}");
            for line in ["`modprobe sctp`", "`--bed uml`", "`sctp-userspace`"] {
                assert!(unsupported.hint.contains(line), "{}", unsupported.hint);
            }
        }
    }
}
