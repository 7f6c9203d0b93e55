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

    fn receives(&self, host: Host) -> bool {
        match self.direction {
            Direction::Forward => host == Host::Server,
            Direction::Reverse => host == Host::Client,
            Direction::Both => true,
        }
    }

    /// Takes counters of an end, and returns the interval that they complete.
    pub fn add(&mut self, trial: u32, host: Host, progress: Progress) -> Option<Interval> {
        let end = &mut self.ends[host as usize];
        end.waiting.push_back(progress);
        let [a, b] = &self.ends;
        let both = !a.waiting.is_empty() && !b.waiting.is_empty();
        // An end whose counters are late does not hold the lines back for longer than an interval. One that
        // receives as well has its last counters soon after the other's.
        let longest = match self.direction {
            Direction::Forward | Direction::Reverse => 1,
            Direction::Both => 2,
        };
        let late = Host::BOTH
            .into_iter()
            .any(|host| self.receives(host) && self.ends[host as usize].waiting.len() > longest);
        if !both && !late {
            return None;
        }
        let [client, server] = Host::BOTH.map(|host| {
            let end = &mut self.ends[host as usize];
            let now = end.waiting.pop_front().unwrap_or(end.last);
            (std::mem::replace(&mut end.last, now), now)
        });
        self.between(trial, client, server)
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
        let (before, now) = match self.direction {
            Direction::Reverse => client,
            Direction::Forward | Direction::Both => server,
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
        assert_eq!(intervals.add(0, Host::Client, sender), None);
        let first = intervals
            .add(0, Host::Server, at(1, 1_000_000))
            .expect("both are here");
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
        assert_eq!(intervals.add(0, Host::Server, at(2, 3_000_000)), None);
        let second = intervals
            .add(0, Host::Client, sender)
            .expect("both are here");
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
        assert_eq!(intervals.add(0, Host::Client, at(1, 10)), None);
        let first = intervals
            .add(0, Host::Client, at(2, 30))
            .expect("one is late");
        assert_eq!(first.reverse.map(|it| it.bytes), Some(10));
        assert_eq!((first.from_ns, first.to_ns), (0, SECOND));
    }

    #[test]
    fn late_counters_of_a_direction_are_waited_for_and_are_no_zero() {
        let mut intervals = Intervals::new(Direction::Both, Duration::from_secs(1), Duration::ZERO);
        assert_eq!(intervals.add(0, Host::Server, at(1, 10)), None);
        assert_eq!(intervals.add(0, Host::Server, at(2, 30)), None);
        let first = intervals.add(0, Host::Client, at(1, 40)).expect("both");
        let bytes = |of: Option<Delivered>| of.map(|it| it.bytes);
        assert_eq!(
            (bytes(first.forward), bytes(first.reverse)),
            (Some(10), Some(40))
        );
        assert_eq!(intervals.add(0, Host::Server, at(3, 50)), None);
        let second = intervals
            .add(0, Host::Server, at(4, 70))
            .expect("one is late");
        assert_eq!(
            (bytes(second.forward), bytes(second.reverse)),
            (Some(20), None)
        );
        // Its next interval is longer, and its rate is right.
        let third = intervals.add(0, Host::Client, at(3, 80)).expect("both");
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
                let added = intervals.add(0, host, at(seconds, bytes));
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
            intervals.add(0, Host::Client, at(1, 10));
            let first = intervals.add(0, Host::Server, at(1, 10)).expect("both");
            assert!(first.forward.is_some() && first.reverse.is_some());
            intervals.add(0, Host::Client, ended(ns));
            assert_eq!(intervals.add(0, Host::Server, ended(ns)).is_some(), shown);
        }
    }
}
