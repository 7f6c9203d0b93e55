//! Noise floor: the difference measured between two instances of the same transport.

use super::summary::{NoiseFloor, Summary};
use crate::{
    RunData,
    format::ratio_number,
    language::{plural, tr},
};

/// Returns the noise floor by the metrics of the rankings; `None` without two transports of the
/// same driver and options, as `regatta run --aa` creates them.
pub fn floor(data: &RunData, summary: &Summary) -> Option<NoiseFloor> {
    let transports = &data.header.study.transports;
    let works = &data.header.study.workloads;
    let of = |label: &str| transports.iter().find(|t| t.label == label);
    let same = |a: &str, b: &str| {
        let both = of(a).zip(of(b));
        both.is_some_and(|(a, b)| a.driver == b.driver && a.options == b.options)
    };
    let mut floor = NoiseFloor {
        pairs: 0,
        distinguished: 0,
        largest_ratio: 1.0,
        largest_pair: String::new(),
    };
    for c in &summary.comparisons {
        // Flows that compete are not repetitions of one another.
        let competes = works
            .iter()
            .any(|it| it.name == c.workload && it.competition.is_some());
        if !data.is_primary(&c.metric, &c.workload) || !same(&c.a, &c.b) || competes {
            continue;
        }
        let Some(ratio) = c.claim.ratio else { continue };
        floor.pairs += 1;
        floor.distinguished += u64::from(c.claim.conclusion.is_difference());
        let ratio = ratio.max(1.0 / ratio);
        if ratio >= floor.largest_ratio {
            floor.largest_ratio = ratio;
            floor.largest_pair = tr!("`{}` and `{}` under `{}`", c.a, c.b, c.condition);
        }
    }
    (floor.pairs > 0).then_some(floor)
}

/// Describes the noise floor in the sentence after the verdict.
pub fn sentence(floor: &NoiseFloor) -> String {
    let distinguished = match floor.distinguished {
        0 => tr!("none was"),
        n => plural!(n, "{} was", "{} were"),
    };
    plural!(
        floor.pairs,
        " Noise floor: of {} pair of the same transport {} told apart; the largest ratio was {}, between {}.",
        " Noise floor: of {} pairs of the same transport {} told apart; the largest ratio was {}, between {}.",
        distinguished,
        ratio_number(floor.largest_ratio),
        floor.largest_pair
    )
}
