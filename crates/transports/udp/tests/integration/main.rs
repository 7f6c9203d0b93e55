//! Tests of this crate: one binary for all files, so that its dependencies are linked once.

mod common;
mod contract;
mod lossy_path;
mod reliable;
