//! Connecting end: opens the streams, then sends each message when it is due.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
};

use bytes::Bytes;
use regatta_control::SideReport;
use regatta_model::{
    Spread,
    metric::{DelayMetrics, id},
    units::format_duration,
    warning_code,
};

use super::{Messages, READY};
use crate::{
    clock::MonotonicTime,
    content::acknowledgement::Acknowledgement,
    context::{Phase, StatisticsSource},
    driver::TransportError,
    executor::Executor as _,
    opening::Purpose,
    stop::Stop,
    stream::{ByteStream, StreamConnection, StreamEndpoint, read_exact},
    trial::{
        Trial,
        connecting::{Begun, CLOSING},
        distribution::Distribution,
        stream_opening::{begin_report, open_stream},
        watch::{SenderEnd, SenderWatch},
    },
};

type StreamOf<E> = <<E as StreamEndpoint>::Connection as StreamConnection>::Stream;

/// The open connections and streams.
struct Opened<E: StreamEndpoint> {
    connections: Vec<E::Connection>,
    streams: Vec<StreamOf<E>>,
}

/// The sending end.
struct Sender<'a, E> {
    trial: &'a Trial,
    work: &'a Messages,
    endpoint: &'a E,
    transfer: &'a Stop,
    watch: &'a SenderWatch,
}

impl<E: StreamEndpoint> Sender<'_, E> {
    /// Makes the connections and their streams, and waits until the receiver has all of them.
    async fn open_all(
        &self,
        peer: SocketAddr,
        until: MonotonicTime,
        set_up: &mut Distribution,
        source: &mut Option<Arc<dyn StatisticsSource>>,
    ) -> Result<Opened<E>, TransportError> {
        let mut opened = Opened::<E> {
            connections: Vec::new(),
            streams: Vec::new(),
        };
        for index in 0..self.work.streams {
            if index == 0 || self.work.spread == Spread::Connections {
                let begun = MonotonicTime::now();
                let connection = self
                    .endpoint
                    .connect(peer, Purpose::Transfer, until, self.transfer)
                    .await?;
                let connected = MonotonicTime::now();
                self.watch.connected(connected);
                set_up.add(begun, connected);
                if index == 0 {
                    let statistics = connection.statistics();
                    // What one of several connections tells is not what all of them do.
                    if self.work.streams == 1 || self.work.spread == Spread::Streams {
                        self.watch.connection(&statistics);
                    }
                    *source = Some(statistics);
                }
                opened.connections.push(connection);
            }
            if let Some(connection) = opened.connections.last() {
                let index = (index as u32).to_le_bytes();
                let stream = open_stream(self.trial, connection, Purpose::Transfer, &index).await?;
                opened.streams.push(stream);
            }
        }
        if let Some(first) = opened.streams.first_mut()
            && read_exact(first, &mut Vec::new(), MonotonicTime::NEVER).await? != [READY]
        {
            return Err(TransportError::Protocol {
                what: "the receiver does not say that it is ready".to_owned(),
            });
        }
        Ok(opened)
    }

    /// Waits until a message is due.
    async fn wait_until(&self, moment: MonotonicTime) -> Result<(), TransportError> {
        let executor = self.endpoint.executor();
        if !moment.has_passed() && executor.sleep_unless_stopped(moment, self.transfer).await {
            return Err(TransportError::Cancelled);
        }
        Ok(())
    }

    /// Sends one stream's messages; on the first one, waits for the acknowledgement of all.
    async fn send_on(
        &self,
        stream: &mut StreamOf<E>,
        index: usize,
        start: MonotonicTime,
    ) -> Result<(), TransportError> {
        let live = &self.trial.context.live;
        let deadline = self.watch.connected(MonotonicTime::now()) + self.trial.order.deadline;
        for number in self.work.of_stream(index) {
            // What is due after the deadline is not sent, however late the end of the trial comes.
            let due = self.work.due(start, number);
            let late = due > deadline;
            self.wait_until(if late { MonotonicTime::NEVER } else { due })
                .await?;
            let (head, length) = self.work.head(number);
            let rest = self.work.content.slice(length..);
            stream.send_message(&head[..length], &rest).await?;
            stream.flush().await?;
            live.bytes_sent
                .fetch_add(self.work.length as u64, Ordering::Relaxed);
            live.messages_sent.fetch_add(1, Ordering::Relaxed);
        }
        if index > 0 {
            return Ok(());
        }
        let got = Acknowledgement::of(stream, Vec::new()).await?;
        let arrived = MonotonicTime::now();
        self.watch.acknowledged(arrived, got.delivered());
        Ok(())
    }

    /// Sends everything, each stream by itself.
    async fn send_all(&self, opened: &mut Opened<E>) -> Result<(), TransportError> {
        let start = MonotonicTime::now();
        if let Some(first) = opened.streams.first_mut() {
            first
                .send_message(&start.0.to_le_bytes(), &Bytes::new())
                .await?;
            first.flush().await?;
        }
        let tasks = opened
            .streams
            .iter_mut()
            .enumerate()
            .map(|(index, stream)| {
                move || async move {
                    let sending = self.send_on(stream, index, start);
                    let result = self.transfer.unless_raised(sending).await;
                    if result.is_err() {
                        // The others' messages will not be acknowledged either.
                        self.transfer.stop();
                    }
                    result
                }
            })
            .collect();
        let results = self.endpoint.executor().join_all(tasks).await;
        // The first to fail is what stopped the others.
        let mut stopped = None;
        for result in results {
            match result {
                Err(TransportError::Cancelled) => stopped = Some(TransportError::Cancelled),
                Err(error) => return Err(error),
                Ok(()) => {}
            }
        }
        stopped.map_or(Ok(()), Err)
    }
}

/// Runs the connecting end.
pub(super) async fn run<E: StreamEndpoint>(
    trial: &Trial,
    work: &Messages,
    endpoint: &E,
    peer: SocketAddr,
) -> Result<SideReport, TransportError> {
    let live = &trial.context.live;
    let mut findings = begin_report(trial, endpoint, peer).await?;
    let Begun {
        transfer,
        watch,
        started,
    } = trial.begin()?;
    let until = started + trial.order.longest_transfer() + CLOSING;
    let sender = Sender {
        trial,
        work,
        endpoint,
        transfer: &transfer,
        watch: &watch,
    };
    let mut set_up = Distribution::new();
    let mut source = None;
    let opening = sender.open_all(peer, until, &mut set_up, &mut source);
    let result = match transfer.unless_raised(opening).await {
        Ok(mut opened) => {
            let result = sender.send_all(&mut opened).await;
            let facts = source.as_ref().map(|source| source.facts());
            drop(source);
            close::<E>(opened, result.is_ok()).await;
            result.map(|()| facts.unwrap_or_default())
        }
        Err(error) => Err(error),
    };
    live.set_phase(Phase::Done);
    let end = watch.finish();
    let (facts, result) = match result {
        Ok(facts) => (facts, Ok(())),
        Err(error) => (BTreeMap::new(), Err(error)),
    };
    let (end, delivered) = trial.outcome(end, result, set_up.len() > 0)?;

    let ended = end.at();
    findings.span(started, ended);
    findings.metric(id::TRANSFER_TIME_NS, (ended - started) as f64);
    set_up.report(DelayMetrics::SET_UP, "sender", &mut findings);
    if work.streams == 1 || work.spread == Spread::Streams {
        findings.counters(trial, ended.since(started));
    }
    // The counters lag behind by the messages under way when the deadline came.
    let bytes = live.bytes_sent.load(Ordering::Relaxed);
    let messages = live.messages_sent.load(Ordering::Relaxed);
    findings.count(id::BYTES_SENT, bytes.max(delivered.bytes));
    findings.count(id::MESSAGES_SENT, messages.max(delivered.messages));
    let by_deadline = matches!(end, SenderEnd::Deadline { .. });
    if by_deadline {
        findings.warn(
            warning_code::DEADLINE_REACHED,
            format!(
                "the messages were stopped at the deadline of {}; measured are the {} of {} that \
                 had arrived by then, and not those that were late",
                format_duration(trial.order.deadline),
                delivered.messages,
                work.count
            ),
            "give a longer `deadline`, fewer `messages` or fewer `messages_per_second`",
        );
    } else {
        findings.count(
            id::MESSAGES_LOST,
            work.count - delivered.messages.min(work.count),
        );
    }
    let acknowledgement = if by_deadline { "control" } else { "in_band" };
    findings.fact("acknowledgement", acknowledgement);
    findings.fact("streams", work.streams.to_string());
    findings.fact(
        "spread",
        match work.spread {
            Spread::Streams => "streams of one connection",
            Spread::Connections => "connections",
        },
    );
    findings.endpoint(endpoint);
    findings.0.measurements.facts.extend(facts);
    Ok(findings.0)
}

/// Closes all connections; in good order if all is agreed.
async fn close<E: StreamEndpoint>(opened: Opened<E>, agreed: bool) {
    let Opened {
        mut connections,
        streams,
    } = opened;
    drop(streams);
    let last = connections.pop();
    // Letting go of them begins their closing; the time for it is the same for all.
    drop(connections);
    if let Some(last) = last
        && agreed
    {
        last.close(MonotonicTime::now() + CLOSING).await;
    }
}
