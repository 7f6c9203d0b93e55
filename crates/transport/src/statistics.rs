//! Statistics of several connections, combined into those of one.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use regatta_model::Facts;
use regatta_model::metric::{id, series_id};

use crate::context::{ProtocolSample, StatisticsSource};

/// Statistics of one connection, and their last sample: a closed connection gives none any more.
struct Source {
    source: Arc<dyn StatisticsSource>,
    last: Option<ProtocolSample>,
}

/// The connections that one end has made, in the order in which they were made.
#[derive(Default)]
pub struct AllConnections {
    /// `sender` or `receiver`.
    end: &'static str,
    sources: Mutex<Vec<Source>>,
    /// Number of calls of `remember`, and of those that a sample has answered, which changes under the lock.
    calls: AtomicU64,
    answered: AtomicU64,
}

impl AllConnections {
    /// Makes an empty set for an end, `sender` or `receiver`.
    pub(crate) fn new(end: &'static str) -> Self {
        Self {
            end,
            ..Self::default()
        }
    }

    pub(crate) fn add(&self, source: Arc<dyn StatisticsSource>) {
        self.sources.lock().push(Source { source, last: None });
    }

    /// Whether no connection was added yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.sources.lock().is_empty()
    }

    /// Samples every connection and keeps the samples; to be called before one is closed.
    ///
    /// A sample that begins while several callers wait answers them all: a thousand flows that end at once would
    /// sample a million connections.
    pub(crate) fn remember(&self) {
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let mut sources = self.sources.lock();
        if self.answered.load(Ordering::SeqCst) >= call {
            return;
        }
        let calls = self.calls.load(Ordering::SeqCst);
        sample_all(&mut sources);
        self.answered.store(calls, Ordering::SeqCst);
    }
}

/// Samples every connection, keeps the samples, and returns them as that of one.
fn sample_all(sources: &mut [Source]) -> Option<ProtocolSample> {
    let sampled = sources.iter_mut().filter_map(|source| {
        source.last = source.source.sample().or(source.last);
        source.last
    });
    sampled.reduce(ProtocolSample::combined)
}

/// Figure of a sample.
type Figure = fn(&ProtocolSample) -> Option<u64>;

/// Lists one figure of each connection, in the order of connections: `12 0 3`, `-` where it is
/// unknown.
fn each(sources: &[Source], figure: Figure) -> Option<String> {
    let figures = sources.iter().map(|source| figure(source.last.as_ref()?));
    let values = figures.map(|figure| figure.map_or("-".to_owned(), |it| it.to_string()));
    let values: Vec<_> = values.collect();
    values
        .iter()
        .any(|value| value != "-")
        .then(|| values.join(" "))
}

impl StatisticsSource for AllConnections {
    fn sample(&self) -> Option<ProtocolSample> {
        sample_all(&mut self.sources.lock())
    }

    fn facts(&self) -> Facts {
        let sources = self.sources.lock();
        // They are alike but for what the stack chose for each; the first one stands for all.
        let first = sources.first();
        let mut facts = first.map_or_else(Facts::default, |first| first.source.facts());
        if sources.len() < 2 {
            return facts;
        }
        let figures: [(_, Figure); 4] = [
            (id::RETRANSMITTED_PACKETS, |it| it.retransmitted_packets),
            (id::PACKETS_SENT, |it| it.packets_sent),
            (series_id::CONGESTION_WINDOW_BYTES, |it| {
                it.congestion_window_bytes
            }),
            (series_id::SMOOTHED_RTT_NS, |it| {
                let rtt = it.smoothed_rtt?.as_nanos();
                Some(u64::try_from(rtt).unwrap_or(u64::MAX))
            }),
        ];
        facts.extend(figures.into_iter().filter_map(|(name, figure)| {
            let name = format!("connections.{name}.{}", self.end);
            Some((name, each(&sources, figure)?))
        }));
        facts
    }

    fn metrics(&self) -> BTreeMap<&'static str, f64> {
        let mut worst = BTreeMap::new();
        let sources = self.sources.lock();
        for (name, value) in sources.iter().flat_map(|it| it.source.metrics()) {
            let most = worst.entry(name).or_insert(value);
            *most = value.max(*most);
        }
        worst
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use parking_lot::Condvar;

    use super::*;

    /// Statistics that give a number once and nothing after that.
    struct Fading(Mutex<Option<u64>>);

    impl StatisticsSource for Fading {
        fn sample(&self) -> Option<ProtocolSample> {
            let number = self.0.lock().take()?;
            Some(ProtocolSample {
                retransmitted_packets: Some(number),
                packets_sent: (number > 0).then_some(number * 10),
                ..ProtocolSample::default()
            })
        }
    }

    /// Statistics that count how often they are read, of which the first reading lasts until `may_end` is raised.
    #[derive(Default)]
    struct Slow {
        readings: AtomicU64,
        may_end: Mutex<bool>,
        ended: Condvar,
    }

    impl StatisticsSource for Slow {
        fn sample(&self) -> Option<ProtocolSample> {
            self.readings.fetch_add(1, Ordering::SeqCst);
            let mut may_end = self.may_end.lock();
            while !*may_end {
                self.ended.wait(&mut may_end);
            }
            Some(ProtocolSample::default())
        }
    }

    #[test]
    fn flows_ending_together_share_a_sample() {
        const FLOWS: u64 = 50;
        let (all, slow) = (AllConnections::new("sender"), Arc::new(Slow::default()));
        all.add(slow.clone());
        thread::scope(|scope| {
            for _ in 0..FLOWS {
                scope.spawn(|| all.remember());
            }
            while all.calls.load(Ordering::SeqCst) < FLOWS {
                thread::yield_now();
            }
            *slow.may_end.lock() = true;
            slow.ended.notify_all();
        });
        // The reading under way at the last call, and at most one that began after it.
        let readings = slow.readings.load(Ordering::SeqCst);
        assert!((1..=2).contains(&readings), "{readings}");
        all.remember();
        assert_eq!(slow.readings.load(Ordering::SeqCst), readings + 1);
    }

    #[test]
    fn closed_connection_keeps_its_last_statistics() {
        let all = AllConnections::new("sender");
        for number in [3, 0, 4] {
            all.add(Arc::new(Fading(Mutex::new(Some(number)))));
        }
        all.remember();
        let sample = all.sample().expect("a sample");
        assert_eq!(sample.retransmitted_packets, Some(7));
        assert_eq!(sample.packets_sent, Some(70));
        let facts = all.facts();
        assert_eq!(facts["connections.retransmitted_packets.sender"], "3 0 4");
        assert_eq!(facts["connections.packets_sent.sender"], "30 - 40");
        assert!(!facts.contains_key("connections.smoothed_rtt_ns.sender"));
    }
}
