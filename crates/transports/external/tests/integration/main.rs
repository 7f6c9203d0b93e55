//! Tests of this crate: one binary for all files, so that its dependencies are linked once.

mod common;
mod cores;
mod example;
mod faults;
mod programs;
