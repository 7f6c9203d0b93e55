//! Connecting end of a trial of one flow of messages.

use std::{collections::BTreeMap, net::SocketAddr, sync::atomic::Ordering, time::Duration};

use regatta_control::{Note, Role, SideReport};
use regatta_model::metric::id;

use super::{MessageWork, message_receiver};
use crate::{
    clock::MonotonicTime,
    context::Phase,
    driver::TransportError,
    executor::Executor as _,
    message::{MessageEndpoint, MessageFlow},
    opening::Purpose,
    probe::{Delays, Probed},
    stop::Stop,
    trial::{
        LEAVING, MARGIN, Trial,
        connecting::Begun,
        findings::Findings,
        message_control::{self, Control},
        message_probe,
        watch::{Delivered, SenderEnd, SenderWatch},
    },
};

/// Longest time that the receiver's note about late messages may take beyond those messages.
const LATE_ANSWER: Duration = Duration::from_secs(3);

/// Runs one end.
pub(crate) async fn run<W: MessageWork, E: MessageEndpoint>(
    trial: &Trial,
    work: &W,
    endpoint: &E,
    peer: Option<SocketAddr>,
) -> Result<SideReport, TransportError> {
    match trial.order.role {
        Role::Sender => send_side(trial, work, endpoint, trial.peer_of(peer)?).await,
        Role::Receiver => message_receiver::run(trial, work, endpoint).await,
    }
}

/// Probes the idle path on a flow of its own.
async fn probe_idle<E: MessageEndpoint>(
    trial: &Trial,
    endpoint: &E,
    peer: SocketAddr,
) -> Result<Probed, TransportError> {
    let opening_until = trial.opening_until();
    let stop = trial.stop.child();
    let mut flow = endpoint
        .connect(peer, Purpose::IdleProbe, &stop)
        .await
        .map_err(|error| trial.explain_opening(error))?;
    match message_control::open(trial, &mut flow, Purpose::IdleProbe, opening_until).await {
        Ok(()) => {
            let until = MonotonicTime::now() + trial.probe.idle_limit;
            Ok(message_probe::idle(trial, &mut flow, until).await)
        }
        Err(error @ TransportError::TimedOut { .. }) => Ok(Probed {
            delays: Delays::default(),
            broken: Some(error),
        }),
        Err(error) => Err(error),
    }
}

/// Runs the connecting end.
async fn send_side<W: MessageWork, E: MessageEndpoint>(
    trial: &Trial,
    work: &W,
    endpoint: &E,
    peer: SocketAddr,
) -> Result<SideReport, TransportError> {
    let live = &trial.context.live;
    live.set_phase(Phase::Idle);
    let mut findings = Findings::default();
    if trial.probe.idle_messages > 0 {
        let probed = probe_idle(trial, endpoint, peer).await?;
        findings.idle_probe(trial, &probed);
    }
    let load = if trial.probe.under_load {
        let until = trial.opening_until();
        let mut flow = endpoint
            .connect(peer, Purpose::LoadProbe, &trial.stop)
            .await
            .map_err(|error| trial.explain_opening(error))?;
        message_control::open(trial, &mut flow, Purpose::LoadProbe, until)
            .await
            .map_err(|error| trial.explain_opening(error))?;
        Some(flow)
    } else {
        None
    };

    let Begun {
        transfer,
        watch,
        started,
    } = trial.begin()?;
    let mut sent = Sent::<W::Sent>::default();
    let flows = (&transfer, &watch, load);
    let result = send_transfer((trial, work), endpoint, peer, started, flows, &mut sent).await;
    live.set_phase(Phase::Done);
    let loaded = watch.loaded_since();
    let end = watch.finish();
    let (end, delivered) = trial.outcome(end, result, sent.set_up.is_some())?;
    let handed_over = match end {
        SenderEnd::Deadline { sent, .. } => sent,
        SenderEnd::Acknowledged { .. } => Delivered {
            bytes: live.bytes_sent.load(Ordering::Relaxed),
            messages: live.messages_sent.load(Ordering::Relaxed),
        },
    };
    // The counters lag behind by the batch under way when the deadline came, part of which may
    // have been delivered.
    let bytes = handed_over.bytes.max(delivered.bytes);
    let messages = handed_over.messages.max(delivered.messages);
    // What was under way at the deadline is not lost, and what never left this end neither. What
    // a reliable flow would have sent again is not known.
    let left = sent.left.unwrap_or(messages);
    let arrived = match end {
        SenderEnd::Deadline { .. } if endpoint.reliable() => None,
        SenderEnd::Deadline { .. } if delivered.messages < messages => arrived_late(trial),
        _ => Some(delivered.messages),
    };
    findings.fact(
        "retransmission",
        if endpoint.reliable() {
            "by the transport"
        } else {
            "none"
        },
    );
    findings.transfer(trial, (started, work.size()), &end, delivered, sent.set_up);
    findings.fact(
        "acknowledgement",
        if sent.in_band { "in_band" } else { "control" },
    );
    if work.has_goodput() {
        findings.goodput(delivered, end.at().since(started));
    }
    work.report(&sent.work, &mut findings);
    findings.counters(trial, end.at().since(started));
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
    if let Some(probed) = &sent.probed {
        findings.load_probe(trial, probed, (loaded, &end));
    }
    findings.0.measurements.facts.extend(sent.facts);
    findings
        .0
        .measurements
        .warnings
        .extend(endpoint.warnings(work.longest_message()));
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
struct Sent<W> {
    set_up: Option<Duration>,
    work: W,
    /// Number of messages that left this end, if the deadline stopped it.
    left: Option<u64>,
    in_band: bool,
    probed: Option<Probed>,
    facts: BTreeMap<String, String>,
}

async fn send_transfer<W: MessageWork, E: MessageEndpoint>(
    (trial, work): (&Trial, &W),
    endpoint: &E,
    peer: SocketAddr,
    started: MonotonicTime,
    (stop, watch, mut load): (&Stop, &SenderWatch, Option<E::Flow>),
    sent: &mut Sent<W::Sent>,
) -> Result<(), TransportError> {
    // The watch ends the opening at the deadline; this limit only stands behind it.
    let until = started + trial.order.longest_transfer() + MARGIN;
    let connected = endpoint.connect(peer, Purpose::Transfer, stop).await;
    let mut flow = connected.map_err(|error| match error {
        // A stack that has the same limit may notice it before the watch.
        TransportError::TimedOut { .. } => trial.no_connection(),
        error => error,
    })?;
    message_control::open(trial, &mut flow, Purpose::Transfer, until).await?;
    sent.set_up = Some(watch.connected(MonotonicTime::now()).since(started));
    sent.facts = flow.facts();
    let statistics = flow.statistics();
    if let Some(statistics) = &statistics {
        watch.connection(statistics);
    }

    let over = Stop::new();
    let (over_ref, flow_ref, load_ref) = (&over, &mut flow, &mut load);
    let (work_sent, left) = (&mut sent.work, &mut sent.left);
    let (result, probed) = endpoint
        .executor()
        .join(
            move || async move {
                let result = work
                    .send(trial, endpoint, flow_ref, (stop, watch), work_sent)
                    .await;
                over_ref.stop();
                if let Some(handed_over) = watch.stopped_with() {
                    *left = Some(settle(trial, flow_ref, handed_over).await);
                }
                result
            },
            move || async move {
                match load_ref {
                    Some(flow) => Some(
                        message_probe::under_load(trial, flow, watch.loaded_since(), over_ref)
                            .await,
                    ),
                    None => None,
                }
            },
        )
        .await;
    sent.probed = probed;
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
