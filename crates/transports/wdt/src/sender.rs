//! The sending side, without I/O: what to do next, and what happened then.
//!
//! A [`Session`] is the whole transfer, shared by all connections; a [`Connection`] is one port of
//! it. Whoever has the sockets asks the connection for its next [`Step`], does it and says how it
//! went. Time is a [`Duration`](std::time::Duration) since any one moment, so that a test can bring
//! its own.

mod asking;
mod connection;
mod history;
mod outgoing;
mod session;
mod throttle;

pub use connection::{Connection, Step};
pub use outgoing::Output;
pub use session::{Options, Session};
pub use throttle::RateLimit;
