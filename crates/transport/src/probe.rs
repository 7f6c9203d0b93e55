//! Probe messages, which the other end sends back, to measure the message round-trip delay.

use std::time::Duration;

use base64::Engine as _;
use hdrhistogram::{
    Histogram as Hdr,
    serialization::{Serializer as _, V2Serializer},
};
use regatta_control::TrialOrder;
use regatta_model::{Histogram, Phrase, Probe, ProbePlacement, Series};

use crate::{clock::MonotonicTime, error::TransportError, stop::Stop};

/// Minimum number of values of which a 99th percentile is given: of fewer it is the largest of them or nearly so.
pub(crate) const MIN_FOR_P99: u64 = 100;

/// Sequence number and scheduled departure.
pub(crate) const PROBE_HEADER_BYTES: usize = 16;

/// Longest probe message, in bytes: what a datagram carries at most.
const LONGEST_PROBE: usize = 65_507;

/// Headers of a probe message's packet, in bytes: IPv4 (20), TCP with timestamps (32) and a little
/// more. Datagrams have fewer; one figure for all keeps the interval equal between transports.
const PACKET_HEADERS_BYTES: u64 = 60;

/// Part of the link's rate that the probe under load may take.
const SHARE_OF_LINK: f64 = 0.01;

/// Time after the transfer, beyond a round trip through full queues, for which answers are waited for: one
/// that needs a retransmission still comes.
const RETRANSMISSION: Duration = Duration::from_millis(250);

/// The order's settings for probing, with sizes that can be sent.
#[derive(Debug, Clone)]
pub(crate) struct ProbePlan {
    /// Number of messages before the transfer.
    pub idle_messages: u32,
    /// Time after a departure before the transfer from which on the next message departs although there is no answer
    /// yet; absent where messages could hold one another up.
    pub idle_interval: Option<Duration>,
    /// Whether messages are sent during the transfer.
    pub under_load: bool,
    /// Time between scheduled departures under load.
    pub interval: Duration,
    /// Size of a message, in bytes.
    pub message: usize,
    /// Connection that the messages under load use: one of their own, or the transfer's.
    pub placement: ProbePlacement,
    /// Time after the transfer for which the last answers are waited for, over any transport.
    pub last_answers_within: Duration,
    /// Longest that probing before the transfer may take.
    pub idle_limit: Duration,
}

impl ProbePlan {
    pub(crate) fn new(order: &TrialOrder) -> Self {
        let Probe {
            idle_messages,
            under_load,
            interval,
            message,
            placement,
        } = order.workload.probe;
        let longest_round_trip = order.path.longest_round_trip();
        let message = usize::try_from(message.0)
            .unwrap_or(LONGEST_PROBE)
            .clamp(PROBE_HEADER_BYTES, LONGEST_PROBE);
        Self {
            idle_messages,
            idle_interval: may_be_at_once(order, message)
                .then(|| idle_interval(least_interval(order, message))),
            under_load: under_load && !order.workload.kind.measures_delay(),
            interval: interval
                .max(Duration::from_micros(100))
                .max(least_interval(order, message)),
            message,
            placement,
            last_answers_within: order.path.typical_round_trip() + RETRANSMISSION,
            // Twice what it takes without loss, and room for a connection whose first packets
            // are lost.
            idle_limit: (Duration::from_secs(5) + longest_round_trip * 2 * idle_messages)
                .min(Duration::from_secs(60)),
        }
    }

    /// Whether the messages under load share the transfer's connection.
    pub(crate) fn shares_connection(&self) -> bool {
        self.under_load && self.placement == ProbePlacement::Stream
    }

    /// Whether the messages under load have a flow of their own.
    pub(crate) fn has_flow(&self) -> bool {
        self.under_load && self.placement == ProbePlacement::Connection
    }

    /// Whether the messages before the transfer and those under load share a flow, which spares a connection: a flow
    /// that breaks before the transfer could not be replaced.
    pub(crate) fn keeps_flow(&self) -> bool {
        self.has_flow() && self.idle_interval.is_some()
    }
}

/// Returns the least time between probe messages that leaves the link to the transfer, in whole
/// milliseconds; zero without a rate.
fn least_interval(order: &TrialOrder, message: usize) -> Duration {
    let Some(rate) = order.path.link_rate_bps.filter(|rate| *rate > 0) else {
        return Duration::ZERO;
    };
    let payload = u64::from(order.path.mtu_bytes).saturating_sub(PACKET_HEADERS_BYTES);
    let payload = payload.max(1);
    let message = message as u64;
    let bytes = message + message.div_ceil(payload) * PACKET_HEADERS_BYTES;
    let seconds = bytes as f64 * 8.0 / (SHARE_OF_LINK * rate as f64);
    // A longer one never comes in any transfer.
    const LONGEST_SECONDS: f64 = 86_400.0;
    let milliseconds = (seconds.min(LONGEST_SECONDS) * 1e3).ceil();
    Duration::from_millis(milliseconds as u64)
}

/// Maximum number of messages of the idle probe that are under way at once: with the opening, fewer than the ten
/// packets that a connection may send at its beginning (RFC 6928). A further one would wait for an acknowledgement.
pub(crate) const MAX_IN_FLIGHT: u64 = 8;

/// Whether no message of the idle probe holds up another: by the path, by the window of a connection that begins (at
/// least 4380 bytes, RFC 9260), or by an option of the transport, such as a rate or Nagle's algorithm.
fn may_be_at_once(order: &TrialOrder, message: usize) -> bool {
    const AT_ONCE_BYTES: u64 = 4000;
    order.path.treats_alike
        && message as u64 * MAX_IN_FLIGHT <= AT_ONCE_BYTES
        && order.transport.options.keys().all(|name| name == "cc")
}

/// Returns the time between messages on the idle path: several times what the link takes for one, of which the probe
/// under load may take a small share of the link in `least`.
fn idle_interval(least: Duration) -> Duration {
    const TRANSMISSIONS: f64 = 4.0;
    const SHORTEST: Duration = Duration::from_micros(250);
    least.mul_f64(TRANSMISSIONS * SHARE_OF_LINK).max(SHORTEST)
}

/// Returns the number of messages of the idle probe, where they may be under way at once; zero where one could hold
/// up another.
#[must_use]
pub fn idle_messages_at_once(order: &TrialOrder) -> u32 {
    let plan = ProbePlan::new(order);
    plan.idle_interval.map_or(0, |_| plan.idle_messages)
}

/// Writes sequence number and scheduled departure to the beginning of a message.
pub(crate) fn write_probe(buffer: &mut [u8], sequence: u64, scheduled: MonotonicTime) {
    buffer[..8].copy_from_slice(&sequence.to_le_bytes());
    buffer[8..PROBE_HEADER_BYTES].copy_from_slice(&scheduled.0.to_le_bytes());
}

/// Reads sequence number and scheduled departure from an answer.
pub(crate) fn read_probe(answer: &[u8]) -> Option<(u64, MonotonicTime)> {
    let sequence = u64::from_le_bytes(answer.get(..8)?.try_into().ok()?);
    let scheduled = i64::from_le_bytes(answer.get(8..PROBE_HEADER_BYTES)?.try_into().ok()?);
    Some((sequence, MonotonicTime(scheduled)))
}

/// Departures of the messages of a probe under load.
#[derive(Debug)]
pub(crate) struct Schedule {
    next: MonotonicTime,
    interval: Duration,
    /// Time after the transfer for which late messages and answers are waited for.
    patience: Duration,
    /// Moment at which the end of the transfer was seen.
    end: Option<MonotonicTime>,
}

impl Schedule {
    /// Departures at every interval of the plan from a moment on, also those that are late already.
    pub(crate) fn new(plan: &ProbePlan, since: MonotonicTime) -> Self {
        Self {
            next: since + plan.interval,
            interval: plan.interval,
            patience: plan.last_answers_within,
            end: None,
        }
    }

    /// The next departure; `None` if it was not due yet when the transfer was over. One that is late
    /// because the host was busy or the stack had no room is given still, for a while.
    pub(crate) fn next(&mut self, over: &Stop) -> Option<MonotonicTime> {
        if self.end.is_none() && over.is_stopped() {
            self.end = Some(MonotonicTime::now());
        }
        let due = self.end.is_none_or(|end| self.next <= end);
        (due && !self.answers_until().has_passed()).then_some(self.next)
    }

    /// Goes on to the departure after this one.
    pub(crate) fn advance(&mut self) {
        self.next = self.next + self.interval;
    }

    /// Until when answers are waited for after the transfer.
    pub(crate) fn answers_until(&self) -> MonotonicTime {
        let end = self.end;
        end.map_or(MonotonicTime::NEVER, |end| end + self.patience)
    }

    /// Notes the messages that were due when the transfer was over and never left: without an answer.
    pub(crate) fn note_held_back(&mut self, delays: &mut Delays) {
        while self.end.is_some_and(|end| self.next <= end) {
            delays.depart(self.next);
            self.advance();
        }
    }
}

/// Messages that departed and the delays of their answers.
#[derive(Debug, Default)]
pub(crate) struct Delays {
    messages: Vec<Departed>,
    answers: u64,
}

/// One message of a probe.
#[derive(Debug, Clone, Copy)]
struct Departed {
    scheduled: MonotonicTime,
    /// From the scheduled departure to the answer, in nanoseconds; `None` without an answer.
    delay_ns: Option<i64>,
}

/// Three digits keep a delay to 0.1 %, as HDR histograms usually do.
const DIGITS: u8 = 3;

impl Delays {
    /// Notes a departure by its schedule; returns the message's sequence number.
    pub(crate) fn depart(&mut self, scheduled: MonotonicTime) -> u64 {
        let sequence = self.sent();
        self.messages.push(Departed {
            scheduled,
            delay_ns: None,
        });
        sequence
    }

    /// Notes an answer. A second answer to one message, or one to none, does not count; returns the
    /// delay in nanoseconds of one that counts.
    pub(crate) fn answer(&mut self, answer: &[u8], now: MonotonicTime) -> Option<i64> {
        let (sequence, scheduled) = read_probe(answer)?;
        let message = self.messages.get_mut(usize::try_from(sequence).ok()?)?;
        if message.delay_ns.is_some() || message.scheduled != scheduled {
            return None;
        }
        message.delay_ns = Some(now - scheduled);
        self.answers += 1;
        message.delay_ns
    }

    /// Notes the answer to the message that departed last.
    pub(crate) fn answer_last(&mut self, now: MonotonicTime) {
        if let Some(message) = self.messages.last_mut()
            && message.delay_ns.is_none()
        {
            message.delay_ns = Some(now - message.scheduled);
            self.answers += 1;
        }
    }

    /// The messages whose scheduled departure lies in a transfer, from its start to before its end,
    /// with their answers, whenever these came.
    pub(crate) fn scheduled_within(&self, start: MonotonicTime, end: MonotonicTime) -> Self {
        let messages: Vec<_> = (self.messages.iter().copied())
            .filter(|message| (start..end).contains(&message.scheduled))
            .collect();
        let answered = messages.iter().filter(|message| message.delay_ns.is_some());
        Self {
            answers: answered.count() as u64,
            messages,
        }
    }

    pub(crate) const fn sent(&self) -> u64 {
        self.messages.len() as u64
    }

    pub(crate) const fn answers(&self) -> u64 {
        self.answers
    }

    pub(crate) const fn unanswered(&self) -> u64 {
        self.sent() - self.answers
    }

    /// Scheduled departure and delay of every message that was answered, in the order of departure.
    fn answered(&self) -> impl Iterator<Item = (MonotonicTime, i64)> {
        (self.messages.iter()).filter_map(|message| Some((message.scheduled, message.delay_ns?)))
    }

    /// The delays from the shortest to the longest.
    fn sorted(&self) -> Vec<f64> {
        let mut sorted: Vec<_> = self.answered().map(|(_, delay)| delay as f64).collect();
        sorted.sort_by(f64::total_cmp);
        sorted
    }

    /// Returns the value at a quantile, in nanoseconds; `None` without answers.
    pub(crate) fn quantile(&self, quantile: f64) -> Option<f64> {
        let sorted = self.sorted();
        // The exact order statistic, as long as every delay is at hand.
        let rank = (quantile * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
    }

    /// Returns the 99th percentile in nanoseconds; `None` of fewer than [`MIN_FOR_P99`] answers.
    pub(crate) fn p99(&self) -> Option<f64> {
        self.quantile(0.99).filter(|_| self.answers >= MIN_FOR_P99)
    }

    /// Returns the median in nanoseconds, the mean of the middle two for an even number; `None`
    /// without answers.
    pub(crate) fn median(&self) -> Option<f64> {
        let sorted = self.sorted();
        let last = sorted.len().checked_sub(1)?;
        Some(f64::midpoint(sorted[last / 2], sorted[last.div_ceil(2)]))
    }

    pub(crate) fn mean(&self) -> Option<f64> {
        let sum: f64 = self.answered().map(|(_, delay)| delay as f64).sum();
        (self.answers > 0).then(|| sum / self.answers as f64)
    }

    pub(crate) fn max(&self) -> Option<f64> {
        self.sorted().last().copied()
    }

    /// Returns the distribution under this name.
    pub(crate) fn histogram(&self, name: &str) -> Option<Histogram> {
        let mut histogram = new_histogram();
        for (_, delay) in self.answered() {
            record(&mut histogram, delay);
        }
        encode(name, "sender", &histogram)
    }

    /// Returns the delays over the scheduled departures, in the order of departure, under this
    /// name.
    pub(crate) fn series(&self, name: &str) -> Series {
        let answered = self.answered();
        let (t_ns, values) = answered.map(|(at, delay)| (at.0, delay as f64)).unzip();
        Series {
            name: name.to_owned(),
            side: "sender".to_owned(),
            t_ns,
            values,
        }
    }
}

/// Makes an empty histogram that grows with its values.
pub(crate) fn new_histogram() -> Hdr<u64> {
    match Hdr::new(DIGITS) {
        Ok(histogram) => histogram,
        // The number of digits is the only thing that can be wrong, and it is a constant.
        Err(_) => unreachable!("{DIGITS} significant digits are allowed"),
    }
}

/// Records a delay in nanoseconds; one below zero counts as zero.
pub(crate) fn record(histogram: &mut Hdr<u64>, delay: i64) {
    // An hour is longer than any deadline's delay; without a bound one wrong time would take
    // the histogram's memory to its largest.
    const LONGEST: u64 = 3_600_000_000_000;
    let delay = u64::try_from(delay).unwrap_or(0).min(LONGEST);
    // A histogram that resizes itself takes every value.
    let _ = histogram.record(delay);
}

/// Returns the HdrHistogram V2 encoding in base64; `None` for an empty one.
pub(crate) fn encode(name: &str, side: &str, histogram: &Hdr<u64>) -> Option<Histogram> {
    if histogram.is_empty() {
        return None;
    }
    let mut bytes = Vec::new();
    V2Serializer::new().serialize(histogram, &mut bytes).ok()?;
    Some(Histogram {
        name: name.to_owned(),
        side: side.to_owned(),
        hdr_v2_base64: base64::engine::general_purpose::STANDARD.encode(bytes),
    })
}

/// Result of one flow of probe messages.
#[derive(Debug)]
pub(crate) struct Probed {
    pub delays: Delays,
    /// Who sends a lost message again, under load.
    pub retransmission: Option<String>,
    /// Packets that this end of the flow's connection sent again after the warm-up, or why that is not known; under load.
    pub retransmitted: Option<Result<u64, Phrase>>,
    /// Error that broke the flow before its end, if any.
    pub error: Option<TransportError>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probe_uses_at_most_one_percent_of_the_link() {
        let mut order = crate::testing::order_for(regatta_control::Role::Sender, "udp", 1, 1);
        order.path.mtu_bytes = 1500;
        order.workload.probe.interval = Duration::from_millis(20);
        order.workload.probe.message = regatta_model::Bytes(64);
        let mut interval = |rate| {
            order.path.link_rate_bps = rate;
            ProbePlan::new(&order).interval
        };
        assert_eq!(interval(None), Duration::from_millis(20));
        assert_eq!(interval(Some(100_000_000)), Duration::from_millis(20));
        // 124 bytes are 992 bits: 1.55 s at 640 bit/s.
        assert_eq!(interval(Some(64_000)), Duration::from_millis(1550));
        assert_eq!(interval(Some(1)), Duration::from_secs(86_400));
    }

    #[test]
    fn delays_count_from_the_schedule_and_answers_count_once() {
        let mut delays = Delays::default();
        let mut message = [0; PROBE_HEADER_BYTES];
        for (scheduled, arrival) in [(100, 130), (200, 260), (300, 310), (400, 500)] {
            let scheduled = MonotonicTime(scheduled);
            let sequence = delays.depart(scheduled);
            write_probe(&mut message, sequence, scheduled);
            assert!(delays.answer(&message, MonotonicTime(arrival)).is_some());
            let again = delays.answer(&message, MonotonicTime(arrival + 1));
            assert_eq!(again, None);
        }
        delays.depart(MonotonicTime(500));
        write_probe(&mut message, 77, MonotonicTime(0));
        assert_eq!(delays.answer(&message, MonotonicTime(1)), None);
        assert_eq!(delays.unanswered(), 1);
        assert_eq!(delays.median(), Some(45.0));
        assert_eq!(delays.quantile(0.99), Some(100.0));
        assert_eq!(delays.quantile(0.5), Some(30.0));
        assert_eq!(delays.mean(), Some(50.0));
        assert_eq!(
            delays.series("round_trip_delay_ns").values,
            [30.0, 60.0, 10.0, 100.0]
        );
    }

    #[test]
    fn a_message_belongs_to_the_transfer_of_its_scheduled_departure() {
        let mut delays = Delays::default();
        let mut message = [0; PROBE_HEADER_BYTES];
        for (scheduled, arrival) in [
            (90, Some(150)),
            (100, Some(130)),
            (190, Some(290)),
            (195, None),
            (200, Some(205)),
        ] {
            let scheduled = MonotonicTime(scheduled);
            let sequence = delays.depart(scheduled);
            write_probe(&mut message, sequence, scheduled);
            if let Some(arrival) = arrival {
                assert!(delays.answer(&message, MonotonicTime(arrival)).is_some());
            }
        }
        let during = delays.scheduled_within(MonotonicTime(100), MonotonicTime(200));
        // The answer that came after the end counts: without it the longest delays would be missing.
        let series = during.series("round_trip_delay_ns");
        assert_eq!(series.t_ns, [100, 190]);
        assert_eq!(series.values, [30.0, 100.0]);
        assert_eq!((during.sent(), during.unanswered()), (3, 1));
        assert_eq!(during.mean(), Some(65.0));
        assert_eq!(during.max(), Some(100.0));
    }

    /// A schedule of one message a minute whose transfer is over, with two late and the third not due.
    fn two_late(patience: Duration) -> (Schedule, Stop) {
        let over = Stop::new();
        over.stop();
        let schedule = Schedule {
            next: MonotonicTime(MonotonicTime::now().0 - 60_000_000_001),
            interval: Duration::from_secs(60),
            patience,
            end: None,
        };
        (schedule, over)
    }

    #[test]
    fn messages_due_at_the_end_of_the_transfer_still_depart() {
        let (mut schedule, over) = two_late(Duration::from_secs(60));
        let mut departures = 0;
        while schedule.next(&over).is_some() {
            departures += 1;
            schedule.advance();
        }
        assert_eq!(departures, 2);
        let mut delays = Delays::default();
        schedule.note_held_back(&mut delays);
        assert_eq!(delays.sent(), 0);
    }

    /// Checks a transport that takes each message only when the one before it is answered.
    #[test]
    fn messages_never_sent_count_as_unanswered() {
        let (mut schedule, over) = two_late(Duration::ZERO);
        assert_eq!(schedule.next(&over), None, "nobody waits any more");
        let mut delays = Delays::default();
        schedule.note_held_back(&mut delays);
        assert_eq!((delays.sent(), delays.unanswered()), (2, 2));
    }

    #[test]
    fn late_probe_skips_no_departure() {
        let order = crate::testing::order_for(regatta_control::Role::Sender, "udp", 1, 1);
        let plan = ProbePlan::new(&order);
        let since = MonotonicTime(MonotonicTime::now().0 - 1_000_000_000);
        let first = Schedule::new(&plan, since).next(&Stop::new());
        assert_eq!(first, Some(since + plan.interval));
    }
}
