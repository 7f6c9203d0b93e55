//! Warp Data Transfer (WDT), version 32 of its protocol: whole files and directory trees over
//! several TCP connections at once.
//!
//! A transfer is one sender, one receiver and a number of TCP connections, each to a port of its
//! own of the receiver. Every connection takes *blocks*, byte ranges of files, from one queue of
//! the sender. Nothing is acknowledged block by block: the receiver counts the whole blocks that came
//! over a connection when that connection is made again after a fault (the local checkpoint), when
//! a port is given up (the global checkpoint), and once at the end.
//!
//! | module | holds |
//! |---|---|
//! | [`codec`] | commands as bytes, and back |
//! | [`crypto`] | the encryption layer below the commands |
//! | [`files`] | a file, a directory tree as a source; a directory as a sink |
//! | [`host`] | interface of the program around a transfer: socket options, notifications, stop |
//! | `queue` | which block goes next |
//! | [`sender`], [`receiver`] | both ends as state machines, without sockets or clocks |
//! | [`net`] | both ends over TCP, one thread for each connection |
//! | [`path`] | relative paths that are safe to create below a directory |
//! | [`source`] | what is sent |
//! | [`sink`] | where it goes |
//! | [`status`] | the protocol's error codes |
//! | [`url`] | the connection URL |
//! | [`waker`] | what ends the waits of the threads |
//!
//! Terms of the protocol: a *block* has a sequence id (of its file), an offset and a
//! length; a *checkpoint* counts the blocks of one port.

pub mod codec;
pub mod crypto;
mod failure;
pub mod files;
pub mod host;
mod inbox;
pub mod net;
pub mod path;
mod queue;
pub mod receiver;
pub mod sender;
pub mod sink;
pub mod source;
pub mod status;
pub mod url;
pub mod waker;

/// The example of the README, which `cargo test --doc` compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use failure::{Failure, PortReport, Report};
pub use inbox::WireError;

/// The version of the protocol that this crate implements.
pub const VERSION: u32 = 32;
/// The oldest version with the same encoding; it introduced the change of the IV within a
/// connection.
pub const OLDEST_VERSION: u32 = 30;
