//! Connection between `regatta client` and `regatta server`: the token that both know, TLS 1.3 in which each accepts
//! the other's key alone, and the relay that carries a session over it.

mod handshake;
mod hello;
pub mod keys;
mod relay;
pub mod token;

pub use handshake::handshake;
pub use hello::{Hello, set_up};
pub use relay::{poll_until, relay};
