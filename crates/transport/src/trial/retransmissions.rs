//! Retransmissions of the connection on which the probe under load has its messages.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use regatta_model::{Phrase, fact};

use crate::context::StatisticsSource;

/// Value of the fact `probe.retransmission` where the transport sends a lost message again.
pub(crate) const BY_THE_TRANSPORT: &str = "by the transport";

/// Source of the number of packets that one end of a connection has sent again.
pub(crate) enum Counter {
    /// Nothing sends the messages again, which are these units of the transport: a lost one has no answer.
    Never(&'static str),
    /// Statistics of the connection, by its stack.
    Stack(Arc<dyn StatisticsSource>),
    /// Nothing counts them, for this reason.
    Unknown(Phrase),
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
        if let Ok(total) = self.total() {
            self.before.store(total, Ordering::Relaxed);
        }
    }

    /// Returns who sends a lost message again, as a fact.
    pub(crate) fn fact(&self) -> String {
        match self.counter {
            Counter::Never(units) => format!("none: {units}"),
            Counter::Stack(_) | Counter::Unknown(_) => BY_THE_TRANSPORT.to_owned(),
        }
    }

    /// Returns the number.
    ///
    /// # Errors
    /// The reason why it is not known.
    pub(crate) fn count(&self) -> Result<u64, Phrase> {
        let before = self.before.load(Ordering::Relaxed);
        self.total().map(|total| total.saturating_sub(before))
    }

    fn total(&self) -> Result<u64, Phrase> {
        match &self.counter {
            Counter::Never(_) => Ok(0),
            Counter::Stack(statistics) => (statistics.sample())
                .and_then(|sample| sample.retransmitted_packets)
                .ok_or_else(fact::stack_does_not_count),
            Counter::Unknown(reason) => Err(reason.clone()),
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
        assert_eq!(retransmissions.count(), Ok(0));
        connection.0.store(5, Ordering::Relaxed);
        assert_eq!(retransmissions.count(), Ok(3));
        retransmissions.restart();
        connection.0.store(6, Ordering::Relaxed);
        assert_eq!(retransmissions.count(), Ok(1));
    }

    #[test]
    fn what_nobody_counts_is_not_zero() {
        let not_counted = Retransmissions::new(Counter::Unknown(fact::program_does_not_tell()));
        assert_eq!(not_counted.count(), Err(fact::program_does_not_tell()));
        let never = Retransmissions::new(Counter::Never("messages"));
        assert_eq!(never.count(), Ok(0));
        assert_eq!(never.fact(), "none: messages");
    }
}
