//! The statistics of all lanes as one connection's.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::context::{ProtocolSample, StatisticsSource};

/// The connections so far.
#[derive(Default)]
pub(super) struct AllLanes(Mutex<Vec<Arc<dyn StatisticsSource>>>);

impl AllLanes {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<dyn StatisticsSource>>> {
        // Nothing that can panic runs under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, source: Arc<dyn StatisticsSource>) {
        self.lock().push(source);
    }
}

impl StatisticsSource for AllLanes {
    fn sample(&self) -> Option<ProtocolSample> {
        self.lock()
            .iter()
            .filter_map(|source| source.sample())
            .reduce(ProtocolSample::combined)
    }

    fn facts(&self) -> BTreeMap<String, String> {
        // They are alike but for what the stack chose for each; the first one stands for all.
        self.lock()
            .first()
            .map(|source| source.facts())
            .unwrap_or_default()
    }
}
