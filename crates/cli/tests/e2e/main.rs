//! The real binary over real namespaces, with small studies.
//!
//! One at a time: the tests share the machine that they measure.

mod behind;
mod capture;
mod faults;
mod guest;
mod handshakes;
mod happy;
mod help;
mod input;
mod losses;
mod machine;
mod matrix;
mod mptcp;
mod resume;
mod two_guests;
mod virtual_time;
mod wdt;
