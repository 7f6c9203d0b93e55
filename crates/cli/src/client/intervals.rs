//! Intervals of a trial under way, from the counters of both ends.

use std::{collections::VecDeque, time::Duration};

use regatta_control::{Host, Progress};
use regatta_model::Direction;

use crate::{
    client_events::{Delivered, Interval},
    output::now_unix_ns,
};

/// Share of an interval below which the last one is not shown, as of iperf3.
const LEAST_SHARE: u64 = 10;

/// Counters of one end that wait for those of the other, and those of the last interval.
#[derive(Debug, Default)]
struct End {
    last: Progress,
    waiting: VecDeque<Progress>,
}

impl End {
    /// Takes the counters of the moment `at` since the beginning of the transfer, as near to it as there are; the last
    /// ones where none are less than `within` away.
    fn take(&mut self, at: u64, within: u64) -> Progress {
        while let Some(next) = self.waiting.front().copied() {
            let away = next.elapsed_ns.abs_diff(at);
            let is_nearer = away < within && away <= self.last.elapsed_ns.abs_diff(at);
            if next.elapsed_ns > at && !is_nearer {
                break;
            }
            self.last = next;
            self.waiting.pop_front();
        }
        self.last
    }
}

/// Makes intervals of the counters of both ends, which come in any order.
#[derive(Debug)]
pub struct Intervals {
    direction: Direction,
    interval_ns: u64,
    omit_ns: u64,
    ends: [End; 2],
}

impl Intervals {
    pub fn new(direction: Direction, interval: Duration, omit: Duration) -> Self {
        let ns = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Self {
            direction,
            interval_ns: ns(interval),
            omit_ns: ns(omit),
            ends: [End::default(), End::default()],
        }
    }

    /// Takes counters of an end, and returns the intervals that they complete.
    pub fn add(&mut self, trial: u32, host: Host, progress: Progress) -> Vec<Interval> {
        self.ends[host as usize].waiting.push_back(progress);
        let mut complete = Vec::new();
        while let Some(to) = self.end_of_next() {
            // The counters say when they were read. In the order in which they came, those of an end that is late, or
            // left some out, would be in wrong intervals from then on.
            let from = self.ends[self.timing() as usize].last.elapsed_ns;
            let within = self.interval_ns / 4 * 3;
            let [client, server] = Host::BOTH.map(|host| {
                let end = &mut self.ends[host as usize];
                (end.take(from, within), end.take(to, within))
            });
            complete.extend(self.between(trial, client, server));
        }
        complete
    }

    /// Returns the end of the next interval, once the counters of both ends are here or one is late.
    fn end_of_next(&self) -> Option<u64> {
        let timing = &self.ends[self.timing() as usize];
        let other = &self.ends[self.timing().other() as usize];
        // An end whose counters are late holds the lines back for an interval, or a second. One that receives as well
        // has its last counters soon after the other's.
        let intervals = 1_000_000_000_u64.div_ceil(self.interval_ns.max(1));
        let longest = intervals.max(1) + u64::from(self.direction == Direction::Both);
        let late = timing.waiting.len() as u64 > longest;
        let is_told = late || other.last.has_ended || !other.waiting.is_empty();
        timing
            .waiting
            .front()
            .filter(|_| is_told)
            .map(|it| it.elapsed_ns)
    }

    /// End whose counters bound the intervals.
    fn timing(&self) -> Host {
        match self.direction {
            Direction::Reverse => Host::Client,
            Direction::Forward | Direction::Both => Host::Server,
        }
    }

    fn between(
        &self,
        trial: u32,
        client: (Progress, Progress),
        server: (Progress, Progress),
    ) -> Option<Interval> {
        let delivered = |(before, now): (Progress, Progress)| {
            let bytes = now.bytes_delivered.saturating_sub(before.bytes_delivered);
            let ns = now.elapsed_ns.saturating_sub(before.elapsed_ns);
            // Counters that are late are not known, and not zero.
            (ns > 0).then(|| Delivered {
                bytes,
                goodput_bps: bytes as f64 * 8e9 / ns as f64,
            })
        };
        let (before, now) = match self.timing() {
            Host::Client => client,
            Host::Server => server,
        };
        let span = now.elapsed_ns.saturating_sub(before.elapsed_ns);
        if span == 0 || (now.has_ended && span < self.interval_ns / LEAST_SHARE) {
            return None;
        }
        let senders = match self.direction {
            Direction::Forward => vec![client],
            Direction::Reverse => vec![server],
            Direction::Both => vec![client, server],
        };
        let answers = client
            .1
            .probe_answers
            .saturating_sub(client.0.probe_answers);
        let delays = client
            .1
            .probe_delay_ns
            .saturating_sub(client.0.probe_delay_ns);
        let resent = senders.iter().filter_map(|(before, now)| {
            if now.elapsed_ns == before.elapsed_ns {
                return None;
            }
            let before = before.retransmitted_packets.unwrap_or_default();
            Some(now.retransmitted_packets?.saturating_sub(before))
        });
        let windows = senders
            .iter()
            .filter_map(|(_, now)| now.congestion_window_bytes);
        Some(Interval {
            is_both_ways: self.direction == Direction::Both,
            trial,
            time_unix_ns: now_unix_ns(),
            from_ns: before.elapsed_ns,
            to_ns: now.elapsed_ns,
            forward: delivered(server).filter(|_| self.direction != Direction::Reverse),
            reverse: delivered(client).filter(|_| self.direction != Direction::Forward),
            round_trip_delay_ns: (answers > 0).then(|| delays as f64 / answers as f64),
            retransmitted_packets: resent.reduce(|a, b| a + b),
            congestion_window_bytes: windows.reduce(|a, b| a + b),
            omitted: now.elapsed_ns <= self.omit_ns + self.interval_ns / LEAST_SHARE
                && self.omit_ns > 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn at(seconds: u64, bytes: u64) -> Progress {
        Progress {
            elapsed_ns: seconds * SECOND,
            bytes_delivered: bytes,
            ..Progress::default()
        }
    }

    /// Adds counters that complete one interval at most.
    fn add(intervals: &mut Intervals, host: Host, progress: Progress) -> Option<Interval> {
        let mut complete = intervals.add(0, host, progress);
        assert!(complete.len() < 2);
        complete.pop()
    }

    #[test]
    fn an_interval_has_the_bytes_of_the_receiver_and_the_delay_of_the_client() {
        let mut intervals =
            Intervals::new(Direction::Forward, Duration::from_secs(1), Duration::ZERO);
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
        assert_eq!(first.round_trip_delay_ns, Some(2e6));
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
            (second.retransmitted_packets, second.round_trip_delay_ns),
            (Some(2), None)
        );
    }

    #[test]
    fn an_end_that_is_late_holds_back_one_interval() {
        let mut intervals =
            Intervals::new(Direction::Reverse, Duration::from_secs(1), Duration::ZERO);
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

    #[test]
    fn a_delay_is_in_the_interval_in_which_it_was_measured() {
        let second = Duration::from_secs(1);
        let mut intervals = Intervals::new(Direction::Forward, second, Duration::ZERO);
        let mut delays = Vec::new();
        // The client's counters of the first second are late, and there are none of the fourth.
        for (host, seconds) in [
            (Host::Server, 1),
            (Host::Server, 2),
            (Host::Client, 1),
            (Host::Client, 2),
            (Host::Client, 3),
            (Host::Server, 3),
            (Host::Client, 5),
            (Host::Server, 4),
            (Host::Server, 5),
        ] {
            let progress = match host {
                Host::Client => probed(seconds),
                Host::Server => at(seconds, seconds * 10),
            };
            let complete = add(&mut intervals, host, progress);
            delays.extend(complete.map(|it| (it.to_ns / SECOND, it.round_trip_delay_ns)));
        }
        let expected = [
            (1, None),
            (2, Some(2e6)),
            (3, Some(3e6)),
            (4, None),
            (5, Some(4.5e6)),
        ];
        assert_eq!(delays, expected);
    }

    #[test]
    fn short_intervals_wait_a_second_for_the_other_end_and_all_come_when_it_has_ended() {
        let tenth = SECOND / 10;
        let interval = Duration::from_nanos(tenth);
        let mut intervals = Intervals::new(Direction::Reverse, interval, Duration::ZERO);
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
        let rest = intervals.add(0, Host::Server, ended);
        assert_eq!(rest.len(), 10);
        assert_eq!(rest[0].retransmitted_packets, Some(2));
        assert!(
            rest[1..]
                .iter()
                .all(|it| it.retransmitted_packets.is_none())
        );
    }

    #[test]
    fn late_counters_of_a_direction_are_waited_for_and_are_no_zero() {
        let mut intervals = Intervals::new(Direction::Both, Duration::from_secs(1), Duration::ZERO);
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
    fn intervals_of_a_warm_up_are_marked() {
        let second = Duration::from_secs(1);
        let mut intervals = Intervals::new(Direction::Both, second, second);
        let mut spans = Vec::new();
        for (seconds, bytes) in [(1, 10), (2, 30), (3, 60)] {
            for host in Host::BOTH {
                let added = add(&mut intervals, host, at(seconds, bytes));
                spans.extend(added.map(|it| (it.from_ns / SECOND, it.to_ns / SECOND, it.omitted)));
            }
        }
        assert_eq!(spans, [(0, 1, true), (1, 2, false), (2, 3, false)]);
    }

    #[test]
    fn a_short_rest_is_not_shown_and_a_long_one_is() {
        let ended = |ns: u64| Progress {
            has_ended: true,
            elapsed_ns: ns,
            ..at(0, 20)
        };
        for (ns, shown) in [(SECOND + SECOND / 20, false), (SECOND + SECOND / 2, true)] {
            let mut intervals =
                Intervals::new(Direction::Both, Duration::from_secs(1), Duration::ZERO);
            add(&mut intervals, Host::Client, at(1, 10));
            let first = add(&mut intervals, Host::Server, at(1, 10)).expect("both");
            assert!(first.forward.is_some() && first.reverse.is_some());
            add(&mut intervals, Host::Client, ended(ns));
            assert_eq!(
                add(&mut intervals, Host::Server, ended(ns)).is_some(),
                shown
            );
        }
    }
}
