//! Support for the tests of other crates: tests that run in a guest, and artefacts that the processes of one test run
//! share. No program that is shipped uses this crate.

pub mod guest;
pub mod test_run;
