//! Requests and responses over a stream.

use std::sync::atomic::Ordering;

use super::receiving::{SCRATCH_BYTES, Sink};
use crate::{
    clock::MonotonicTime,
    content::{
        acknowledgement::Acknowledgement,
        plan::Plan,
        stream_check::{StreamCheck, encode_header},
    },
    error::{Result, TransportError},
    exchange::{Exchange, ExchangeResult, tracker::RequestTracker},
    stream::{ByteStream, Received, send_now},
    trial::Trial,
};

/// Maximum number of requests that are handed over before answers are read.
const AT_ONCE: u64 = 64;

/// Hands one message of a plan to a stream, with `before` in front of it; returns its length.
pub(super) async fn send_one<S: ByteStream>(
    plan: &Plan,
    number: u64,
    stream: &mut S,
    before: &[u8],
) -> Result<usize> {
    let length = plan.length(number);
    let header = Plan::header(length);
    let head = encode_header(plan, number, length);
    let payload = plan.payload(length);
    match before {
        [] => stream.send_message(&head[..header], &payload).await?,
        _ => {
            let head = [before, &head[..header]].concat();
            stream.send_message(&head, &payload).await?;
        }
    }
    Ok(length)
}

/// The answering end.
#[derive(Debug)]
pub(crate) struct Responder {
    requests: StreamCheck,
    responses: Plan,
    answered: u64,
}

impl Responder {
    /// Makes the answering end of an exchange.
    pub(crate) fn new(exchange: &Exchange) -> Self {
        Self {
            requests: StreamCheck::new(&exchange.requests),
            responses: exchange.responses.clone(),
            answered: 0,
        }
    }
}

impl Sink for Responder {
    fn consume(&mut self, piece: &[u8]) -> usize {
        self.requests.consume(piece)
    }

    fn check(&self) -> &StreamCheck {
        &self.requests
    }

    async fn answer<S: ByteStream>(&mut self, stream: &mut S) -> Result<()> {
        let complete = self.requests.complete_messages();
        if self.answered == complete {
            return Ok(());
        }
        while self.answered < complete {
            send_one(&self.responses, self.answered, stream, &[]).await?;
            self.answered += 1;
        }
        // The last answer leaves together with the acknowledgement of all.
        if self.is_complete() {
            return Ok(());
        }
        stream.flush().await
    }
}

impl Exchange {
    /// Sends all requests over a stream, its opening with the first one, and waits for the acknowledgement of them;
    /// returns it with the moment of its arrival.
    pub(crate) async fn ask<S: ByteStream>(
        &self,
        trial: &Trial,
        stream: &mut S,
        opening: &[u8],
        result: &mut ExchangeResult,
    ) -> Result<(MonotonicTime, Acknowledgement)> {
        let live = &trial.context.live;
        let rules = self.rules(false, std::time::Duration::ZERO);
        let tracker = RequestTracker::new(rules, MonotonicTime::now());
        let tracker = result.tracker.insert(tracker);
        let mut answers = StreamCheck::new(&self.responses);
        let mut after = Vec::new();
        let some_answers = self.responses.message.saturating_mul(16).max(4096);
        let mut scratch = vec![0; SCRATCH_BYTES.min(some_answers)];
        let (mut answered, mut bytes) = (0, 0);
        if self.requests.count == 0 {
            send_now(stream, opening).await?;
        }
        while !answers.is_complete() {
            let due = tracker.due(MonotonicTime::now(), AT_ONCE);
            let mut held = false;
            for _ in 0..due {
                held = !self.fits(tracker.unanswered);
                if held {
                    result.held_back = true;
                    break;
                }
                let number = tracker.depart(MonotonicTime::now());
                let before = if number == 0 { opening } else { &[] };
                bytes += send_one(&self.requests, number, stream, before).await? as u64;
                live.messages_sent.store(number + 1, Ordering::Relaxed);
                live.bytes_sent.store(bytes, Ordering::Relaxed);
            }
            if due > 0 {
                stream.flush().await?;
            }
            // A moment that has passed still gets what is there, and then the next ones leave.
            let until = match held {
                true => MonotonicTime::NEVER,
                false => tracker.next_due(),
            };
            let mut arrived_at = None;
            let mut take = |piece: &[u8]| {
                arrived_at.get_or_insert_with(MonotonicTime::now);
                let taken = answers.consume(piece);
                after.extend_from_slice(&piece[taken..]);
            };
            if stream.receive(&mut scratch, until, &mut take).await? == Received::Closed {
                return Err(TransportError::Closed { flow: "transfer" });
            }
            result.stray = answers.corrupted;
            if let Some(now) = arrived_at {
                while answered < answers.complete_messages() {
                    tracker.answer(answered, now);
                    answered += 1;
                }
            }
        }
        let got = Acknowledgement::of(stream, after).await?;
        let arrived = MonotonicTime::now();
        got.check_bytes(self.requests.size)?;
        Ok((arrived, got))
    }
}
