//! The receiving side as a state machine, without I/O.
//!
//! A [`Session`] is the whole transfer, shared by all connections; a [`Connection`] is one port of
//! it. The owner of the sockets asks the connection for its next [`Step`], does it and reports the
//! result. Time is a [`Duration`](std::time::Duration) since the receiver began to listen.

mod connection;
mod session;

pub use connection::{Connection, Step};
pub use session::{Options, Session};
