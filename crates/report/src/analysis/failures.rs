//! Failures: work of a cell that was not done.

use regatta_model::{
    Better, Outcome, TrialRecord, Unit, Workload, WorkloadKind, metric, metric::id,
};

use super::summary::{Failure, FailureKind};
use crate::{format::quantity, language::tr};

/// Largest failed share of any kind of work with which a transport is still ranked by the rest.
pub const TOLERATED: f64 = 0.01;

/// Share of the goodput of the cell's best trial below which a trial that the deadline stopped delivered little. A
/// transport that is slow in every trial delivers more than that, one that hangs now and then does not.
const LITTLE: f64 = 0.1;

fn goodput_bps(trial: &TrialRecord) -> f64 {
    let goodput = trial.measurements.metrics.get(id::GOODPUT_BPS).copied();
    goodput
        .filter(|_| trial.outcome == Outcome::Measured)
        .unwrap_or(0.0)
}

/// Returns the goodput of the best one of some trials, in bits per second.
pub fn best_goodput_bps(trials: &[&TrialRecord]) -> f64 {
    trials
        .iter()
        .map(|trial| goodput_bps(trial))
        .fold(0.0, f64::max)
}

/// Whether the deadline stopped a trial that had delivered something, but little. `best_bps` is the goodput of the best
/// trial of its cell.
pub fn is_little(trial: &TrialRecord, best_bps: f64) -> bool {
    let goodput_bps = goodput_bps(trial);
    goodput_bps > 0.0 && goodput_bps < LITTLE * best_bps && trial.reached_deadline()
}

/// Counts the trials of a cell that were started, and those of them that did not do their work: that failed, timed out,
/// delivered nothing or little, or left more than [`TOLERATED`] of their connections, requests or acknowledgements.
/// Messages that a transport does not send again are no part of it.
pub fn started_and_failed(trials: &[&TrialRecord], workload: &Workload) -> [u64; 2] {
    use Outcome::{Failed, Measured, TimedOut};
    let started =
        || (trials.iter()).filter(|it| matches!(it.outcome, Measured | Failed | TimedOut));
    let best_bps = best_goodput_bps(trials);
    let failed = started().filter(|trial| {
        let of_trial = of(std::slice::from_ref(*trial), workload);
        is_little(trial, best_bps)
            || of_trial.iter().any(|failure| match failure.kind {
                FailureKind::Messages | FailureKind::Undelivered => false,
                _ => failure.ratio() > TOLERATED,
            })
    });
    [started().count() as u64, failed.count() as u64]
}

/// Metrics beside that of the ranking from which [`of`] finds failures.
pub const METRICS: [&str; 9] = [
    id::GOODPUT_BPS,
    id::MESSAGES_SENT,
    id::MESSAGES_DELIVERED,
    id::MESSAGES_LOST,
    id::MESSAGE_LOSS_RATIO,
    id::MESSAGES_UNACKNOWLEDGED,
    id::REQUESTS_UNANSWERED,
    id::CONNECTIONS_COMPLETED,
    id::CONNECTIONS_FAILED,
];

/// Returns the kinds of failure that occurred in the trials of a cell.
pub fn of(trials: &[&TrialRecord], workload: &Workload) -> Vec<Failure> {
    // A flow of a competition may have work of its own.
    let transport = trials.first().map(|trial| trial.transport.as_str());
    let workload = transport.map_or(workload, |it| workload.of_transport(it));
    let measured = trials.iter().filter(|it| it.outcome == Outcome::Measured);
    let measured: Vec<_> = measured.map(|it| &it.measurements.metrics).collect();
    let failed = (trials.iter())
        .filter(|t| matches!(t.outcome, Outcome::Failed | Outcome::TimedOut))
        .count() as f64;
    let primary = metric::find(workload.kind.primary_metric());
    let is_script = matches!(workload.kind, WorkloadKind::Script(_));
    let nothing = measured.iter().filter(|metrics| {
        let value = primary.and_then(|primary| metrics.get(primary.name));
        // No measured step may have ended although much was delivered.
        let delivered = metrics.get(id::MESSAGES_DELIVERED);
        if is_script && delivered.is_some_and(|messages| *messages > 0.0) {
            return false;
        }
        value.is_none_or(|value| value.is_nan() || *value <= 0.0)
    });
    let nothing = nothing.count() as f64;
    let best_bps = best_goodput_bps(trials);
    let little = trials.iter().filter(|it| is_little(it, best_bps));
    let little = little.count() as f64;
    let sum = |name: &str| -> f64 {
        let values = measured.iter().filter_map(|metrics| metrics.get(name));
        values.filter(|v| v.is_finite()).sum()
    };
    // Messages that were lost, and messages that were not delivered in time.
    let missing = measured.iter().map(|metrics| {
        let of = |name: &str| metrics.get(name).copied().filter(|v| v.is_finite());
        let sent = of(id::MESSAGES_SENT).unwrap_or(0.0);
        let lost = of(id::MESSAGES_LOST).or_else(|| Some(of(id::MESSAGE_LOSS_RATIO)? * sent));
        // Where it is not known what was lost for good, what came too late for a delay counts.
        let late = (lost.is_none() && primary.is_some_and(|p| p.better == Better::Lower))
            .then(|| Some((sent - of(id::MESSAGES_DELIVERED)?).max(0.0)))
            .flatten();
        [lost, late].map(|count| count.unwrap_or(0.0))
    });
    let missing: Vec<[f64; 2]> = missing.collect();
    let [lost, late] = [0, 1].map(|kind| missing.iter().map(|counts| counts[kind]).sum::<f64>());
    let refused = sum(id::CONNECTIONS_FAILED);
    let connections = refused + sum(id::CONNECTIONS_COMPLETED);
    let (unanswered, sent) = (sum(id::REQUESTS_UNANSWERED), sum(id::MESSAGES_SENT));
    let unacknowledged = sum(id::MESSAGES_UNACKNOWLEDGED);
    [
        (FailureKind::Trials, failed, measured.len() as f64 + failed),
        (FailureKind::Nothing, nothing, measured.len() as f64),
        (FailureKind::Little, little, measured.len() as f64),
        (FailureKind::Connections, refused, connections),
        (FailureKind::Requests, unanswered, sent),
        (FailureKind::Acknowledgements, unacknowledged, sent),
        (FailureKind::Messages, lost, sent),
        (FailureKind::Undelivered, late, sent),
    ]
    .into_iter()
    .filter(|(_, count, _)| *count > 0.0)
    .map(|(kind, count, of)| Failure {
        kind,
        count: count.round() as u64,
        of: of.max(count).round() as u64,
    })
    .collect()
}

impl Failure {
    /// Returns the failed share of the work, as a ratio.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.count as f64 / self.of.max(1) as f64
    }

    /// Describes the failure as the predicate of a sentence about the transport: `failed 1 of 5
    /// trials`.
    #[must_use]
    pub fn text(&self) -> String {
        let (count, of) = (self.count, self.of);
        let share = quantity(Unit::Ratio, self.ratio());
        match self.kind {
            FailureKind::Trials => tr!("failed {} of {} trials", count, of),
            FailureKind::Nothing if count == of => tr!("delivered nothing"),
            FailureKind::Nothing => tr!("delivered nothing in {} of {} trials", count, of),
            FailureKind::Little => {
                tr!(
                    "had delivered little by the deadline in {} of {} trials",
                    count,
                    of
                )
            }
            FailureKind::Connections => tr!("failed {} of {} connections", count, of),
            FailureKind::Requests => tr!("left {} of {} requests without answer", count, of),
            FailureKind::Acknowledgements => {
                tr!(
                    "had no acknowledgement in time of {} of {} messages",
                    count,
                    of
                )
            }
            FailureKind::Messages => {
                tr!("lost {} of its messages", share)
            }
            FailureKind::Undelivered => {
                tr!("did not deliver {} of its messages by the deadline", share)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixture::{bulk, messages, stopped, trial};
    use Outcome::{Failed, Invalid, Measured, TimedOut, Unsupported};

    fn found(trials: &[TrialRecord], workload: &Workload) -> Vec<(FailureKind, u64, u64)> {
        let trials: Vec<&TrialRecord> = trials.iter().collect();
        let found = of(&trials, workload).into_iter();
        found.map(|it| (it.kind, it.count, it.of)).collect()
    }

    #[test]
    fn little_is_less_than_a_tenth_of_the_best_trial_at_the_deadline() {
        let little = |trial: &TrialRecord| is_little(trial, 100.0);
        let goodput = |value: f64| [(id::GOODPUT_BPS, value)];
        assert!(little(&stopped(0, &goodput(9.99))));
        assert!(!little(&stopped(0, &goodput(10.0))));
        assert!(!little(&stopped(0, &goodput(0.0))));
        assert!(!little(&trial(0, Measured, &goodput(9.99))));
    }

    #[test]
    fn the_best_trial_is_a_measured_one() {
        let trials = [
            trial(0, Measured, &[(id::GOODPUT_BPS, 3.0)]),
            trial(1, Measured, &[(id::GOODPUT_BPS, 7.0)]),
            trial(2, Failed, &[(id::GOODPUT_BPS, 9.0)]),
            trial(3, Measured, &[]),
        ];
        assert_eq!(best_goodput_bps(&trials.each_ref()), 7.0);
    }

    #[test]
    fn failures_of_transfers_are_counted_by_kind() {
        let trials = [
            trial(
                0,
                Measured,
                &[
                    (id::GOODPUT_BPS, 100.0),
                    (id::CONNECTIONS_FAILED, 3.0),
                    (id::CONNECTIONS_COMPLETED, 5.0),
                    (id::REQUESTS_UNANSWERED, 2.0),
                    (id::MESSAGES_SENT, 10.0),
                    (id::MESSAGES_UNACKNOWLEDGED, 4.0),
                    (id::MESSAGES_LOST, 1.0),
                ],
            ),
            // What a stream still carries at the deadline is late and not lost.
            stopped(
                1,
                &[
                    (id::GOODPUT_BPS, 5.0),
                    (id::MESSAGES_SENT, 10.0),
                    (id::MESSAGES_DELIVERED, 6.0),
                ],
            ),
            trial(2, Measured, &[(id::GOODPUT_BPS, 0.0)]),
            trial(3, Measured, &[(id::GOODPUT_BPS, f64::NAN)]),
            trial(4, Measured, &[]),
            trial(5, Failed, &[(id::MESSAGES_LOST, 7.0)]),
            trial(6, TimedOut, &[]),
            trial(7, Unsupported, &[]),
            trial(8, Invalid, &[]),
        ];
        assert_eq!(
            found(&trials, &bulk()),
            [
                (FailureKind::Trials, 2, 7),
                (FailureKind::Nothing, 3, 5),
                (FailureKind::Little, 1, 5),
                (FailureKind::Connections, 3, 8),
                (FailureKind::Requests, 2, 20),
                (FailureKind::Acknowledgements, 4, 20),
                (FailureKind::Messages, 1, 20),
            ]
        );
    }

    #[test]
    fn messages_that_come_too_late_for_a_delay_are_undelivered_unless_the_lost_ones_are_known() {
        let of = |metrics: &[(&'static str, f64)]| {
            let delay = [(id::MESSAGE_DELAY_P95_NS, 1e6), (id::MESSAGES_SENT, 100.0)];
            trial(0, Measured, &[&delay[..], metrics].concat())
        };
        let late = of(&[(id::MESSAGES_DELIVERED, 90.0)]);
        let duplicated = of(&[(id::MESSAGES_DELIVERED, 120.0)]);
        let lost = of(&[
            (id::MESSAGES_DELIVERED, 80.0),
            (id::MESSAGE_LOSS_RATIO, 0.05),
        ]);
        assert_eq!(
            found(&[late, duplicated, lost], &messages()),
            [
                (FailureKind::Messages, 5, 300),
                (FailureKind::Undelivered, 10, 300)
            ]
        );
    }

    #[test]
    fn a_trial_fails_with_more_than_one_percent_of_its_work() {
        let with = |failed: f64| {
            let counts = [
                (id::GOODPUT_BPS, 100.0),
                (id::CONNECTIONS_FAILED, failed),
                (id::CONNECTIONS_COMPLETED, 100.0 - failed),
            ];
            trial(0, Measured, &counts)
        };
        let counts = |trials: &[TrialRecord]| {
            let trials: Vec<&TrialRecord> = trials.iter().collect();
            started_and_failed(&trials, &bulk())
        };
        assert_eq!(counts(&[with(0.0), with(1.0), with(2.0)]), [3, 1]);
        let little = stopped(1, &[(id::GOODPUT_BPS, 5.0)]);
        assert_eq!(counts(&[with(0.0), little]), [2, 1]);
        let lost = [
            (id::GOODPUT_BPS, 100.0),
            (id::MESSAGES_SENT, 100.0),
            (id::MESSAGES_LOST, 50.0),
        ];
        assert_eq!(counts(&[trial(0, Measured, &lost)]), [1, 0]);
        let not_measured = [Failed, TimedOut, Unsupported, Invalid];
        assert_eq!(counts(&not_measured.map(|it| trial(0, it, &[]))), [2, 2]);
    }

    #[test]
    fn trials_that_delivered_nothing_are_counted_unless_all_did() {
        let text = |count, of| {
            let kind = FailureKind::Nothing;
            Failure { kind, count, of }.text()
        };
        assert_eq!(text(1, 2), "delivered nothing in 1 of 2 trials");
        assert_eq!(text(2, 2), "delivered nothing");
    }
}
