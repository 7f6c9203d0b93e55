//! Requests and responses over messages that may be lost: the exchange of a flow.

use std::{collections::VecDeque, sync::atomic::Ordering, time::Duration};

use super::{
    Shared,
    agreement::{Agreed, agree},
};
use crate::{
    clock::MonotonicTime,
    content::{
        message_check::{Answer, Counts, MessageSink},
        numbered::{self, NumberedCheck},
        plan::Plan,
    },
    delivered::Delivered,
    error::{Result, TransportError},
    exchange::{
        Exchange, ExchangeResult,
        tracker::{Answered, RequestTracker},
    },
    executor::Executor as _,
    message::{Arrival, MessageEndpoint, MessageFlow},
    stop::Stop,
    trial::{Trial, message_control::Control},
};

/// The answering end.
#[derive(Debug)]
pub(crate) struct Responder {
    requests: NumberedCheck,
    responses: Plan,
    /// Numbers of the requests that are not answered yet.
    unanswered: VecDeque<u64>,
    /// Memory for an answer.
    answer: Vec<u8>,
}

impl MessageSink for Responder {
    fn consume(&mut self, message: &[u8], _: MonotonicTime) -> Option<MonotonicTime> {
        self.unanswered.extend(self.requests.take(message));
        None
    }

    fn counts(&self) -> &Counts {
        self.requests.counts()
    }

    fn is_complete(&self) -> bool {
        self.requests.is_complete()
    }

    fn next_answer(&mut self) -> Answer<'_> {
        let Some(number) = self.unanswered.pop_front() else {
            return Answer::NotBefore(MonotonicTime::NEVER);
        };
        let answer = &mut self.answer[..self.responses.length(number)];
        numbered::write(&self.responses, number, answer);
        Answer::Message(answer)
    }
}

impl Exchange {
    pub(crate) fn sink(&self) -> Responder {
        Responder {
            requests: NumberedCheck::new(&self.requests),
            responses: self.responses.clone(),
            unanswered: VecDeque::new(),
            answer: self.responses.content.to_vec(),
        }
    }

    /// Sends all requests, and agrees with the other end on those that came there.
    pub(crate) async fn send<E: MessageEndpoint>(
        &self,
        shared: &Shared<'_>,
        endpoint: &E,
        flow: &mut E::Connection,
        result: &mut ExchangeResult,
    ) -> Result<Agreed> {
        let trial = shared.trial;
        // A rate that the transport was given holds here as well.
        let gap = endpoint.pace().map_or(Duration::ZERO, |bits| {
            let seconds = self.requests.message as f64 * 8.0 / bits.max(1) as f64;
            Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
        });
        let rules = self.rules(!endpoint.reliable(), gap);
        result.patience = rules.patience;
        result.tracker = Some(RequestTracker::new(rules, MonotonicTime::now()));
        let exchanging = self.exchange(trial, (endpoint, flow), &shared.stop, result);
        let early = exchanging.await?;
        let over = MonotonicTime::now();
        if let Some(delivered) = early {
            return Ok(Agreed::in_band(over, delivered));
        }
        let sent = trial.context.live.sent();
        let agreed = agree(shared, flow, sent, over).await?;
        // The exchange is over with its last answer; what follows is counting.
        Ok(Agreed { at: over, ..agreed })
    }

    /// Sends all requests and takes their answers. Returns the other end's account of what it got,
    /// if it came: the other end sends it without a request when it has everything.
    async fn exchange<E: MessageEndpoint>(
        &self,
        trial: &Trial,
        (endpoint, flow): (&E, &mut E::Connection),
        stop: &Stop,
        result: &mut ExchangeResult,
    ) -> Result<Option<Delivered>> {
        let ExchangeResult {
            tracker: Some(tracker),
            stray,
            held_back,
            patience,
            ..
        } = result
        else {
            return Ok(None);
        };
        let (plan, live) = (&self.requests, &trial.context.live);
        let at_once = flow.batch_messages(plan.message).max(1) as u64;
        let executor = endpoint.executor();
        let waits = executor.waits(stop);
        let mut batch = Vec::new();
        let mut early = None;
        let mut peer_closed = false;
        let mut bytes = 0;
        loop {
            let now = MonotonicTime::now();
            tracker.give_up(now);
            if tracker.is_over() {
                return Ok(early);
            }
            if stop.is_stopped() {
                return Err(TransportError::Cancelled);
            }
            let due = tracker.due(now, at_once);
            batch.clear();
            let mut held = false;
            for _ in 0..due {
                // A transport that loses messages does not wait for their reader.
                held = patience.is_none() && !self.fits(tracker.unanswered);
                if held {
                    *held_back = true;
                    break;
                }
                let number = tracker.depart(now);
                let (begun, length) = (batch.len(), plan.length(number));
                batch.extend_from_slice(&plan.content[..length]);
                numbered::write(plan, number, &mut batch[begun..]);
            }
            if !batch.is_empty() {
                flow.send_batch(&batch, plan.message).await?;
                bytes += batch.len() as u64;
                live.messages_sent.store(tracker.sent, Ordering::Relaxed);
                live.bytes_sent.store(bytes, Ordering::Relaxed);
            }
            let next_due = match held {
                true => MonotonicTime::NEVER,
                false => tracker.next_due(),
            };
            let until = next_due.min(tracker.next_given_up());
            if peer_closed {
                executor.sleep_unless_stopped(until, stop).await;
                continue;
            }
            let mut arrived_at = None;
            let mut consume = |arrival: Arrival<'_>| match Control::decode(trial, arrival.data) {
                Some((_, Control::Acknowledgement(delivered))) => early = Some(delivered),
                Some(_) => {}
                None => {
                    let now = *arrived_at.get_or_insert_with(MonotonicTime::now);
                    let answered = numbered::read(&self.responses, arrival.data, tracker.sent)
                        .map(|number| tracker.answer(number, now));
                    if !matches!(answered, Some(Answered::InTime | Answered::Late)) {
                        *stray += 1;
                    }
                }
            };
            let receiving = flow.receive_batch(until, &mut consume);
            match executor.wait(&waits, receiving).await {
                None | Some(Ok(_)) => {}
                // The other end has everything, has answered all of it and may have left; answers
                // that are lost keep their time all the same.
                Some(Err(_)) if early.is_some() && !stop.is_stopped() => peer_closed = true,
                Some(Err(error)) => return Err(error),
            }
        }
    }
}
