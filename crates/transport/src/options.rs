//! Definitions of options that several drivers have: one name, one kind of value, one meaning.

use crate::descriptor::{OptionDefinition, OptionKind};

/// Segmentation and receive offload of a UDP socket.
pub const GSO: OptionDefinition = OptionDefinition {
    name: "gso",
    kind: OptionKind::Flag,
    default: "true",
    help: "hand several packets to the kernel at once (UDP_SEGMENT), where it can do that",
};

/// Receive buffer of a UDP socket.
pub const RECEIVE_BUFFER: OptionDefinition = OptionDefinition {
    name: "receive_buffer",
    kind: OptionKind::Size,
    default: "",
    help: "receive buffer of the UDP socket, of which the kernel may grant less; from the path if not set",
};

/// Send buffer of a UDP socket.
pub const SEND_BUFFER: OptionDefinition = OptionDefinition {
    name: "send_buffer",
    kind: OptionKind::Size,
    default: "",
    help: "send buffer of the UDP socket, of which the kernel may grant less; from the path if not set",
};

/// Differentiated services code point of the packets.
pub const DSCP: OptionDefinition = OptionDefinition {
    name: "dscp",
    kind: OptionKind::Number { least: 0, most: 63 },
    default: "",
    help: "differentiated services code point of the packets (RFC 2474)",
};

/// Returns the definition of the option for the congestion control of a stack that has these.
#[must_use]
pub const fn congestion_control(
    names: &'static [&'static str],
    help: &'static str,
) -> OptionDefinition {
    OptionDefinition {
        name: "cc",
        kind: OptionKind::OneOf(names),
        default: "cubic",
        help,
    }
}

/// Returns the definition of an option that is on or off.
#[must_use]
pub const fn flag(name: &'static str, default: bool, help: &'static str) -> OptionDefinition {
    OptionDefinition {
        name,
        kind: OptionKind::Flag,
        default: if default { "true" } else { "false" },
        help,
    }
}

/// Returns the definition of an option that is a span of time and has no default.
#[must_use]
pub const fn time(name: &'static str, help: &'static str) -> OptionDefinition {
    OptionDefinition {
        name,
        kind: OptionKind::Time,
        default: "",
        help,
    }
}

/// Returns the definition of an option that is a size and has no default.
#[must_use]
pub const fn size(name: &'static str, help: &'static str) -> OptionDefinition {
    OptionDefinition {
        name,
        kind: OptionKind::Size,
        default: "",
        help,
    }
}
