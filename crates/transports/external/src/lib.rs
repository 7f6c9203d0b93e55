//! Transports that are programs of their own, in any language: the agent starts them, speaks JSON
//! lines with them, and measures them from outside.
//!
//! `docs/external-drivers.md` is the contract as an author reads it.
//!
//! - `contract` has its lines, `describe` asks a program what it is.
//! - `program` is a process with all that it starts; `inbox` has all that a session waits for.
//! - `session` is one end of a trial, `content` and `files` what it gives to the program.
//! - `driver` has the registry's entries: `external` for a program of the user's, and the programs
//!   that come with Regatta.

mod content;
mod contract;
mod describe;
mod driver;
mod error;
mod files;
mod inbox;
mod program;
mod session;

pub use driver::drivers;
