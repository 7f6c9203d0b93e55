//! Rough times of a plan, for the number of shards and their time limits.

use std::time::Duration;

use regatta_engine::Plan;
use regatta_model::{Clock, Condition, Study, Workload, WorkloadKind};

/// Time of a shard by the estimate, of which the true one may be half: a scheduler starts a job in a
/// second or so.
const OF_SHARD: Duration = Duration::from_secs(600);

/// Time of a trial beside its transfer: agents get ready, agree and report.
const AROUND: Duration = Duration::from_millis(300);

/// Bytes that a guest with a virtual clock moves in a second of the machine's clock.
const VIRTUAL_BYTES_PER_SECOND: f64 = 10e6;

/// Time for a guest to start, or for namespaces and agents.
const START: Duration = Duration::from_secs(5);

/// Returns the time of all trials one after another on one processor, if all goes well.
pub fn whole(plan: &Plan) -> Duration {
    let study = plan.study();
    let round: Duration = study
        .conditions
        .iter()
        .flat_map(|condition| {
            let workloads = study.workloads.iter();
            workloads.map(move |workload| trial(study, condition, workload))
        })
        .sum();
    round * study.transports.len() as u32 * study.rounds
}

fn trial(study: &Study, condition: &Condition, workload: &Workload) -> Duration {
    let round_trip = condition.round_trip_delay();
    let bytes = match workload.kind {
        WorkloadKind::Bulk { size, .. } | WorkloadKind::StopAndWait { size, .. } => Some(size.0),
        _ => None,
    };
    let rate = condition.forward.rate.map_or(1e9, |rate| rate.0 as f64);
    let transfer = bytes.map_or(study.deadline / 2, |bytes| {
        Duration::from_secs_f64(bytes as f64 * 8.0 / rate * 1.5) + round_trip * 6
    });
    let transfer = transfer.min(study.deadline);
    match study.guest.clock {
        Clock::Real => AROUND + round_trip * (workload.probe.idle_messages + 4) + transfer,
        Clock::Virtual => {
            let most = transfer.as_secs_f64() * rate / 8.0;
            let bytes = bytes.map_or(most, |bytes| most.min(bytes as f64));
            AROUND + Duration::from_secs_f64(bytes / VIRTUAL_BYTES_PER_SECOND)
        }
    }
}

/// Returns the number of shards of about [`OF_SHARD`] each, as many as the plan and the site allow.
pub fn shards(plan: &Plan, jobs: u32, most: u32) -> u32 {
    let shards = whole(plan).as_secs_f64() / f64::from(jobs.max(1)) / OF_SHARD.as_secs_f64();
    (shards as u32).clamp(1, most.clamp(1, plan.blocks().max(1)))
}

/// Returns the time limit of a shard. A shard that needs more is stopped before it, and its next start
/// goes on, so that the limit need not be safe.
pub fn limit(plan: &Plan, shards: u32, jobs: u32) -> Duration {
    let of_shard = whole(plan) / (shards * jobs.max(1)).max(1) + START;
    (of_shard * 3).max(Duration::from_secs(1800))
}
