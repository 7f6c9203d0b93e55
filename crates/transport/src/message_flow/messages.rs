//! Connecting end of a trial of one flow of messages.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use regatta_control::{Note, Role, SideReport};
use regatta_model::metric::id;

use super::{Work, message_receiver};
use crate::{
    clock::MonotonicTime,
    driver::TransportError,
    exchange::Asked,
    message::{MessageEndpoint, MessageFlow},
    opening::Purpose,
    stop::Stop,
    trial::{
        LEAVING, MARGIN, Trial,
        connecting::Connecting,
        message_control::{self, Control},
        messages::Messages,
        watch::{Delivered, SenderEnd},
    },
};

/// Longest time that the receiver's note about late messages may take beyond those messages.
const LATE_ANSWER: Duration = Duration::from_secs(3);

/// Runs one end.
pub(crate) async fn run<E: MessageEndpoint>(
    trial: &Trial,
    work: &Work,
    endpoint: &E,
    peer: Option<SocketAddr>,
) -> Result<SideReport, TransportError> {
    match trial.order.role {
        Role::Sender => send_side(trial, work, endpoint, peer).await,
        Role::Receiver => message_receiver::run(trial, work, endpoint).await,
    }
}

/// Runs the connecting end.
async fn send_side<E: MessageEndpoint>(
    trial: &Trial,
    work: &Work,
    endpoint: &E,
    peer: Option<SocketAddr>,
) -> Result<SideReport, TransportError> {
    let live = &trial.context.live;
    let carrier = Messages(endpoint);
    let (mut end, mut findings) = Connecting::new(trial, &carrier, peer).await?;
    end.begin();
    let mut sent = Sent::default();
    let result = send_transfer(work, &end, &mut sent).await;
    let is_connected = end.is_connected();
    let ended = end.end(result, is_connected)?;
    let delivered = ended.delivered()?;
    let handed_over = match ended.end {
        SenderEnd::Deadline { sent, .. } => sent,
        SenderEnd::Acknowledged { .. } => Delivered::sent(live),
    };
    // The counters lag behind by the batch under way when the deadline came, part of which may
    // have been delivered.
    let bytes = handed_over.bytes.max(delivered.bytes);
    let messages = handed_over.messages.max(delivered.messages);
    // What was under way at the deadline is not lost, and what never left this end neither. What
    // a reliable flow would have sent again is not known.
    let left = sent.left.unwrap_or(messages);
    let arrived = if !ended.by_deadline() {
        Some(delivered.messages)
    } else if endpoint.reliable() {
        None
    } else if delivered.messages < messages {
        arrived_late(trial)
    } else {
        Some(delivered.messages)
    };
    let retransmission = match endpoint.reliable() {
        true => "by the transport",
        false => "none",
    };
    findings.fact("retransmission", retransmission);
    ended.report(&mut findings, work.size(), delivered, work.has_goodput());
    let acknowledgement = if sent.in_band { "in_band" } else { "control" };
    findings.fact("acknowledgement", acknowledgement);
    work.report(&sent.asked, &mut findings);
    findings.counters(trial, ended.time());
    findings.count(id::BYTES_SENT, bytes);
    findings.count(id::MESSAGES_SENT, messages);
    if let Some(arrived) = arrived {
        let lost = left.max(delivered.messages).saturating_sub(arrived);
        findings.count(id::MESSAGES_LOST, lost);
        if messages > 0 {
            findings.metric(id::MESSAGE_LOSS_RATIO, lost as f64 / messages as f64);
        }
    }
    if let (Some(left), Some(_)) = (sent.left, arrived) {
        let given_up = handed_over.messages.saturating_sub(left);
        findings.fact("messages_given_up.sender", given_up.to_string());
    }
    findings.facts(sent.facts);
    let warnings = endpoint.warnings(work.longest_message());
    findings.0.measurements.warnings.extend(warnings);
    Ok(findings.0)
}

/// Waits for the receiver's note about messages that arrived after the deadline; returns the number
/// of all that have arrived, or `None` if the note takes too long.
fn arrived_late(trial: &Trial) -> Option<u64> {
    let until = MonotonicTime::now() + LEAVING + trial.late_arrivals_within()? + LATE_ANSWER;
    while let Some(note) = trial.context.mailbox.take_until(until) {
        if let Note::Arrived { messages } = note {
            return Some(messages);
        }
    }
    None
}

/// Results of the transfer at its sender.
#[derive(Debug, Default)]
struct Sent {
    /// Results of an exchange.
    asked: Asked,
    /// Number of messages that left this end, if the deadline stopped it.
    left: Option<u64>,
    in_band: bool,
    facts: BTreeMap<String, String>,
}

async fn send_transfer<E: MessageEndpoint>(
    work: &Work,
    end: &Connecting<'_, Messages<'_, E>>,
    sent: &mut Sent,
) -> Result<(), TransportError> {
    let (trial, watch, stop) = (end.trial, &end.watch, &end.transfer);
    let connected = end
        .carrier
        .0
        .connect(end.peer, Purpose::Transfer, stop)
        .await;
    let mut flow = connected.map_err(|error| match error {
        // A stack that has the same limit may notice it before the watch.
        TransportError::TimedOut { .. } => trial.no_connection(),
        error => error,
    })?;
    let until = end.started + trial.order.longest_transfer() + MARGIN;
    message_control::open(trial, &mut flow, Purpose::Transfer, until).await?;
    end.connected(end.started);
    sent.facts = flow.facts();
    let statistics = flow.statistics();
    if let Some(statistics) = &statistics {
        watch.connection(statistics);
    }
    let (flow_ref, sent_ref) = (&mut flow, &mut *sent);
    let result = end
        .beside_probe(move || async move {
            let result = work.send(end, flow_ref, &mut sent_ref.asked).await;
            end.over.stop();
            if let Some(handed_over) = watch.stopped_with() {
                sent_ref.left = Some(settle(trial, flow_ref, handed_over).await);
            }
            result
        })
        .await;
    sent.facts = flow.facts();
    sent.in_band = result?;
    Ok(())
}

/// Gives the messages that are in the flow at the deadline a while to leave it; returns how many
/// messages have left this end, and tells the receiver.
async fn settle<F: MessageFlow>(trial: &Trial, flow: &mut F, handed_over: Delivered) -> u64 {
    // The counters lag behind by the batch under way, whose messages are among those given up.
    let messages = handed_over.messages.saturating_sub(flow.settle().await);
    let note = Note::Left { messages };
    trial.context.observer.send_note(note);
    messages
}

/// Takes what arrives until `until` has come, or until an acknowledgement is among it.
async fn await_acknowledgement<F: MessageFlow>(
    trial: &Trial,
    flow: &mut F,
    until: MonotonicTime,
) -> Result<Option<Delivered>, TransportError> {
    let mut answer = None;
    while answer.is_none() {
        let received = flow
            .receive_batch(until, &mut |arrival| {
                if let Some((_, Control::Acknowledgement(delivered))) =
                    Control::decode(trial, arrival.data)
                {
                    answer.get_or_insert(delivered);
                }
            })
            .await?;
        if received == 0 {
            break;
        }
    }
    Ok(answer)
}

/// Asks for the acknowledgement until it comes: in the flow, or, if the way back does not let it
/// through, over control. Returns whether it came in the flow, the moment when it came, and its
/// content.
///
/// Before `over` it does not ask, and takes no acknowledgement as one: else N messages would have
/// been sent in the time of N − 1, faster than the rate that was asked for.
pub(crate) async fn agree<F: MessageFlow>(
    trial: &Trial,
    flow: &mut F,
    stop: &Stop,
    sent: Delivered,
    over: MonotonicTime,
) -> Result<(bool, MonotonicTime, Delivered), TransportError> {
    let round_trip = trial.order.path.round_trip_delay;
    let again_after = (round_trip / 4).clamp(Duration::from_millis(1), Duration::from_millis(250));
    let mut over_control: Option<(MonotonicTime, Delivered)> = None;
    // What a reliable flow still sends again is not lost. The receiver says so unasked when it has
    // everything, which may be before the flow itself knows.
    let mut unasked = None;
    while unasked.is_none() && over_control.is_none() && !flow.is_drained() && !stop.is_stopped() {
        let look = MonotonicTime::now() + again_after;
        unasked = await_acknowledgement(trial, flow, look).await?;
        take_notes(trial, &mut over_control);
    }
    trial.context.observer.send_note(Note::Sent {
        messages: sent.messages,
        bytes: sent.bytes,
        deadline_reached: false,
    });
    if let Some(delivered) = unasked
        && over.has_passed()
    {
        return Ok((true, MonotonicTime::now(), delivered));
    }
    let patience = trial.probe.longest_round_trip * 4 + Duration::from_millis(500);
    if !over.has_passed() {
        // A receiver that has everything says so unasked, and may be gone before it is asked.
        let early = await_acknowledgement(trial, flow, over).await?;
        while !stop.is_stopped() && !over.has_passed() {
            flow.receive_batch(over, &mut |_| {}).await?;
        }
        if let Some(delivered) = early {
            return Ok((true, MonotonicTime::now(), delivered));
        }
    }
    loop {
        if stop.is_stopped() {
            return Err(TransportError::Cancelled);
        }
        message_control::send(trial, flow, Purpose::Transfer, Control::End(sent)).await?;
        let again = MonotonicTime::now() + again_after;
        if let Some(delivered) = await_acknowledgement(trial, flow, again).await? {
            return Ok((true, MonotonicTime::now(), delivered));
        }
        take_notes(trial, &mut over_control);
        if let Some((at, delivered)) = over_control
            && (at + patience).has_passed()
        {
            return Ok((false, at, delivered));
        }
    }
}

/// Takes notes from control; keeps the receiver's account of what it got, and its moment, in
/// `over_control`.
fn take_notes(trial: &Trial, over_control: &mut Option<(MonotonicTime, Delivered)>) {
    while let Some(note) = trial.context.mailbox.try_take() {
        if let Note::Received { messages, bytes } = note {
            let now = MonotonicTime::now();
            over_control.get_or_insert((now, Delivered { bytes, messages }));
        }
    }
}

/// Tells the other end that its acknowledgement is here, which spares it a wait; if all copies of
/// that are lost it waits. After the first one it may be gone already.
pub(crate) async fn say_done<F: MessageFlow>(trial: &Trial, flow: &mut F) {
    for _ in 0..3 {
        let _ = message_control::send(trial, flow, Purpose::Transfer, Control::Done).await;
    }
}
