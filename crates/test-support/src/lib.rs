//! Support for the tests of other crates: tests that run in a guest, or share what one of them has made; artefacts that the
//! processes of one test run share, the load of the machine, and a search for processes that are left. No program that is
//! shipped uses this crate.

pub mod cases;
pub mod guest;
pub mod machine;
pub mod processes;
pub mod test_run;
