//! The workload over any transport of streams: its connecting end.

use std::{collections::BTreeMap, net::SocketAddr, sync::atomic::Ordering, time::Duration};

use bytes::Bytes;
use regatta_control::{Note, Role, SideReport};

use super::{
    plan::{HEADER_BYTES, Plan},
    stream_check::{check, encode_header},
    stream_receiver,
};
use crate::{
    clock::MonotonicTime,
    context::Phase,
    driver::TransportError,
    opening::{self, Purpose},
    probe::{Delays, Probed},
    stop::Stop,
    stream::{ByteStream, Received, StreamConnection, StreamEndpoint},
    trial::{
        CONTROL_ANSWER, Trial,
        findings::Findings,
        stream_probe,
        watch::{Delivered, SenderEnd, SenderWatch},
    },
};

/// Memory to receive into. Large enough that a system call is cheap beside its copy, small enough
/// to stay in a core's cache between copy and check.
pub(super) const SCRATCH_BYTES: usize = 128 << 10;

/// How long closing may take when all is agreed.
const CLOSING: Duration = Duration::from_secs(2);

/// Runs one end.
pub(crate) async fn run<E: StreamEndpoint>(
    trial: &Trial,
    plan: &Plan,
    endpoint: &E,
    peer: Option<SocketAddr>,
) -> Result<SideReport, TransportError> {
    match trial.order.role {
        Role::Sender => send_side(trial, plan, endpoint, trial.peer_of(peer)?).await,
        Role::Receiver => stream_receiver::run(trial, plan, endpoint).await,
    }
}

/// What the receiver says at the end of the transfer: `ACK:`, bytes, messages, check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Acknowledgement(pub Delivered);

const ACKNOWLEDGEMENT_BYTES: usize = 24;

impl Acknowledgement {
    pub(super) fn encode(self) -> [u8; ACKNOWLEDGEMENT_BYTES] {
        let mut bytes = [0; ACKNOWLEDGEMENT_BYTES];
        bytes[..4].copy_from_slice(b"ACK:");
        bytes[4..12].copy_from_slice(&self.0.bytes.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.0.messages.to_le_bytes());
        let check = check(0, &bytes[..20]);
        bytes[20..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, TransportError> {
        let wrong = || TransportError::Protocol {
            what: "the receiver's acknowledgement is damaged".to_owned(),
        };
        let bytes: &[u8; ACKNOWLEDGEMENT_BYTES] = bytes.try_into().map_err(|_| wrong())?;
        let number = |at: usize| {
            let mut number = [0; 8];
            number.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(number)
        };
        let read = Self(Delivered {
            bytes: number(4),
            messages: number(12),
        });
        (read.encode() == *bytes).then_some(read).ok_or_else(wrong)
    }
}

/// A connection whose first stream has said what it is for.
async fn open<E: StreamEndpoint>(
    trial: &Trial,
    endpoint: &E,
    peer: SocketAddr,
    purpose: Purpose,
    until: MonotonicTime,
    stop: &Stop,
) -> Result<(E::Connection, <E::Connection as StreamConnection>::Stream), TransportError> {
    let connection = endpoint.connect(peer, purpose, until, stop).await?;
    let stream = open_stream(trial, &connection, purpose).await?;
    Ok((connection, stream))
}

async fn open_stream<C: StreamConnection>(
    trial: &Trial,
    connection: &C,
    purpose: Purpose,
) -> Result<C::Stream, TransportError> {
    let mut stream = connection.open_stream().await?;
    stream
        .send_message(&opening::encode(trial.token, purpose), &Bytes::new())
        .await?;
    stream.flush().await?;
    Ok(stream)
}

/// Probes the idle path on a connection of its own.
async fn probe_idle<E: StreamEndpoint>(
    trial: &Trial,
    endpoint: &E,
    peer: SocketAddr,
) -> Result<Probed, TransportError> {
    let until = MonotonicTime::now() + trial.probe.idle_limit;
    let opening_until = trial.opening_until();
    let stop = trial.stop.child();
    let purpose = Purpose::IdleProbe;
    match open(trial, endpoint, peer, purpose, opening_until, &stop).await {
        Ok((connection, mut stream)) => {
            let probed = stream_probe::idle(&mut stream, &trial.probe, until).await;
            drop(stream);
            connection.close(MonotonicTime::now()).await;
            Ok(probed)
        }
        // A path too lossy to connect in time is a result; whatever else is wrong will be wrong
        // with the transfer as well.
        Err(error @ TransportError::TimedOut { .. }) => Ok(Probed {
            delays: Delays::new(),
            broken: Some(error),
        }),
        Err(error) => Err(error),
    }
}

/// Runs the connecting end.
async fn send_side<E: StreamEndpoint>(
    trial: &Trial,
    plan: &Plan,
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
    let load = if trial.probe.under_load && !E::MULTIPLEXES {
        let until = trial.opening_until();
        Some(
            open(
                trial,
                endpoint,
                peer,
                Purpose::LoadProbe,
                until,
                &trial.stop,
            )
            .await
            .map_err(|error| trial.explain_opening(error))?,
        )
    } else {
        None
    };

    let transfer = trial.stop.child();
    let watch = SenderWatch::new(
        &trial.context,
        &transfer,
        trial.order.deadline,
        trial.order.sample_interval,
    )?;
    live.set_phase(Phase::Transfer);
    let started = watch.arm();
    let mut sent = Sent::default();
    let flows = (&transfer, &watch, load);
    let result = send_transfer((trial, plan), endpoint, peer, started, flows, &mut sent).await;
    live.set_phase(Phase::Done);
    let (end, samples) = watch.finish();
    // When the deadline has stopped it, the stack's complaint about that is no news.
    if let (None, Err(error)) = (end, result) {
        return Err(trial.explain(error));
    }

    let (end, delivered) = match end {
        Some(end @ SenderEnd::Acknowledged { delivered, .. }) => (end, delivered),
        Some(SenderEnd::Deadline { .. }) if sent.set_up.is_none() => {
            return Err(trial.no_connection(trial.order.deadline));
        }
        Some(end @ SenderEnd::Deadline { .. }) => (end, answer_over_control(trial)?),
        None => return Err(trial.explain(TransportError::Closed { flow: "transfer" })),
    };
    findings.fact("acknowledgement", acknowledgement_fact(&end));
    findings.transfer(trial, (started, plan.size), &end, delivered, sent.set_up);
    findings.samples(trial, &samples, end.at().since(started));
    // The counters lag behind by the message under way when the deadline came, part of which may
    // have been delivered.
    let bytes = live.bytes_sent.load(Ordering::Relaxed);
    let messages = live.messages_sent.load(Ordering::Relaxed);
    findings.count("bytes_sent", bytes.max(delivered.bytes));
    findings.count("messages_sent", messages.max(delivered.messages));
    if let SenderEnd::Acknowledged { .. } = end {
        findings.count("messages_lost", 0);
        findings.metric("message_loss_ratio", 0.0);
    }
    if let Some(probed) = &sent.probed {
        let placement = if E::MULTIPLEXES {
            "own stream"
        } else {
            "own connection"
        };
        let early = matches!(end, SenderEnd::Deadline { .. });
        findings.load_probe(trial, probed, placement, early);
    }
    findings.0.facts.extend(endpoint.facts());
    findings.0.warnings.extend(endpoint.warnings());
    findings.0.facts.extend(sent.facts);
    Ok(findings.0)
}

pub(super) fn acknowledgement_fact(end: &SenderEnd) -> &'static str {
    match end {
        SenderEnd::Acknowledged { .. } => "in_band",
        SenderEnd::Deadline { .. } => "control",
    }
}

/// Waits for what the receiver says over control that it got.
pub(super) fn answer_over_control(trial: &Trial) -> Result<Delivered, TransportError> {
    let until = MonotonicTime::now() + CONTROL_ANSWER;
    trial.context.stop.on_stop(&trial.context.mailbox);
    while let Some(note) = trial.context.mailbox.take_until(until) {
        if let Note::Received { messages, bytes } = note {
            return Ok(Delivered { bytes, messages });
        }
    }
    Err(trial.explain(TransportError::TimedOut {
        what: "answer of the receiver over control".to_owned(),
        seconds: CONTROL_ANSWER.as_secs_f64(),
    }))
}

/// What is known after the transfer, at its sender.
#[derive(Debug, Default)]
struct Sent {
    set_up: Option<Duration>,
    probed: Option<Probed>,
    facts: BTreeMap<String, String>,
}

type Opened<E> = (
    <E as StreamEndpoint>::Connection,
    <<E as StreamEndpoint>::Connection as StreamConnection>::Stream,
);

async fn send_transfer<E: StreamEndpoint>(
    (trial, plan): (&Trial, &Plan),
    endpoint: &E,
    peer: SocketAddr,
    started: MonotonicTime,
    (stop, watch, load): (&Stop, &SenderWatch, Option<Opened<E>>),
    sent: &mut Sent,
) -> Result<(), TransportError> {
    // The watch ends a connect call at the deadline; this limit only stands behind it.
    let until = started + trial.order.deadline + CLOSING;
    // Where the probe has a stream of the same connection, the deadline ends the transfer's stream
    // alone: the probe's last answers are waited for over every transport.
    let connection_stop = if E::MULTIPLEXES {
        trial.stop.child()
    } else {
        stop.clone()
    };
    let connection = stop
        .unless_raised(endpoint.connect(peer, Purpose::Transfer, until, &connection_stop))
        .await?;
    sent.set_up = Some(MonotonicTime::now().since(started));
    let statistics = connection.statistics();
    sent.facts = statistics.facts();
    watch.connection(&statistics);
    let mut stream = stop
        .unless_raised(open_stream(trial, &connection, Purpose::Transfer))
        .await?;
    let (load_connection, mut load_stream) = match load {
        Some((connection, stream)) => (Some(connection), Some(stream)),
        None if trial.probe.under_load => (
            None,
            Some(
                stop.unless_raised(open_stream(trial, &connection, Purpose::LoadProbe))
                    .await?,
            ),
        ),
        None => (None, None),
    };

    let over = Stop::new();
    let (over_ref, stream_ref, load_ref) = (&over, &mut stream, &mut load_stream);
    let (result, probed) = endpoint
        .join(
            move || async move {
                let sending = send_all(trial, plan, stream_ref, watch);
                let result = stop.unless_raised(sending).await;
                if result.is_err() {
                    stream_ref.abandon();
                }
                over_ref.stop();
                result
            },
            move || async move {
                match load_ref {
                    Some(stream) => {
                        Some(stream_probe::under_load(stream, &trial.probe, over_ref).await)
                    }
                    None => None,
                }
            },
        )
        .await;

    sent.probed = probed;
    // Some of it is known only now.
    sent.facts = statistics.facts();
    drop(statistics);
    if result.is_err() {
        connection_stop.stop();
    }
    result?;
    let until = MonotonicTime::now() + CLOSING;
    drop((stream, load_stream));
    connection.close(until).await;
    if let Some(load) = load_connection {
        load.close(until).await;
    }
    Ok(())
}

/// Sends every message and waits for the acknowledgement.
async fn send_all<S: ByteStream>(
    trial: &Trial,
    plan: &Plan,
    stream: &mut S,
    watch: &SenderWatch,
) -> Result<(), TransportError> {
    let live = &trial.context.live;
    let mut bytes = 0;
    // All messages but the last have the same payload; cutting it once saves counting references.
    let whole = payload(plan, plan.message);
    for sequence in 0..plan.count {
        let length = plan.length(sequence);
        let header = Plan::header(length);
        let head: [u8; HEADER_BYTES] = if header > 0 {
            encode_header(plan, sequence, length)
        } else {
            [0; HEADER_BYTES]
        };
        if length == plan.message {
            stream.send_message(&head[..header], &whole).await?;
        } else {
            let last = payload(plan, length);
            stream.send_message(&head[..header], &last).await?;
        }
        bytes += length as u64;
        live.messages_sent.store(sequence + 1, Ordering::Relaxed);
        live.bytes_sent.store(bytes, Ordering::Relaxed);
    }
    stream.flush().await?;
    let delivered = await_acknowledgement(stream).await?;
    let arrived = MonotonicTime::now();
    if delivered.bytes != plan.size {
        return Err(TransportError::Protocol {
            what: format!(
                "the receiver acknowledged {} of {} bytes",
                delivered.bytes, plan.size
            ),
        });
    }
    watch.acknowledged(arrived, delivered);
    Ok(())
}

/// The payload of a message of this length, uncopied.
fn payload(plan: &Plan, length: usize) -> Bytes {
    plan.content.slice(Plan::header(length)..length)
}

async fn await_acknowledgement<S: ByteStream>(stream: &mut S) -> Result<Delivered, TransportError> {
    let mut bytes = Vec::with_capacity(ACKNOWLEDGEMENT_BYTES);
    let mut scratch = [0; ACKNOWLEDGEMENT_BYTES];
    while bytes.len() < ACKNOWLEDGEMENT_BYTES {
        let missing = ACKNOWLEDGEMENT_BYTES - bytes.len();
        let received = stream
            .receive(
                &mut scratch[..missing],
                MonotonicTime::NEVER,
                &mut |piece: &[u8]| bytes.extend_from_slice(piece),
            )
            .await?;
        if received == Received::Closed {
            return Err(TransportError::Closed { flow: "transfer" });
        }
    }
    Acknowledgement::decode(&bytes).map(|acknowledgement| acknowledgement.0)
}
