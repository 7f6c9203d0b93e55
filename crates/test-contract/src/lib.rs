//! Contract that every driver is held to, for the tests of drivers: no program that is shipped uses this crate.
//!
//! [`contract`] and the modules beside it have the clauses that every driver must satisfy, and [`contract_tests!`] makes
//! a test of each clause for a driver.

pub mod cases;
pub mod connections;
pub mod contract;
pub mod exchanges;
pub mod files;
pub mod flows;
pub mod scripts;

#[doc(hidden)]
pub use regatta_transport::Driver;
