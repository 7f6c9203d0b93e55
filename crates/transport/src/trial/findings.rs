//! Metrics, facts and warnings that a session puts into its report.

use std::{sync::atomic::Ordering, time::Duration};

use regatta_control::{PathHints, Role, SideReport};
use regatta_model::{
    Amount, Bytes, Facts, Histogram, Phrase, ProbePlacement, Text, Warning, WorkloadKind, fact,
    metric::{DelayMetrics, id},
    phrase,
    units::format_duration,
    warning,
};

use super::{Trial, watch::ClientEnd};
use crate::{
    clock::MonotonicTime,
    context::{StatisticsSource, WindowLimit, WindowStatistics},
    delivered::Delivered,
    probe::{Delays, Probed},
    timeout::RetransmissionTimeout,
};

/// Longest time for which connections of somebody else may hold a trial up.
const HELD_UP: Duration = Duration::from_millis(5);

/// First and last moment at which the receiver's application got data.
#[derive(Debug, Clone, Copy)]
pub struct Deliveries {
    pub(crate) first: MonotonicTime,
    /// Bytes of the first delivery.
    pub(crate) first_bytes: u64,
    pub(crate) last: MonotonicTime,
}

impl Deliveries {
    /// Records a delivery at `now`; `bytes` is the total delivered so far, including this one.
    pub(crate) fn note(deliveries: &mut Option<Self>, now: MonotonicTime, bytes: u64) {
        let deliveries = deliveries.get_or_insert(Self {
            first: now,
            first_bytes: bytes,
            last: now,
        });
        deliveries.last = now;
    }

    /// Adds the deliveries of another flow.
    pub(crate) fn merge(deliveries: &mut Option<Self>, other: Option<Self>) {
        let Some(other) = other else { return };
        let all = deliveries.get_or_insert(other);
        if other.first < all.first {
            (all.first, all.first_bytes) = (other.first, other.first_bytes);
        }
        all.last = all.last.max(other.last);
    }

    /// Returns the bits per second over the time from the first delivery to the last. The bytes of
    /// the first came before that time began; of a single delivery nothing is known.
    fn goodput(&self, bytes: u64) -> Option<f64> {
        let nanoseconds = self.last - self.first;
        (nanoseconds > 0)
            .then(|| bytes.saturating_sub(self.first_bytes) as f64 * 8e9 / nanoseconds as f64)
    }
}

/// A report that is being filled.
#[derive(Debug, Default)]
pub struct Findings(pub SideReport);

impl Findings {
    /// Adds a metric, if there is a finite value.
    pub fn metric(&mut self, name: &str, value: impl Into<Option<f64>>) {
        debug_assert!(regatta_model::metric::find(name).is_some(), "{name}");
        if let Some(value) = value.into().filter(|value| value.is_finite()) {
            self.0.measurements.metrics.insert(name.to_owned(), value);
        }
    }

    /// Adds a metric that is a span of time, in nanoseconds, if there is one.
    fn time(&mut self, name: &str, time: Option<Duration>) {
        self.metric(name, time.map(|time| time.as_nanos() as f64));
    }

    /// Adds a metric that is a number of things.
    pub fn count(&mut self, name: &str, value: u64) {
        self.metric(name, value as f64);
    }

    /// Adds a fact, which replaces one of the same name.
    pub fn fact(&mut self, name: &str, value: impl Into<Text>) {
        let facts = &mut self.0.measurements.facts;
        facts.insert(name.to_owned(), value.into());
    }

    /// Adds a warning.
    pub fn warn(&mut self, warning: Warning) {
        self.0.measurements.warnings.push(warning);
    }

    /// Adds a digest, which is a fact.
    pub(crate) fn digest(&mut self, name: &str, digest: u64) {
        self.fact(name, format!("{digest:016x}"));
    }

    /// Adds warnings.
    pub(crate) fn warnings(&mut self, warnings: Vec<Warning>) {
        self.0.measurements.warnings.extend(warnings);
    }

    /// Adds a histogram, if there is one.
    pub(crate) fn histogram(&mut self, histogram: Option<Histogram>) {
        self.0.measurements.histograms.extend(histogram);
    }

    /// Adds that the sender closed without the acknowledgement, with the warning at that end.
    pub fn abandoned(&mut self, role: Role) {
        self.fact("finish", "abandon");
        if role == Role::Sender {
            // What arrived is told over control, after the transfer's end.
            self.acknowledgement(false);
            self.warn(warning::abandoned());
        }
    }

    /// Adds that every message which was sent was delivered.
    pub(crate) fn nothing_lost(&mut self) {
        self.lost(0, 0);
    }

    /// Adds the messages that were lost of those `sent`.
    pub fn lost(&mut self, lost: u64, sent: u64) {
        self.count(id::MESSAGES_LOST, lost);
        self.metric(id::MESSAGE_LOSS_RATIO, lost as f64 / sent.max(1) as f64);
    }

    /// Adds the time after which answers are given up where they can be lost, as at the beginning, and the number of
    /// those that came later.
    pub(crate) fn given_up_answers(&mut self, patience: &RetransmissionTimeout, late: u64) {
        let mut timeout = format_duration(patience.get());
        if !patience.is_fixed() {
            timeout.push_str(" at first, then of RFC 6298");
        }
        self.fact("answers.timeout", timeout);
        self.count(id::LATE_ANSWERS, late);
    }

    /// Adds the span of the transfer.
    pub fn span(&mut self, started: MonotonicTime, ended: MonotonicTime) {
        self.0.started_monotonic_ns = started.0;
        self.0.ended_monotonic_ns = ended.0;
    }

    /// Adds the span and the time of the transfer, and the warning that its deadline ended it, with
    /// `delivered`, what was delivered by then.
    pub(crate) fn times(
        &mut self,
        trial: &Trial,
        started: MonotonicTime,
        end: &ClientEnd,
        delivered: Phrase,
    ) {
        self.span(started, end.at());
        self.metric(id::TRANSFER_TIME_NS, (end.at() - started) as f64);
        if matches!(end, ClientEnd::Deadline { .. }) {
            let (deadline, kind) = (trial.order.deadline, &trial.order.workload.kind);
            let shorter = kind.shorter();
            self.warn(warning::deadline_reached(deadline, delivered, shorter));
        }
    }

    /// Adds the way of the acknowledgement.
    pub(crate) fn acknowledgement(&mut self, in_band: bool) {
        let channel = if in_band { "in_band" } else { "control" };
        self.fact("acknowledgement", channel);
    }

    /// Adds the sender's metrics of the transfer of `size` bytes.
    pub fn transfer(
        &mut self,
        trial: &Trial,
        (started, size): (MonotonicTime, u64),
        end: &ClientEnd,
        delivered: Delivered,
        set_up: Option<Duration>,
    ) {
        self.acknowledgement(matches!(end, ClientEnd::Acknowledged { .. }));
        self.time(id::SET_UP_TIME_MEAN_NS, set_up);
        let (bytes, all) = (Bytes(delivered.bytes), Bytes(size));
        let delivered = match &trial.order.workload.kind {
            WorkloadKind::Bulk {
                amount: Amount::Time(_),
                ..
            } => phrase::amount(bytes),
            _ if bytes < all => phrase::part_of(bytes, all),
            _ => phrase::all_of_it(all),
        };
        self.times(trial, started, end, delivered);
    }

    /// Adds the delivered bits over the time of the transfer.
    pub fn goodput(&mut self, delivered: Delivered, transfer: Duration) {
        let nanoseconds = transfer.as_nanos() as f64;
        let goodput = delivered.bytes as f64 * 8e9 / nanoseconds.max(1.0);
        self.metric(id::GOODPUT_BPS, goodput);
    }

    /// Adds the sender's counters from its stack, at the end of the transfer. Its levels (window, RTT)
    /// are the observer's to report.
    pub(crate) fn counters(&mut self, trial: &Trial, transfer: Duration) {
        let WindowStatistics {
            at_end: last,
            max_bytes_in_flight,
        } = trial.context.observer.window_statistics();
        self.own_counters(trial);
        // Without a bottleneck on the path the receiver's pace is the limit, as it must be. A window
        // that fills the path only keeps its queue short.
        if let Some(limited) = last.window_limited
            && trial.order.path.link_rate_bps.is_some()
            && limited.time > transfer / 5
            && !fills(&trial.order.path, max_bytes_in_flight)
        {
            let remedy = match limited.by {
                WindowLimit::ReceiveBuffers => phrase::receive_buffers_of_the_receiver(),
                WindowLimit::StreamWindow => phrase::larger_stream_window(),
            };
            self.warn(warning::window_limited(limited.time, transfer, remedy));
        }
    }

    /// Adds the retransmissions of an end that sends though it listens; the sampler has the rest. Ratio and round-trip time are
    /// those of the end that sends most.
    pub(crate) fn own_counters(&mut self, trial: &Trial) {
        let last = trial.context.observer.window_statistics().at_end;
        let again = last.retransmitted_packets.map(|count| count as f64);
        self.metric(id::RETRANSMITTED_PACKETS, again);
        if !trial.order.sends_most() {
            return;
        }
        if let (Some(again), Some(sent)) = (again, last.packets_sent.filter(|sent| *sent > 0)) {
            self.metric(id::RETRANSMIT_RATIO, again / sent as f64);
        }
        self.time(id::MIN_RTT_NS, last.min_rtt);
    }

    /// Adds facts, which replace those of the same name.
    pub(crate) fn facts(&mut self, facts: Facts) {
        self.0.measurements.facts.extend(facts);
    }

    /// Adds the bytes that came in a warm-up of this length, at most `all` that count, and the time between the last
    /// delivery of these and the last one before `ended`, the end of the transfer. Goodput counts between deliveries: what
    /// had come before the end of the warm-up and waited behind a lost packet would otherwise be in none of its time.
    pub(crate) fn warm_up_bytes(
        &mut self,
        trial: &Trial,
        warm_up: Duration,
        (all, ended): (u64, MonotonicTime),
    ) {
        if warm_up.is_zero() {
            return;
        }
        let live = &trial.context.live;
        let warm = live.bytes_in_warm_up.load(Ordering::Acquire);
        self.count(id::WARM_UP_BYTES, warm.min(all));
        let from = live.last_in_warm_up_ns.load(Ordering::Acquire);
        let until = live.last_delivery_ns.load(Ordering::Acquire).min(ended.0);
        if from > 0 && until > from {
            self.metric(id::GOODPUT_TIME_NS, (until - from) as f64);
        }
    }

    /// Adds the length of the warm-up that is left out.
    pub(crate) fn warm_up(&mut self, warm_up: Duration) {
        if !warm_up.is_zero() {
            self.time(id::WARM_UP_NS, Some(warm_up));
        }
    }

    /// Adds the facts about a connection, and the metrics that only its stack measures.
    pub(crate) fn connection(&mut self, source: &dyn StatisticsSource) {
        self.facts(source.facts());
        self.stack(source);
    }

    /// Adds the metrics that only this stack measures.
    pub(crate) fn stack(&mut self, source: &dyn StatisticsSource) {
        for (name, value) in source.metrics() {
            self.metric(name, value);
        }
    }

    /// Adds the statistics of probe messages, and their histogram.
    fn delays(&mut self, names: DelayMetrics, delays: &Delays) {
        self.metric(names.mean, delays.mean());
        self.metric(names.p50, delays.median());
        self.metric(names.p95, delays.quantile(0.95));
        self.metric(names.p99, delays.p99());
        if let Some(max) = names.max {
            self.metric(max, delays.max());
        }
        self.histogram(delays.histogram(names.distribution));
    }

    /// Adds the metrics of the idle probe.
    pub(crate) fn idle_probe(&mut self, trial: &Trial, probed: &Probed) {
        let delays = &probed.delays;
        self.delays(DelayMetrics::IDLE_ROUND_TRIP, delays);
        let (answers, planned) = (delays.answers(), trial.probe.idle_messages);
        if answers < u64::from(planned) {
            let planned = planned.into();
            self.warn(match &probed.error {
                None => warning::idle_probe_incomplete(answers, planned),
                Some(error) => warning::idle_probe_failed(answers, planned, error.text()),
            });
        }
    }

    /// Adds the figures of the probe under load, of the messages scheduled from `since`, when the transfer could carry data
    /// and its warm-up was over, to its end. On a stream of the transfer's connection they are other metrics, since its
    /// messages wait for another window.
    pub(crate) fn load_probe(
        &mut self,
        trial: &Trial,
        probed: &Probed,
        (since, end): (MonotonicTime, &ClientEnd),
    ) {
        let delays = probed.delays.scheduled_within(since, end.at());
        let placement = trial.probe.placement;
        let names = match placement {
            ProbePlacement::Connection => DelayMetrics::ROUND_TRIP,
            ProbePlacement::Stream => DelayMetrics::STREAM_ROUND_TRIP,
        };
        self.fact("probe.placement", placement.name());
        if let Some(retransmission) = &probed.retransmission {
            self.fact("probe.retransmission", &**retransmission);
        }
        self.fact("probe.interval", format_duration(trial.probe.interval));
        self.delays(names, &delays);
        self.count(id::PROBE_MESSAGES_SENT, delays.sent());
        self.count(id::PROBE_MESSAGES_LOST, delays.unanswered());
        self.probe_retransmitted(probed.retransmitted.clone());
        if delays.answers() > 0 {
            let series = delays.series(names.distribution);
            self.0.measurements.series.push(series);
        }
        // The deadline ends the probe's flow too.
        let by_deadline = matches!(end, ClientEnd::Deadline { .. });
        if let Some(error) = probed.error.as_ref().filter(|_| !by_deadline) {
            self.warn(warning::probe_broken(error.text()));
        }
    }

    /// Adds the number of packets of the probe's connection that this end sent again, or why it is not known. Absent without
    /// a probe under load.
    pub(crate) fn probe_retransmitted(&mut self, packets: Option<Result<u64, Phrase>>) {
        match packets {
            Some(Ok(packets)) => self.count(id::PROBE_PACKETS_RETRANSMITTED, packets),
            Some(Err(reason)) => {
                self.fact(
                    "probe.packets_retransmitted",
                    fact::not_known(reason.into()),
                );
            }
            None => {}
        }
    }

    /// Adds the receiver's metrics of the transfer.
    pub fn delivery(
        &mut self,
        delivered: Delivered,
        corrupted: u64,
        deliveries: Option<Deliveries>,
    ) {
        self.count(id::BYTES_DELIVERED, delivered.bytes);
        self.count(id::MESSAGES_DELIVERED, delivered.messages);
        self.count(id::MESSAGES_CORRUPTED, corrupted);
        let goodput = deliveries.and_then(|all| all.goodput(delivered.bytes));
        self.metric(id::RECEIVER_GOODPUT_BPS, goodput);
        if corrupted > 0 {
            self.warn(warning::messages_corrupted(corrupted));
        }
    }

    /// Adds the number of flows that were not admitted, and the time for which they kept others from it.
    pub(crate) fn refused(&mut self, flows: u64, held_up: Duration) {
        if flows > 0 && held_up > HELD_UP {
            self.warn(warning::flow_held_up(flows, held_up));
        } else if flows > 0 {
            self.warn(warning::flow_refused(flows));
        }
    }
}

/// Whether `in_flight_max` bytes are at least the path's bandwidth-delay product; `false` where the
/// stack or the path have no value.
fn fills(path: &PathHints, in_flight_max: Option<u64>) -> bool {
    let product = path.bandwidth_delay_product();
    product.is_some() && in_flight_max >= product
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::warm_up::WarmUp;

    #[test]
    fn path_is_filled_by_its_bandwidth_delay_product() {
        let mut path = crate::testing::order_for(regatta_control::Role::Sender, "tcp", 1, 1).path;
        path.round_trip_delay = Duration::from_millis(30);
        assert!(!fills(&path, Some(u64::MAX)));
        path.link_rate_bps = Some(100_000_000);
        assert!(fills(&path, Some(375_000)));
        assert!(!fills(&path, Some(374_999)));
        assert!(!fills(&path, None));
    }

    #[test]
    fn paced_goodput_does_not_exceed_the_rate() {
        // Eleven deliveries of 1000 bytes, one each millisecond: 8 Mbit/s.
        let mut deliveries = None;
        for number in 1..=11 {
            Deliveries::note(
                &mut deliveries,
                MonotonicTime(number * 1_000_000),
                number as u64 * 1000,
            );
        }
        let goodput = deliveries.and_then(|deliveries| deliveries.goodput(11_000));
        assert_eq!(goodput, Some(8e6));
    }

    /// A packet of a millisecond each, of which the one that comes last in the warm-up waits for the next, as behind a
    /// lost one: what the receiver gets in the time that counts is what the path carried in it.
    #[test]
    fn goodput_after_a_warm_up_does_not_exceed_the_rate() {
        let order = crate::testing::order_for(Role::Receiver, "tcp", 1, 1);
        let (context, _) = crate::testing::trial_context();
        let trial = Trial::new(&order, context).expect("an order");
        let (live, length) = (&trial.context.live, Duration::from_millis(10));
        let warm_up = WarmUp::since(&trial.context.observer, MonotonicTime(0), length);
        for (millisecond, packets) in [(5, 5), (6, 1), (13, 7), (14, 1), (20, 6), (23, 3)] {
            let delivered = Delivered {
                bytes: packets * 1000,
                messages: packets,
            };
            warm_up.count(live, MonotonicTime(millisecond * 1_000_000), delivered);
        }
        let mut findings = Findings::default();
        // Of the deadline, after which three packets more came.
        let ended = MonotonicTime(20_500_000);
        findings.warm_up_bytes(&trial, length, (20_000, ended));
        let metrics = &findings.0.measurements.metrics;
        assert_eq!(metrics[id::WARM_UP_BYTES], 6000.0);
        assert_eq!(metrics[id::GOODPUT_TIME_NS], 14.5e6);
    }

    #[test]
    fn a_single_delivery_has_no_goodput() {
        let mut deliveries = None;
        Deliveries::note(&mut deliveries, MonotonicTime(5), 1000);
        assert_eq!(deliveries.and_then(|one| one.goodput(1000)), None);
    }
}
