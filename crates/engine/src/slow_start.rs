//! Slow start that overflows the path's queue.

use std::time::Duration;

use regatta_model::{
    Condition, Direction, Measurements, Ratio, Warning,
    metric::{id, series_id},
    warning,
};

/// Retransmitted share of the packets that path and queue hold, above which slow start is to blame.
/// In congestion avoidance a window grows by a few packets in a round trip, and as few are lost at
/// once; in slow start it doubles.
const OVERFLOW: f64 = 0.1;

/// Round trips over a full queue in which the losses of one overflow are retransmitted.
const RECOVERY_ROUND_TRIPS: u32 = 4;

/// Warns of a trial whose first losses were too many for anything but slow start that overflowed
/// the queue.
///
/// Packets sent again within [`RECOVERY_ROUND_TRIPS`] of the first retransmission are compared with
/// what path and queue hold, and with the drops of the queue, so that losses at random do not
/// count. `None` as well where sender or path lack these figures.
pub(crate) fn overflow(
    condition: &Condition,
    direction: Direction,
    merged: &Measurements,
) -> Option<Warning> {
    let [link, opposite] = direction.data_first([&condition.forward, &condition.reverse]);
    let held_bytes = condition.bdp(link)?.0 + condition.queue_limit(link).0;
    let held_packets = held_bytes as f64 / f64::from(condition.mtu_bytes);
    let queue_drops = *merged.metrics.get(id::PATH_QUEUE_DROPS)?;
    let retransmitted = merged.series.iter().find(|series| {
        series.name == series_id::RETRANSMITTED_PACKETS && series.side == "sender"
    })?;
    let samples = || retransmitted.t_ns.iter().zip(&retransmitted.values);
    let (first_ns, _) = samples().find(|(_, count)| **count > 0.0)?;
    let round_trip = condition
        .typical_one_way(link)
        .saturating_add(opposite.longest_propagation());
    let span = i64::try_from((RECOVERY_ROUND_TRIPS * round_trip).as_nanos()).ok()?;
    let again: f64 = samples()
        .filter(|(t_ns, _)| (*first_ns..=first_ns.saturating_add(span)).contains(*t_ns))
        .map(|(_, count)| count)
        .sum();
    let overflowed = again > OVERFLOW * held_packets && queue_drops >= again / 2.0;
    overflowed.then(|| {
        let after = Duration::from_millis(u64::try_from(*first_ns).unwrap_or_default() / 1_000_000);
        let part = Ratio(again / held_packets).rounded(0);
        let [again, held, dropped] = [again, held_packets, queue_drops].map(|it| it.round() as u64);
        warning::slow_start_overflow(after, again, part, held, dropped)
    })
}

#[cfg(test)]
mod tests {
    use regatta_model::Series;

    use super::*;

    /// Checks a trial over 100 Mbit/s and 30 ms: path and queue hold 500 packets, a round trip over
    /// the full queue takes 60 ms.
    fn found(values: &[f64], queue_drops: f64) -> Option<Warning> {
        let condition = crate::tests::fake_bed::study(1, 1, 1).conditions[0].clone();
        let mut merged = Measurements::default();
        merged
            .metrics
            .insert("path_queue_drops".to_owned(), queue_drops);
        merged.series.push(Series {
            name: "retransmitted_packets".to_owned(),
            side: "sender".to_owned(),
            t_ns: (1..=values.len() as i64).map(|n| n * 100_000_000).collect(),
            values: values.to_vec(),
        });
        overflow(&condition, Direction::Forward, &merged)
    }

    #[test]
    fn losing_a_tenth_of_the_path_capacity_at_once_is_an_overflow() {
        let warning = found(&[0.0, 300.0, 150.0, 50.0, 9.0], 480.0).expect("an overflow");
        assert_eq!(warning.code, "slow_start_overflow");
        assert_eq!(
            warning.message,
            "slow start overflowed the path's queue: after 200 ms 500 packets were sent again, 100 % of the 500 that path and queue hold; the queue dropped 480 in the whole trial"
        );
    }

    #[test]
    fn few_or_random_losses_are_no_overflow() {
        // Congestion avoidance: a few at a time, many in all.
        assert_eq!(found(&[2.0; 50], 100.0), None);
        assert_eq!(found(&[0.0, 49.0], 49.0), None);
        // Lost on the wire.
        assert_eq!(found(&[0.0, 300.0], 10.0), None);
        assert_eq!(found(&[0.0; 20], 0.0), None);
    }
}
