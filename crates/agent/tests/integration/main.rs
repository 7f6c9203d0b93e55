//! Tests of this crate: one binary for all files, so that its dependencies are linked once.

mod common;
mod external;
mod fork_server;
mod loss_response;
mod protocol;
mod registry_drivers;
