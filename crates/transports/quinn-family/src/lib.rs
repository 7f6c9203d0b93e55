//! QUIC by quinn, or by its fork noq: one source, of which each of two packages makes a library.
//!
//! The two stacks have the same functions under the same names, but types of their own, so that only
//! source text can be shared, not compiled code. Each package depends on its stack and sets the
//! feature of that name; what differs is in `quinn_stack` and `noq_stack`.

mod closer;
mod connection;
mod controller;
mod datagram;
mod driver;
mod drops;
mod endpoint;
mod migration;
#[cfg(feature = "noq")]
mod noq_stack;
mod options;
#[cfg(feature = "quinn")]
mod quinn_stack;
mod runtime;
mod send_window;
mod statistics;
mod stream;
mod tls;
mod watch;

#[cfg(feature = "noq")]
use noq_stack as stack;
#[cfg(feature = "quinn")]
use quinn_stack as stack;

pub use driver::DRIVER;
pub use endpoint::{QuicEndpoint, streams};
