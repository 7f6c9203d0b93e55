//! SCTP of the running kernel, through one-to-one sockets (RFC 6458 §4).
//!
//! - `driver` says what it is; `options` reads what a study sets, sets it, and sizes buffers.
//! - `uapi` has the kernel's numbers and layouts; `socket` the system calls.
//! - `association` is one association with its streams; `paths` what is known of its paths.
//! - `endpoint`, `connection` and `messages` are what the workloads use; `statistics` what the
//!   kernel tells.

mod association;
mod connection;
pub(crate) mod driver;
mod endpoint;
mod messages;
mod options;
mod paths;
mod socket;
mod statistics;
mod uapi;
