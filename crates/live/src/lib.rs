//! Views of a run under way: a terminal, a web page and metrics of one state, which is made from the run's events.
//!
//! ```text
//! events, reports of the trial ─▶ Fold ─▶ LiveRun ─┬─▶ terminal
//!                                                  ├─▶ web page
//!                                                  ├─▶ metrics
//!                                                  └─▶ `live.sock` ─▶ LiveRun of `regatta attach` ─▶ the same views
//! files of the shards of a plan ─▶ Fold ─▶ LiveRun of `regatta attach` ─▶ the same views
//! ```

mod error;
mod fold;
mod http;
mod hub;
mod metrics;
mod model;
mod pace;

mod shared;
mod socket;
mod terminal;
#[cfg(test)]
mod tests;
mod web;

pub use error::LiveError;
pub use fold::Fold;
pub use hub::{Attached, Hub, LiveListener, Look, Views};
pub use model::{Activity, LiveCell, LiveRun, LiveTrial, Now, ShardCounts};
pub use pace::{Pace, rough};
pub use shared::Load;
pub use socket::SOCKET_NAME;
pub use terminal::restore as restore_terminal;
