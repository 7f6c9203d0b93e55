//! Parts that all QUIC drivers share: sizes from the path ([`path`]), the time for which flow control held a
//! sender back ([`blocked`]), common options ([`options`]) and the facts of an end ([`facts`]), key logs and event logs ([`files`]),
//! and the write buffer of a stream ([`write_buffer`]).

pub mod blocked;
pub mod facts;
pub mod files;
pub mod options;
pub mod path;
pub mod write_buffer;
