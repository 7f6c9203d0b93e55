//! Rate of the link on which a workload's data travels.

use regatta_model::{Condition, Direction, Link, Setting, Workload};

/// Returns the highest rate that the link on which a workload's data travels ever has; of both
/// directions the lower one.
pub(super) fn rate(condition: &Condition, workload: &Workload) -> Option<u64> {
    let highest = |link: fn(Setting<'_>) -> &Link| {
        let rates = condition
            .settings()
            .map(|setting| Some(link(setting).mean_rate()?.0));
        rates.collect::<Option<Vec<u64>>>()?.into_iter().max()
    };
    let forward = highest(|setting| setting.forward);
    let reverse = highest(|setting| setting.reverse);
    match workload.kind.direction() {
        Direction::Forward => forward,
        Direction::Reverse => reverse,
        Direction::Both => forward.into_iter().chain(reverse).min(),
    }
}
