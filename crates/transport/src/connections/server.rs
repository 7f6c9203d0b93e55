//! Listening end: answers the request of each connection, several connections at a time.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError, atomic::Ordering},
    time::Duration,
};

use regatta_control::SideReport;

use super::{Exchanges, Expected, NOT_MEASURED, NUMBER_BYTES};
use crate::{
    clock::MonotonicTime,
    context::{Phase, WindowEdge},
    driver::TransportError,
    executor::Executor as _,
    opening::Purpose,
    stop::Stop,
    stream::{Accepted, ByteStream, Received, StreamConnection, StreamEndpoint},
    trial::{
        Trial,
        findings::Findings,
        stream_admission::read_opening,
        stream_probe::echo,
        watch::{Delivered, ReceiverEnd, ReceiverWatch},
    },
};

/// Most connections that are served at once: one whose exchange is under way, those before it that
/// are being closed, and some that are not the other end's or never complete their handshake.
const AT_ONCE: usize = 4;

/// Longest time that a connection may take to open its stream, beyond what the path can take: some
/// retransmissions.
const STREAM_TIME: Duration = Duration::from_secs(5);

/// Memory to receive into.
const SCRATCH_BYTES: usize = 64 << 10;

/// State of the listening end.
#[derive(Default)]
struct State {
    /// Arrival of the first measured connection.
    started: Option<MonotonicTime>,
    /// Stop that ends the connection served last.
    last: Option<Stop>,
    answered: Delivered,
    refused: u64,
    damaged: u64,
    /// Facts about the first connection of the transfer.
    facts: Option<BTreeMap<String, String>>,
}

struct Server<'a, E> {
    trial: &'a Trial,
    work: &'a Exchanges,
    endpoint: &'a E,
    limit: MonotonicTime,
    serving: &'a Stop,
    state: Mutex<State>,
}

impl<E: StreamEndpoint> Server<'_, E> {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves one connection after another, until the other end has done or the trial is over.
    async fn serve(&self) -> Result<(), TransportError> {
        let mut scratch = vec![0; SCRATCH_BYTES];
        while !self.serving.is_stopped() {
            let stop = self.serving.child();
            let mut arrived = MonotonicTime::now();
            let accepted = self
                .endpoint
                .accept(self.limit, &stop, &mut || {
                    arrived = MonotonicTime::now();
                    if self.lock().started.is_none() {
                        // This may be the first that is measured; the last call before it counts.
                        self.trial.context.observer.on_window(WindowEdge::Start);
                    }
                })
                .await;
            match accepted {
                Ok(Accepted::Connection(connection)) => {
                    let answered = self.answer(&connection, arrived, &mut scratch, &stop).await;
                    // A connection that breaks is counted at the other end, which knows better how
                    // far it had come.
                    drop(answered);
                }
                Ok(Accepted::Failed(_)) => self.lock().refused += 1,
                Err(_) if self.serving.is_stopped() => break,
                Err(error) => {
                    self.serving.stop();
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Answers one connection's request and waits for its end.
    async fn answer(
        &self,
        connection: &E::Connection,
        arrived: MonotonicTime,
        scratch: &mut [u8],
        stop: &Stop,
    ) -> Result<(), TransportError> {
        let within = MonotonicTime::now() + STREAM_TIME + self.trial.probe.longest_round_trip;
        let mut stream = connection.accept_stream(within.min(self.limit)).await?;
        let (purpose, rest) = read_opening(self.trial, &mut stream).await?;
        let Some(purpose) = purpose else {
            self.lock().refused += 1;
            return Ok(());
        };
        // The other end has one connection at a time, so the one before has had its answer. The
        // word that it is closed may be lost: it is not waited for any longer.
        let before = self.lock().last.replace(stop.clone());
        if let Some(before) = before {
            before.stop();
        }
        if purpose != Purpose::Transfer {
            echo(&mut stream, rest).await;
            return Ok(());
        }
        let is_first = self.lock().facts.is_none();
        if is_first {
            let facts = connection.statistics().facts();
            self.lock().facts = Some(facts);
        }
        if !self
            .read_request(&mut stream, rest, arrived, scratch)
            .await?
        {
            self.lock().damaged += 1;
            return Ok(());
        }
        stream.send_message(&[], &self.work.response).await?;
        stream.flush().await?;
        // The other end closes when it has the answer, and may be gone when that is seen here.
        while let Received::Bytes(_) = stream
            .receive(scratch, self.limit, &mut |_: &[u8]| {})
            .await?
        {}
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
    ) -> Result<bool, TransportError> {
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
            let received = stream
                .receive(scratch, self.limit, &mut |piece: &[u8]| {
                    complete = take(piece);
                })
                .await?;
            if !matches!(received, Received::Bytes(_)) {
                return Err(TransportError::Closed { flow: "connection" });
            }
        }
        let sound = expected.sound;
        let number = number.try_into().map_or(NOT_MEASURED, u64::from_le_bytes);
        if sound && number != NOT_MEASURED {
            let live = &self.trial.context.live;
            let mut state = self.lock();
            if state.started.is_none() {
                state.started = Some(arrived);
                live.set_phase(Phase::Transfer);
            }
            state.answered.messages += 1;
            state.answered.bytes += self.work.request.len() as u64;
            live.messages_delivered
                .store(state.answered.messages, Ordering::Relaxed);
            live.bytes_delivered
                .store(state.answered.bytes, Ordering::Release);
        }
        Ok(sound)
    }
}

/// Runs the listening end.
pub(super) async fn run<E: StreamEndpoint>(
    trial: &Trial,
    work: &Exchanges,
    endpoint: &E,
) -> Result<SideReport, TransportError> {
    let serving = trial.stop.child();
    let watch = ReceiverWatch::new(trial)?;
    watch.transfer(&serving);
    watch.stop_when_sent(&serving);
    trial.context.live.set_phase(Phase::Idle);
    let mut findings = Findings::default();
    findings.endpoint(endpoint);

    let server = Server {
        trial,
        work,
        endpoint,
        limit: watch.limit(),
        serving: &serving,
        state: Mutex::default(),
    };
    let one = &server;
    let served = endpoint
        .executor()
        .join_all((0..AT_ONCE).map(|_| move || one.serve()).collect())
        .await;
    let error = served.into_iter().find_map(Result::err);
    let state = server
        .state
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    if watch.sent().is_some() && error.is_none() && watch.complete(state.answered) {
        trial.context.observer.on_window(WindowEdge::End);
    }
    let ended = match watch.end() {
        Some(ReceiverEnd::Complete { at, .. } | ReceiverEnd::Deadline { at, .. }) => at,
        Some(ReceiverEnd::TimedOut) => return Err(trial.timed_out()),
        None => {
            return Err(trial.explain(error.unwrap_or(TransportError::Closed {
                flow: "connections",
            })));
        }
    };
    findings
        .0
        .measurements
        .facts
        .extend(state.facts.unwrap_or_default());
    findings.span(state.started.unwrap_or(ended), ended);
    findings.refused(state.refused);
    if state.damaged > 0 {
        findings.warn(
            "requests_damaged",
            format!(
                "{} requests arrived damaged and had no answer",
                state.damaged
            ),
            "",
        );
    }
    trial.context.live.set_phase(Phase::Done);
    Ok(findings.0)
}
