//! Tests in guests. They need the kernels that `make lab-kernel` and `scripts/need linux.uml`
//! provide.
//!
//! A guest takes a core, so that no more of these run at once than there are cores. Results of one
//! study that many cases use are made once per test run, see [`crate::help::shared_trials`].

mod capture;
mod competition;
mod conformance;
mod ended;
mod first_flight;
mod handshakes;
mod idle_probe;
mod initial_window;
pub mod losses;
pub mod matrix;
mod offloads;
pub mod one;
mod one_way_ends;
mod small_trials;
pub mod two;
pub mod virtual_time;
mod windows;
