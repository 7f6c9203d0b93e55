//! Rate of the link on which a workload's data travels.

use regatta_model::{BitRate, Condition, Direction, Workload};

/// Returns the highest rate that the link on which a workload's data travels ever has; of both
/// directions the lower one.
pub(super) fn rate(condition: &Condition, workload: &Workload) -> Option<u64> {
    let highest = |rates: Vec<Option<BitRate>>| {
        let rates: Option<Vec<u64>> = rates.into_iter().map(|rate| Some(rate?.0)).collect();
        rates?.into_iter().max()
    };
    let forward = highest(
        condition
            .settings()
            .map(|s| s.forward.mean_rate())
            .collect(),
    );
    let reverse = highest(
        condition
            .settings()
            .map(|s| s.reverse.mean_rate())
            .collect(),
    );
    match workload.kind.direction() {
        Direction::Forward => forward,
        Direction::Reverse => reverse,
        Direction::Both => forward.into_iter().chain(reverse).min(),
    }
}
