//! Tests of the workspace's sources and of the build script: one binary for all files. `e2e` is a binary of its own,
//! because it needs the whole program.

mod dependency_direction;
mod features;
mod lines;
mod long_forms;
mod module_cycles;
mod provenance;
mod schemas;
