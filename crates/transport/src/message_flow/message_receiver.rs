//! Listening end of a trial of one flow of messages.

use std::{sync::atomic::Ordering, time::Duration};

use hdrhistogram::Histogram as Hdr;
use regatta_control::{Note, SideReport};
use regatta_model::metric::id;

use super::{MessageSink, Work};
use crate::{
    clock::MonotonicTime,
    context::WindowEdge,
    driver::TransportError,
    message::{MessageEndpoint, MessageFlow},
    opening::Purpose,
    probe,
    stop::Stop,
    trial::{
        LEAVING, MARGIN, NOTE_SLACK, Trial,
        carrier::Admitted,
        findings::{Deliveries, Findings},
        listening::Listening,
        message_control::{self, Control},
        messages::Messages,
        warm_up::WarmUp,
        watch::{Delivered, ReceiverEnd, ReceiverWatch},
    },
};

/// Interval at which a receiver without arrivals looks for notes over control.
const LOOK: Duration = Duration::from_millis(5);

/// Results of the transfer.
struct Taken {
    sink: Box<dyn MessageSink>,
    deliveries: Option<Deliveries>,
    one_way: Hdr<u64>,
    warm_up: WarmUp,
    result: Result<(), TransportError>,
}

/// Signs of the end of the transfer, as the receiver has seen them.
#[derive(Debug, Default)]
struct Ending {
    /// Whether the flow is reliable: every message that was sent arrives, be it after the end marker.
    reliable: bool,
    /// Arrival of the first end marker.
    marker: Option<MonotonicTime>,
    /// Number of messages that were sent, which the end marker tells.
    sent: u64,
    /// Whether a marker came that is not answered yet.
    unanswered: bool,
    /// Whether the sender has the acknowledgement.
    done: bool,
    /// Whether the flow's opening came again: its answer was lost.
    reopened: bool,
}

impl Ending {
    fn note(&mut self, control: Control) {
        match control {
            Control::Open => self.reopened = true,
            Control::End(sent) => {
                self.sent = sent.messages;
                self.marker.get_or_insert_with(MonotonicTime::now);
                self.unanswered = true;
            }
            Control::Done => self.done = true,
            Control::Opened | Control::Acknowledgement(_) => {}
        }
    }

    /// Returns the moment after which nothing that counts can come any more, as far as is known.
    /// `arrived` messages are here, the damaged ones included; `last` is when the last ones came.
    fn moment(
        &self,
        trial: &Trial,
        watch: &ReceiverWatch,
        arrived: u64,
        last: Option<MonotonicTime>,
    ) -> MonotonicTime {
        if self.reliable {
            let all = self.marker.filter(|_| arrived >= self.sent);
            return all.unwrap_or(MonotonicTime::NEVER);
        }
        let path = &trial.order.path;
        let by_marker = self.marker.map(|at| {
            if path.keeps_order {
                at
            } else {
                at + path.longest_one_way
            }
        });
        // Control does not take the path: what was sent before it may be under way still, or wait
        // in the sender's own queues, so as long as something comes more may come. This is only
        // for the case that all markers are lost.
        let by_note = watch.sent().map(|(at, _)| {
            last.map_or(at, |last| last.max(at)) + path.longest_one_way + NOTE_SLACK
        });
        [by_marker, by_note]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(MonotonicTime::NEVER)
    }
}

/// Messages that are still waited for after the deadline: those that were under way then are not
/// lost.
#[derive(Debug)]
struct Late {
    at: MonotonicTime,
    /// Messages that were sent by then.
    sent: u64,
    /// Longest time that a message may take after it has left.
    within: Duration,
    /// Beginning of a time up to now in which nothing came, although it was looked for.
    silent_since: Option<MonotonicTime>,
}

impl Late {
    fn new(trial: &Trial, watch: &ReceiverWatch) -> Self {
        let (at, sent) = match watch.end() {
            Some(ReceiverEnd::Deadline { at, sent, .. }) => (at, sent),
            _ => (MonotonicTime::now(), 0),
        };
        Self {
            at,
            sent,
            within: trial.late_arrivals_within().unwrap_or_default(),
            silent_since: None,
        }
    }

    /// Returns the number of messages that left the sender: all that were sent, unless it says
    /// otherwise.
    fn left(&self, watch: &ReceiverWatch) -> u64 {
        watch
            .left()
            .map_or(self.sent, |(_, messages)| messages.min(self.sent))
    }

    /// Notes that nothing came between `since` and now.
    fn is_silent(&mut self, since: MonotonicTime) {
        self.silent_since = Some(since);
    }

    /// Whether all that left the sender is here, or nothing can come any more: the time in which
    /// it could is over, and what had come by then is read, however late this end is with that.
    fn is_over(&self, watch: &ReceiverWatch, sink: &dyn MessageSink) -> bool {
        let left = self.left(watch);
        if sink.delivered().messages >= left && sink.arrived_of(left) == left {
            return true;
        }
        let last = match watch.left() {
            Some((at, _)) => at,
            None => self.at + LEAVING,
        };
        self.silent_since
            .is_some_and(|since| since >= last + self.within)
    }
}

async fn take<F: MessageFlow>(
    (trial, work, reliable): (&Trial, &Work, bool),
    watch: &ReceiverWatch,
    deadline: &Stop,
    (flow, arrived): (&mut F, MonotonicTime),
) -> Taken {
    let mut taken = Taken {
        sink: work.sink(),
        deliveries: None,
        one_way: probe::new_histogram(),
        warm_up: WarmUp::since(&trial.context.observer, arrived, work.warm_up()),
        result: Ok(()),
    };
    taken.result = take_all((trial, reliable), watch, deadline, flow, &mut taken).await;
    taken
}

async fn take_all<F: MessageFlow>(
    (trial, reliable): (&Trial, bool),
    watch: &ReceiverWatch,
    deadline: &Stop,
    flow: &mut F,
    taken: &mut Taken,
) -> Result<(), TransportError> {
    let clock_offset = trial.order.path.clock_offset_ns;
    let Taken {
        sink,
        deliveries,
        one_way,
        warm_up,
        ..
    } = taken;
    let mut ending = Ending {
        reliable,
        ..Ending::default()
    };
    let mut late: Option<Late> = None;
    // A sender that is gone says nothing; one that is there is stopped by its deadline.
    let patience = trial.order.deadline + MARGIN;
    let give_up = MonotonicTime::now() + patience;
    while !sink.is_complete() {
        if give_up.has_passed() {
            return Err(TransportError::TimedOut {
                what: "end of the transfer".to_owned(),
                seconds: patience.as_secs_f64(),
            });
        }
        let arrived = sink.delivered().messages + sink.corrupted();
        let last = deliveries.map(|deliveries| deliveries.last);
        let end_at = ending.moment(trial, watch, arrived, last);
        if late.is_none() && deadline.is_stopped() {
            late = Some(Late::new(trial, watch));
        }
        if end_at.has_passed()
            || late
                .as_ref()
                .is_some_and(|late| late.is_over(watch, sink.as_ref()))
        {
            break;
        }
        let began = MonotonicTime::now();
        let until = end_at.min(began + LOOK);
        // One time for a whole batch: its messages came with one system call.
        let mut now = None;
        let received = flow
            .receive_batch(until, &mut |arrival| {
                if let Some((_, control)) = Control::decode(trial, arrival.data) {
                    ending.note(control);
                    return;
                }
                let now = *now.get_or_insert_with(MonotonicTime::now);
                let sent = sink.consume(arrival.data, now);
                if let (Some(sent), Some(offset)) = (sent, clock_offset) {
                    probe::record(one_way, now - sent - offset, 1);
                }
            })
            .await;
        match (received, &mut late) {
            (Ok(0), Some(late)) => late.is_silent(began),
            (Ok(_), _) => {}
            // The sender has closed the flow that its deadline stopped: nothing more comes.
            (Err(_), Some(_)) if !trial.stop.is_stopped() => break,
            (Err(error), _) => return Err(error),
        }
        // What comes after the deadline was not delivered within it.
        if let Some(now) = now
            && late.is_none()
            && !deadline.is_stopped()
        {
            count(trial, (now, sink.delivered()), deliveries, warm_up);
            while let Some(answer) = sink.next_answer() {
                flow.send_batch(answer, answer.len()).await?;
            }
        }
        if std::mem::take(&mut ending.reopened) {
            message_control::send(trial, flow, Purpose::Transfer, Control::Opened).await?;
        }
        if trial.stop.is_stopped() {
            return Err(TransportError::Cancelled);
        }
    }
    let delivered = sink.delivered();
    if !watch.complete(delivered) {
        return Ok(());
    }
    let acknowledgement = Control::Acknowledgement(delivered);
    message_control::send(trial, flow, Purpose::Transfer, acknowledgement).await?;
    trial.context.observer.send_note(Note::Received {
        messages: delivered.messages,
        bytes: delivered.bytes,
    });
    trial.context.observer.on_window(WindowEdge::End);
    // From here on nothing can fail that matters: both ends know by control.
    let _ = answer_markers(trial, flow, acknowledgement, ending).await;
    Ok(())
}

/// Counts what has been `delivered` by `now`.
fn count(
    trial: &Trial,
    (now, delivered): (MonotonicTime, Delivered),
    deliveries: &mut Option<Deliveries>,
    warm_up: &WarmUp,
) {
    let live = &trial.context.live;
    Deliveries::note(deliveries, now, delivered.bytes);
    live.messages_delivered
        .store(delivered.messages, Ordering::Relaxed);
    if !warm_up.is_over(now) {
        live.bytes_in_warm_up
            .store(delivered.bytes, Ordering::Relaxed);
    }
    live.bytes_delivered
        .store(delivered.bytes, Ordering::Release);
}

/// Repeats the acknowledgement for every marker that comes, until the sender has it or is silent.
async fn answer_markers<F: MessageFlow>(
    trial: &Trial,
    flow: &mut F,
    acknowledgement: Control,
    mut ending: Ending,
) -> Result<(), TransportError> {
    let silence = trial.probe.longest_round_trip * 2 + Duration::from_millis(100);
    let mut until = MonotonicTime::now() + silence;
    ending.unanswered = false;
    while !ending.done && !until.has_passed() && !trial.stop.is_stopped() {
        flow.receive_batch(until, &mut |arrival| {
            if let Some((_, control)) = Control::decode(trial, arrival.data) {
                ending.note(control);
            }
        })
        .await?;
        if std::mem::take(&mut ending.unanswered) {
            until = MonotonicTime::now() + silence;
            message_control::send(trial, flow, Purpose::Transfer, acknowledgement).await?;
        }
    }
    Ok(())
}

/// Runs the listening end.
pub(super) async fn run<E: MessageEndpoint>(
    trial: &Trial,
    work: &Work,
    endpoint: &E,
) -> Result<SideReport, TransportError> {
    let carrier = Messages(endpoint);
    let end = Listening::new(trial, &carrier)?;
    let (end_ref, reliable) = (&end, endpoint.reliable());
    let taken = end
        .beside_echo(move |mut transfer: Admitted<E::Flow>, _| async move {
            // The deadline ends what is delivered, and not the flow: what is under way arrives still.
            let (watch, deadline) = (&end_ref.watch, &end_ref.transfer);
            let flow = (&mut transfer.flow, transfer.arrived);
            let taken = take((trial, work, reliable), watch, deadline, flow).await;
            transfer.stop.stop();
            (transfer, taken)
        })
        .await;
    match taken {
        Ok((transfer, taken)) => report(work, &end, &transfer, taken),
        Err(error) => end.without_transfer(Findings::default(), error),
    }
}

fn report<E: MessageEndpoint>(
    work: &Work,
    end: &Listening<'_, Messages<'_, E>>,
    transfer: &Admitted<E::Flow>,
    taken: Taken,
) -> Result<SideReport, TransportError> {
    let (trial, watch) = (end.trial, &end.watch);
    let outcome = end.outcome(taken.result.err())?;
    if let Some(ReceiverEnd::Deadline { sent, .. }) = watch.end()
        && trial.late_arrivals_within().is_some()
    {
        let left = watch.left_after_break();
        let left = left.map_or(sent, |(_, messages)| messages.min(sent));
        let messages = taken.sink.arrived_of(left);
        trial.context.observer.send_note(Note::Arrived { messages });
    }
    let mut findings = Findings::default();
    if let Some(statistics) = transfer.flow.statistics() {
        findings.stack(statistics.as_ref());
    }
    findings.facts(transfer.flow.facts());
    let deliveries = taken.deliveries.filter(|_| work.has_goodput());
    findings.delivery(outcome.delivered, taken.sink.corrupted(), deliveries);
    findings.warm_up_bytes(trial, work.warm_up(), u64::MAX);
    taken.sink.report(&mut findings);
    if !taken.one_way.is_empty() {
        let median = taken.one_way.value_at_quantile(0.5) as f64;
        findings.metric(id::ONE_WAY_DELAY_NS, median);
        let histogram = probe::encode(id::ONE_WAY_DELAY_NS, "receiver", &taken.one_way);
        findings.0.measurements.histograms.extend(histogram);
    }
    Ok(end.report(findings, transfer.arrived, outcome.at))
}
