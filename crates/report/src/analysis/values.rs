//! Values with which trials enter means and comparisons, those included that failed.

use regatta_model::{Better, Outcome, TrialRecord, Workload, metric::id};

use super::{
    comparison::better,
    failures::{best_goodput_bps, is_little},
};

/// Returns the worst value of a metric: a rate of zero, or a time without end.
fn worst(metric: &str) -> Option<f64> {
    match better(metric) {
        Better::Higher => Some(0.0),
        Better::Lower => Some(f64::INFINITY),
        Better::Neither => None,
    }
}

/// Returns the value of a metric with which a trial enters means and comparisons: of a measured trial its own
/// ([`TrialRecord::value`]), of one that failed or timed out, or was measured without the metric, the worst if the work is
/// ranked by this metric (`is_primary`), or if it is the goodput.
#[must_use]
pub fn value_of(
    trial: &TrialRecord,
    workload: &Workload,
    (metric, is_primary): (&str, bool),
) -> Option<f64> {
    let value = trial.value(metric, &workload.kind);
    let value = value.filter(|value| value.is_finite() && *value >= 0.0);
    match trial.outcome {
        Outcome::Measured => value.or_else(|| worst(metric).filter(|_| is_primary)),
        Outcome::Failed | Outcome::TimedOut if is_primary || metric == id::GOODPUT_BPS => {
            worst(metric)
        }
        // What a flow got beside others until its time ran out is a result of the competition.
        Outcome::TimedOut if [id::GOODPUT_SHARE_RATIO, id::HARM_RATIO].contains(&metric) => value,
        Outcome::Failed | Outcome::TimedOut | Outcome::Unsupported | Outcome::Invalid => None,
    }
}

/// Returns the values of a metric with which the trials of a cell enter means and comparisons, by round ([`value_of`]); that
/// of a trial that delivered little ([`is_little`]) is the worst as well.
pub fn values_of(
    trials: &[&TrialRecord],
    workload: &Workload,
    (metric, is_primary): (&str, bool),
) -> Vec<(u32, f64)> {
    let best_bps = best_goodput_bps(trials);
    let counts_failures = is_primary || metric == id::GOODPUT_BPS;
    let value = |trial: &&TrialRecord| {
        let value = match counts_failures && is_little(trial, best_bps) {
            true => worst(metric),
            false => value_of(trial, workload, (metric, is_primary)),
        };
        Some((trial.round, value?))
    };
    trials.iter().filter_map(value).collect()
}

#[cfg(test)]
mod tests {
    use regatta_model::{Finish, WorkloadKind};

    use super::*;
    use crate::analysis::fixture::{bulk, messages, stopped, trial};
    use Outcome::{Failed, Invalid, Measured, TimedOut, Unsupported};

    #[test]
    fn a_trial_without_a_value_has_the_worst_one_of_what_it_is_ranked_by() {
        const RATE: &str = id::REQUESTS_PER_SECOND;
        const DELAY: &str = id::MESSAGE_DELAY_P95_NS;
        let worst_rate = Some(0.0);
        for (outcome, metric, value, if_primary, otherwise) in [
            (Measured, RATE, Some(5.0), Some(5.0), Some(5.0)),
            (Measured, RATE, Some(0.0), Some(0.0), Some(0.0)),
            (Measured, RATE, Some(-1.0), worst_rate, None),
            (Measured, RATE, Some(f64::INFINITY), worst_rate, None),
            (Measured, id::GOODPUT_BPS, None, worst_rate, None),
            (Failed, RATE, Some(5.0), worst_rate, None),
            (Failed, DELAY, None, Some(f64::INFINITY), None),
            (TimedOut, id::GOODPUT_BPS, None, worst_rate, worst_rate),
            (
                TimedOut,
                id::GOODPUT_SHARE_RATIO,
                Some(0.0),
                None,
                Some(0.0),
            ),
            (Failed, id::GOODPUT_SHARE_RATIO, Some(0.0), None, None),
            (Failed, id::MESSAGES_SENT, None, None, None),
            (Unsupported, id::GOODPUT_BPS, Some(5.0), None, None),
            (Invalid, id::GOODPUT_BPS, Some(5.0), None, None),
        ] {
            let metrics: Vec<(&str, f64)> = value.map(|it| (metric, it)).into_iter().collect();
            let trial = trial(0, outcome, &metrics);
            let found =
                [true, false].map(|is_primary| value_of(&trial, &bulk(), (metric, is_primary)));
            assert_eq!(
                found,
                [if_primary, otherwise],
                "{outcome:?} {metric} {value:?}"
            );
        }
    }

    /// 250 of 1000 bytes in 2 s: the whole takes 8 s.
    #[test]
    fn a_transfer_that_the_deadline_stopped_has_the_time_of_the_whole() {
        let metrics = |delivered| {
            [
                (id::TRANSFER_TIME_NS, 2e9),
                (id::BYTES_DELIVERED, delivered),
                (id::BYTES_SENT, 500.0),
            ]
        };
        let time = |trial: &TrialRecord, workload: &Workload| {
            value_of(trial, workload, (id::TRANSFER_TIME_NS, true))
        };
        let mut slow = stopped(0, &metrics(250.0));
        assert_eq!(time(&slow, &bulk()), Some(8e9));
        assert_eq!(time(&slow, &messages()), Some(2e9), "it has no size");
        let whole = trial(0, Outcome::Measured, &metrics(250.0));
        assert_eq!(time(&whole, &bulk()), Some(2e9), "udp lost the rest");
        let nothing = stopped(0, &metrics(0.0));
        assert_eq!(time(&nothing, &bulk()), Some(f64::INFINITY));
        let mut abandoned = bulk();
        if let WorkloadKind::Bulk { options, .. } = &mut abandoned.kind {
            options.finish = Finish::Abandon;
        }
        assert_eq!(time(&slow, &abandoned), Some(4e9), "half is handed over");
        let sends_once = ("retransmission".to_owned(), "none".to_owned());
        slow.measurements.facts.extend([sends_once]);
        assert_eq!(time(&slow, &bulk()), Some(4e9), "what it lost is done");
    }

    #[test]
    fn little_counts_as_the_worst_value_of_goodput_and_of_the_ranking() {
        let rates = |goodput, requests| {
            [
                (id::GOODPUT_BPS, goodput),
                (id::REQUESTS_PER_SECOND, requests),
            ]
        };
        let trials = [
            trial(3, Measured, &rates(100.0, 50.0)),
            stopped(4, &rates(9.0, 40.0)),
            trial(5, Measured, &rates(9.0, 30.0)),
        ];
        let of = |metric, is_primary| values_of(&trials.each_ref(), &bulk(), (metric, is_primary));
        let goodput = [(3, 100.0), (4, 0.0), (5, 9.0)];
        assert_eq!(of(id::GOODPUT_BPS, false), goodput);
        assert_eq!(of(id::GOODPUT_BPS, true), goodput);
        let requests = id::REQUESTS_PER_SECOND;
        assert_eq!(of(requests, true), [(3, 50.0), (4, 0.0), (5, 30.0)]);
        assert_eq!(of(requests, false), [(3, 50.0), (4, 40.0), (5, 30.0)]);
    }
}
