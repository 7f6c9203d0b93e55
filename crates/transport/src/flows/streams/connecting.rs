//! Connecting end of a transfer over flows.

use std::{sync::Arc, time::Duration};

use regatta_control::Role;
use regatta_model::fact;

use super::{
    Content, Shared, StreamState, schedule,
    sending::{self, await_welcome},
};
use crate::{
    clock::MonotonicTime,
    content::part::Part,
    context::StatisticsSource,
    delivered::Delivered,
    error::Result,
    exchange::ExchangeResult,
    executor::Executor as _,
    flows::Flows,
    opening::{self, Purpose},
    stream::{
        ByteStream as _, StreamClient, StreamConnection as _, StreamOf, await_close, send_now,
    },
    trial::{
        CONTROL_ANSWER, Carried, Trial,
        carrier::Carrier as _,
        connecting::{CLOSING, Connecting, ConnectingWork, Ended},
        findings::Findings,
        retransmissions::Counter,
        streams::{StreamFlow, Streams, open_stream},
        watch::ClientEnd,
    },
};

/// Flow at the connecting end.
struct Opened<E: StreamClient> {
    /// Its connection, unless that is another flow's.
    connection: Option<E::Connection>,
    stream: StreamOf<E>,
    /// Opening that leaves together with the first message: alone it would take one of the packets of the initial
    /// congestion window. Empty if it has left.
    opening: Vec<u8>,
}

impl<'a, E: StreamClient> ConnectingWork<'a, Streams<'a, E>> for &'a Flows {
    type Carried = Shared<'a>;

    async fn carry(&self, end: &mut Connecting<'a, Streams<'a, E>>) -> Carried<Shared<'a>> {
        end.begin();
        let end = &*end;
        let (trial, endpoint) = (end.trial, end.carrier.0);
        let own = StreamState::new(trial, &end.transfer);
        let stops = (&end.transfer, &end.over);
        let shared = Shared::new((trial, *self), stops, end.started, own);
        let statistics: Arc<dyn StatisticsSource> = shared.statistics.clone();
        end.watch.connection(&statistics);
        let client = &Client {
            shared: &shared,
            end,
        };
        // Starting the probe's thread takes longer than connecting over a short path.
        let opened = client.open_first().await;
        let completed = end.beside_probe(move || client.carry_all(opened)).await;
        if shared.directions().1 && !shared.stop.is_stopped() {
            // The last acknowledgement is under way to the other end still, and closing could lose it. At the
            // deadline the account is that of the transfer's end, which the report has.
            let _ = answer_while_closing(trial, endpoint, CLOSING).await;
        }
        // Only after the probe: the other end stops answering it when they are closed.
        end.close_beside(move || client.close_all(completed)).await;
        let error = shared.tally().error.take();
        Ok((shared, error))
    }

    async fn report(
        &self,
        shared: Shared<'a>,
        ended: &mut Ended<'a, Streams<'a, E>>,
        findings: &mut Findings,
    ) -> Result<()> {
        let (trial, flows) = (shared.trial, self);
        let ours = ended.end.delivered();
        let theirs = delivered_there(ended.carrier.0, &shared, &ended.end).await?;
        let has_goodput = flows.has_goodput() && flows.options.warm_up.is_zero();
        ended.report(findings, flows.size, ours + theirs, has_goodput);
        if trial.order.role == Role::Sender {
            findings.counters(trial, ended.time());
            if !ended.by_deadline() && !shared.abandons() {
                findings.nothing_lost();
            }
        }
        shared.report(findings, (ours, ended.end.at()), Some(theirs));
        if let Some(schedule) = flows.schedule() {
            schedule.report_set_up(&ended.set_up, findings);
        }
        ended.carrier.describe(findings);
        findings.connection(shared.statistics.as_ref());
        Ok(())
    }
}

/// Returns the bytes and messages delivered to the other end; sends it those delivered here where the deadline
/// ended the transfer.
async fn delivered_there<E: StreamClient>(
    endpoint: &E,
    shared: &Shared<'_>,
    end: &ClientEnd,
) -> Result<Delivered> {
    let trial = shared.trial;
    match end {
        ClientEnd::Deadline { delivered, .. } => {
            if shared.directions().1 {
                trial.send_note(delivered.received_note());
            }
            trial.answer_over_control()
        }
        ClientEnd::Acknowledged { .. } if shared.abandons() => {
            answer_while_closing(trial, endpoint, CONTROL_ANSWER).await
        }
        ClientEnd::Acknowledged { .. } => Ok(shared.tally().acknowledged),
    }
}

/// Waits for the other end's account of what it got, at most this long, while the stack closes the
/// connections that were abandoned, or sends the last acknowledgement again: one that runs on this thread needs
/// to be polled for that.
async fn answer_while_closing<E: StreamClient>(
    trial: &Trial,
    endpoint: &E,
    within: Duration,
) -> Result<Delivered> {
    let until = MonotonicTime::now() + within;
    let (executor, peer) = (endpoint.executor(), &trial.context.peer);
    loop {
        // Before the state is looked at, so that no change of it is missed.
        let change = peer.next_change();
        if let Some((_, delivered)) = peer.read(|peer| peer.received) {
            return Ok(delivered);
        }
        if until.has_passed() || peer.is_over() {
            return Err(trial.no_answer_over_control());
        }
        executor.sleep_unless_stopped(until, &change).await;
    }
}

/// The connecting end while the flows are carried.
struct Client<'a, 'c, E: StreamClient> {
    shared: &'a Shared<'a>,
    end: &'a Connecting<'c, Streams<'c, E>>,
}

impl<E: StreamClient> Client<'_, '_, E> {
    /// Opens the first flow. Where there is a schedule, opens all flows one after another and begins it.
    async fn open_first(&self) -> Vec<Result<Opened<E>>> {
        let (shared, flows) = (self.shared, self.shared.flows);
        let mut opened: Vec<Result<Opened<E>>> = Vec::new();
        let mut begun = shared.started;
        for flow in flows.parts.iter().take(flows.opened_first()) {
            let next = {
                let first = opened.first().filter(|_| flows.share_connection());
                let first = first.and_then(|first| first.as_ref().ok()?.connection.as_ref());
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
                if let Ok(Opened { stream, .. }) = flow
                    && let Err(error) = shared.stop.unless_raised(await_welcome(stream)).await
                {
                    *flow = Err(error);
                    return opened;
                }
            }
            shared.own.scheduled.get_or_init(|| schedule::Begun {
                start: MonotonicTime::now(),
                deadline: self.end.watch.loaded_since() + shared.trial.order.deadline,
            });
        }
        opened
    }

    /// Carries all flows, of which the first are `opened`; returns those that came to their end and
    /// are to be closed.
    async fn carry_all(&self, mut opened: Vec<Result<Opened<E>>>) -> Vec<(&Part, Opened<E>)> {
        // Streams that are opened later need the connection of the first.
        let mut of_all = None;
        if self.shared.flows.share_connection()
            && let Some(Ok(first)) = opened.first_mut()
        {
            of_all = first.connection.take();
        }
        let connection = of_all.as_ref();
        let mut opened = opened.into_iter();
        let tasks = (self.shared.flows.parts.iter())
            .map(|flow| {
                let opened = opened.next();
                move || self.carry(flow, opened, connection)
            })
            .collect();
        let completed = self.end.carrier.executor().join_all(tasks).await;
        let mut completed: Vec<_> = completed.into_iter().flatten().collect();
        if let Some((_, first)) = completed.first_mut() {
            first.connection = first.connection.take().or(of_all);
        }
        completed
    }

    /// Closes the flows.
    async fn close_all(&self, completed: Vec<(&Part, Opened<E>)>) {
        let tasks = completed
            .into_iter()
            .map(|(flow, opened)| move || self.close(flow, opened))
            .collect();
        self.end.carrier.executor().join_all(tasks).await;
    }

    /// Makes a flow's connection, unless it is `opened` or `of_all`, and carries its part; the last flow ends the
    /// transfer. Returns the flow if it came to its end and is to be closed.
    async fn carry<'f>(
        &self,
        flow: &'f Part,
        opened: Option<Result<Opened<E>>>,
        of_all: Option<&E::Connection>,
    ) -> Option<(&'f Part, Opened<E>)> {
        let (shared, trial) = (self.shared, self.shared.trial);
        let with_probe = async {
            let opened = match opened {
                Some(opened) => opened?,
                None => {
                    if let Some(script) = shared.flows.script() {
                        let since = (shared.started, &shared.stop);
                        let executor = self.end.carrier.executor();
                        (script.await_beginning(flow.index, executor, since)).await?;
                    }
                    self.open(flow, MonotonicTime::now(), of_all).await?
                }
            };
            let mut probe = None;
            if let Some(connection) = opened.connection.as_ref().or(of_all)
                && shared.has_probe(flow)
            {
                let opening = open_stream(trial, connection, Purpose::LoadProbe);
                probe = Some(shared.stop.unless_raised(opening).await?);
            }
            Ok((opened, probe))
        };
        let (mut opened, probe) = match with_probe.await {
            Ok(opened) => opened,
            Err(error) => {
                self.ended(Err(error));
                return None;
            }
        };
        let complete = match probe {
            None => self.part(flow, &mut opened).await,
            Some(probe) => {
                let opened = &mut opened;
                let carrying = move || async move { self.part(flow, opened).await };
                let counter = Counter::Unknown(fact::packets_carry_the_transfer());
                let mut flow = StreamFlow::new((), probe);
                let probing = move || async move { self.end.probe_on(&mut flow, counter).await };
                let executor = self.end.carrier.executor();
                let (complete, probed) = executor.join(carrying, probing).await;
                self.end.probed(probed);
                if !complete {
                    shared.own.connections.stop();
                }
                complete
            }
        };
        (complete && !shared.abandons()).then_some((flow, opened))
    }

    /// Closes the connection of a flow that came to its end.
    async fn close(&self, flow: &Part, opened: Opened<E>) {
        let Opened {
            connection,
            mut stream,
            ..
        } = opened;
        let mut until = MonotonicTime::now();
        if !self.shared.sends(flow.index) {
            // The other end closes once it has the acknowledgement, which closing here would lose. After a
            // duration it has ended its direction before.
            until = until + CLOSING;
            await_close(&mut stream, until).await;
        }
        drop(stream);
        if let Some(connection) = connection {
            connection.close(until).await;
        }
    }

    /// Carries a flow's part; returns whether it came to its end.
    async fn part(&self, flow: &Part, opened: &mut Opened<E>) -> bool {
        let shared = self.shared;
        let (stream, opening) = (&mut opened.stream, &opened.opening);
        let executor = self.end.carrier.executor();
        let mut exchanged = ExchangeResult::default();
        let deadline = self.end.watch.loaded_since() + shared.trial.order.deadline;
        let part = async {
            match &shared.flows.content {
                Content::Exchange(exchange) => {
                    let asking = exchange.ask(shared.trial, stream, opening, &mut exchanged);
                    let (at, got) = asking.await?;
                    shared.tally().acknowledged = got.delivered;
                    Ok(at)
                }
                Content::Script(script) => {
                    script
                        .carry((shared, deadline), executor, flow, (stream, opening))
                        .await
                }
                _ if shared.sends(flow.index) => {
                    sending::send(shared, executor, flow, (stream, opening)).await
                }
                _ => shared.receive(executor, flow, stream, &[]).await,
            }
        };
        let result = shared.stop.unless_raised(part).await;
        shared.tally().exchange = exchanged;
        let complete = result.is_ok();
        if !complete {
            stream.abandon();
        }
        self.ended(result);
        complete
    }

    /// Notes the end of a flow; the last one ends the transfer.
    fn ended(&self, result: Result<MonotonicTime>) {
        let shared = self.shared;
        let last = shared.ended(result);
        let (at, sound) = {
            let tally = shared.tally();
            (tally.last_end, tally.error.is_none())
        };
        if let Some(at) = at.filter(|_| last && sound) {
            if shared.abandons() {
                // The receiver counts what comes until the end of the flow.
                shared.trial.send_note(shared.sent().sent_note(false));
            }
            self.end.watch.acknowledged(at, shared.delivered());
        }
        shared.statistics.remember();
    }

    /// Whether this end sends the first message of a flow as soon as it is open. Where the probe has a stream of the
    /// same connection, the other end tells the two by the order in which their openings come.
    fn begins(&self, flow: &Part) -> bool {
        let shared = self.shared;
        let flows = shared.flows;
        let begins = shared.sends(flow.index) && flows.client_begins(flow);
        begins && !flows.are_welcomed() && !shared.has_probe(flow)
    }

    /// Opens a flow's stream, with the flow's index, on `shared_connection` or on a connection of its
    /// own, whose set-up counts from `begun`.
    async fn open(
        &self,
        flow: &Part,
        begun: MonotonicTime,
        shared_connection: Option<&E::Connection>,
    ) -> Result<Opened<E>> {
        let (shared, end) = (self.shared, self.end);
        let opening = async {
            let mut own = None;
            let connection = match shared_connection {
                Some(connection) => connection,
                None => {
                    let purpose = Purpose::Transfer;
                    // The connection of the probe outlives the transfer, for the last answers.
                    let stop = match shared.has_probe(flow) {
                        true => &shared.own.connections,
                        false => &shared.stop,
                    };
                    let connecting =
                        self.end
                            .carrier
                            .0
                            .connect(end.peer, purpose, end.limit(), stop);
                    let connection = own.insert(connecting.await?);
                    end.connected(begun);
                    shared.statistics.add(connection.statistics());
                    connection
                }
            };
            let mut stream = connection.open_stream().await?;
            let mut opening = opening::encode(end.trial.token, Purpose::Transfer).to_vec();
            if shared.flows.have_indices() {
                opening.extend_from_slice(&flow.index.to_le_bytes());
            }
            if !self.begins(flow) {
                send_now(&mut stream, &std::mem::take(&mut opening)).await?;
            }
            // Those with a schedule are awaited when all are open.
            let awaits = shared.flows.are_welcomed() && shared.flows.schedule().is_none();
            if awaits && shared.sends(flow.index) {
                await_welcome(&mut stream).await?;
            }
            Ok(Opened {
                connection: own,
                stream,
                opening,
            })
        };
        shared.stop.unless_raised(opening).await
    }
}
