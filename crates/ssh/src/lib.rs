//! Hosts that are reached by the system's OpenSSH: calls of `ssh`, and the transfer of Regatta's own file.
//!
//! One connection carries everything: the script that `ssh` runs there takes the file over its standard
//! input if the host does not have it yet, and then becomes Regatta's server.

mod agent_file;
mod askpass;
mod cache;
mod connection;
mod keys;
mod programs;

pub use agent_file::{AgentFile, AgentFileError, tidy_cache};
pub use askpass::{askpass_main, is_askpass};
pub use connection::{Bootstrap, BootstrapError, Destination, FailedStep, Progress};
pub use keys::{
    Access, HostKey, KeyError, NO_SESSION, OwnKey, Prompter, SetUp, SshFailure, old_key_removal,
};
pub use programs::{Archive, FILES_COMMAND, PackError, files_main};
pub use zeroize::Zeroizing;
