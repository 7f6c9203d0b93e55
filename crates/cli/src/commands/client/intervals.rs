//! Intervals of a trial under way, from the counters of both ends.

use std::{collections::VecDeque, time::Duration};

use regatta_control::{Host, Progress};
use regatta_engine::unix_ns;
use regatta_model::{Amount, Direction, WorkloadKind, units::nanoseconds};

use super::events::{Delivered, Interval};

/// Share of an interval by which the end of the omitted time may differ from that of an interval.
const OMIT_SHARE: u64 = 10;

/// Maximum wait of short intervals for the counters of an end, in nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// Part of an interval by which the counters of the two ends for one moment differ at most.
const TOLERANCE: u64 = 4;

/// Planned end of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlannedEnd {
    /// Nanoseconds since its beginning.
    Time(u64),
    /// Bytes that each receiver gets.
    Bytes(u64),
    /// Anything else.
    Unknown,
}

impl PlannedEnd {
    pub fn of(kind: &WorkloadKind) -> Self {
        match kind {
            WorkloadKind::Bulk { amount, .. } => match amount {
                Amount::Time(time) => Self::Time(nanoseconds(*time)),
                Amount::Bytes(size) => Self::Bytes(size.0),
            },
            _ => Self::Unknown,
        }
    }
}

/// End of an interval.
#[derive(Debug, Clone, Copy)]
struct Boundary {
    /// Time since the beginning of the transfer, in nanoseconds.
    at_ns: u64,
    /// Whether the transfer ends there.
    is_last: bool,
}

/// Counters of one end: those at the end of the last interval, and later ones.
#[derive(Debug, Default)]
struct End {
    last: Progress,
    waiting: VecDeque<Progress>,
}

/// Counters of one end before and after an interval.
#[derive(Debug, Clone, Copy)]
struct Span {
    /// Counters up to which earlier intervals have counted.
    before: Progress,
    /// Last counters up to the interval's beginning, which may have arrived after the line of the interval before.
    from: Progress,
    /// Last counters up to the interval's end.
    now: Progress,
    /// First counters at the interval's end or later; the newest while there are none.
    beyond: Progress,
}

impl End {
    /// Returns the last counters by the moment `at` since the beginning of the transfer, and drops earlier ones.
    fn take(&mut self, at: u64, tolerance: u64) -> Progress {
        while let Some(next) = self.waiting.front().copied()
            && next.elapsed_ns <= at.saturating_add(tolerance)
        {
            self.last = next;
            self.waiting.pop_front();
        }
        self.last
    }

    fn advance(&mut self, [from, to]: [u64; 2], tolerance: u64) -> Span {
        let before = self.last;
        let from = self.take(from, tolerance);
        let now = self.take(to, tolerance);
        let later = self.waiting.front().copied();
        let beyond = later.filter(|_| !reaches(&now, to, tolerance));
        Span {
            before,
            from,
            now,
            beyond: beyond.unwrap_or(now),
        }
    }

    /// Whether counters of the time `to` or a later one have arrived, or the end has sent its last.
    fn has_reached(&self, to: u64, tolerance: u64) -> bool {
        let newest = self.waiting.back().unwrap_or(&self.last);
        newest.has_ended || reaches(newest, to, tolerance)
    }
}

fn reaches(progress: &Progress, to: u64, tolerance: u64) -> bool {
    progress.elapsed_ns.saturating_add(tolerance) >= to
}

impl Span {
    /// Whether there are counters of the interval: those that are late are not known, and not zero.
    fn is_known(&self) -> bool {
        self.now.elapsed_ns > self.before.elapsed_ns
    }

    fn delivered(&self) -> Option<Delivered> {
        let bytes = (self.now.bytes_delivered).saturating_sub(self.before.bytes_delivered);
        let ns = (self.now.elapsed_ns).saturating_sub(self.before.elapsed_ns);
        self.is_known().then(|| Delivered {
            bytes,
            goodput_bps: bytes as f64 * 8e9 / ns as f64,
        })
    }

    /// Returns the mean delay of the probe's answers. An end that left out the counters of a moment says of the time
    /// around it how many there were, and not in which of its intervals.
    fn round_trip_delay_mean_ns(&self) -> Option<f64> {
        let (before, after) = (self.from, self.beyond);
        let answers = after.probe_answers.saturating_sub(before.probe_answers);
        let delays = after.probe_delay_ns.saturating_sub(before.probe_delay_ns);
        (answers > 0).then(|| delays as f64 / answers as f64)
    }

    fn retransmitted_packets(&self) -> Option<u64> {
        let before = self.before.retransmitted_packets.unwrap_or_default();
        Some(self.now.retransmitted_packets?.saturating_sub(before))
    }
}

/// Makes intervals of the counters of both ends, which come in any order.
///
/// A short remainder at the end of a transfer is added to the interval before, since its own rate would be that of one
/// burst. An interval after which only such a remainder may follow waits for the next counters.
///
/// The receiver's counters bound the intervals, of both directions the server's. Those of the other end are looked for by
/// the time at which they were read: in the order in which they come, an end that is late or leaves some out would be in
/// wrong intervals from then on.
#[derive(Debug)]
pub struct Intervals {
    trial: u32,
    direction: Direction,
    interval_ns: u64,
    omit_ns: u64,
    planned_end: PlannedEnd,
    ends: [End; 2],
}

impl Intervals {
    /// Begins a trial whose transfer goes in this direction; `omit` is the time that its results leave out.
    pub fn new(
        trial: u32,
        (direction, planned_end): (Direction, PlannedEnd),
        interval: Duration,
        omit: Duration,
    ) -> Self {
        Self {
            trial,
            direction,
            interval_ns: nanoseconds(interval),
            omit_ns: nanoseconds(omit),
            planned_end,
            ends: [End::default(), End::default()],
        }
    }

    /// Takes counters of an end, and returns the intervals that they complete.
    pub fn add(&mut self, host: Host, progress: Progress) -> Vec<Interval> {
        self.ends[host as usize].waiting.push_back(progress);
        self.complete(false)
    }

    /// Returns the intervals that still wait for counters, which do not come any more.
    pub fn finish(&mut self) -> Vec<Interval> {
        self.complete(true)
    }

    fn complete(&mut self, is_over: bool) -> Vec<Interval> {
        let mut complete = Vec::new();
        while let Some(boundary) = self.boundary(is_over)
            && (is_over || self.is_complete(boundary))
        {
            complete.extend(self.next(boundary));
        }
        complete
    }

    /// Returns the end of the next interval; `None` while its counters are not here, or those that could show that the
    /// transfer ends right after it.
    fn boundary(&self, is_over: bool) -> Option<Boundary> {
        let waiting = &self.timing().waiting;
        let next = waiting.front()?;
        let is_rest_of_next = |end: &&Progress| {
            end.has_ended
                && end.elapsed_ns.saturating_sub(next.elapsed_ns) < self.tolerance()
                && self.is_omitted(end.elapsed_ns) == self.is_omitted(next.elapsed_ns)
        };
        let end = match waiting.get(1) {
            _ if next.has_ended => Some(next),
            Some(end) => Some(end).filter(is_rest_of_next),
            None if !is_over && self.is_near_end(next) => return None,
            None => None,
        };
        Some(Boundary {
            at_ns: end.unwrap_or(next).elapsed_ns,
            is_last: end.is_some(),
        })
    }

    /// Whether the transfer, at the rate of the interval that ends with these counters, may be over within a small part
    /// of an interval.
    fn is_near_end(&self, next: &Progress) -> bool {
        let last = &self.timing().last;
        match self.planned_end {
            PlannedEnd::Time(end_ns) => next.elapsed_ns.saturating_add(self.tolerance()) >= end_ns,
            PlannedEnd::Bytes(all) => {
                let bytes = next.bytes_delivered.saturating_sub(last.bytes_delivered);
                let ns = next.elapsed_ns.saturating_sub(last.elapsed_ns);
                let rest = all.saturating_sub(next.bytes_delivered);
                let product = |a: u64, b: u64| u128::from(a) * u128::from(b);
                product(rest, ns) <= product(bytes, self.tolerance())
            }
            PlannedEnd::Unknown => false,
        }
    }

    /// Whether an interval that ends at this moment is left out of the results.
    const fn is_omitted(&self, to_ns: u64) -> bool {
        self.omit_ns > 0 && to_ns <= self.omit_ns + self.interval_ns / OMIT_SHARE
    }

    /// Host whose counters bound the intervals.
    fn bounding(&self) -> Host {
        match self.direction {
            Direction::Reverse => Host::Client,
            Direction::Forward | Direction::Both => Host::Server,
        }
    }

    fn timing(&self) -> &End {
        &self.ends[self.bounding() as usize]
    }

    const fn tolerance(&self) -> u64 {
        self.interval_ns / TOLERANCE
    }

    /// Whether an interval can be shown: the counters of both ends have arrived up to its end, or those of the other
    /// end are too late. Lines wait one interval for them, or a second if intervals are shorter, and one interval more
    /// in transfers in both directions.
    fn is_complete(&self, to: Boundary) -> bool {
        let other = &self.ends[self.bounding().other() as usize];
        if to.is_last {
            return other.waiting.back().unwrap_or(&other.last).has_ended;
        }
        let longest = SECOND.div_ceil(self.interval_ns.max(1)).max(1)
            + u64::from(self.direction == Direction::Both);
        self.timing().waiting.len() as u64 > longest
            || other.has_reached(to.at_ns, self.tolerance())
    }

    /// Advances the counters of both ends to `at_ns`, the end of the next interval, and returns that interval; `None`
    /// if it has no duration.
    fn next(&mut self, Boundary { at_ns, is_last }: Boundary) -> Option<Interval> {
        let (bounding, tolerance) = (self.bounding(), self.tolerance());
        let from = self.timing().last.elapsed_ns;
        let [client, server] = Host::BOTH.map(|host| {
            let tolerance = if host == bounding { 0 } else { tolerance };
            // What the other end has still is of the last interval.
            let to = if host != bounding && is_last {
                u64::MAX
            } else {
                at_ns
            };
            self.ends[host as usize].advance([from, to], tolerance)
        });
        let Span { before, now, .. } = match bounding {
            Host::Client => client,
            Host::Server => server,
        };
        let span = now.elapsed_ns.saturating_sub(before.elapsed_ns);
        // However short the last one is: the intervals have all bytes that were delivered.
        if span == 0 {
            return None;
        }
        let senders = match self.direction {
            Direction::Forward => vec![client],
            Direction::Reverse => vec![server],
            Direction::Both => vec![client, server],
        };
        let known = || senders.iter().filter(|sender| sender.is_known());
        let windows = known().filter_map(|sender| sender.now.congestion_window_bytes);
        Some(Interval {
            is_both_ways: self.direction == Direction::Both,
            trial: self.trial,
            time_unix_ns: unix_ns(),
            from_ns: before.elapsed_ns,
            to_ns: now.elapsed_ns,
            forward: (server.delivered()).filter(|_| self.direction != Direction::Reverse),
            reverse: (client.delivered()).filter(|_| self.direction != Direction::Forward),
            round_trip_delay_mean_ns: client.round_trip_delay_mean_ns(),
            retransmitted_packets: (known().filter_map(Span::retransmitted_packets))
                .reduce(|a, b| a + b),
            congestion_window_bytes: windows.reduce(|a, b| a + b),
            omitted: self.is_omitted(now.elapsed_ns),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64, bytes: u64) -> Progress {
        Progress {
            elapsed_ns: seconds * SECOND,
            bytes_delivered: bytes,
            ..Progress::default()
        }
    }

    fn one_second_intervals(direction: Direction) -> Intervals {
        let transfer = (direction, PlannedEnd::Unknown);
        Intervals::new(0, transfer, Duration::from_secs(1), Duration::ZERO)
    }

    /// Adds counters that complete one interval at most.
    fn add(intervals: &mut Intervals, host: Host, progress: Progress) -> Option<Interval> {
        let mut complete = intervals.add(host, progress);
        assert!(complete.len() < 2);
        complete.pop()
    }

    #[test]
    fn interval_has_bytes_of_the_receiver_and_delay_of_the_client() {
        let mut intervals = one_second_intervals(Direction::Forward);
        let sender = Progress {
            probe_answers: 4,
            probe_delay_ns: 8_000_000,
            retransmitted_packets: Some(3),
            congestion_window_bytes: Some(10_000),
            ..at(1, 0)
        };
        assert_eq!(add(&mut intervals, Host::Client, sender), None);
        let first = add(&mut intervals, Host::Server, at(1, 1_000_000)).expect("both are here");
        let forward = first.forward.expect("bytes");
        assert_eq!((forward.bytes, forward.goodput_bps), (1_000_000, 8e6));
        assert_eq!(first.reverse, None);
        assert_eq!(first.round_trip_delay_mean_ns, Some(2e6));
        assert_eq!(first.retransmitted_packets, Some(3));
        let sender = Progress {
            retransmitted_packets: Some(5),
            elapsed_ns: 2 * SECOND,
            ..sender
        };
        assert_eq!(add(&mut intervals, Host::Server, at(2, 3_000_000)), None);
        let second = add(&mut intervals, Host::Client, sender).expect("both are here");
        assert_eq!(second.forward.map(|it| it.bytes), Some(2_000_000));
        assert_eq!(
            (
                second.retransmitted_packets,
                second.round_trip_delay_mean_ns
            ),
            (Some(2), None)
        );
    }

    #[test]
    fn late_end_delays_one_interval() {
        let mut intervals = one_second_intervals(Direction::Reverse);
        assert_eq!(add(&mut intervals, Host::Client, at(1, 10)), None);
        let first = add(&mut intervals, Host::Client, at(2, 30)).expect("one is late");
        assert_eq!(first.reverse.map(|it| it.bytes), Some(10));
        assert_eq!((first.from_ns, first.to_ns), (0, SECOND));
    }

    /// Counters of a client whose probe had one answer in each second, after as many milliseconds as the second's number.
    fn probed(seconds: u64) -> Progress {
        Progress {
            probe_answers: seconds,
            probe_delay_ns: (1..=seconds).sum::<u64>() * 1_000_000,
            ..at(seconds, 0)
        }
    }

    /// Returns end and delay in milliseconds of the intervals of a transfer to the server, of which these counters come.
    fn delays(reports: &[(Host, u64)]) -> Vec<(u64, Option<f64>)> {
        let mut intervals = one_second_intervals(Direction::Forward);
        let mut complete = Vec::new();
        for (host, seconds) in reports {
            complete.extend(match host {
                Host::Client => intervals.add(*host, probed(*seconds)),
                Host::Server => intervals.add(*host, at(*seconds, seconds * 10)),
            });
        }
        complete.extend(intervals.finish());
        let intervals = complete.iter();
        intervals
            .map(|it| {
                let delay = it.round_trip_delay_mean_ns.map(|delay| delay / 1e6);
                (it.to_ns / SECOND, delay)
            })
            .collect()
    }

    #[test]
    fn delay_belongs_to_the_interval_of_its_measurement() {
        use Host::{Client, Server};
        // Counters of the client that are late hold the line back until those of its own time are here.
        let reports = [
            (Server, 1),
            (Server, 2),
            (Client, 1),
            (Client, 2),
            (Client, 3),
            (Server, 3),
        ];
        assert_eq!(
            delays(&reports),
            [(1, None), (2, Some(2.0)), (3, Some(3.0))]
        );
        let reports = [(Server, 1), (Client, 1), (Client, 2), (Server, 2)];
        assert_eq!(delays(&reports), [(1, Some(1.0)), (2, Some(2.0))]);
    }

    #[test]
    fn intervals_around_a_missing_report_share_their_delay() {
        use Host::{Client, Server};
        let reports = [
            (Client, 1),
            (Server, 1),
            (Server, 2),
            (Client, 3),
            (Server, 3),
            (Client, 4),
            (Server, 4),
        ];
        let expected = [
            (1, Some(1.0)),
            (2, Some(2.5)),
            (3, Some(2.5)),
            (4, Some(4.0)),
        ];
        assert_eq!(delays(&reports), expected);
    }

    #[test]
    fn pending_intervals_are_complete_at_the_end_of_the_trial() {
        use Host::{Client, Server};
        let reports = [(Client, 1), (Server, 1), (Client, 2), (Server, 3)];
        assert_eq!(delays(&reports), [(1, Some(1.0)), (3, Some(2.0))]);
    }

    #[test]
    fn counters_of_both_ends_may_differ_in_time() {
        let tenth = SECOND / 10;
        let mut intervals = Intervals::new(
            0,
            (Direction::Forward, PlannedEnd::Unknown),
            Duration::from_nanos(tenth),
            Duration::ZERO,
        );
        // The server was late at 0.2 s, and the client at 0.4 s.
        for (host, hundredths) in [
            (Host::Client, 10),
            (Host::Server, 11),
            (Host::Client, 20),
            (Host::Server, 26),
            (Host::Client, 30),
            (Host::Server, 30),
            (Host::Server, 40),
            (Host::Client, 47),
        ] {
            let progress = Progress {
                elapsed_ns: hundredths * SECOND / 100,
                probe_answers: hundredths,
                probe_delay_ns: hundredths * 1_000_000,
                retransmitted_packets: Some(hundredths),
                ..Progress::default()
            };
            for it in intervals.add(host, progress) {
                assert_eq!(it.round_trip_delay_mean_ns, Some(1e6), "{it:?}");
                let resent = match it.to_ns * 100 / SECOND {
                    11 | 26 | 30 => Some(10),
                    _ => None,
                };
                assert_eq!(it.retransmitted_packets, resent, "{it:?}");
            }
        }
        assert_eq!(intervals.ends[1].last.elapsed_ns, 4 * tenth);
    }

    #[test]
    fn short_intervals_wait_one_second_for_the_other_end() {
        let tenth = SECOND / 10;
        let interval = Duration::from_nanos(tenth);
        let transfer = (Direction::Reverse, PlannedEnd::Unknown);
        let mut intervals = Intervals::new(0, transfer, interval, Duration::ZERO);
        let tenths = |number: u64| Progress {
            elapsed_ns: number * tenth,
            retransmitted_packets: Some(number),
            ..at(0, number)
        };
        for number in 1..=10 {
            assert_eq!(add(&mut intervals, Host::Client, tenths(number)), None);
        }
        // The counters of a sender that are not known are not zero.
        let first = add(&mut intervals, Host::Client, tenths(11)).expect("one is late");
        assert_eq!((first.to_ns, first.retransmitted_packets), (tenth, None));
        let ended = Progress {
            has_ended: true,
            ..tenths(2)
        };
        let rest = intervals.add(Host::Server, ended);
        assert_eq!(rest.len(), 10);
        assert_eq!(rest[0].retransmitted_packets, Some(2));
        assert!(
            rest[1..]
                .iter()
                .all(|it| it.retransmitted_packets.is_none())
        );
    }

    #[test]
    fn late_counters_of_a_direction_are_awaited_and_not_zero() {
        let mut intervals = one_second_intervals(Direction::Both);
        assert_eq!(add(&mut intervals, Host::Server, at(1, 10)), None);
        assert_eq!(add(&mut intervals, Host::Server, at(2, 30)), None);
        let first = add(&mut intervals, Host::Client, at(1, 40)).expect("both");
        let bytes = |of: Option<Delivered>| of.map(|it| it.bytes);
        assert_eq!(
            (bytes(first.forward), bytes(first.reverse)),
            (Some(10), Some(40))
        );
        assert_eq!(add(&mut intervals, Host::Server, at(3, 50)), None);
        let second = add(&mut intervals, Host::Server, at(4, 70)).expect("one is late");
        assert_eq!(
            (bytes(second.forward), bytes(second.reverse)),
            (Some(20), None)
        );
        // Its next interval is longer, and its rate is right.
        let third = add(&mut intervals, Host::Client, at(3, 80)).expect("both");
        let reverse = third.reverse.expect("counters");
        assert_eq!((reverse.bytes, reverse.goodput_bps), (40, 40.0 * 8.0 / 2.0));
    }

    #[test]
    fn warm_up_intervals_are_marked() {
        let second = Duration::from_secs(1);
        let transfer = (Direction::Both, PlannedEnd::Unknown);
        let mut intervals = Intervals::new(0, transfer, second, second);
        let mut spans = Vec::new();
        for (seconds, bytes) in [(1, 10), (2, 30), (3, 60)] {
            for host in Host::BOTH {
                let added = add(&mut intervals, host, at(seconds, bytes));
                spans.extend(added.map(|it| (it.from_ns / SECOND, it.to_ns / SECOND, it.omitted)));
            }
        }
        assert_eq!(spans, [(0, 1, true), (1, 2, false), (2, 3, false)]);
    }

    /// Returns end in milliseconds, bytes and rate of the intervals of a transfer to the server whose counters have these
    /// times, in milliseconds, and bytes, the last ones at its end, and the number of intervals before that.
    fn of_transfer(
        planned: PlannedEnd,
        omit: Duration,
        counters: &[(u64, u64)],
    ) -> (Vec<(u64, u64, f64)>, usize) {
        let transfer = (Direction::Forward, planned);
        let mut intervals = Intervals::new(0, transfer, Duration::from_secs(1), omit);
        let (mut complete, mut before_end) = (Vec::new(), 0);
        for (position, (milliseconds, bytes)) in counters.iter().enumerate() {
            before_end = complete.len();
            let progress = Progress {
                has_ended: position + 1 == counters.len(),
                elapsed_ns: milliseconds * 1_000_000,
                ..at(0, *bytes)
            };
            for host in Host::BOTH {
                complete.extend(intervals.add(host, progress));
            }
        }
        let of = |it: &Interval| {
            let forward = it.forward.expect("counters");
            (it.to_ns / 1_000_000, forward.bytes, forward.goodput_bps)
        };
        (complete.iter().map(of).collect(), before_end)
    }

    #[test]
    fn short_rest_of_a_transfer_is_part_of_its_last_interval() {
        let counters = [(1000, 1000), (2000, 2000), (2005, 2111)];
        for planned in [PlannedEnd::Time(2 * SECOND), PlannedEnd::Bytes(2111)] {
            let (intervals, before_end) = of_transfer(planned, Duration::ZERO, &counters);
            let rate = 1111.0 * 8e9 / 1_005_000_000.0;
            assert_eq!(intervals, [(1000, 1000, 8000.0), (2005, 1111, rate)]);
            // Only the interval that could be the last one has waited.
            assert_eq!(before_end, 1);
        }
    }

    #[test]
    fn long_rest_of_a_transfer_is_an_interval_of_its_own() {
        let planned = PlannedEnd::Time(2 * SECOND);
        let counters = [(1000, 1000), (2000, 2000), (2500, 2500)];
        let (intervals, _) = of_transfer(planned, Duration::ZERO, &counters);
        assert_eq!(intervals.len(), 3);
        // Nor does the rest join the time that the results leave out.
        let counters = [(1000, 1000), (1005, 1111)];
        let planned = PlannedEnd::Time(SECOND);
        let (intervals, _) = of_transfer(planned, Duration::from_millis(900), &counters);
        assert_eq!(intervals.len(), 2);
    }

    #[test]
    fn intervals_have_all_bytes_however_short_the_last_one_is() {
        let ended = |ns: u64| Progress {
            has_ended: true,
            elapsed_ns: ns,
            ..at(0, 20)
        };
        for ns in [SECOND + SECOND / 20, SECOND + SECOND / 2] {
            let mut intervals = one_second_intervals(Direction::Both);
            add(&mut intervals, Host::Client, at(1, 10));
            let first = add(&mut intervals, Host::Server, at(1, 10)).expect("both");
            assert!(first.forward.is_some() && first.reverse.is_some());
            // An end that receives as well may end later than the other by more than the tolerance.
            let later = ended(ns + SECOND);
            assert_eq!(add(&mut intervals, Host::Server, ended(ns)), None);
            let last = add(&mut intervals, Host::Client, later).expect("a last one");
            assert_eq!(last.to_ns, ns);
            for (first, last) in [(first.forward, last.forward), (first.reverse, last.reverse)] {
                let sum = [first, last]
                    .map(|it| it.expect("counters").bytes)
                    .iter()
                    .sum::<u64>();
                assert_eq!(sum, 20);
            }
        }
    }
}
