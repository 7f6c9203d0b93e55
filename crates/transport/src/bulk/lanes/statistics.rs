//! The statistics of all lanes as one connection's.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::context::{ProtocolSample, StatisticsSource};

/// One connection's, and what it said last: one that is closed says nothing any more.
struct Source {
    source: Arc<dyn StatisticsSource>,
    last: Option<ProtocolSample>,
}

/// The connections so far.
#[derive(Default)]
pub(super) struct AllLanes(Mutex<Vec<Source>>);

impl AllLanes {
    fn lock(&self) -> MutexGuard<'_, Vec<Source>> {
        // Nothing that can panic runs under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, source: Arc<dyn StatisticsSource>) {
        self.lock().push(Source { source, last: None });
    }

    /// Keeps what every connection says now; to be called before one is closed.
    pub(super) fn remember(&self) {
        let _ = self.sample();
    }
}

impl StatisticsSource for AllLanes {
    fn sample(&self) -> Option<ProtocolSample> {
        self.lock()
            .iter_mut()
            .filter_map(|source| {
                source.last = source.source.sample().or(source.last);
                source.last
            })
            .reduce(ProtocolSample::combined)
    }

    fn facts(&self) -> BTreeMap<String, String> {
        // They are alike but for what the stack chose for each; the first one stands for all.
        self.lock()
            .first()
            .map(|source| source.source.facts())
            .unwrap_or_default()
    }

    fn metrics(&self) -> BTreeMap<&'static str, f64> {
        let mut worst = BTreeMap::new();
        for (name, value) in self
            .lock()
            .iter()
            .flat_map(|source| source.source.metrics())
        {
            let most = worst.entry(name).or_insert(value);
            *most = value.max(*most);
        }
        worst
    }
}
