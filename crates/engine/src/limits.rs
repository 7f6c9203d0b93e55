//! Time limits after which the engine steps in.
//!
//! Drivers and agents end by agreement in bounded time; these limits only catch what hangs.

use std::time::Duration;

use regatta_model::{Condition, Link, Pattern, Setting, Study, Workload, WorkloadKind};

/// Time for an agent to start and say hello.
pub const HELLO: Duration = Duration::from_secs(15);

/// Time for an agent to get ready for a trial.
const PREPARE: Duration = Duration::from_secs(15);

/// Rate of the slowest disk that is waited for, in bytes per second.
const SLOW_DISK: u64 = 50_000_000;

/// Time for an agent to answer an abort; after that it is killed.
pub const ABORT: Duration = Duration::from_secs(3);

/// Time that a path check may take, for estimates.
pub const PATH_CHECK: Duration = Duration::from_secs(3);

/// Maximum number of flows that a trial opens before its transfer's, one after another.
const FLOWS_BEFORE: u32 = 3;

/// Slack for a loaded machine, on top of what the path imposes.
const GRACE: Duration = Duration::from_secs(10);

/// Returns the longest round trip: full queues both ways, whatever the path is at the time.
fn longest_round_trip(condition: &Condition) -> Duration {
    let longest = |link: fn(Setting<'_>) -> &Link| {
        let times = condition
            .settings()
            .map(|it| condition.longest_one_way(link(it)));
        times.max().unwrap_or_default()
    };
    longest(|it| it.forward).saturating_add(longest(|it| it.reverse))
}

/// Returns an upper bound of a trial's time when all goes well: the messages over the idle path,
/// set-up, a transfer that takes its whole deadline, and the agreement after it.
#[must_use]
pub fn expected_longest(study: &Study, condition: &Condition, workload: &Workload) -> Duration {
    // An idle message that is lost costs its transport one second or so until it is sent again;
    // the probes give up on a path where that takes too long.
    let idle = (condition.round_trip_delay() + Duration::from_millis(20))
        .saturating_mul(workload.probe.idle_messages);
    idle.min(Duration::from_secs(10))
        .saturating_add(study.connect_deadline)
        .saturating_add(study.deadline)
        .saturating_add(longest_round_trip(condition).saturating_mul(2))
}

/// Returns the time for an agent to get ready for a trial of this workload: a file may have to be
/// made first.
#[must_use]
pub fn prepare(workload: &Workload) -> Duration {
    match &workload.kind {
        WorkloadKind::Bulk {
            amount,
            pattern: Pattern::File,
            ..
        } => PREPARE + Duration::from_secs(amount.bytes().0 / SLOW_DISK),
        _ => PREPARE,
    }
}

/// Returns the time from the start of a trial after which its agents are taken to hang.
#[must_use]
pub fn hang(study: &Study, condition: &Condition, workload: &Workload) -> Duration {
    expected_longest(study, condition, workload)
        .saturating_add(study.connect_deadline.saturating_mul(FLOWS_BEFORE))
        .saturating_add(Duration::from_secs(10))
        .saturating_add(longest_round_trip(condition).saturating_mul(10))
        .saturating_add(GRACE)
}
