//! Run in a guest: the engine runs inside, and the controller receives its events.
//!
//! Inside ([`serve`]) is the ordinary run on the ordinary bed `netns`, whose events are sent to the
//! controller. Outside ([`GuestRun`]) they are treated as those of any run. The engine runs inside
//! with both clocks, so that the two differ in the clock only: with a virtual one the controller
//! could not take part, because to a guest that waits every answer from outside comes too late.

mod inside;
mod messages;
mod outside;
mod watch;

pub use inside::serve;
pub use outside::GuestRun;
