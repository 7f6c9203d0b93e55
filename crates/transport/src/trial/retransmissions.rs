//! Retransmissions of the connection on which the probe under load has its messages.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use crate::context::StatisticsSource;

/// Source of the number of packets that one end of a connection has sent again.
pub(crate) enum Counter {
    /// Nothing sends the messages again, which are these units of the transport: a lost one has no answer.
    Never(&'static str),
    /// Statistics of the connection, by its stack.
    Stack(Arc<dyn StatisticsSource>),
    /// Nothing counts them.
    Unknown,
}

/// Number of packets of the probe's connection that one end has sent again since a moment.
pub(crate) struct Retransmissions {
    counter: Counter,
    /// Number at that moment.
    before: AtomicU64,
}

impl Retransmissions {
    /// Begins to count now.
    pub(crate) fn new(counter: Counter) -> Self {
        let this = Self {
            counter,
            before: AtomicU64::new(0),
        };
        this.restart();
        this
    }

    /// Begins to count anew.
    pub(crate) fn restart(&self) {
        if let Some(total) = self.total() {
            self.before.store(total, Ordering::Relaxed);
        }
    }

    /// Returns who sends a lost message again, as a fact.
    pub(crate) fn fact(&self) -> String {
        match self.counter {
            Counter::Never(units) => format!("none: {units}"),
            Counter::Stack(_) | Counter::Unknown => "by the transport".to_owned(),
        }
    }

    /// Returns the number; `None` where it is not known.
    pub(crate) fn count(&self) -> Option<u64> {
        let before = self.before.load(Ordering::Relaxed);
        self.total().map(|total| total.saturating_sub(before))
    }

    fn total(&self) -> Option<u64> {
        match &self.counter {
            Counter::Never(_) => Some(0),
            Counter::Stack(statistics) => statistics.sample()?.retransmitted_packets,
            Counter::Unknown => None,
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::context::ProtocolSample;

    /// Connection that has sent so many packets again.
    struct Again(AtomicU64);

    impl StatisticsSource for Again {
        fn sample(&self) -> Option<ProtocolSample> {
            Some(ProtocolSample {
                retransmitted_packets: Some(self.0.load(Ordering::Relaxed)),
                ..ProtocolSample::default()
            })
        }

        fn facts(&self) -> regatta_model::Facts {
            regatta_model::Facts::default()
        }
    }

    #[test]
    fn retransmissions_are_those_since_the_last_restart() {
        let connection = Arc::new(Again(AtomicU64::new(2)));
        let retransmissions = Retransmissions::new(Counter::Stack(connection.clone()));
        assert_eq!(retransmissions.count(), Some(0));
        connection.0.store(5, Ordering::Relaxed);
        assert_eq!(retransmissions.count(), Some(3));
        retransmissions.restart();
        connection.0.store(6, Ordering::Relaxed);
        assert_eq!(retransmissions.count(), Some(1));
    }

    #[test]
    fn what_nobody_counts_is_not_zero() {
        assert_eq!(Retransmissions::new(Counter::Unknown).count(), None);
        let never = Retransmissions::new(Counter::Never("messages"));
        assert_eq!(never.count(), Some(0));
        assert_eq!(never.fact(), "none: messages");
    }
}
