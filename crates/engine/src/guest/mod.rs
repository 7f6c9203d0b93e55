//! A run in a guest: the engine runs inside, and the controller hears of it.
//!
//! Inside ([`serve`]) is the ordinary run on the ordinary bed `netns`, whose events are told to the
//! outside. Outside ([`GuestRun`]) they are heard as those of any run. The engine is inside with
//! both clocks, so that both are the same way but for the clock: with a virtual one the controller
//! could not take part, because to a guest that waits every answer from outside comes too late.

mod inside;
mod mission;
mod outside;
mod parallel;
mod watch;

pub use inside::serve;
pub use outside::GuestRun;
