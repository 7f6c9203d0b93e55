//! Workloads `stop-and-wait` and `request-response`: messages that the other end's application
//! answers.
//!
//! Both are the same exchange. In stop-and-wait one message is in flight at a time, and its
//! response is an acknowledgement. In request-response several may be in flight, or they leave on a
//! schedule, and responses have their own size.

pub(crate) mod stated;
#[cfg(test)]
mod tests;
pub(crate) mod tracker;

use std::time::Duration;

use regatta_control::TrialOrder;
use regatta_model::{
    Arrivals, Bytes, Pattern, WorkloadKind,
    metric::{DelayMetrics, id},
    reason, warning,
};

use crate::{
    content::{
        message_check::MAX_MESSAGES,
        numbered::NUMBER_BYTES,
        plan::{HEADER_BYTES, Plan},
    },
    error::{Result, TransportError},
    timeout::RetransmissionTimeout,
    trial::findings::Findings,
};
use tracker::{RequestTracker, Rules};

/// Bytes of requests, or of answers, that both ends and the path hold even if no application reads them,
/// over any stream: less than the least receive window of the drivers.
const HELD_BYTES: u64 = 64 << 10;

/// Workload of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    StopAndWait,
    RequestResponse,
}

/// Requests and their answers. Both ends make the same from their orders.
#[derive(Debug)]
pub(crate) struct Exchange {
    kind: Kind,
    /// Messages of the connecting end.
    pub requests: Plan,
    /// Answers of the listening end.
    pub responses: Plan,
    arrivals: Arrivals,
    /// Time after which an answer that can be lost is given up.
    patience: RetransmissionTimeout,
}

impl Exchange {
    /// Reads an order.
    ///
    /// # Errors
    /// [`TransportError::Order`] for another workload, and for sizes, numbers and rates that make
    /// no sense; [`TransportError::Unsupported`] for content that only a bulk transfer reads.
    pub(crate) fn new(order: &TrialOrder) -> Result<Self> {
        let part = |name, count: u64, message: Bytes, pattern| {
            let size = count.checked_mul(message.0);
            let what = || reason::uncountable_messages(count, message);
            let size = size.ok_or_else(|| TransportError::order(what()))?;
            Plan::of(order, name, Bytes(size), message, pattern)
        };
        match order.workload.kind {
            WorkloadKind::StopAndWait {
                size,
                message,
                pattern,
                timeout,
            } => {
                if pattern == Pattern::File {
                    return Err(TransportError::unsupported(
                        reason::from_memory_only(),
                        reason::random_or_bulk(),
                    ));
                }
                let requests = Plan::of(order, "", size, message, pattern)?;
                let acknowledgement = Bytes(HEADER_BYTES as u64);
                Ok(Self {
                    kind: Kind::StopAndWait,
                    responses: part("answers", requests.count, acknowledgement, Pattern::Data)?,
                    requests,
                    arrivals: Arrivals::Closed { outstanding: 1 },
                    patience: RetransmissionTimeout::new(timeout, [timeout; 2]),
                })
            }
            WorkloadKind::RequestResponse {
                requests,
                request,
                response,
                arrivals,
            } => {
                let sound = match arrivals {
                    Arrivals::Open {
                        requests_per_second,
                    } => requests_per_second.is_finite() && requests_per_second > 0.0,
                    Arrivals::Closed { outstanding } => outstanding > 0,
                };
                if !sound {
                    let what = reason::requests_never_leave();
                    return Err(TransportError::order(what));
                }
                Ok(Self {
                    kind: Kind::RequestResponse,
                    requests: part("", requests, request, Pattern::Data)?,
                    responses: part("answers", requests, response, Pattern::Data)?,
                    arrivals,
                    patience: RetransmissionTimeout::of_applications(&order.path),
                })
            }
            _ => {
                let name = order.workload.kind.name();
                Err(TransportError::order(reason::not_exchange(name)))
            }
        }
    }

    /// Refuses messages that cannot be distinguished where some can be lost.
    ///
    /// # Errors
    /// [`TransportError::Unsupported`] for messages too short for their number,
    /// [`TransportError::Order`] for more than can be numbered.
    pub(crate) fn check_messages(&self) -> Result<()> {
        let shortest = self.requests.message.min(self.responses.message);
        // In stop-and-wait the message before and the one after are all that can be mistaken for
        // one, so that one byte is enough.
        if self.kind == Kind::RequestResponse && shortest < NUMBER_BYTES {
            let message = Bytes(shortest as u64);
            return Err(TransportError::unsupported(
                reason::no_room_for_number(message),
                reason::requests_of_at_least(NUMBER_BYTES as u64),
            ));
        }
        if self.requests.count > MAX_MESSAGES {
            let what = reason::too_many_messages(self.requests.count);
            return Err(TransportError::order(what));
        }
        Ok(())
    }

    /// Whether one more request may be under way beside `unanswered` others: the other end must be
    /// able to send the answers of all before this one if no application reads them, or to leave the
    /// requests unread. Else each end could wait for the other to read.
    pub(crate) fn fits(&self, unanswered: u64) -> bool {
        let least = self.requests.message.min(self.responses.message) as u64;
        unanswered == 0 || (unanswered + 1).saturating_mul(least) <= HELD_BYTES
    }

    /// Returns the rules by which the requests leave. `patience` says whether an answer can be
    /// lost.
    pub(crate) fn rules(&self, patience: bool, gap: Duration) -> Rules {
        Rules {
            count: self.requests.count,
            arrivals: self.arrivals,
            patience: patience.then_some(self.patience),
            gap,
        }
    }
}

/// Results of an exchange at its connecting end.
#[derive(Debug, Default)]
pub(crate) struct ExchangeResult {
    /// Absent until the flow is open.
    pub tracker: Option<RequestTracker>,
    /// Answers that came damaged, or that belong to no request.
    pub stray: u64,
    /// Requests that have left and whose departure is not known, at the end of another process.
    unanswered: u64,
    /// Requests that waited because neither end may block the other.
    pub held_back: bool,
    /// Time after which an answer is given up, as at the beginning, where it can be lost.
    pub patience: Option<RetransmissionTimeout>,
}

impl Exchange {
    /// Whether the exchange's goodput is meaningful.
    pub(crate) fn has_goodput(&self) -> bool {
        self.kind == Kind::StopAndWait
    }

    /// Adds the results of the end that sends the requests to its report.
    pub(crate) fn report(&self, result: &ExchangeResult, findings: &mut Findings) {
        let Some(tracker) = &result.tracker else {
            return;
        };
        let delays = &tracker.delays;
        delays.report(DelayMetrics::MESSAGE, "sender", findings);
        match self.kind {
            Kind::StopAndWait if result.patience.is_some() => {
                findings.count(id::MESSAGES_UNACKNOWLEDGED, tracker.given_up);
            }
            Kind::StopAndWait => {}
            Kind::RequestResponse => {
                findings.metric(id::REQUESTS_PER_SECOND, tracker.answers_per_second());
                findings.metric(id::REQUEST_RATE_RATIO, tracker.rate_ratio());
                let unanswered = tracker.sent + result.unanswered - tracker.delays.len();
                findings.count(id::REQUESTS_UNANSWERED, unanswered);
            }
        }
        if let Some(patience) = result.patience {
            findings.given_up_answers(&patience, tracker.late);
        }
        if result.stray > 0 {
            findings.warn(warning::answers_corrupted(result.stray));
        }
        if result.held_back {
            findings.warn(warning::requests_held_back());
        }
    }
}
