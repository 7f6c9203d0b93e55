//! Exchange whose connecting end is another process: it states when each request left and when its answer arrived.

use std::collections::VecDeque;

use bytes::Bytes;
use regatta_control::TrialOrder;
use regatta_model::{Arrivals, Phrase, reason};

use super::{Exchange, ExchangeResult, HELD_BYTES, tracker::RequestTracker};
use crate::{clock::MonotonicTime, error::Result, trial::findings::Findings};

/// Exchange of another process over a transport that delivers every byte in order: times that are possible become the
/// same metrics as those of a session.
#[derive(Debug)]
pub struct StatedExchange {
    exchange: Exchange,
    /// Maximum number of requests that may wait for their answers at once.
    outstanding: u64,
    /// Arrivals of the last answers, at most `outstanding`.
    arrivals: VecDeque<MonotonicTime>,
    result: ExchangeResult,
}

impl StatedExchange {
    /// Reads the order of an exchange.
    ///
    /// # Errors
    /// Errors of the workload's settings; an order whose workload is no exchange.
    pub fn new(order: &TrialOrder) -> Result<Self> {
        let exchange = Exchange::new(order)?;
        let least = exchange.requests.message.min(exchange.responses.message) as u64;
        // Else each end could wait for the other to read.
        let held = (HELD_BYTES / least).max(1);
        let (outstanding, asked) = match exchange.arrivals {
            Arrivals::Open { .. } => (held, held),
            Arrivals::Closed { outstanding } => {
                (held.min(u64::from(outstanding)), u64::from(outstanding))
            }
        };
        let held_back = outstanding < asked.min(exchange.requests.count);
        Ok(Self {
            exchange,
            outstanding,
            arrivals: VecDeque::new(),
            result: ExchangeResult {
                held_back,
                ..ExchangeResult::default()
            },
        })
    }

    /// Returns one request of full length, and the bytes of all requests.
    #[must_use]
    pub fn requests(&self) -> (Bytes, u64) {
        let requests = &self.exchange.requests;
        (requests.content.clone(), requests.size)
    }

    /// Returns one answer, and the bytes of all answers.
    #[must_use]
    pub fn answers(&self) -> (Bytes, u64) {
        let answers = &self.exchange.responses;
        (answers.content.clone(), answers.size)
    }

    /// Returns the number of requests.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.exchange.requests.count
    }

    /// Returns the number of requests that may wait for their answers at once.
    #[must_use]
    pub fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// Returns the rate of the requests' schedule; `None` where each leaves as soon as it may.
    #[must_use]
    pub fn requests_per_second(&self) -> Option<f64> {
        match self.exchange.arrivals {
            Arrivals::Open {
                requests_per_second,
            } => Some(requests_per_second),
            Arrivals::Closed { .. } => None,
        }
    }

    /// Whether the goodput of this exchange is meaningful.
    #[must_use]
    pub fn has_goodput(&self) -> bool {
        self.exchange.has_goodput()
    }

    /// Begins the schedule: the connection can carry data.
    pub fn begin(&mut self, connected: MonotonicTime) {
        let rules = self.exchange.rules(false, std::time::Duration::ZERO);
        self.result.tracker = Some(RequestTracker::new(rules, connected));
    }

    /// Returns the number of requests that were answered.
    #[must_use]
    pub fn answered(&self) -> u64 {
        let tracker = self.result.tracker.as_ref();
        tracker.map_or(0, |tracker| tracker.sent)
    }

    /// Adds the next request, which left at `left` and whose answer was whole at `at`.
    ///
    /// # Errors
    /// The reason why that is impossible.
    pub fn add(&mut self, left: MonotonicTime, at: MonotonicTime) -> Result<(), Phrase> {
        let number = self.answered();
        let Some(tracker) = &mut self.result.tracker else {
            return Err(reason::answer_before_connection());
        };
        if number >= self.exchange.requests.count {
            return Err(reason::more_answers(number));
        }
        let free = self.arrivals.front().copied();
        let free = free.filter(|_| self.arrivals.len() as u64 == self.outstanding);
        let earliest = tracker.earliest().max(free.unwrap_or(MonotonicTime(0)));
        let previous = self.arrivals.back().copied();
        if left < earliest || at < left.max(previous.unwrap_or(left)) {
            return Err(reason::request_too_early(
                number,
                &left.0.to_string(),
                &at.0.to_string(),
                &earliest.0.to_string(),
            ));
        }
        // A request that is due leaves only when one before has its answer.
        self.result.held_back |= free.is_some_and(|free| tracker.is_due_before(free));
        tracker.depart(left);
        tracker.answer(number, at);
        self.arrivals.push_back(at);
        if self.arrivals.len() as u64 > self.outstanding {
            self.arrivals.pop_front();
        }
        Ok(())
    }

    /// Adds the metrics of the exchange, in which `sent` requests have left.
    pub fn report(&mut self, sent: u64, findings: &mut Findings) {
        // At its deadline the other end may count what left after it.
        let unanswered = sent.saturating_sub(self.answered());
        self.result.unanswered = unanswered.min(self.outstanding);
        self.exchange.report(&self.result, findings);
    }
}

#[cfg(test)]
mod tests {
    use regatta_control::Role;
    use regatta_model::{Bytes, WorkloadKind};

    use super::*;
    use crate::testing::order_for;

    fn exchange(arrivals: Arrivals) -> StatedExchange {
        let mut order = order_for(Role::Sender, "external", 1, 1);
        order.workload.kind = WorkloadKind::RequestResponse {
            requests: 4,
            request: Bytes(20_000),
            response: Bytes(20_000),
            arrivals,
        };
        let mut exchange = StatedExchange::new(&order).unwrap();
        exchange.begin(at(0));
        exchange
    }

    fn at(ms: i64) -> MonotonicTime {
        MonotonicTime(1_000_000_000 + ms * 1_000_000)
    }

    fn add(exchange: &mut StatedExchange, left: i64, answered: i64) -> Result<(), Phrase> {
        exchange.add(at(left), at(answered))
    }

    fn report(exchange: &mut StatedExchange, sent: u64) -> Findings {
        let mut findings = Findings::default();
        exchange.report(sent, &mut findings);
        findings
    }

    #[test]
    fn stated_times_become_the_metrics_of_an_exchange() {
        let mut exchange = exchange(Arrivals::Closed { outstanding: 2 });
        for (left, answered) in [(0, 10), (1, 12), (10, 20)] {
            add(&mut exchange, left, answered).unwrap();
        }
        let findings = report(&mut exchange, 4).0.measurements;
        assert_eq!(findings.metrics["message_delay_max_ns"], 11e6);
        assert_eq!(findings.metrics["requests_unanswered"], 1.0);
        assert_eq!(findings.metrics["requests_per_second"], 150.0);
        assert_eq!(findings.warnings, []);
    }

    #[test]
    fn delays_count_from_the_schedule_of_the_order() {
        let mut exchange = exchange(Arrivals::Open {
            requests_per_second: 100.0,
        });
        add(&mut exchange, 0, 5).unwrap();
        add(&mut exchange, 15, 18).unwrap();
        let findings = report(&mut exchange, 2).0.measurements;
        assert_eq!(findings.metrics["message_delay_max_ns"], 8e6);
    }

    #[test]
    fn times_that_the_order_rules_out_are_refused() {
        let mut closed = exchange(Arrivals::Closed { outstanding: 2 });
        add(&mut closed, 0, 10).unwrap();
        add(&mut closed, 0, 11).unwrap();
        // Two wait until 10 ms; an answer comes after its request, and after the one before.
        for (left, answered) in [(9, 20), (10, 9), (10, 10)] {
            assert!(add(&mut closed, left, answered).is_err());
        }
        let mut open = exchange(Arrivals::Open {
            requests_per_second: 100.0,
        });
        add(&mut open, 0, 1).unwrap();
        assert!(add(&mut open, 9, 12).is_err());
    }

    #[test]
    fn more_than_both_ends_hold_is_not_under_way() {
        let mut exchange = exchange(Arrivals::Closed { outstanding: 4 });
        assert_eq!(exchange.outstanding(), 3);
        let findings = report(&mut exchange, 0).0.measurements;
        assert_eq!(findings.warnings[0].code, "requests_held_back");
    }
}
