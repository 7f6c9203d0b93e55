//! Transports that are programs of their own, in any language: the agent starts them, exchanges
//! JSON lines with them, and measures them from outside.
//!
//! `docs/external-drivers.md` describes the contract for authors of programs.
//!
//! - `contract` defines the lines of the contract, `describe` asks a program for its description and keeps an idle
//!   process of one that carries out one trial after another.
//! - `program` is a process with all that it starts, `stderr` its standard error; `inbox` queues the events of a session.
//! - `session` is one end of a trial, `content` and `files` its input for the program.
//! - `driver` has the registry's entries: `external` for a program of the user's, and the programs
//!   that come with Regatta; `on_host` finds their programs on a host with files of its own.

mod content;
mod contract;
mod describe;
mod driver;
mod error;
mod files;
mod inbox;
mod on_host;
mod program;
mod session;
mod stderr;

pub use driver::drivers;
pub use on_host::{ProgramFiles, program_files};
pub use program::PROGRAMS_VARIABLE;
