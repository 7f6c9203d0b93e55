//! Flows over streams: opening, admission, and probe messages.

use std::{net::SocketAddr, time::Duration};

use super::{
    Trial,
    carrier::{Admission, Admitted, Carrier, ClientCarrier, ProbeFlow, ServerCarrier},
    findings::Findings,
    retransmissions::Counter,
};
use crate::{
    clock::MonotonicTime,
    context::WindowEdge,
    endpoint::{Accepted, Endpoint},
    error::{Result, TransportError},
    executor::Executor as _,
    opening::{self, OPENING_BYTES, Purpose},
    stop::Stop,
    stream::{
        ByteStream, Received, StreamClient, StreamConnection, StreamEndpoint, StreamOf,
        StreamServer, read_exact, send_now,
    },
};

/// Minimum time that a flow may take to send its opening.
const OPENING_TIME: Duration = Duration::from_secs(5);

/// Interval at which the wait for the opening of one connection looks whether another connection has come.
const OPENING_POLL: Duration = Duration::from_millis(100);

/// Longest time after which the next connection is accepted if it had been waiting, over a path without delay.
const AT_ONCE: Duration = Duration::from_millis(1);

/// Returns the time until which a flow that begins now may send its opening. It may take as long as its connection,
/// whose retransmissions an opening can need as well: those of SCTP come after 3 s, then after 6 s more.
pub(crate) fn opening_until(trial: &Trial) -> MonotonicTime {
    let within = trial.order.connect_deadline.max(OPENING_TIME);
    MonotonicTime::now() + within + trial.order.path.longest_round_trip()
}

/// An open stream, its connection, and the bytes that came and are not used yet.
pub(crate) struct StreamFlow<C, S> {
    pub connection: C,
    pub stream: S,
    pub rest: Vec<u8>,
    /// Whether probe messages are datagrams of the connection instead.
    has_datagrams: bool,
}

/// Connection of a probe's stream; `()` where it is the transfer's, whose datagrams are no probe's.
pub(crate) trait ProbeConnection {
    /// Whether the connection carries the trial's probe messages as datagrams.
    fn carries_probes(&self, trial: &Trial) -> bool;

    fn send(&self, message: &[u8]) -> Result<()>;

    fn receive(
        &self,
        until: MonotonicTime,
        consume: &mut (impl FnMut(&[u8]) + Send),
    ) -> impl Future<Output = Result<bool>>;
}

impl<C: StreamConnection> ProbeConnection for C {
    fn carries_probes(&self, trial: &Trial) -> bool {
        self.longest_datagram() >= trial.probe.message
    }

    fn send(&self, message: &[u8]) -> Result<()> {
        self.send_datagram(message)
    }

    async fn receive(
        &self,
        until: MonotonicTime,
        consume: &mut (impl FnMut(&[u8]) + Send),
    ) -> Result<bool> {
        self.receive_datagram(until, consume).await
    }
}

impl ProbeConnection for () {
    fn carries_probes(&self, _: &Trial) -> bool {
        false
    }

    fn send(&self, _: &[u8]) -> Result<()> {
        Ok(())
    }

    async fn receive(&self, _: MonotonicTime, _: &mut (impl FnMut(&[u8]) + Send)) -> Result<bool> {
        Ok(false)
    }
}

impl<C, S> StreamFlow<C, S> {
    pub(crate) const fn new(connection: C, stream: S) -> Self {
        Self {
            connection,
            stream,
            rest: Vec::new(),
            has_datagrams: false,
        }
    }
}

impl<C: ProbeConnection, S: ByteStream> ProbeFlow for StreamFlow<C, S> {
    fn loses_messages(&self) -> bool {
        self.has_datagrams
    }

    fn sends_at_once(&self) -> bool {
        self.stream.sends_at_once()
    }

    fn holds_back(&self) -> bool {
        !self.stream.sends_at_once()
    }

    async fn send(&mut self, message: &[u8]) -> Result<()> {
        if self.has_datagrams {
            return self.connection.send(message);
        }
        send_now(&mut self.stream, message).await
    }

    async fn receive(
        &mut self,
        length: usize,
        until: MonotonicTime,
        answer: &mut (impl FnMut(&[u8]) + Send),
    ) -> Result<bool> {
        if self.has_datagrams {
            return self.connection.receive(until, answer).await;
        }
        let mut scratch = vec![0; length.max(4096)];
        let rest = &mut self.rest;
        let mut take = |piece: &[u8]| {
            rest.extend_from_slice(piece);
            let complete = rest.len() - rest.len() % length;
            rest[..complete].chunks(length).for_each(&mut *answer);
            rest.drain(..complete);
        };
        match self.stream.receive(&mut scratch, until, &mut take).await? {
            Received::Bytes(_) => Ok(true),
            Received::TimedOut => Ok(false),
            Received::Closed => Err(TransportError::Closed { flow: "probe" }),
        }
    }

    async fn send_done(&mut self, _: &Trial, _: Purpose) {}
}

/// Opens a stream of a connection and sends its opening.
pub(crate) async fn open_stream<C: StreamConnection>(
    trial: &Trial,
    connection: &C,
    purpose: Purpose,
) -> Result<C::Stream> {
    let mut stream = connection.open_stream().await?;
    send_now(&mut stream, &opening::encode(trial.token, purpose)).await?;
    Ok(stream)
}

/// Reads a stream's opening: its purpose, or `None` if it has none of this trial, and what came
/// after it.
pub(crate) async fn read_opening<S: ByteStream>(
    trial: &Trial,
    stream: &mut S,
) -> Result<(Option<Purpose>, Vec<u8>)> {
    let mut rest = Vec::with_capacity(OPENING_BYTES);
    let purpose = read_purpose(trial, stream, &mut rest, opening_until(trial)).await?;
    Ok((purpose, rest))
}

/// Reads a stream's opening until `until` at most; its first bytes may be in `rest`, where what comes after it is left. It is
/// `None` if it is not of this trial.
async fn read_purpose<S: ByteStream>(
    trial: &Trial,
    stream: &mut S,
    rest: &mut Vec<u8>,
    until: MonotonicTime,
) -> Result<Option<Purpose>> {
    match read_exact::<OPENING_BYTES, S>(stream, rest, until).await {
        Ok(bytes) => Ok(opening::decode(&bytes, trial.token)),
        Err(TransportError::Closed { .. }) => {
            rest.clear();
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Takes the next stream of a connection and reads its opening, at most until `until`.
pub(crate) async fn accept_stream<C: StreamConnection>(
    trial: &Trial,
    connection: &C,
    until: MonotonicTime,
) -> Result<(Option<Purpose>, C::Stream, Vec<u8>)> {
    let mut stream = connection.accept_stream(until).await?;
    let (purpose, rest) = read_opening(trial, &mut stream).await?;
    Ok((purpose, stream, rest))
}

/// Connection that was accepted and has not shown its opening.
struct Unopened<C: StreamConnection> {
    connection: C,
    /// Its first stream, once that has come.
    stream: Option<C::Stream>,
    /// Bytes of the opening that have come.
    rest: Vec<u8>,
    arrived: MonotonicTime,
    stop: Stop,
}

impl<C: StreamConnection> Unopened<C> {
    /// Reads the opening until `until` at most, after which it can be tried again.
    async fn purpose(&mut self, trial: &Trial, until: MonotonicTime) -> Result<Option<Purpose>> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => self
                .stream
                .insert(self.connection.accept_stream(until).await?),
        };
        read_purpose(trial, stream, &mut self.rest, until).await
    }

    /// Returns the flow of the connection, which has shown its opening.
    fn admitted(
        self,
        trial: &Trial,
        purpose: Purpose,
    ) -> Result<Admitted<StreamFlow<C, C::Stream>>> {
        let closed = TransportError::Closed { flow: "connection" };
        if purpose != Purpose::Transfer {
            self.connection.lift_rate();
        }
        let flow = StreamFlow {
            has_datagrams: self.connection.carries_probes(trial),
            connection: self.connection,
            stream: self.stream.ok_or(closed)?,
            rest: self.rest,
        };
        Ok(Admitted {
            purpose,
            index: 0,
            flow,
            arrived: self.arrived,
            stop: self.stop,
        })
    }
}

/// Sends back everything that comes, beginning with `rest`, which came with the opening, until the
/// other end closes; `answering` is called before.
pub(crate) async fn echo<S: ByteStream>(
    stream: &mut S,
    rest: Vec<u8>,
    answering: &(impl Fn() + Sync),
) {
    let mut scratch = vec![0; 64 << 10];
    let mut back = rest;
    loop {
        if !back.is_empty() {
            answering();
            if send_now(stream, &back).await.is_err() {
                return;
            }
            back.clear();
        }
        let mut take = |piece: &[u8]| back.extend_from_slice(piece);
        let receiving = stream.receive(&mut scratch, MonotonicTime::NEVER, &mut take);
        // The sender's end of the probe reports the error; here it only ends.
        if !matches!(receiving.await, Ok(Received::Bytes(_))) {
            return;
        }
    }
}

/// An end of streams.
pub(crate) struct Streams<'a, E>(pub &'a E);

/// A connection with its first stream.
pub(crate) type FlowOf<E> = StreamFlow<<E as Endpoint>::Connection, StreamOf<E>>;

impl<E: StreamServer> Streams<'_, E> {
    /// Waits for a connection whose first stream shows this trial's token; refuses others. `on_arrival`
    /// is called when one comes in; `parent` is that of its stop.
    pub(crate) async fn admit_with(
        &self,
        trial: &Trial,
        until: MonotonicTime,
        admission: &mut Admission,
        (parent, on_arrival): (&Stop, &(impl Fn() + Sync)),
    ) -> Result<Admitted<FlowOf<E>>> {
        // End and duration of the wait for connections that were not admitted.
        let mut before: Option<(MonotonicTime, Duration)> = None;
        let at_once = (trial.order.path.round_trip_delay / 2).max(AT_ONCE);
        // The last one whose opening took too long.
        let mut late: Option<Unopened<E::Connection>> = None;
        loop {
            let stop = parent.child();
            let mut arrived = MonotonicTime::now();
            let mut note = |_: &[u8]| {
                // This may be the transfer; the last call before it counts.
                on_arrival();
                arrived = MonotonicTime::now();
                true
            };
            let (accepted, opened) = match late.take() {
                None => (self.0.accept(until, &stop, &mut note).await, None),
                Some(unopened) => {
                    self.accept_beside(trial, until, (&stop, &mut note), unopened)
                        .await
                }
            };
            if let Some((purpose, unopened)) = opened {
                // It had been counted as one that shows none.
                admission.refused -= 1;
                return unopened.admitted(trial, purpose);
            }
            // One that had been waiting is there at once. One that is made after the sender has given another one up comes a
            // round trip later.
            let held_up = before.filter(|(end, _)| arrived.since(*end) < at_once);
            let held_up = held_up.map_or(Duration::ZERO, |(_, time)| time);
            let waited = || {
                let now = MonotonicTime::now();
                Some((now, held_up + now.since(arrived)))
            };
            let Accepted::Connection(connection) = accepted? else {
                admission.refused += 1;
                before = waited();
                continue;
            };
            let mut unopened = Unopened {
                connection,
                stream: None,
                rest: Vec::with_capacity(OPENING_BYTES),
                arrived,
                stop,
            };
            match unopened.purpose(trial, opening_until(trial)).await {
                Ok(Some(purpose)) => {
                    admission.held_up += held_up;
                    return unopened.admitted(trial, purpose);
                }
                Ok(None) => admission.refused += 1,
                Err(error) if parent.is_stopped() => return Err(error),
                // Closing it would break a flow whose packets the path loses for so long.
                Err(TransportError::TimedOut { .. }) => {
                    admission.refused += 1;
                    late = Some(unopened);
                }
                Err(_) => admission.failed += 1,
            }
            before = waited();
        }
    }

    /// Accepts the next connection while `unopened` may still show its opening. Returns that one, with its purpose, if it
    /// does so first.
    async fn accept_beside(
        &self,
        trial: &Trial,
        until: MonotonicTime,
        (stop, note): (&Stop, &mut (impl FnMut(&[u8]) -> bool + Send)),
        mut unopened: Unopened<E::Connection>,
    ) -> AcceptedBeside<E> {
        let over = &Stop::new();
        let unopened_ref = &mut unopened;
        let accepting = move || async move {
            let accepted = self.0.accept(until, stop, note).await;
            over.stop();
            accepted
        };
        let opening = move || async move {
            while !over.is_stopped() {
                let poll = MonotonicTime::now() + OPENING_POLL;
                match unopened_ref.purpose(trial, poll).await {
                    Err(TransportError::TimedOut { .. }) => {}
                    Ok(Some(purpose)) => {
                        stop.stop();
                        return Some(purpose);
                    }
                    Ok(None) | Err(_) => return None,
                }
            }
            None
        };
        let (accepted, purpose) = self.0.executor().join(accepting, opening).await;
        (accepted, purpose.map(|purpose| (purpose, unopened)))
    }
}

/// Result of [`Streams::accept_beside`]: the next connection, and the earlier one that has shown its opening meanwhile.
type AcceptedBeside<E> = (
    Result<Accepted<<E as Endpoint>::Connection>>,
    Option<(Purpose, Unopened<<E as Endpoint>::Connection>)>,
);

impl<E: StreamEndpoint> Carrier for Streams<'_, E> {
    type Flow = FlowOf<E>;
    type Executor = E::Executor;

    fn executor(&self) -> &E::Executor {
        self.0.executor()
    }

    fn describe(&self, findings: &mut Findings) {
        findings.facts(self.0.facts());
        findings.warnings(self.0.warnings());
    }

    async fn close(flow: Self::Flow, until: MonotonicTime) {
        drop(flow.stream);
        flow.connection.close(until).await;
    }

    fn retransmissions(&self, flow: &Self::Flow) -> Counter {
        match flow.has_datagrams {
            true => Counter::Never(E::Connection::DATAGRAMS),
            false => Counter::Stack(flow.connection.statistics()),
        }
    }
}

impl<E: StreamClient> ClientCarrier for Streams<'_, E> {
    async fn open(
        &self,
        trial: &Trial,
        peer: SocketAddr,
        purpose: Purpose,
        until: MonotonicTime,
        stop: &Stop,
    ) -> Result<Self::Flow> {
        let connection = self.0.connect(peer, purpose, until, stop).await?;
        let stream = open_stream(trial, &connection, purpose).await?;
        let has_datagrams = connection.carries_probes(trial);
        Ok(StreamFlow {
            has_datagrams,
            ..StreamFlow::new(connection, stream)
        })
    }
}

impl<E: StreamServer> ServerCarrier for Streams<'_, E> {
    async fn admit(
        &self,
        trial: &Trial,
        until: MonotonicTime,
        admission: &mut Admission,
    ) -> Result<Admitted<Self::Flow>> {
        let open_window = || trial.context.observer.on_window(WindowEdge::Start);
        let arrived = (&trial.stop, &open_window);
        self.admit_with(trial, until, admission, arrived).await
    }

    async fn echo(
        &self,
        _: &Trial,
        probe: &mut Admitted<Self::Flow>,
        _: &Stop,
        answering: &(impl Fn() + Sync),
    ) {
        let StreamFlow {
            connection,
            stream,
            rest,
            has_datagrams,
        } = &mut probe.flow;
        let rest = std::mem::take(rest);
        if !*has_datagrams {
            return echo(stream, rest, answering).await;
        }
        let (connection, closed) = (&*connection, &Stop::new());
        // The stream says when the probe ends.
        let until_closed = move || async move {
            echo(stream, rest, answering).await;
            closed.stop();
        };
        let executor = self.0.executor();
        let answers = move || async move {
            let mut back = Vec::new();
            while !closed.is_stopped() {
                let mut take = |message: &[u8]| back.push(message.to_vec());
                let receiving = connection.receive(MonotonicTime::NEVER, &mut take);
                match executor.wait_unless_stopped(closed, receiving).await {
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return,
                }
                answering();
                for message in back.drain(..) {
                    if connection.send(&message).is_err() {
                        return;
                    }
                }
            }
        };
        executor.join(until_closed, answers).await;
    }

    async fn end_probe(&self, trial: &Trial, _: &Stop, echoed: &Stop) {
        // Messages that leave until the other end has the acknowledgement, or the deadline has stopped it, are under way
        // still.
        let until = MonotonicTime::now() + trial.probe.last_answers_within;
        let executor = self.0.executor();
        executor.sleep_unless_stopped(until, echoed).await;
        // Wakes the echo, if it waits for what will not come any more.
        trial.stop.stop();
    }
}
