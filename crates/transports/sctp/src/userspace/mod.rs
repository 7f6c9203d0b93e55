//! SCTP in user space, by `sctp-proto`.
//!
//! - `driver` has the descriptor; `options` has the options, and sizes windows.
//! - `protocol` finds the association of a packet; `association` is one of them; `wire` parses
//!   packets for figures that the stack lacks.
//! - `endpoint` makes an end of a trial; `handle` is an association as the workloads use it.

mod association;
pub(crate) mod driver;
mod endpoint;
mod handle;
mod options;
mod protocol;
#[cfg(test)]
mod simulation;
mod statistics;
mod wire;
