//! SCTP of the running kernel, through one-to-one sockets (RFC 6458 §4).
//!
//! - `driver` has the descriptor; `options` reads a study's options, sets them, and sizes buffers.
//! - `uapi` has the kernel's numbers and layouts; `socket` the system calls.
//! - `association` is one association with its streams, in `handle` as the workloads use it; `paths` has the state of its
//!   paths.
//! - `endpoint` is an end of a trial; `statistics` has the kernel's statistics.

mod association;
pub(crate) mod driver;
mod endpoint;
mod options;
mod paths;
mod socket;
mod statistics;
mod uapi;
