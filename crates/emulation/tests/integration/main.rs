//! Tests of this crate: one binary for all files, so that its dependencies are linked once.

mod accuracy;
mod bottlenecks;
mod impairments;
mod jitter;
mod properties;
