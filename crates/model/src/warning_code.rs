//! Codes of warnings ([`crate::Warning::code`]) that more than one module gives or looks for, and
//! codes that are also names of metrics.

/// The sender closed without waiting for delivery.
pub const ABANDONED: &str = "abandoned";
/// The offset between the hosts' clocks is not known well enough for the delay that a workload measures.
pub const CLOCKS_NOT_KNOWN: &str = "clocks_not_known";
/// Connections of a workload of short connections failed.
pub const CONNECTIONS_FAILED: &str = "connections_failed";
/// The deadline stopped the transfer.
pub const DEADLINE_REACHED: &str = "deadline_reached";
/// Messages arrived with other content than was sent.
pub const MESSAGES_CORRUPTED: &str = "messages_corrupted";
/// The path check found a quantity outside its tolerance.
pub const PATH_OUT_OF_TOLERANCE: &str = "path_out_of_tolerance";
/// The emulator did not forward packets in time.
pub const PATH_OVERRUN: &str = "path_overrun";
/// A full socket buffer of the receiving host dropped datagrams.
pub const RECEIVE_BUFFER_ERRORS: &str = "receive_buffer_errors";
/// The receiver's window, not the path, limited the sender.
pub const WINDOW_LIMITED: &str = "window_limited";
