//! Receiving end of a flow.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use regatta_model::reason;

use super::{Shared, Watch, agreement::patience};
use crate::{
    clock::MonotonicTime,
    content::message_check::{Answer, MessageSink},
    context::WindowEdge,
    delivered::Delivered,
    error::{Result, TransportError},
    executor::Executor,
    flows::Received,
    message::{Arrival, MessageFlow},
    opening::Purpose,
    peer::Peer,
    stop::{Linked, Stop},
    trial::{
        LEAVING, MARGIN,
        distribution::Distribution,
        findings::Deliveries,
        message_control::{self, Control},
        watch::{ServerEnd, ServerEnding},
    },
};

/// Time without arrivals, beyond what the path can take, after which a flow is over without an end marker. The sender
/// repeats its marker every 250 ms at least, and on a busy machine its stack may have had no turn for more than 50 ms.
const SILENCE: Duration = Duration::from_secs(1);

/// Signs of the end of the transfer, as the receiver has seen them.
#[derive(Debug, Default)]
struct Ending {
    /// Arrival of the first end marker.
    marker: Option<MonotonicTime>,
    /// Number of messages that were sent, by the end marker.
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
            Control::Open(_) => self.reopened = true,
            Control::End(sent) => {
                self.sent = sent.messages;
                self.marker.get_or_insert_with(MonotonicTime::now);
                self.unanswered = true;
            }
            Control::Done => self.done = true,
            Control::Opened | Control::Acknowledgement(_) => {}
        }
    }

    /// Returns the moment after which the flow is over by an end marker. `arrived` is the number of messages that have
    /// arrived, including damaged ones.
    fn by_marker(&self, shared: &Shared<'_>, arrived: u64) -> MonotonicTime {
        let Some(marker) = self.marker else {
            return MonotonicTime::NEVER;
        };
        let path = &shared.trial.order.path;
        match (shared.own.reliable, path.keeps_order) {
            (true, _) if arrived < self.sent => MonotonicTime::NEVER,
            (true, _) | (false, true) => marker,
            (false, false) => marker + path.longest_one_way,
        }
    }
}

/// Returns the moment from which on silence is the end of a flow, because all its markers may be lost: the sender's note
/// and the `last` arrival are longer ago than a message can be under way. Control does not take the path: what was
/// sent before the note may wait in the sender's own queues, so that more may come as long as something comes.
fn silence_from(shared: &Shared<'_>, last: Option<MonotonicTime>) -> MonotonicTime {
    let sent_there = shared.trial.context.peer.read(|peer| peer.sent);
    match sent_there {
        Some((at, _)) if !shared.own.reliable => {
            last.map_or(at, |last| last.max(at)) + shared.trial.order.path.longest_one_way + SILENCE
        }
        _ => MonotonicTime::NEVER,
    }
}

/// Wait of a listening end after the deadline for messages under way then, which must not count as lost.
struct Late<'a> {
    peer: &'a Peer,
    flow: u16,
    at: MonotonicTime,
    /// Upper bound of the messages sent on the flow by then.
    sent: u64,
    /// Longest time that a message may take after it has left.
    within: Duration,
}

impl<'a> Late<'a> {
    fn new(shared: &Shared<'a>, watch: &ServerEnding, flow: u16) -> Self {
        let (at, sent) = match watch.end() {
            Some(ServerEnd::Deadline { at, sent, .. }) => (at, sent),
            _ => (MonotonicTime::now(), 0),
        };
        Self {
            peer: &shared.trial.context.peer,
            flow,
            at,
            sent: shared.sent_on_flow(sent),
            within: shared.trial.late_arrivals_within().unwrap_or_default(),
        }
    }

    /// Returns when the sender's flow stopped sending, and the number of messages that had left it; `None` before that
    /// note.
    fn flow_left(&self) -> Option<(MonotonicTime, u64)> {
        self.peer.read(|peer| peer.left.get(&self.flow).copied())
    }

    /// Returns the number of messages that left the sender: all that were sent, without a note
    /// about fewer.
    fn left(&self) -> u64 {
        self.flow_left()
            .map_or(self.sent, |(_, messages)| messages.min(self.sent))
    }

    /// Returns the moment from which nothing can arrive, by what is known now.
    fn moment(&self) -> MonotonicTime {
        let last = match self.flow_left() {
            Some((at, _)) => at,
            None => self.at + LEAVING,
        };
        last + self.within
    }

    /// Whether all messages that left the sender have arrived, or no more can: the time for them is over, and
    /// everything that arrived within that time has been read, however late this end reads it.
    fn is_over(&self, sink: &dyn MessageSink, silent_since: Option<MonotonicTime>) -> bool {
        let left = self.left();
        let is_here = sink.counts().delivered.messages >= left && sink.arrived_of(left) == left;
        is_here || silent_since >= Some(self.moment())
    }
}

impl Shared<'_> {
    /// Returns a stop that is raised when something has changed that a receiver without arrivals looks at: the
    /// other end's state, which holds as long as the link does, or the transfer was stopped.
    fn change(&self) -> (Stop, Arc<Linked>) {
        // After its stop the transfer ends with the session at the latest.
        let parent = match self.stop.is_stopped() {
            true => &self.trial.stop,
            false => &self.stop,
        };
        let stop = parent.child();
        let linked = self.trial.context.peer.next_change().link(&stop);
        (stop, linked)
    }

    /// Returns the most messages that were sent on one flow, of `sent` on all.
    pub(super) fn sent_on_flow(&self, sent: u64) -> u64 {
        match self.flows.parts.len() {
            1 => sent,
            _ => u64::MAX,
        }
    }
}

/// A flow's receiver, from the flow's opening on.
pub(super) struct Receiver<'a> {
    shared: &'a Shared<'a>,
    flow: u16,
    sink: Box<dyn MessageSink>,
    /// Part of the live counters that is the flow's.
    counted: Delivered,
    deliveries: Option<Deliveries>,
    one_way: Distribution,
    ending: Ending,
    /// Moment before which the flow's end sends nothing, unless something arrives.
    answers_at: MonotonicTime,
    /// Whether its answers count as messages sent.
    counts_answers: bool,
    /// Arrival of the messages that are not counted yet: one time for a whole batch, which came with one
    /// system call.
    arrived: Option<MonotonicTime>,
}

impl<'a> Receiver<'a> {
    pub(super) fn new(shared: &'a Shared<'a>, flow: u16) -> Self {
        Self {
            shared,
            flow,
            sink: shared.sink(flow),
            counted: Delivered::default(),
            deliveries: None,
            one_way: Distribution::default(),
            ending: Ending::default(),
            answers_at: MonotonicTime(0),
            counts_answers: shared.directions().0,
            arrived: None,
        }
    }

    /// Takes a message.
    pub(super) fn take(&mut self, message: &[u8]) {
        let trial = self.shared.trial;
        if let Some((_, control)) = Control::decode(trial, message) {
            self.ending.note(control);
            return;
        }
        let now = *self.arrived.get_or_insert_with(MonotonicTime::now);
        let sent = self.sink.consume(message, now);
        if let (Some(sent), Some(offset)) = (sent, trial.order.path.clock_offset_ns) {
            self.one_way.add_nanoseconds(now - sent - offset);
        }
    }

    /// Counts what has come by `now`.
    fn count(&mut self, now: MonotonicTime) {
        let (shared, delivered) = (self.shared, self.sink.counts().delivered);
        Deliveries::note(&mut self.deliveries, now, delivered.bytes);
        let received = delivered - std::mem::replace(&mut self.counted, delivered);
        shared
            .warm_up
            .count(&shared.trial.context.live, now, received);
    }

    fn is_answer_due(&self) -> bool {
        self.answers_at != MonotonicTime::NEVER && self.answers_at.has_passed()
    }

    /// Sends the answers that are due.
    async fn answer<F: MessageFlow>(&mut self, flow: &mut F) -> Result<()> {
        let live = &self.shared.trial.context.live;
        loop {
            let message = match self.sink.next_answer() {
                Answer::Message(message) => message,
                Answer::NotBefore(moment) => {
                    self.answers_at = moment;
                    return Ok(());
                }
            };
            flow.send_batch(message, message.len()).await?;
            if self.counts_answers {
                live.messages_sent.fetch_add(1, Ordering::Relaxed);
                live.bytes_sent
                    .fetch_add(message.len() as u64, Ordering::Relaxed);
            }
        }
    }

    /// Carries the flow's part to its end, and acknowledges what arrived.
    pub(super) async fn carry<F: MessageFlow>(mut self, executor: &impl Executor, flow: &mut F) {
        let result = self.carry_all(executor, flow).await;
        let (shared, is_complete) = (self.shared, matches!(result, Ok(true)));
        let Self {
            sink,
            deliveries,
            one_way,
            ending,
            flow: index,
            ..
        } = self;
        let delivered = sink.counts().delivered;
        let received = Received {
            flow: index,
            sink,
            is_complete,
        };
        {
            let mut tally = shared.tally();
            Deliveries::merge(&mut tally.deliveries, deliveries);
            tally.one_way.merge(&one_way);
            tally.received.push(received);
        }
        let acknowledged = match result {
            Ok(true) => acknowledge(shared, flow, delivered, ending).await,
            Ok(false) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = acknowledged {
            shared.broke(error);
        }
    }

    /// Takes everything; returns whether the flow came to its end before the deadline.
    async fn carry_all<F: MessageFlow>(
        &mut self,
        executor: &impl Executor,
        flow: &mut F,
    ) -> Result<bool> {
        let shared = self.shared;
        let trial = shared.trial;
        let mut late: Option<Late<'_>> = None;
        // Beginning of the present silence: since then nothing has arrived, and this end was reading.
        let mut silent_since = None;
        // A sender that has vanished sends no note; any other is stopped by its deadline.
        let patience = trial.order.deadline + MARGIN;
        let give_up = MonotonicTime::now() + patience;
        let mut change = shared.change();
        let mut waits = Some(executor.waits(&change.0));
        loop {
            // Before the state is looked at, so that no change of it is missed.
            if change.0.is_stopped() {
                waits = None;
                change = shared.change();
            }
            let waits = waits.get_or_insert_with(|| executor.waits(&change.0));
            // What comes after the deadline was not delivered within it.
            let arrived = self.arrived.take();
            if late.is_none() && !shared.stop.is_stopped() {
                if let Some(now) = arrived {
                    self.count(now);
                }
                if arrived.is_some() || self.is_answer_due() {
                    self.answer(flow).await?;
                }
            }
            if std::mem::take(&mut self.ending.reopened) {
                message_control::send(trial, flow, Purpose::Transfer, Control::Opened).await?;
            }
            if trial.stop.is_stopped() {
                return Err(TransportError::Cancelled);
            }
            if self.sink.is_complete() {
                break;
            }
            if give_up.has_passed() {
                return Err(TransportError::timed_out(
                    reason::end_of_transfer(),
                    patience,
                ));
            }
            if late.is_none() && shared.stop.is_stopped() {
                match &shared.own.watch {
                    Watch::Listening(watch) => late = Some(Late::new(shared, watch, self.flow)),
                    // What is under way to this end is not waited for.
                    Watch::Connecting(..) => return Ok(false),
                }
            }
            let counts = self.sink.counts();
            let arrived = counts.delivered.messages + counts.corrupted;
            let end_at = self.ending.by_marker(shared, arrived);
            let last = self.deliveries.map(|deliveries| deliveries.last);
            let silence_from = silence_from(shared, last);
            let is_late_over = late
                .as_ref()
                .is_some_and(|late| late.is_over(self.sink.as_ref(), silent_since));
            if end_at.has_passed() || silent_since >= Some(silence_from) || is_late_over {
                break;
            }
            let began = MonotonicTime::now();
            // After the deadline nothing is sent.
            let late_until = late.as_ref().map_or(self.answers_at, Late::moment);
            // What came in time is read also after that moment.
            let until = end_at.min(silence_from).min(give_up).min(late_until);
            let mut take = |arrival: Arrival<'_>| self.take(arrival.data);
            let receiving = flow.receive_batch(until, &mut take);
            match executor.wait(waits, receiving).await {
                Some(Ok(0)) => silent_since = Some(began),
                Some(Ok(_)) => silent_since = None,
                None => {}
                // The sender has closed the flow that its deadline stopped: nothing more comes.
                Some(Err(_)) if late.is_some() && !trial.stop.is_stopped() => break,
                Some(Err(error)) => return Err(error),
            }
        }
        Ok(late.is_none())
    }
}

/// Acknowledges a flow of which everything that counts has arrived, unless the
/// transfer has ended otherwise.
async fn acknowledge<F: MessageFlow>(
    shared: &Shared<'_>,
    flow: &mut F,
    delivered: Delivered,
    ending: Ending,
) -> Result<()> {
    let is_last = shared.own.to_receive.fetch_sub(1, Ordering::AcqRel) == 1;
    if !shared.ended(MonotonicTime::now()) {
        return Ok(());
    }
    let trial = shared.trial;
    let acknowledgement = Control::Acknowledgement(delivered);
    message_control::send(trial, flow, Purpose::Transfer, acknowledgement).await?;
    if is_last {
        let here = shared.delivered();
        trial.send_note(here.received_note());
    }
    shared.close_window();
    // From here on nothing can fail that matters: both ends know by control.
    let _ = answer_markers(shared, flow, acknowledgement, ending).await;
    Ok(())
}

impl Shared<'_> {
    /// Closes the window at an end that listens, once the transfer has ended.
    pub(super) fn close_window(&self) {
        if let Watch::Listening(watch) = &self.own.watch
            && watch.is_complete()
        {
            self.trial.context.observer.on_window(WindowEdge::End);
        }
    }
}

/// Repeats the acknowledgement for every marker that comes, until the sender has it or is silent. A flow that sends
/// again what is lost is kept for as long as the sender waits for the acknowledgement in it.
async fn answer_markers<F: MessageFlow>(
    shared: &Shared<'_>,
    flow: &mut F,
    acknowledgement: Control,
    mut ending: Ending,
) -> Result<()> {
    let trial = shared.trial;
    let silence = trial.order.path.typical_round_trip() * 2 + Duration::from_millis(100);
    let mut until = MonotonicTime::now() + silence;
    let no_longer = MonotonicTime::now() + patience(trial);
    ending.unanswered = false;
    while !ending.done && !trial.stop.is_stopped() {
        if until.has_passed() {
            if flow.is_drained() || no_longer.has_passed() {
                break;
            }
            until = no_longer.min(MonotonicTime::now() + silence);
        }
        let mut take = |arrival: Arrival<'_>| {
            if let Some((_, control)) = Control::decode(trial, arrival.data) {
                ending.note(control);
            }
        };
        flow.receive_batch(until, &mut take).await?;
        if std::mem::take(&mut ending.unanswered) {
            until = MonotonicTime::now() + silence;
            message_control::send(trial, flow, Purpose::Transfer, acknowledgement).await?;
        }
    }
    Ok(())
}
