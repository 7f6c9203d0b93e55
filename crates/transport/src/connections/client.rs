//! Connecting end: makes connections one after another and times each.

use std::{
    cell::Cell, collections::BTreeMap, net::SocketAddr, sync::atomic::Ordering, time::Duration,
};

use regatta_model::{
    Facts, Handshake, Named,
    metric::{DelayMetrics, id},
    phrase, reason, warning,
};

use super::{Exchanges, Expected, NOT_MEASURED, head};
use crate::{
    clock::MonotonicTime,
    error::{Result, TransportError},
    opening::Purpose,
    stop::Stop,
    stream::{ByteStream, HandshakeMade, Received, StreamClient, StreamConnection},
    trial::{
        Carried, Trial,
        carrier::Carrier as _,
        connecting::{Connecting, ConnectingWork, Ended},
        distribution::Distribution,
        findings::Findings,
        streams::Streams,
    },
};

/// Memory to receive into.
const SCRATCH_BYTES: usize = 64 << 10;

/// Longest time after the deadline for which an exchange may go on if nothing else ends it.
const AFTER_DEADLINE: Duration = Duration::from_secs(2);

/// Longest time, beyond the path's round trip, that a ticket may take.
const TICKET_SLACK: Duration = Duration::from_millis(50);

/// One exchange that had its whole answer.
struct Exchanged {
    begun: MonotonicTime,
    connected: MonotonicTime,
    first_byte: MonotonicTime,
    completed: MonotonicTime,
    handshake: Option<HandshakeMade>,
    facts: Facts,
}

/// The connecting end: it makes the connections.
struct Client<'a, E> {
    trial: &'a Trial,
    work: &'a Exchanges,
    endpoint: &'a E,
    peer: SocketAddr,
    /// Whether the exchange under way has its connection.
    connected: Cell<bool>,
}

impl<E: StreamClient> Client<'_, E> {
    /// Makes the connections one after another with their exchanges, until `transfer` is raised or the
    /// deadline has passed.
    async fn exchange_all(
        &self,
        scratch: &mut [u8],
        deadline: MonotonicTime,
        transfer: &Stop,
    ) -> Tally {
        let live = &self.trial.context.live;
        let until = deadline + AFTER_DEADLINE;
        let mut tally = Tally::default();
        for number in 0..self.work.connections {
            let stop = transfer.child();
            let exchange = self.exchange(number, scratch, until, &stop);
            match transfer.unless_raised(exchange).await {
                Ok(exchanged) => {
                    tally.add(exchanged, self.work.handshake);
                    let bytes = self.work.request.len() as u64;
                    live.bytes_sent.fetch_add(bytes, Ordering::Relaxed);
                    live.messages_sent.fetch_add(1, Ordering::Relaxed);
                }
                // The other end gets the note of the deadline first, and may close before this one is stopped.
                Err(_) if transfer.is_stopped() || deadline.has_passed() => break,
                Err(error) => {
                    tally.failed += 1;
                    tally.last_error = Some(error);
                }
            }
        }
        tally
    }

    /// Makes one connection with its exchange, and drops it.
    async fn exchange(
        &self,
        number: u64,
        scratch: &mut [u8],
        until: MonotonicTime,
        stop: &Stop,
    ) -> Result<Exchanged> {
        self.connected.set(false);
        let begun = MonotonicTime::now();
        let (endpoint, purpose) = (self.endpoint, Purpose::Transfer);
        let connection = endpoint.connect(self.peer, purpose, until, stop).await?;
        let connected = MonotonicTime::now();
        self.connected.set(true);
        let mut stream = connection.open_stream().await?;
        let head = head(self.trial.token, number);
        stream.send_message(&head, &self.work.request).await?;
        stream.flush().await?;

        let mut expected = Expected::new(&self.work.response);
        let mut first_byte = None;
        while !expected.is_complete() {
            let mut take = |piece: &[u8]| {
                first_byte.get_or_insert_with(MonotonicTime::now);
                expected.take(piece);
            };
            match stream.receive(scratch, until, &mut take).await? {
                Received::Bytes(_) => {}
                Received::TimedOut => {
                    let what = reason::answer_to_request();
                    return Err(TransportError::timed_out_since(what, begun));
                }
                Received::Closed => return Err(TransportError::Closed { flow: "connection" }),
            }
        }
        let completed = MonotonicTime::now();
        if !expected.sound {
            let what = reason::wrong_answer();
            return Err(TransportError::protocol(what));
        }
        if self.work.handshake == Handshake::EarlyData {
            self.await_ticket(&mut stream, scratch).await?;
        }
        // Everything is here, so the closing is not waited for: dropping the connection
        // begins it, and the transport does the rest while the next one is made.
        Ok(Exchanged {
            begun,
            connected,
            first_byte: first_byte.unwrap_or(completed),
            completed,
            handshake: connection.handshake(),
            facts: connection.statistics().facts(),
        })
    }

    /// Waits for the ticket that the next connection uses. The answer to early data can be here
    /// before the handshake is done, and the ticket comes after that.
    async fn await_ticket<S: ByteStream>(&self, stream: &mut S, scratch: &mut [u8]) -> Result<()> {
        let until = MonotonicTime::now() + self.trial.order.path.round_trip_delay + TICKET_SLACK;
        // A stack without a task of its own takes the ticket in when it is asked for data.
        match stream.receive(scratch, until, &mut |_: &[u8]| {}).await? {
            Received::Bytes(_) => Err(TransportError::protocol(reason::answer_too_long())),
            Received::TimedOut | Received::Closed => Ok(()),
        }
    }
}

/// Results of all exchanges.
#[derive(Default)]
pub(crate) struct Tally {
    set_up: Distribution,
    first_byte: Distribution,
    completion: Distribution,
    made: BTreeMap<&'static str, u64>,
    as_requested: u64,
    failed: u64,
    last_error: Option<TransportError>,
    facts: Facts,
}

impl Tally {
    fn add(&mut self, exchanged: Exchanged, requested: Handshake) {
        let begun = exchanged.begun;
        self.set_up.add(begun, exchanged.connected);
        self.first_byte.add(begun, exchanged.first_byte);
        self.completion.add(begun, exchanged.completed);
        *self.made.entry(name(exchanged.handshake)).or_default() += 1;
        self.as_requested += u64::from(satisfies(requested, exchanged.handshake));
        self.facts = exchanged.facts;
    }

    fn completed(&self) -> u64 {
        self.completion.len()
    }

    fn report(&self, work: &Exchanges, findings: &mut Findings) {
        for (delays, metrics) in [
            (&self.set_up, DelayMetrics::SET_UP),
            (&self.first_byte, DelayMetrics::FIRST_BYTE),
            (&self.completion, DelayMetrics::COMPLETION),
        ] {
            delays.report(metrics, "sender", findings);
        }
        findings.count(id::CONNECTIONS_COMPLETED, self.completed());
        findings.count(id::CONNECTIONS_FAILED, self.failed);
        findings.facts(self.facts.clone());
        for (name, count) in &self.made {
            findings.fact(&format!("handshakes.{name}"), count.to_string());
        }
        let others = self.completed() - self.as_requested;
        if others > 0 {
            let made = self.made.iter();
            let made = made.map(|(name, count)| phrase::handshakes(*count, name));
            let (all, requested) = (self.completed(), Named::as_str(work.handshake));
            let made = made.collect();
            findings.warn(warning::handshake_differs(others, all, requested, made));
        }
        if let Some(error) = &self.last_error {
            let (failed, all) = (self.failed, self.failed + self.completed());
            let reason = reason::chain(error.reasons());
            findings.warn(warning::connections_failed(failed, all, reason));
        }
    }
}

/// Returns the name of a handshake in facts.
const fn name(made: Option<HandshakeMade>) -> &'static str {
    match made {
        Some(HandshakeMade::Full) => "full",
        Some(HandshakeMade::Resumed) => "resumed",
        Some(HandshakeMade::EarlyDataTaken) => "early_data_taken",
        Some(HandshakeMade::EarlyDataRefused) => "early_data_refused",
        None => "unknown",
    }
}

/// Whether the handshake that a connection made is the requested one; true where the stack does not report it.
/// A Retry comes before a handshake that is a full one.
const fn satisfies(requested: Handshake, made: Option<HandshakeMade>) -> bool {
    match (requested, made) {
        (_, None) => true,
        (Handshake::Full | Handshake::Retry, Some(made)) => matches!(made, HandshakeMade::Full),
        (Handshake::Resumed, Some(made)) => matches!(made, HandshakeMade::Resumed),
        (Handshake::EarlyData, Some(made)) => matches!(made, HandshakeMade::EarlyDataTaken),
    }
}

impl<'a, E: StreamClient> ConnectingWork<'a, Streams<'a, E>> for &'a Exchanges {
    /// The results, and whether the last exchange had its connection.
    type Carried = (Tally, bool);

    async fn carry(&self, end: &mut Connecting<'a, Streams<'a, E>>) -> Carried<(Tally, bool)> {
        let trial = end.trial;
        let client = Client {
            trial,
            work: self,
            endpoint: end.carrier.0,
            peer: end.peer,
            connected: Cell::new(false),
        };
        let mut scratch = vec![0; SCRATCH_BYTES];
        let (until, stop) = (trial.opening_until(), trial.stop.child());
        let before = client.exchange(NOT_MEASURED, &mut scratch, until, &stop);
        before.await?;

        end.begin();
        // The connections are the work: the exchange before it has shown that the path lets one through.
        let deadline = end.watch.connected(end.started) + trial.order.deadline;
        let exchanging = client.exchange_all(&mut scratch, deadline, &end.transfer);
        let tally = exchanging.await;
        if !end.transfer.is_stopped() {
            let sent = trial.context.live.sent();
            end.watch.acknowledged(MonotonicTime::now(), sent);
        }
        let carried = (tally, client.connected.get());
        Ok((carried, Some(TransportError::Cancelled)))
    }

    async fn report(
        &self,
        (tally, connected): (Tally, bool),
        ended: &mut Ended<'a, Streams<'a, E>>,
        findings: &mut Findings,
    ) -> Result<()> {
        let trial = ended.trial;
        if !ended.by_deadline() {
            // The other end serves until this note.
            let sent = trial.context.live.sent();
            trial.send_note(sent.sent_note(false));
        }
        if tally.completed() == 0 {
            return Err(match tally.last_error {
                Some(error) => trial.explain(error),
                None if connected => trial.explain(TransportError::timed_out(
                    reason::answer_to_request(),
                    trial.order.deadline,
                )),
                None => trial.no_connection(),
            });
        }
        ended.carrier.describe(findings);
        // Facts of a connection replace those that its end had before.
        tally.report(self, findings);
        let done = phrase::connections_done(tally.completed(), self.connections);
        ended.report_times(findings, done);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [HandshakeMade; 4] = [
        HandshakeMade::Full,
        HandshakeMade::Resumed,
        HandshakeMade::EarlyDataTaken,
        HandshakeMade::EarlyDataRefused,
    ];

    #[test]
    fn each_requested_handshake_matches_one_kind() {
        for (requested, right) in [
            (Handshake::Full, HandshakeMade::Full),
            (Handshake::Retry, HandshakeMade::Full),
            (Handshake::Resumed, HandshakeMade::Resumed),
            (Handshake::EarlyData, HandshakeMade::EarlyDataTaken),
        ] {
            for made in ALL {
                assert_eq!(
                    satisfies(requested, Some(made)),
                    made == right,
                    "{requested:?}"
                );
            }
            assert!(satisfies(requested, None), "what is unknown is not wrong");
        }
    }

    #[test]
    fn handshakes_that_differ_from_the_request_are_counted_and_reported() {
        let mut tally = Tally::default();
        for (ms, made) in [(10, ALL[2]), (20, ALL[2]), (30, ALL[0])] {
            let at = |ms: i64| MonotonicTime(ms * 1_000_000);
            let exchanged = Exchanged {
                begun: at(5),
                connected: at(5),
                first_byte: at(5 + ms),
                completed: at(6 + ms),
                handshake: Some(made),
                facts: Facts::default(),
            };
            tally.add(exchanged, Handshake::EarlyData);
        }
        tally.failed = 1;
        tally.last_error = Some(TransportError::Closed { flow: "connection" });
        let work = Exchanges {
            connections: 4,
            handshake: Handshake::EarlyData,
            request: bytes::Bytes::new(),
            response: bytes::Bytes::new(),
        };
        let mut findings = Findings::default();
        tally.report(&work, &mut findings);
        let report = findings.0;
        assert_eq!(
            report.measurements.facts["handshakes.early_data_taken"],
            "2"
        );
        assert_eq!(report.measurements.facts["handshakes.full"], "1");
        assert_eq!(report.measurements.metrics["connections_completed"], 3.0);
        assert_eq!(report.measurements.metrics["connections_failed"], 1.0);
        assert_eq!(
            report.measurements.metrics["time_to_first_byte_mean_ns"],
            20e6
        );
        assert_eq!(
            report.measurements.metrics["time_to_completion_mean_ns"],
            21e6
        );
        let codes: Vec<_> = report
            .measurements
            .warnings
            .iter()
            .map(|w| w.code.as_str())
            .collect();
        assert_eq!(codes, ["handshake_differs", "connections_failed"]);
        assert!(
            report.measurements.warnings[0]
                .message
                .starts_with("1 of 3")
        );
    }
}
