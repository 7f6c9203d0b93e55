//! Listening end of a transfer over flows.

use std::{sync::Arc, time::Duration};

use regatta_model::reason;

use regatta_control::Role;

use super::{Shared, StreamState, receiving::WELCOME, sending};
use crate::{
    clock::MonotonicTime,
    content::part::Part,
    context::{StatisticsSource, WindowEdge},
    error::{Result, TransportError},
    executor::Executor as _,
    flows::Flows,
    opening::Purpose,
    stop::Stop,
    stream::{
        ByteStream, StreamConnection, StreamOf, StreamServer, await_close, read_exact, send_now,
    },
    trial::{
        Carried,
        carrier::{Admission, Admitted, Carrier as _},
        connecting::CLOSING,
        findings::Findings,
        listening::{Listening, ListeningWork, Outcome},
        streams::{FlowOf, StreamFlow, Streams, accept_stream, echo, opening_until, read_opening},
        wait_queue::{WaitQueue, serve_in_turns},
    },
};

/// State shared by the tasks of this end beside the flows' own.
struct Serving<'a, E: StreamServer> {
    shared: &'a Shared<'a>,
    end: &'a Listening<'a, Streams<'a, E>>,
    /// Stop that ends the wait for further connections once every flow has ended, or the transfer.
    accepting: Stop,
}

impl<'a, E: StreamServer> ListeningWork<'a, Streams<'a, E>> for &'a Flows {
    type Carried = Shared<'a>;

    async fn carry(&self, end: &Listening<'a, Streams<'a, E>>) -> Carried<Shared<'a>> {
        let serving = end.beside_echo(move |first, probe_is_missing| {
            serve_all(end, self, first, probe_is_missing)
        });
        let shared = serving.await?;
        let error = shared.tally().error.take();
        Ok((shared, error))
    }

    fn report(
        &self,
        shared: Shared<'a>,
        end: &Listening<'a, Streams<'a, E>>,
        outcome: &Outcome,
        findings: &mut Findings,
    ) -> MonotonicTime {
        let theirs = match !outcome.is_complete && shared.directions().0 {
            true => (end.watch).told_after_break(|peer| Some(peer.received?.1)),
            false => None,
        };
        findings.connection(shared.statistics.as_ref());
        shared.report(findings, (outcome.delivered, outcome.at), theirs);
        if shared.directions().0 {
            findings.own_counters(end.trial);
        }
        let is_sender = end.trial.order.role == Role::Sender;
        if is_sender && outcome.is_complete && !shared.abandons() {
            findings.nothing_lost();
        }
        shared.started
    }
}

/// Serves the connection of the first flow and all that come after it.
async fn serve_all<'a, E: StreamServer>(
    end: &Listening<'a, Streams<'a, E>>,
    flows: &'a Flows,
    first: Admitted<FlowOf<E>>,
    probe_is_missing: bool,
) -> Shared<'a> {
    let trial = end.trial;
    let stops = (&end.transfer, &Stop::new());
    let own = StreamState::new(trial, &end.transfer);
    let shared = Shared::new((trial, flows), stops, first.arrived, own);
    let statistics: Arc<dyn StatisticsSource> = shared.statistics.clone();
    (trial.context.observer).on_connection(Purpose::Transfer, Arc::downgrade(&statistics));
    let connections = match flows.share_connection() {
        true => 1,
        false => flows.parts.len(),
    };
    // The opening of the probe can be lost and come again after the flows'.
    let all = connections + usize::from(probe_is_missing);
    let accepting = shared.stop.child();
    let serving = &Serving {
        shared: &shared,
        end,
        accepting,
    };
    let next = async |turns: &WaitQueue, task: usize| accept_next(serving, turns, task).await;
    let serve = async |admitted| serve_connection(serving, admitted).await;
    let executor = end.carrier.executor();
    serve_in_turns(executor, (all, &serving.accepting), first, next, serve).await;
    shared
}

/// Waits for a further connection, in the turn of `task`; returns none once every flow has ended.
async fn accept_next<E: StreamServer>(
    serving: &Serving<'_, E>,
    turns: &WaitQueue,
    task: usize,
) -> Option<Admitted<FlowOf<E>>> {
    let (end, accepting) = (serving.end, &serving.accepting);
    let executor = end.carrier.executor();
    let (limit, mut admission) = (end.watch.limit, Admission::default());
    // The window is open already. The next task waits while the opening of this one's connection is under way.
    let arrived = (&end.trial.stop, &|| turns.pass(task));
    let admitting = async {
        while !accepting.is_stopped() {
            let admitting = (end.carrier).admit_with(end.trial, limit, &mut admission, arrived);
            let admitted = admitting.await?;
            // Another one was given up, as its connection took too long.
            if admitted.purpose != Purpose::IdleProbe {
                return Ok(admitted);
            }
        }
        Err(TransportError::Cancelled)
    };
    // A driver may have taken the connection in while another task waited.
    let next = executor.wait_unless_stopped(accepting, admitting).await;
    // Those that the end of the transfer broke are no strangers.
    let (failed, held_up) = match accepting.is_stopped() {
        true => (0, Duration::ZERO),
        false => (admission.failed, admission.held_up),
    };
    end.refuse(admission.refused + failed, held_up);
    match next? {
        Ok(admitted) => Some(admitted),
        Err(error) => {
            if !accepting.is_stopped() {
                serving.shared.broke(error);
            }
            None
        }
    }
}

/// Serves one connection: its flows, or the probe under load.
async fn serve_connection<E: StreamServer>(
    serving: &Serving<'_, E>,
    mut admitted: Admitted<FlowOf<E>>,
) {
    let (shared, end) = (serving.shared, serving.end);
    let trial = end.trial;
    if admitted.purpose != Purpose::Transfer {
        end.echo_probe(&mut admitted, &Stop::new()).await;
        return;
    }
    let StreamFlow {
        connection,
        stream,
        rest,
        ..
    } = &mut admitted.flow;
    shared.statistics.add(connection.statistics());
    let linked = (!trial.probe.shares_connection()).then(|| shared.stop.link(&admitted.stop));
    let flow = flow_of(shared, stream, rest).await;
    if matches!(&flow, Ok(flow) if shared.has_probe(flow)) {
        let connection = &*connection;
        let carrying = move || async move {
            carry(serving, flow, stream, rest).await;
            // Other flows may be under way. The other end closes the probe's stream when all have ended, unless the
            // transfer breaks or is cut short.
            let over = shared.stop.child();
            let linked = end.echoed.link(&over);
            let executor = end.carrier.executor();
            executor.sleep_unless_stopped(end.watch.limit, &over).await;
            drop(linked);
            let failed = shared.tally().error.is_some();
            if failed || !end.echoed.is_stopped() {
                end.end_probe().await;
            }
        };
        let echoing = move || async move {
            let accepting = accept_stream(trial, connection, MonotonicTime::NEVER).await;
            if let Ok((Some(Purpose::LoadProbe), mut stream, rest)) = accepting {
                echo(&mut stream, rest, &|| ()).await;
            }
            end.echoed.stop();
        };
        end.carrier.executor().join(carrying, echoing).await;
    } else {
        let shares = trial.probe.shares_connection();
        let _linked = shares.then(|| shared.stop.link(&admitted.stop));
        carry_streams(serving, connection, (flow, stream, rest)).await;
    }
    drop(linked);
    if !shared.abandons() {
        Streams::<E>::close(admitted.flow, MonotonicTime::now() + CLOSING).await;
    }
}

/// Carries the flows of a connection: all of them where they share it, each as soon as its stream comes.
async fn carry_streams<E: StreamServer>(
    serving: &Serving<'_, E>,
    connection: &E::Connection,
    first: (Result<&Part>, &mut StreamOf<E>, &mut Vec<u8>),
) {
    let (shared, end) = (serving.shared, serving.end);
    let executor = end.carrier.executor();
    let streams = match shared.flows.share_connection() {
        true => shared.flows.parts.len(),
        false => 1,
    };
    let accept = async |turns: &WaitQueue, task| {
        let mut stream = connection.accept_stream(end.watch.limit).await?;
        // The opening of this stream may be lost while that of the next one is there.
        turns.pass(task);
        match read_opening(end.trial, &mut stream).await? {
            (Some(Purpose::Transfer), rest) => Ok(AcceptedStream::Later(stream, rest)),
            _ => Err(TransportError::protocol(reason::unexpected_stream())),
        }
    };
    let next = async |turns: &WaitQueue, task: usize| match shared
        .stop
        .unless_raised(accept(turns, task))
        .await
    {
        Ok(next) => Some(next),
        Err(error) => {
            shared.broke(error);
            None
        }
    };
    let serve = async |stream| match stream {
        AcceptedStream::First((flow, stream, rest)) => carry(serving, flow, stream, rest).await,
        AcceptedStream::Later(mut stream, mut rest) => {
            let flow = flow_of(shared, &mut stream, &mut rest).await;
            carry(serving, flow, &mut stream, &rest).await;
        }
    };
    let tasks = (streams, &shared.stop);
    serve_in_turns(executor, tasks, AcceptedStream::First(first), next, serve).await;
}

/// Stream of a connection with what came with its opening.
enum AcceptedStream<'s, S> {
    /// First stream, whose flow is known.
    First((Result<&'s Part>, &'s mut S, &'s mut Vec<u8>)),
    /// Later stream.
    Later(S, Vec<u8>),
}

/// Carries a flow's part to its end, and waits until the other end has closed.
async fn carry<E: StreamServer, S: ByteStream>(
    serving: &Serving<'_, E>,
    flow: Result<&Part>,
    stream: &mut S,
    rest: &[u8],
) {
    let shared = serving.shared;
    let carrying = async { part(serving, flow?, stream, rest).await };
    let result = shared.stop.unless_raised(carrying).await;
    let sent_here = matches!(result, Ok((true, _)));
    let complete = result.is_ok();
    if shared.ended(result.map(|(_, at)| at)) {
        finish(serving);
    }
    shared.statistics.remember();
    if shared.abandons() || !complete {
        return;
    }
    if sent_here {
        // Says that the acknowledgement has arrived.
        let _ = stream.finish().await;
    }
    // The other end closes when it has the acknowledgement, and may have vanished when that is seen here.
    await_close(stream, serving.end.watch.limit).await;
}

/// Completes the transfer, if no flow failed, and ends the wait for further connections; called
/// when every flow has ended.
fn finish<E: StreamServer>(serving: &Serving<'_, E>) {
    let shared = serving.shared;
    if shared.tally().error.is_none() {
        let delivered = shared.delivered();
        if serving.end.watch.complete(delivered) {
            shared.trial.context.observer.on_window(WindowEdge::End);
            if shared.abandons() || shared.directions().0 {
                shared.trial.send_note(delivered.received_note());
            }
        }
    }
    serving.accepting.stop();
}

/// Reads the index of the flow that a stream carries. `rest` may already have the stream's first bytes.
async fn flow_of<'a, S: ByteStream>(
    shared: &Shared<'a>,
    stream: &mut S,
    rest: &mut Vec<u8>,
) -> Result<&'a Part> {
    let index = match shared.flows.have_indices() {
        true => {
            let reading = read_exact(stream, rest, opening_until(shared.trial));
            u16::from_le_bytes(shared.stop.unless_raised(reading).await?)
        }
        false => 0,
    };
    let flow = shared.flows.parts.get(usize::from(index));
    flow.ok_or_else(|| TransportError::protocol(reason::unknown_flow(index.into())))
}

/// Carries one flow's part; returns whether it was sent from here, and the moment of its end. `rest`
/// are the bytes that came with its opening.
async fn part<E: StreamServer, S: ByteStream>(
    serving: &Serving<'_, E>,
    flow: &Part,
    stream: &mut S,
    rest: &[u8],
) -> Result<(bool, MonotonicTime)> {
    let shared = serving.shared;
    let executor = serving.end.carrier.executor();
    if shared.sends(flow.index) {
        return Ok((
            true,
            sending::send(shared, executor, flow, (stream, &[])).await?,
        ));
    }
    if shared.flows.are_welcomed() {
        send_now(stream, WELCOME).await?;
    }
    Ok((false, shared.receive(executor, flow, stream, rest).await?))
}
