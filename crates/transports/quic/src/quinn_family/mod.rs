//! What quinn and its fork noq have in common.
//!
//! The two have the same functions under the same names, but types of their own, so that nothing
//! can be written once against both but source text. The files in `per_stack` are that text: each
//! driver's module takes them in as modules of its own, and what differs is in its `stack` and its
//! `controller`. What needs no type of either stands here and is compiled once.

pub mod drops;
pub mod figures;
pub mod watch;
