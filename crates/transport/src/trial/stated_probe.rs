//! Probe whose messages another process sends: it states when each left and when its answer arrived.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use regatta_model::{Phrase, fact, reason};

use super::{Trial, findings::Findings, retransmissions, watch::ClientEnd};
use crate::{
    clock::MonotonicTime,
    context::LiveCounters,
    probe::{Delays, ProbePlan, Probed},
};

/// Probe of another process over a connection of its own that delivers every byte in order: times that are possible become
/// the same metrics as those of a session.
#[derive(Debug)]
pub struct StatedProbe {
    plan: ProbePlan,
    live: Arc<LiveCounters>,
    idle: Delays,
    load: Delays,
    /// Moment at which the schedule under load begins.
    since: MonotonicTime,
    /// Packets of the probe's connection that this end has sent again since then; absent where the process does not tell.
    retransmitted: Option<u64>,
}

impl StatedProbe {
    /// Makes the probe of a trial; `None` if it has none.
    #[must_use]
    pub fn new(trial: &Trial) -> Option<Self> {
        let plan = trial.probe.clone();
        (plan.idle_messages > 0 || plan.under_load).then(|| Self {
            plan,
            live: Arc::clone(&trial.context.live),
            idle: Delays::default(),
            load: Delays::default(),
            since: MonotonicTime::NEVER,
            retransmitted: None,
        })
    }

    /// Returns the size of a message, in bytes.
    #[must_use]
    pub fn message_bytes(&self) -> u64 {
        self.plan.message as u64
    }

    /// Returns the number of messages before the transfer.
    #[must_use]
    pub fn idle_messages(&self) -> u32 {
        self.plan.idle_messages
    }

    /// Returns the time between departures under load; `None` without such messages.
    #[must_use]
    pub fn interval(&self) -> Option<Duration> {
        self.plan.under_load.then_some(self.plan.interval)
    }

    /// Returns the longest time that the messages before the transfer may take.
    #[must_use]
    pub fn idle_limit(&self) -> Duration {
        self.plan.idle_limit
    }

    /// Returns the moment until which answers are waited for after a transfer that ended at `end`.
    #[must_use]
    pub fn answers_until(&self, end: MonotonicTime) -> MonotonicTime {
        end + self.plan.last_answers_within
    }

    /// Begins the schedule under load: the transfer's connection can carry data.
    pub fn begin(&mut self, connected: MonotonicTime) {
        self.since = connected;
    }

    /// Returns the scheduled departure of the next message under load of which nothing is noted.
    fn next(&self) -> MonotonicTime {
        let interval = u64::try_from(self.plan.interval.as_nanos()).unwrap_or(u64::MAX);
        self.since + Duration::from_nanos(interval.saturating_mul(self.load.sent() + 1))
    }

    /// Whether all messages under load that were due before `end` have their answers.
    #[must_use]
    pub fn is_complete(&self, end: MonotonicTime) -> bool {
        !self.plan.under_load || self.next() >= end
    }

    /// Adds the next message before the transfer, which left at `left` and whose answer arrived at `at`.
    ///
    /// # Errors
    /// The reason why that is impossible.
    pub fn add_idle(&mut self, left: MonotonicTime, at: MonotonicTime) -> Result<(), Phrase> {
        if at < left || self.idle.sent() >= u64::from(self.plan.idle_messages) {
            return Err(impossible(
                reason::impossible_idle_answer,
                &self.idle,
                left,
                at,
            ));
        }
        self.idle.depart(left);
        self.idle.answer_last(at);
        self.count(at - left);
        Ok(())
    }

    /// Adds the next message under load, which was to leave at `scheduled` and whose answer arrived at `at`.
    ///
    /// # Errors
    /// The reason why that is impossible.
    pub fn add(&mut self, scheduled: MonotonicTime, at: MonotonicTime) -> Result<(), Phrase> {
        if !self.plan.under_load || scheduled != self.next() || at < scheduled {
            return Err(impossible(
                reason::impossible_load_answer,
                &self.load,
                scheduled,
                at,
            ));
        }
        self.load.depart(scheduled);
        self.load.answer_last(at);
        self.count(at - scheduled);
        Ok(())
    }

    /// Replaces the number of packets of the probe's connection that this end has sent again since its transfer's connection
    /// could carry data.
    pub fn set_retransmitted(&mut self, packets: u64) {
        self.retransmitted = Some(packets);
    }

    fn count(&self, delay_ns: i64) {
        let delay = u64::try_from(delay_ns).unwrap_or(0);
        self.live.probe_delay_ns.fetch_add(delay, Ordering::Relaxed);
        self.live.probe_answers.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds the metrics of the probe, of a transfer that ended so. Messages that were due before that and have no answer are
    /// lost.
    pub fn report(mut self, trial: &Trial, end: &ClientEnd, findings: &mut Findings) {
        while !self.is_complete(end.at()) {
            let due = self.next();
            self.load.depart(due);
        }
        let retransmitted = self.retransmitted();
        let probed = |delays| Probed {
            delays,
            retransmission: Some(retransmissions::BY_THE_TRANSPORT.to_owned()),
            retransmitted: retransmitted.clone(),
            error: None,
        };
        if self.plan.idle_messages > 0 {
            findings.idle_probe(trial, &probed(self.idle));
        }
        if self.plan.under_load {
            findings.load_probe(trial, &probed(self.load), (self.since, end));
        }
    }

    /// Adds the metrics of the probe at the listening end.
    pub fn report_listening(&self, findings: &mut Findings) {
        findings.probe_retransmitted(self.retransmitted());
    }

    /// Returns the packets that this end has sent again, or why they are not known; absent without messages under load.
    fn retransmitted(&self) -> Option<Result<u64, Phrase>> {
        let retransmitted = self.retransmitted.ok_or_else(fact::program_does_not_tell);
        self.plan.under_load.then_some(retransmitted)
    }
}

fn impossible(
    reason: fn(u64, &str, &str) -> Phrase,
    delays: &Delays,
    left: MonotonicTime,
    at: MonotonicTime,
) -> Phrase {
    reason(delays.sent(), &left.0.to_string(), &at.0.to_string())
}

#[cfg(test)]
mod tests {
    use regatta_control::Role;

    use super::*;
    use crate::{
        delivered::Delivered,
        testing::{order_for, trial_context},
    };

    #[test]
    fn stated_answers_become_the_metrics_of_a_probe() {
        let mut order = order_for(Role::Sender, "external", 1, 1);
        order.workload.probe.idle_messages = 1;
        order.workload.probe.under_load = true;
        let interval = order.workload.probe.interval;
        let trial = Trial::new(&order, trial_context().0).unwrap();
        let mut probe = StatedProbe::new(&trial).unwrap();
        let begun = MonotonicTime(1_000_000_000);
        assert!(
            probe
                .add_idle(begun, begun + Duration::from_millis(3))
                .is_ok()
        );
        assert!(probe.add_idle(begun, begun).is_err(), "one was ordered");
        probe.begin(begun);
        let scheduled = begun + interval;
        assert!(
            probe.add(scheduled, begun).is_err(),
            "answered before it left"
        );
        assert!(probe.add(begun, scheduled).is_err(), "not its time");
        let delay = Duration::from_millis(5);
        assert!(probe.add(scheduled, scheduled + delay).is_ok());
        let at = scheduled + interval + Duration::from_millis(1);
        assert!(!probe.is_complete(at));
        let end = ClientEnd::Acknowledged {
            at,
            delivered: Delivered::default(),
        };
        let mut without_count = Findings::default();
        probe.report_listening(&mut without_count);
        probe.set_retransmitted(2);
        let mut findings = Findings::default();
        probe.report(&trial, &end, &mut findings);
        let without_count = without_count.0.measurements;
        assert!(
            !without_count
                .metrics
                .contains_key("probe_packets_retransmitted")
        );
        assert_eq!(
            without_count.facts["probe.packets_retransmitted"],
            "not known: the program does not tell"
        );
        let metrics = findings.0.measurements.metrics;
        assert_eq!(metrics["probe_packets_retransmitted"], 2.0);
        assert_eq!(metrics["round_trip_delay_idle_p50_ns"], 3e6);
        assert_eq!(metrics["round_trip_delay_p50_ns"], 5e6);
        assert_eq!(metrics["probe_messages_sent"], 2.0);
        assert_eq!(metrics["probe_messages_lost"], 1.0);
    }
}
