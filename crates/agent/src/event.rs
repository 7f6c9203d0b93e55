//! Events of a trial.

use std::{net::SocketAddr, sync::Arc};

use regatta_control::{Note, Problem, Progress, SideReport};

/// Function that takes the events of a trial, from any thread.
pub(crate) type EventSink = Arc<dyn Fn(TrialEvent) + Send + Sync>;

/// Messages from a trial's threads to the loop of [`crate::serve`].
#[derive(Debug)]
pub(crate) enum TrialEvent {
    /// The trial is prepared; a server listens on this address.
    Ready(Option<SocketAddr>),
    /// The transfer begins.
    Began,
    /// Counters of the transfer under way.
    Progress(Progress),
    /// Note for the other end, to be passed on.
    Note(Note),
    /// The thread has ended.
    Ended(Result<Box<SideReport>, Problem>),
}
