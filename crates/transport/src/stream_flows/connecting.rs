//! Connecting end of a transfer over flows.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use regatta_control::{Note, Role, SideReport};

use super::{
    Content, Flow, Flows, Shared, receiving, schedule,
    sending::{self, await_welcome},
};
use crate::{
    clock::MonotonicTime,
    content::stream_check::StreamCheck,
    context::{Phase, StatisticsSource},
    driver::TransportError,
    exchange::Asked,
    executor::Executor as _,
    opening::Purpose,
    probe::Probed,
    stream::{ByteStream, StreamConnection, StreamEndpoint, StreamOf, await_close},
    trial::{
        CONTROL_ANSWER, Trial,
        connecting::{Begun, CLOSING},
        stream_opening::{begin_report, open_load_probe, open_stream},
        stream_probe,
        watch::{Delivered, SenderEnd, SenderWatch},
    },
};

/// Stream of a flow, and its connection unless that is another flow's.
type Opened<E> = (Option<<E as StreamEndpoint>::Connection>, StreamOf<E>);

/// Task of the connecting end: a flow, with its connection if that is made already, or the probe
/// on a connection of its own.
enum Part<'a, E: StreamEndpoint> {
    Flow(&'a Flow, Option<Result<Opened<E>, TransportError>>),
    Probe(&'a mut StreamOf<E>),
}

/// Results of a task of the connecting end.
struct Carried<'a, E: StreamEndpoint> {
    /// Those of the probe, where the task ran it.
    probed: Option<Probed>,
    /// The flow with its connection, if it came to its end and is to be closed.
    whole: Option<(&'a Flow, Opened<E>)>,
}

impl<E: StreamEndpoint> Carried<'_, E> {
    const NOTHING: Self = Self {
        probed: None,
        whole: None,
    };
}

pub(super) async fn run<E: StreamEndpoint>(
    trial: &Trial,
    flows: &Flows,
    endpoint: &E,
    peer: SocketAddr,
) -> Result<SideReport, TransportError> {
    let live = &trial.context.live;
    let mut findings = begin_report(trial, endpoint, peer).await?;
    let mut load = None;
    if trial.probe.under_load && !trial.probe.shares_connection() {
        load = Some(open_load_probe(trial, endpoint, peer).await?);
    }

    let Begun {
        transfer,
        watch,
        started,
    } = trial.begin()?;
    let shared = Shared::new(trial, flows, &transfer, started);
    let statistics: Arc<dyn StatisticsSource> = shared.statistics.clone();
    watch.connection(&statistics);
    let client = Client {
        shared: &shared,
        endpoint,
        peer,
        watch: &watch,
    };
    let probed = client
        .carry_all(load.as_mut().map(|(_, stream)| stream))
        .await;
    live.set_phase(Phase::Done);
    let loaded = watch.loaded_since();
    let end = watch.finish();
    let (error, set_up, acknowledged) = {
        let mut tally = shared.tally();
        let acknowledged = tally.acknowledged.delivered();
        (tally.error.take(), tally.mean_set_up(), acknowledged)
    };
    let Some(end) = end else {
        let error = error.unwrap_or(TransportError::Closed { flow: "transfer" });
        return Err(trial.explain(error));
    };
    if set_up.is_none() && matches!(end, SenderEnd::Deadline { .. }) {
        return Err(trial.no_connection());
    }
    let (ours, theirs) = delivered_each_way(endpoint, &shared, &end, acknowledged).await?;
    let delivered = Delivered {
        bytes: ours.bytes + theirs.bytes,
        messages: ours.messages + theirs.messages,
    };
    let directions = 1 + u64::from(
        flows
            .flows
            .iter()
            .any(|flow| flow.sent_by == Role::Receiver),
    );
    findings.transfer(
        trial,
        (started, flows.size * directions),
        &end,
        delivered,
        set_up,
    );
    if flows.has_goodput() && flows.options.warm_up.is_zero() {
        findings.goodput(delivered, end.at().since(started));
    }
    if trial.order.role == Role::Sender {
        findings.counters(trial, end.at().since(started));
        if matches!(end, SenderEnd::Acknowledged { .. }) && !shared.abandons() {
            findings.nothing_lost();
        }
    }
    shared.report(&mut findings, ours, Some(theirs));
    if let Some(probed) = &probed {
        findings.load_probe(trial, probed, (loaded, &end));
    }
    findings.endpoint(endpoint);
    findings
        .0
        .measurements
        .facts
        .extend(shared.statistics.facts());
    findings.stack(shared.statistics.as_ref());
    if let Some((connection, stream)) = load {
        drop(stream);
        connection.close(MonotonicTime::now() + CLOSING).await;
    }
    Ok(findings.0)
}

/// Returns the bytes and messages delivered to this end, and those delivered to the other one:
/// `acknowledged` where the transfer came to its end.
async fn delivered_each_way<E: StreamEndpoint>(
    endpoint: &E,
    shared: &Shared<'_>,
    end: &SenderEnd,
    acknowledged: Delivered,
) -> Result<(Delivered, Delivered), TransportError> {
    let trial = shared.trial;
    Ok(match *end {
        SenderEnd::Deadline {
            delivered: ours, ..
        } => {
            if shared.ways().1 {
                trial.context.observer.send_note(Note::Received {
                    messages: ours.messages,
                    bytes: ours.bytes,
                });
            }
            (ours, trial.answer_over_control()?)
        }
        SenderEnd::Acknowledged {
            delivered: ours, ..
        } if shared.abandons() => (ours, answer_while_closing(trial, endpoint).await?),
        SenderEnd::Acknowledged {
            delivered: ours, ..
        } => (ours, acknowledged),
    })
}

/// Waits for the receiver's account of what it got, while the stack closes the connections that
/// were abandoned: a stack that runs on this thread needs to be polled for that.
async fn answer_while_closing<E: StreamEndpoint>(
    trial: &Trial,
    endpoint: &E,
) -> Result<Delivered, TransportError> {
    const LOOK: Duration = Duration::from_millis(5);
    let until = MonotonicTime::now() + CONTROL_ANSWER;
    loop {
        match trial.context.mailbox.try_take() {
            Some(Note::Received { messages, bytes }) => return Ok(Delivered { bytes, messages }),
            Some(_) => {}
            None if until.has_passed() || trial.stop.is_stopped() => {
                return Err(trial.explain(TransportError::TimedOut {
                    what: "answer of the receiver over control".to_owned(),
                    seconds: CONTROL_ANSWER.as_secs_f64(),
                }));
            }
            None => {
                endpoint
                    .executor()
                    .sleep_until(MonotonicTime::now() + LOOK)
                    .await
            }
        }
    }
}

/// The connecting end while the flows are carried.
struct Client<'a, E> {
    shared: &'a Shared<'a>,
    endpoint: &'a E,
    peer: SocketAddr,
    watch: &'a SenderWatch,
}

impl<E: StreamEndpoint> Client<'_, E> {
    /// Carries all flows, with the probe beside them on the connection `load` where it has one of its
    /// own, and closes the flows; returns the probe's results.
    async fn carry_all(&self, load: Option<&mut StreamOf<E>>) -> Option<Probed> {
        let flows = &self.shared.flows.flows;
        // Starting the probe's thread takes longer than connecting over a short path.
        let opened = if flows.len() == 1 || self.shared.flows.schedule().is_some() {
            self.open_all().await
        } else {
            Vec::new()
        };
        let mut opened = opened.into_iter();
        let mut parts: Vec<Part<'_, E>> = flows
            .iter()
            .map(|flow| Part::Flow(flow, opened.next()))
            .collect();
        parts.extend(load.map(Part::Probe));
        let tasks: Vec<_> = parts
            .into_iter()
            .map(|part| {
                move || async move {
                    match part {
                        Part::Probe(stream) => Carried {
                            probed: Some(self.probe(stream).await),
                            whole: None,
                        },
                        Part::Flow(flow, opened) => self.carry(flow, opened).await,
                    }
                }
            })
            .collect();
        let executor = self.endpoint.executor();
        let (mut probed, mut closing) = (None, Vec::new());
        for part in executor.join_all(tasks).await {
            probed = probed.or(part.probed);
            closing.extend(part.whole);
        }
        // Only now: the other end stops answering the probe when the flows are closed.
        let tasks = closing
            .into_iter()
            .map(|(flow, opened)| move || self.close(flow, opened))
            .collect();
        executor.join_all(tasks).await;
        probed
    }

    /// Opens all flows one after another, and begins the schedule where there is one.
    async fn open_all(&self) -> Vec<Result<Opened<E>, TransportError>> {
        let (shared, flows) = (self.shared, self.shared.flows);
        let mut opened: Vec<Result<Opened<E>, TransportError>> = Vec::new();
        let mut begun = shared.started;
        for flow in &flows.flows {
            let next = {
                let first = opened.first().filter(|_| flows.share_connection());
                let first = first.and_then(|first| first.as_ref().ok()?.0.as_ref());
                self.open(flow, begun, first).await
            };
            opened.push(next);
            if matches!(opened.last(), Some(Err(_))) {
                return opened;
            }
            begun = MonotonicTime::now();
        }
        if flows.schedule().is_some() {
            for flow in &mut opened {
                if let Ok((_, stream)) = flow
                    && let Err(error) = shared.stop.unless_raised(await_welcome(stream)).await
                {
                    *flow = Err(error);
                    return opened;
                }
            }
            shared.scheduled.get_or_init(|| schedule::Begun {
                start: MonotonicTime::now(),
                deadline: self.watch.loaded_since() + shared.trial.order.deadline,
            });
        }
        opened
    }

    /// Sends the messages of the probe under load over its stream until all flows have ended.
    async fn probe<S: ByteStream>(&self, stream: &mut S) -> Probed {
        let (plan, over) = (&self.shared.trial.probe, &self.shared.over);
        stream_probe::under_load(stream, plan, self.watch.loaded_since(), over).await
    }

    /// Makes a flow's connection, unless it is `opened`, and carries its part; the last flow ends the
    /// transfer.
    async fn carry<'f>(
        &self,
        flow: &'f Flow,
        opened: Option<Result<Opened<E>, TransportError>>,
    ) -> Carried<'f, E> {
        let shared = self.shared;
        let opened = match opened {
            Some(opened) => opened,
            None => self.open(flow, MonotonicTime::now(), None).await,
        };
        let (connection, mut stream) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                self.ended(Err(error));
                return Carried::NOTHING;
            }
        };
        let probe = &shared.trial.probe;
        let mut load = None;
        if let Some(connection) = connection.as_ref().filter(|_| probe.shares_connection()) {
            let opening = open_stream(shared.trial, connection, Purpose::LoadProbe, &[]);
            match shared.stop.unless_raised(opening).await {
                Ok(stream) => load = Some(stream),
                Err(error) => {
                    self.ended(Err(error));
                    return Carried::NOTHING;
                }
            }
        }
        let (stream_ref, load_ref) = (&mut stream, &mut load);
        let (whole, probed) = match load_ref {
            None => (self.part(flow, stream_ref).await, None),
            Some(load) => {
                let (whole, probed) = self
                    .endpoint
                    .executor()
                    .join(
                        move || async move { self.part(flow, stream_ref).await },
                        move || async move { self.probe(load).await },
                    )
                    .await;
                (whole, Some(probed))
            }
        };
        if !whole {
            shared.connections.stop();
        }
        Carried {
            probed,
            whole: (whole && !shared.abandons()).then_some((flow, (connection, stream))),
        }
    }

    /// Closes the connection of a flow that came to its end.
    async fn close(&self, flow: &Flow, (connection, mut stream): Opened<E>) {
        let until = MonotonicTime::now() + CLOSING;
        if !self.shared.sends(flow) {
            // The other end closes once it has the acknowledgement, which closing here would lose.
            await_close(&mut stream, until).await;
        }
        drop(stream);
        if let Some(connection) = connection {
            connection.close(until).await;
        }
    }

    /// Carries a flow's part; returns whether it came to its end.
    async fn part<S: ByteStream>(&self, flow: &Flow, stream: &mut S) -> bool {
        let shared = self.shared;
        let mut asked = Asked::default();
        let part = async {
            match &shared.flows.content {
                Content::Exchange(exchange) => {
                    let (at, got) = exchange.ask(shared.trial, stream, &mut asked).await?;
                    shared.tally().acknowledged = got;
                    Ok(at)
                }
                _ if shared.sends(flow) => {
                    sending::send(shared, self.endpoint.executor(), flow, stream).await
                }
                _ => receiving::receive(shared, StreamCheck::new(&flow.plan), stream, &[]).await,
            }
        };
        let result = shared.stop.unless_raised(part).await;
        shared.tally().asked = Some(asked);
        let whole = result.is_ok();
        if !whole {
            stream.abandon();
        }
        self.ended(result);
        whole
    }

    /// Notes the end of a flow; the last one ends the transfer.
    fn ended(&self, result: Result<MonotonicTime, TransportError>) {
        let shared = self.shared;
        let last = shared.ended(result);
        let (at, sound) = {
            let tally = shared.tally();
            (tally.last_end, tally.error.is_none())
        };
        if let Some(at) = at.filter(|_| last && sound) {
            if shared.abandons() {
                // The receiver counts what comes until the end of the flow.
                let sent = shared.sent();
                shared.trial.context.observer.send_note(Note::Sent {
                    messages: sent.messages,
                    bytes: sent.bytes,
                    deadline_reached: false,
                });
            }
            self.watch.acknowledged(at, shared.delivered());
        }
        shared.statistics.remember();
    }

    /// Opens a flow's stream, with the flow's index, on `shared_connection` or on a connection of its
    /// own, whose set-up counts from `begun`.
    async fn open(
        &self,
        flow: &Flow,
        begun: MonotonicTime,
        shared_connection: Option<&E::Connection>,
    ) -> Result<Opened<E>, TransportError> {
        let (shared, trial) = (self.shared, self.shared.trial);
        // The watch ends a connect call that takes too long; this limit only stands behind it.
        let until = shared.started + trial.order.longest_transfer() + CLOSING;
        let opening = async {
            let mut own = None;
            let connection = match shared_connection {
                Some(connection) => connection,
                None => {
                    let connecting = self.endpoint.connect(
                        self.peer,
                        Purpose::Transfer,
                        until,
                        &shared.connections,
                    );
                    let connection = own.insert(connecting.await?);
                    let now = MonotonicTime::now();
                    self.watch.connected(now);
                    shared.statistics.add(connection.statistics());
                    shared.tally().set_up.push(now.since(begun));
                    connection
                }
            };
            let index = flow.index.to_le_bytes();
            let index = if shared.flows.have_indices() {
                &index[..]
            } else {
                &[]
            };
            let mut stream = open_stream(trial, connection, Purpose::Transfer, index).await?;
            if shared.abandons() && shared.sends(flow) {
                await_welcome(&mut stream).await?;
            }
            Ok((own, stream))
        };
        shared.stop.unless_raised(opening).await
    }
}
