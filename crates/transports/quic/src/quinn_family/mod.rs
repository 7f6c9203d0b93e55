//! Code shared by quinn and its fork noq.
//!
//! The two have the same functions under the same names, but types of their own, so that only
//! source text can be shared, not compiled code. The files in `per_stack` are that text: the module
//! of each driver includes them as its own submodules, and keeps the differences in `stack` and
//! `controller`. Code that needs no type of either stack is in this module and compiled once.

pub mod drops;
pub mod figures;
pub mod watch;
