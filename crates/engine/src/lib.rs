//! Engine: from a study to a plan, from a plan to trials, from trials to events.
//!
//! [`Plan::new`] decides which trials are run and in which order; [`Run::run`] runs them on a bed,
//! with an agent at each end, and sends all events to a [`Listener`]. The engine knows the control
//! protocol and no transport, no file and no terminal.

mod agent;
mod certificate;
mod clocks;
mod competition;
mod error;
mod estimate;
mod event;
mod failure;
pub mod guest;
mod impossible;
pub mod limits;
mod merge;
mod monitor;
mod peak;
mod plan;
mod plausible;
mod run;
mod series;
mod settling;
mod shards;
mod shortfall;
mod slow_start;
mod step_goodput;
mod stop;
mod stop_rule;
#[cfg(test)]
mod tests;
mod until;

pub use error::EngineError;
pub use estimate::{CutTransfers, Estimate};
pub use event::{Ending, Event, Listener, ListenerError};
pub use monitor::HostMonitor;
pub use plan::{Cell, Done, OtherPlan, Plan, PlannedTrial, TooManyTrials};
pub use run::{ProgressListener, Run, RunOptions, TrialProgress, unix_ns};
pub use shards::ShardsError;
pub use stop::Stopper;
pub use stop_rule::StopRule;
