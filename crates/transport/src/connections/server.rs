//! Listening end: answers the request of each connection, several connections at a time.

use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use regatta_model::{Facts, warning};

use super::{Exchanges, Expected, NOT_MEASURED, NUMBER_BYTES};
use crate::{
    clock::MonotonicTime,
    context::{Phase, WindowEdge},
    delivered::Delivered,
    error::{Result, TransportError},
    executor::Executor as _,
    opening::Purpose,
    stop::Stop,
    stream::{ByteStream, Received, StreamConnection, StreamServer, await_close},
    trial::{
        Carried,
        carrier::{Admission, Admitted, Carrier as _},
        findings::Findings,
        listening::{Listening, ListeningWork, Outcome},
        streams::{FlowOf, StreamFlow, Streams},
    },
};

/// Maximum number of connections that are served at once: one whose exchange is under way, those before it that
/// are being closed, and some that are not the other end's or never complete their handshake.
const AT_ONCE: usize = 4;

/// Memory to receive into.
const SCRATCH_BYTES: usize = 64 << 10;

/// State of the listening end.
#[derive(Default)]
pub(crate) struct State {
    /// Arrival of the first measured connection.
    started: Option<MonotonicTime>,
    /// Stop that ends the connection served last.
    last: Option<Stop>,
    answered: Delivered,
    damaged: u64,
    /// Facts about the first connection of the transfer.
    facts: Option<Facts>,
}

struct Server<'a, E: StreamServer> {
    end: &'a Listening<'a, Streams<'a, E>>,
    work: &'a Exchanges,
    state: Mutex<State>,
}

impl<E: StreamServer> Server<'_, E> {
    /// Serves one connection after another, until the other end has done or the trial is over.
    async fn serve(&self) -> Result<()> {
        let (end, serving) = (self.end, &self.end.transfer);
        let mut scratch = vec![0; SCRATCH_BYTES];
        let open_window = || {
            if self.state.lock().started.is_none() {
                // This may be the first that is measured; the last call before it counts.
                end.trial.context.observer.on_window(WindowEdge::Start);
            }
        };
        while !serving.is_stopped() {
            let mut admission = Admission::default();
            let arrived = (serving, &open_window);
            let admitting =
                (end.carrier).admit_with(end.trial, end.watch.limit, &mut admission, arrived);
            let admitted = admitting.await;
            end.refuse(admission.refused, admission.held_up);
            match admitted {
                Ok(mut admitted) => {
                    // A connection that breaks is counted at the other end, which knows
                    // its state.
                    drop(self.answer(&mut admitted, &mut scratch).await);
                }
                Err(_) if serving.is_stopped() => break,
                Err(error) => {
                    serving.stop();
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Answers one connection's request and waits for its end.
    async fn answer(&self, admitted: &mut Admitted<FlowOf<E>>, scratch: &mut [u8]) -> Result<()> {
        // The other end has one connection at a time, so the one before has had its answer. The
        // packet that closes it may be lost, so it is not waited for any longer.
        let before = self.state.lock().last.replace(admitted.stop.clone());
        if let Some(before) = before {
            before.stop();
        }
        if admitted.purpose != Purpose::Transfer {
            self.end.echo_probe(admitted, &Stop::new()).await;
            return Ok(());
        }
        let StreamFlow {
            connection,
            stream,
            rest,
            ..
        } = &mut admitted.flow;
        let is_first = self.state.lock().facts.is_none();
        if is_first {
            let facts = connection.statistics().facts();
            self.state.lock().facts = Some(facts);
        }
        let rest = std::mem::take(rest);
        let reading = self.read_request(stream, rest, admitted.arrived, scratch);
        if !reading.await? {
            self.state.lock().damaged += 1;
            return Ok(());
        }
        stream.send_message(&[], &self.work.response).await?;
        stream.flush().await?;
        // The other end closes when it has the answer, and may have vanished when that is seen here.
        await_close(stream, self.end.watch.limit).await;
        Ok(())
    }

    /// Reads the number and the request of an exchange; returns whether the request is the expected
    /// one.
    async fn read_request<S: ByteStream>(
        &self,
        stream: &mut S,
        rest: Vec<u8>,
        arrived: MonotonicTime,
        scratch: &mut [u8],
    ) -> Result<bool> {
        let mut number = Vec::with_capacity(NUMBER_BYTES);
        let mut expected = Expected::new(&self.work.request);
        let mut take = |piece: &[u8]| {
            let missing = piece.len().min(NUMBER_BYTES - number.len());
            number.extend_from_slice(&piece[..missing]);
            if piece.len() > missing {
                expected.take(&piece[missing..]);
            }
            number.len() == NUMBER_BYTES && expected.is_complete()
        };
        let mut complete = take(&rest);
        while !complete {
            let mut take = |piece: &[u8]| complete = take(piece);
            let receiving = stream.receive(scratch, self.end.watch.limit, &mut take);
            if !matches!(receiving.await?, Received::Bytes(_)) {
                return Err(TransportError::Closed { flow: "connection" });
            }
        }
        let sound = expected.sound;
        let number = number.try_into().map_or(NOT_MEASURED, u64::from_le_bytes);
        if sound && number != NOT_MEASURED {
            let live = &self.end.trial.context.live;
            let mut state = self.state.lock();
            if state.started.is_none() {
                state.started = Some(arrived);
                live.set_phase(Phase::Transfer);
            }
            state.answered.messages += 1;
            state.answered.bytes += self.work.request.len() as u64;
            let Delivered { bytes, messages } = state.answered;
            live.messages_delivered.store(messages, Ordering::Relaxed);
            live.bytes_delivered.store(bytes, Ordering::Release);
        }
        Ok(sound)
    }
}

impl<'a, E: StreamServer> ListeningWork<'a, Streams<'a, E>> for &'a Exchanges {
    type Carried = State;

    async fn carry(&self, end: &Listening<'a, Streams<'a, E>>) -> Carried<State> {
        end.watch.transfer(&end.transfer);
        end.watch.stop_when_sent(&end.transfer);
        let server = Server {
            end,
            work: self,
            state: Mutex::default(),
        };
        let one = &server;
        let tasks = (0..AT_ONCE).map(|_| move || one.serve()).collect();
        let served = end.carrier.executor().join_all(tasks).await;
        let error = served.into_iter().find_map(Result::err);
        let state = server.state.into_inner();
        if end.trial.context.peer.read(|peer| peer.sent.is_some()) && error.is_none() {
            end.watch.complete_window(state.answered);
        }
        Ok((state, error))
    }

    fn report(
        &self,
        state: State,
        _: &Listening<'a, Streams<'a, E>>,
        outcome: &Outcome,
        findings: &mut Findings,
    ) -> MonotonicTime {
        findings.facts(state.facts.unwrap_or_default());
        if state.damaged > 0 {
            findings.warn(warning::requests_damaged(state.damaged));
        }
        state.started.unwrap_or(outcome.at)
    }
}
