//! Options of drivers: tables of them, their types, and the definitions that several drivers have: one name, one kind of
//! value, one meaning.

mod table;
mod typed;

use regatta_model::{BitRate, Bytes};

use crate::descriptor::{OptionDefinition, OptionKind};

#[doc(hidden)]
pub use typed::check_table;
pub use typed::{Choice, FromOptionValue, KernelCongestionControl, OptionField, TypedOption};

/// Returns a size in memory, in bytes: the largest number if it is larger than memory can be.
#[must_use]
pub fn saturating_usize(size: Bytes) -> usize {
    usize::try_from(size.0).unwrap_or(usize::MAX)
}

/// Largest rate of the sender.
pub const RATE: TypedOption<Option<BitRate>> = TypedOption::new(
    "rate",
    "",
    "largest rate of each flow, headers included, paced by the kernel (SO_MAX_PACING_RATE); no limit if not set",
);

/// Differentiated services code point of the packets.
pub const DSCP: TypedOption<Option<u16>> = TypedOption::new(
    "dscp",
    "",
    "differentiated services code point of the packets (RFC 2474)",
)
.within(0..=63);

/// Segmentation and receive offload of a UDP socket.
pub const GSO: TypedOption<bool> = TypedOption::new(
    "gso",
    "true",
    "pass several packets to the kernel in one call (UDP_SEGMENT), if it supports that",
);

/// Receive buffer of a UDP socket.
pub const RECEIVE_BUFFER: TypedOption<Option<Bytes>> = TypedOption::new(
    "receive_buffer",
    "",
    "receive buffer of the UDP socket, of which the kernel may grant less; from the path if not set",
);

/// Send buffer of a UDP socket.
pub const SEND_BUFFER: TypedOption<Option<Bytes>> = TypedOption::new(
    "send_buffer",
    "",
    "send buffer of the UDP socket, of which the kernel may grant less; from the path if not set",
);

/// Returns the definition of the option for the congestion control of a stack that has these.
#[must_use]
pub const fn congestion_control(
    names: &'static [&'static str],
    help: &'static str,
) -> OptionDefinition {
    option("cc", OptionKind::OneOf(names), "cubic", help)
}

/// Returns the definition of an option that is on or off.
#[must_use]
pub const fn flag(name: &'static str, default: bool, help: &'static str) -> OptionDefinition {
    let default = if default { "true" } else { "false" };
    option(name, OptionKind::Flag, default, help)
}

/// Returns the definition of an option that is a whole number in a range.
#[must_use]
pub const fn number(
    name: &'static str,
    (least, most): (i64, i64),
    default: &'static str,
    help: &'static str,
) -> OptionDefinition {
    option(name, OptionKind::Number { least, most }, default, help)
}

/// Returns the definition of an option that is a span of time and has no default.
#[must_use]
pub const fn time(name: &'static str, help: &'static str) -> OptionDefinition {
    option(name, OptionKind::Time, "", help)
}

/// Returns the definition of an option that is a size and has no default.
#[must_use]
pub const fn size(name: &'static str, help: &'static str) -> OptionDefinition {
    option(name, OptionKind::Size, "", help)
}

const fn option(
    name: &'static str,
    kind: OptionKind,
    default: &'static str,
    help: &'static str,
) -> OptionDefinition {
    OptionDefinition {
        name,
        kind,
        default,
        help,
    }
}
