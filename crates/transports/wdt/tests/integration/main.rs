//! Tests of this crate: one binary for all files, so that its dependencies are linked once. `fuzz` is a binary of its own,
//! because it measures memory with another allocator.

mod files;
#[path = "../memory/mod.rs"]
mod memory;
#[path = "../random/mod.rs"]
mod random;
mod readme;
mod receiver;
#[path = "../recorded/mod.rs"]
mod recorded;
mod recovery;
mod relay;
mod replay;
mod resume;
mod scripted;
mod sender;
mod simulated;
mod tcp;
mod vectors;
mod waits;
