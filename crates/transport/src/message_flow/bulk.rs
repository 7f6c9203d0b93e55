//! Bulk transfer over messages: one flow of a size or a duration, with an optional warm-up.

use std::{sync::atomic::Ordering, time::Duration};

use regatta_control::TrialOrder;
use regatta_model::{BulkOptions, Pattern, WorkloadKind, metric::id};

use super::{
    MessageSink,
    messages::{agree, say_done},
};
use crate::{
    clock::MonotonicTime,
    content::{
        message_check::{MOST_MESSAGES, MessageCheck, write_header},
        plan::Plan,
    },
    driver::{TransportError, Unsupported},
    executor::Executor as _,
    message::{MessageEndpoint, MessageFlow},
    trial::{
        connecting::Connecting, findings::Findings, messages::Messages, warm_up::WarmUp,
        watch::Delivered,
    },
};

/// The messages of one flow.
#[derive(Debug)]
pub(crate) struct Bulk {
    /// Messages of the flow; of a transfer with a duration as many as can be numbered.
    pub(super) plan: Plan,
    /// Size that was asked for, in bytes.
    pub(super) size: u64,
    /// Time since the first connect call during which messages are sent; if absent, all are sent.
    duration: Option<Duration>,
    pub(super) warm_up: Duration,
}

impl Bulk {
    /// Makes the messages of an order.
    ///
    /// # Errors
    /// [`TransportError::Order`] for an order that cannot be carried out,
    /// [`TransportError::Unsupported`] for what only streams can do.
    pub(crate) fn new(order: &TrialOrder) -> Result<Self, TransportError> {
        let mut plan = Plan::new(order)?;
        let WorkloadKind::Bulk {
            size,
            message,
            pattern,
            options,
            ..
        } = order.workload.kind
        else {
            // Making the plan has refused it.
            return Err(for_streams());
        };
        let BulkOptions {
            duration, warm_up, ..
        } = options;
        let here = BulkOptions {
            duration,
            warm_up,
            ..BulkOptions::default()
        };
        if options != here || pattern == Pattern::File {
            return Err(for_streams());
        }
        if duration.is_some() {
            // A message is not cut to a size that does not count.
            let all = regatta_model::Bytes(message.0.saturating_mul(MOST_MESSAGES));
            plan = Plan::of(order, "", all, message, pattern)?;
        }
        if plan.count > MOST_MESSAGES {
            return Err(TransportError::Order {
                what: format!("{} messages are more than 2^32 - 1", plan.count),
            });
        }
        Ok(Self {
            plan,
            size: size.0,
            duration,
            warm_up,
        })
    }
}

/// Returns the error for options that only streams have.
fn for_streams() -> TransportError {
    TransportError::Unsupported(Unsupported {
        reason: "over messages a bulk transfer is one flow from the connecting host: \
                 `direction`, `flows`, `finish`, `verify` and the pattern `file` are for streams"
            .to_owned(),
        hint: "leave these keys out, or choose a transport of streams".to_owned(),
    })
}

impl Bulk {
    pub(super) fn sink(&self) -> MessageCheck {
        MessageCheck::new(&self.plan)
    }

    /// Sends every message and the end marker, and waits for the acknowledgement. Returns whether it
    /// came in the flow.
    pub(super) async fn send<E: MessageEndpoint>(
        &self,
        end: &Connecting<'_, Messages<'_, E>>,
        flow: &mut E::Flow,
    ) -> Result<bool, TransportError> {
        let (trial, stop) = (end.trial, &end.transfer);
        let over = send_data(self, end, flow).await?;
        let sent = Delivered::sent(&trial.context.live);
        let (in_band, at, delivered) = agree(trial, flow, stop, sent, over).await?;
        end.watch.acknowledged(at, delivered);
        if in_band {
            say_done(trial, flow).await;
        }
        Ok(in_band)
    }
}

impl MessageSink for MessageCheck {
    fn consume(&mut self, message: &[u8], now: MonotonicTime) -> Option<MonotonicTime> {
        Self::consume(self, message, now)
    }

    fn is_complete(&self) -> bool {
        Self::is_complete(self)
    }

    fn delivered(&self) -> Delivered {
        Delivered {
            bytes: self.bytes,
            messages: self.messages,
        }
    }

    fn arrived_of(&self, sent: u64) -> u64 {
        Self::arrived_of(self, sent)
    }

    fn corrupted(&self) -> u64 {
        self.corrupted
    }

    fn report(&self, findings: &mut Findings) {
        if self.has_headers() {
            findings.fact("message_check", "sequence");
            findings.count(id::MESSAGES_DUPLICATED, self.duplicated);
            findings.count(id::MESSAGES_REORDERED, self.reordered);
            findings.metric(id::INTERARRIVAL_JITTER_NS, self.interarrival_jitter());
        } else {
            findings.fact("message_check", "count");
        }
    }
}

/// Longest delay that a paced sender makes up for after it was held up, as time at its rate: making
/// up for more would be a burst of its own.
const CATCH_UP: Duration = Duration::from_millis(5);

/// Most data that a paced sender hands over at once, as time at its rate.
const PACED_BATCH: Duration = Duration::from_micros(500);

/// Sends every message, or as many as fit into the flow's duration; returns the moment when the
/// last message's time at the asked rate is over, which has passed if no rate was asked for.
async fn send_data<E: MessageEndpoint>(
    work: &Bulk,
    end: &Connecting<'_, Messages<'_, E>>,
    flow: &mut E::Flow,
) -> Result<MonotonicTime, TransportError> {
    let (trial, endpoint, stop) = (end.trial, end.carrier.0, &end.transfer);
    let started = end.started;
    let live = &trial.context.live;
    let plan = &work.plan;
    let until = work
        .duration
        .map_or(MonotonicTime::NEVER, |duration| started + duration);
    let warm_up = WarmUp::since(&trial.context.observer, started, work.warm_up);
    let pace = endpoint.pace().map(|bits| bits as f64 / 8e9);
    let mut at_once = flow.batch_messages(plan.message).max(1);
    if let Some(bytes_per_ns) = pace {
        let bytes = bytes_per_ns * PACED_BATCH.as_nanos() as f64;
        at_once = at_once.min((bytes / plan.message as f64) as usize).max(1);
    }
    let mut batch = plan.content.repeat(at_once);
    let header = Plan::header(plan.message);
    let mut next = MonotonicTime::now();
    let (mut sequence, mut bytes) = (0, 0);
    while sequence < plan.count {
        if pace.is_some() && !next.has_passed() {
            let executor = endpoint.executor();
            executor.sleep_unless_stopped(next.min(until), stop).await;
        }
        if stop.is_stopped() {
            return Err(TransportError::Cancelled);
        }
        let messages = (plan.count - sequence).min(at_once as u64);
        let now = MonotonicTime::now();
        if now >= until {
            break;
        }
        warm_up.is_over(now);
        let mut end = 0;
        for index in 0..messages {
            let length = plan.length(sequence + index);
            if Plan::header(length) > 0 {
                write_header(plan, sequence + index, now, &mut batch[end..]);
            } else if header > 0 {
                // The place of an earlier message's header.
                batch[end..end + length].copy_from_slice(&plan.content[..length]);
            }
            end += length;
        }
        flow.send_batch(&batch[..end], plan.message).await?;
        sequence += messages;
        bytes += end as u64;
        live.messages_sent.store(sequence, Ordering::Relaxed);
        live.bytes_sent.store(bytes, Ordering::Relaxed);
        if let Some(bytes_per_ns) = pace {
            let span = Duration::from_nanos((end as f64 / bytes_per_ns).ceil() as u64);
            let earliest = MonotonicTime(now.0.saturating_sub(CATCH_UP.as_nanos() as i64));
            next = next.max(earliest) + span;
        }
    }
    Ok(next.min(until))
}
