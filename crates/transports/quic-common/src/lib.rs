//! Parts that all QUIC drivers share: the entry of the registry ([`driver`]), sizes from the path ([`path`]), common
//! options ([`options`]), the handshake ([`handshake`]), the facts of an end and of a
//! connection ([`facts`]), the time for which flow control held a sender back ([`blocked`]), key logs and event logs
//! ([`files`]), and the write buffer of a stream ([`write_buffer`]).

pub mod blocked;
pub mod driver;
pub mod facts;
pub mod files;
pub mod handshake;
pub mod options;
pub mod path;
pub mod write_buffer;
