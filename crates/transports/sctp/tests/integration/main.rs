//! Tests of this crate: one binary for all files, so that its dependencies are linked once.

#[cfg(feature = "userspace")]
mod bad_paths;
mod common;
#[cfg(feature = "userspace")]
mod contract;
mod kernel;
