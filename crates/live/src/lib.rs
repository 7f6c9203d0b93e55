//! Views of a run under way: a terminal, a web page and metrics of one state, which is made from the run's events.
//!
//! ```text
//! events, reports of the trial ─▶ StateBuilder ─▶ LiveRun ─┬─▶ terminal
//!                                                          ├─▶ web page
//!                                                          ├─▶ metrics
//!                                                          └─▶ `live.sock` ─▶ LiveRun of `regatta attach` ─▶ the same views
//! files of the shards of a plan ─▶ StateBuilder ─▶ LiveRun of `regatta attach` ─▶ the same views
//! ```

mod error;
mod http;
mod metrics;
mod model;
mod run_estimate;
mod state_builder;
mod view_server;

mod shared;
mod socket;
mod terminal;
#[cfg(test)]
mod tests;
mod web;

pub use error::LiveError;
pub use model::{Activity, LiveCell, LiveRun, LiveTrial, RunStatus, ShardCounts};
pub use run_estimate::{RunEstimate, coarse_duration};
pub use shared::Load;
pub use socket::{MAX_CLIENTS, SOCKET_NAME};
pub use state_builder::StateBuilder;
pub use terminal::restore as restore_terminal;
pub use view_server::{Attached, LiveListener, PollState, ViewServer, Views};
