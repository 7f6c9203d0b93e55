//! Tests of this crate: one binary for all files, so that its dependencies are linked once.

mod accuracy;
mod capture;
mod common;
mod emulators;
mod guest;
mod lifetime;
mod netem;
mod ordinary_user;
mod path_check;
mod sessions;
mod tuning;
