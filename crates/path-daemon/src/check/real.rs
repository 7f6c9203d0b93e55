//! Check of a real network: it has no expected values, so it is described.

use std::time::Duration;

use regatta_model::{AskedAchieved, BitRate, Condition, Link, PathCheck};

use super::{
    LossPosition, Measured, path_check,
    plan::{RoundTrips, Train},
    quantity,
};
use crate::messages::TrainResult;

/// Longest one-way delay of a network for which a check waits.
const LONGEST_DELAY: Duration = Duration::from_millis(750);

/// Rate of the packets of a check: low enough not to fill the queue of an ordinary access line.
const RATE: BitRate = BitRate(5_000_000);

/// Maximum relative change of the median round-trip delay between two checks.
const DELAY_CHANGE: f64 = 0.2;

/// Change of the median round-trip delay that is accepted in any case, in nanoseconds.
const MIN_DELAY_CHANGE_NS: f64 = 2_000_000.0;

/// Largest change of a loss ratio between two checks.
const LOSS_CHANGE: f64 = 0.02;

/// Returns the condition that sizes the packets of a check.
pub fn packets(condition: &Condition) -> Condition {
    let link = Link {
        delay: LONGEST_DELAY,
        rate: Some(RATE),
        ..Link::default()
    };
    Condition {
        forward: link.clone(),
        reverse: link,
        schedule: Vec::new(),
        tuning: regatta_model::HostTuning::default(),
        ..condition.clone()
    }
}

/// Describes the network by the packets of a check under [`packets`]; `first` is the check with which it is
/// compared.
pub fn describe(packets: &Condition, first: Option<&PathCheck>, measured: &Measured) -> PathCheck {
    let (round_trips, trains) = (&measured.round_trips, &measured.trains);
    let mut quantities = Vec::new();
    let mut add = |name: &str, achieved: f64, n: u64, tolerance: &dyn Fn(f64) -> f64| {
        let mut before = first.into_iter().flat_map(|first| &first.quantities);
        let before = before.find(|quantity| quantity.name == name);
        let expected = before.map_or(achieved, |quantity| quantity.achieved);
        let range = (
            expected - tolerance(expected),
            expected + tolerance(expected),
        );
        quantities.push(quantity(name, expected, achieved, range, n));
    };
    if !round_trips.is_empty() {
        let plan = RoundTrips::new(packets);
        // The time that the packets would take at the rate of the check is no part of this network.
        let transmission = plan.transmission.as_nanos() as f64;
        // Not the mean: a packet that was lost is sent again, which is no delay of the network.
        let median = median(round_trips) + transmission;
        let tolerance = |expected: f64| (DELAY_CHANGE * expected).max(MIN_DELAY_CHANGE_NS);
        let n = round_trips.len() as u64;
        add("round_trip_delay_p50_ns", median, n, &tolerance);
    }
    for (name, link, train) in [
        ("forward_loss_ratio", &packets.forward, &trains[0]),
        ("reverse_loss_ratio", &packets.reverse, &trains[1]),
    ] {
        let sent = Train::new(packets, link, LossPosition::AfterRate).packets;
        let lost = sent.saturating_sub(train.arrivals.len() as u64);
        let ratio = lost as f64 / sent.max(1) as f64;
        add(name, ratio, sent, &|_| LOSS_CHANGE);
    }
    quantities.extend(clock_offset(trains));
    path_check(packets, measured.checked_unix_ns, quantities)
}

/// Returns the median of at least one round trip.
pub fn median(round_trips: &[f64]) -> f64 {
    let mut sorted = round_trips.to_vec();
    sorted.sort_by(f64::total_cmp);
    f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2])
}

/// Returns the offset of host b's wall clock against host a's, in nanoseconds, with the bounds that the fastest
/// packet of each direction gives: no packet arrives before it was sent. `None` if a direction delivered nothing.
///
/// The middle is the offset if both directions are equally fast; the truth lies between the bounds however fast
/// they are.
fn clock_offset(trains: &[TrainResult; 2]) -> Option<AskedAchieved> {
    let fastest = |train: &TrainResult| {
        let arrivals = train.arrivals.iter();
        let took = arrivals.filter_map(|(position, arrived)| {
            let departed = *train.departures.get(usize::try_from(*position).ok()?)?;
            Some(arrived.wrapping_sub(departed).cast_signed())
        });
        took.min()
    };
    let (highest, lowest) = (fastest(&trains[0])?, -fastest(&trains[1])?);
    let middle = (highest as f64 + lowest as f64) / 2.0;
    let range = (lowest as f64, highest as f64);
    let n = trains.iter().map(|train| train.arrivals.len() as u64).sum();
    Some(quantity("clock_offset_ns", middle, middle, range, n))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(first: Option<&PathCheck>, delay_ms: f64, arrived: u64) -> PathCheck {
        let condition = Condition {
            name: "as it is".into(),
            forward: Link::default(),
            reverse: Link::default(),
            mtu_bytes: 1500,
            schedule: Vec::new(),
            tuning: regatta_model::HostTuning::default(),
        };
        let packets = packets(&condition);
        let transmission = RoundTrips::new(&packets).transmission.as_nanos() as f64;
        let train = || TrainResult {
            departures: Vec::new(),
            arrivals: (0..arrived).map(|position| (position, position)).collect(),
        };
        let measured = Measured {
            checked_unix_ns: 0,
            round_trips: vec![delay_ms * 1e6 - transmission; 10],
            trains: [train(), train()],
        };
        describe(&packets, first, &measured)
    }

    #[test]
    fn the_offset_of_the_clocks_lies_between_the_fastest_packets() {
        // Host b's clock is 1000 ns ahead; the ways take 300 and 100 ns at least.
        let forward = TrainResult {
            departures: vec![0, 10, 20],
            arrivals: vec![(0, 1500), (2, 1320)],
        };
        let reverse = TrainResult {
            departures: vec![1000, 1100],
            arrivals: vec![(1, 200), (0, 150)],
        };
        let offset = clock_offset(&[forward.clone(), reverse]).unwrap();
        assert_eq!((offset.lowest, offset.highest), (900.0, 1300.0));
        assert_eq!(offset.achieved, 1100.0);
        assert_eq!((offset.n, offset.within), (4, true));
        assert_eq!(clock_offset(&[forward, TrainResult::default()]), None);
    }

    #[test]
    fn later_checks_are_compared_with_the_first() {
        let first = check(None, 31.0, 10_000);
        assert!(first.within);
        assert_eq!(first.quantities[0].asked, 31e6);
        assert_eq!(first.quantities[1].achieved, 0.0);
        assert!(check(Some(&first), 32.0, 10_000).within);
        let slower = check(Some(&first), 60.0, 10_000);
        assert!(!slower.within);
        assert_eq!(slower.quantities[0].asked, 31e6);
        assert!(!check(Some(&first), 31.0, 0).within);
    }
}
