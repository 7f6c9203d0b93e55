//! Sending end of a flow.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use regatta_control::Note;
use regatta_model::units::signed_nanoseconds;

use super::{Content, Shared, Watch, agreement::agree, script::ScriptClient};
use crate::{
    clock::MonotonicTime,
    content::{message_check::write_header, plan::Plan},
    delivered::Delivered,
    error::{Result, TransportError},
    executor::Executor as _,
    message::{MessageEndpoint, MessageFlow},
    opening::Purpose,
    trial::message_control::{self, Control},
};

/// Maximum delay of a paced sender that it makes up for, as transmission time: making up for more would be a burst.
const CATCH_UP: Duration = Duration::from_millis(5);

/// Maximum pacing burst, as transmission time.
const PACED_BATCH: Duration = Duration::from_micros(500);

/// Carries a flow on which this end sends, and agrees on its end with the other end. `script` is the end of a flow of a
/// script, with the moment after which its steps are not measured.
pub(super) async fn carry<E: MessageEndpoint>(
    shared: &Shared<'_>,
    endpoint: &E,
    (index, flow): (u16, &mut E::Connection),
    script: Option<(ScriptClient<'_>, MonotonicTime)>,
) {
    let sent = AtomicU64::new(0);
    let result = match (&shared.flows.content, script) {
        (Content::Bulk | Content::Scheduled(_), _) => {
            let duration = shared.flows.duration;
            let until = duration.map_or(MonotonicTime::NEVER, |it| shared.started + it);
            let part = (&shared.flows.parts[usize::from(index)].plan, until);
            match send_data(shared, endpoint, part, flow, &sent).await {
                Ok((handed_over, over)) => agree(shared, flow, handed_over, over.min(until)).await,
                Err(error) => Err(error),
            }
        }
        (Content::Exchange(exchange), _) => {
            let mut exchanged = Default::default();
            let agreed = exchange.send(shared, endpoint, flow, &mut exchanged).await;
            shared.tally().exchange = exchanged;
            sent.store(shared.sent().messages, Ordering::Relaxed);
            agreed
        }
        (Content::Script(_), Some((client, deadline))) => {
            client.carry(endpoint, flow, (&sent, deadline)).await
        }
        // Its flows are from the client, which has made its end of each.
        (Content::Script(_), None) => Err(TransportError::Cancelled),
    };
    let agreed = match result {
        Ok(agreed) => agreed,
        Err(error) => {
            if is_over_by_deadline(shared) {
                shared.over.stop();
                settle(shared, index, flow, sent.into_inner()).await;
            }
            return shared.broke(error);
        }
    };
    {
        let mut tally = shared.tally();
        tally.left += sent.into_inner();
        tally.over_control |= !agreed.in_band;
        tally.acknowledged = tally.acknowledged + agreed.delivered;
    }
    shared.ended(agreed.at);
    if agreed.in_band {
        send_done(shared, flow).await;
    }
}

/// Whether the deadline has stopped the transfer of an end that connects.
fn is_over_by_deadline(shared: &Shared<'_>) -> bool {
    matches!(&shared.own.watch, Watch::Connecting(watch) if watch.is_by_deadline())
}

/// Gives the messages that are in the flow at the deadline a while to leave it; notes how many have
/// left this end of those `handed_over`, and sends that number to the receiver.
async fn settle<F: MessageFlow>(shared: &Shared<'_>, index: u16, flow: &mut F, handed_over: u64) {
    // The counters do not include the batch under way, whose messages are among those given up.
    let messages = handed_over.saturating_sub(flow.settle().await);
    shared.tally().left += messages;
    let flow = index;
    shared.trial.send_note(Note::Left { flow, messages });
}

/// Sends every message of a flow, or as many as fit until `until`, and counts them in `sent`; returns what was handed over, and the moment
/// when the last message's time at the configured rate is over, which has passed without one. Notes
/// the ratio of the rate reached to the configured one.
async fn send_data<E: MessageEndpoint>(
    shared: &Shared<'_>,
    endpoint: &E,
    (plan, until): (&Plan, MonotonicTime),
    flow: &mut E::Connection,
    sent: &AtomicU64,
) -> Result<(Delivered, MonotonicTime)> {
    let live = &shared.trial.context.live;
    let pace = endpoint.pace().map(|bits| bits as f64 / 8e9);
    let mut at_once = flow.batch_messages(plan.message).max(1);
    if let Some(bytes_per_ns) = pace {
        let bytes = bytes_per_ns * PACED_BATCH.as_nanos() as f64;
        at_once = at_once.min((bytes / plan.message as f64) as usize).max(1);
    }
    let mut batch = plan.content.repeat(at_once);
    let header = Plan::header(plan.message);
    let began = MonotonicTime::now();
    let mut next = began;
    let mut handed_over = Delivered::default();
    while handed_over.messages < plan.count {
        if pace.is_some() && !next.has_passed() {
            let (executor, until) = (endpoint.executor(), next.min(until));
            executor.sleep_unless_stopped(until, &shared.stop).await;
        }
        if shared.stop.is_stopped() {
            return Err(TransportError::Cancelled);
        }
        let messages = (plan.count - handed_over.messages).min(at_once as u64);
        let now = MonotonicTime::now();
        if now >= until {
            break;
        }
        shared.warm_up.is_over(now);
        let mut end = 0;
        for sequence in handed_over.messages..handed_over.messages + messages {
            let length = plan.length(sequence);
            if Plan::header(length) > 0 {
                write_header(plan, sequence, now, &mut batch[end..]);
            } else if header > 0 {
                // The place of an earlier message's header.
                batch[end..end + length].copy_from_slice(&plan.content[..length]);
            }
            end += length;
        }
        flow.send_batch(&batch[..end], plan.message).await?;
        handed_over.messages += messages;
        handed_over.bytes += end as u64;
        sent.store(handed_over.messages, Ordering::Relaxed);
        live.messages_sent.fetch_add(messages, Ordering::Relaxed);
        live.bytes_sent.fetch_add(end as u64, Ordering::Relaxed);
        if let Some(bytes_per_ns) = pace {
            let span = Duration::from_nanos((end as f64 / bytes_per_ns).ceil() as u64);
            // A batch that is longer than the limit is made up for as a whole.
            let most = signed_nanoseconds(CATCH_UP.max(span));
            let earliest = MonotonicTime(now.0.saturating_sub(most));
            next = next.max(earliest) + span;
        }
    }
    if let Some(bytes_per_ns) = pace.filter(|_| next > began) {
        let scheduled_ns = handed_over.bytes as f64 / bytes_per_ns;
        let ratio = scheduled_ns / (next - began) as f64;
        let mut tally = shared.tally();
        tally.rate_ratio = Some(tally.rate_ratio.map_or(ratio, |least| least.min(ratio)));
    }
    Ok((handed_over, next))
}

/// Tells the other end that its acknowledgement is here, which spares it a wait; if all copies of
/// that are lost it waits. After the first one it may have closed already.
async fn send_done<F: MessageFlow>(shared: &Shared<'_>, flow: &mut F) {
    for _ in 0..3 {
        let _ = message_control::send(shared.trial, flow, Purpose::Transfer, Control::Done).await;
    }
}
