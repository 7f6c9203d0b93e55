//! Other machines that the user names: the hosts file, and what is done on its hosts over SSH.

pub mod address;
pub mod ended;
pub mod file;
mod programs;
pub mod remote;
