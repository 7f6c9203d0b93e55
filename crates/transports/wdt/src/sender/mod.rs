//! The sending side as a state machine, without I/O.
//!
//! A [`Session`] is the whole transfer, shared by all connections; a [`Connection`] is one port of
//! it. The owner of the sockets asks the connection for its next [`Step`], does it and reports the
//! result. Time is a [`Duration`](std::time::Duration) since any one moment, so that a test can
//! bring its own.

mod answer_timer;
mod connection;
mod history;
mod outgoing;
mod session;
mod throttle;

pub use connection::{Connection, Step};
pub use outgoing::Output;
pub use session::{Options, Session};
pub use throttle::RateLimit;
