//! Options of drivers: tables of them, their types, and the definitions that several drivers have: one name, one kind of
//! value, one meaning.

mod table;
mod typed;

use regatta_model::{BitRate, Bytes};

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
