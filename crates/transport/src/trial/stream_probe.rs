//! Probe messages over streams: sending and answering them.

use bytes::Bytes;

use crate::{
    clock::MonotonicTime,
    driver::TransportError,
    probe::{Delays, ProbePlan, Probed, Schedule, write_probe},
    stop::Stop,
    stream::{ByteStream, Received},
};
use std::time::Duration;

/// Interval at which the probe under load looks whether the transfer has ended.
const LOOK: Duration = Duration::from_millis(20);

/// A stream of answers, cut into messages of one size.
struct Answers {
    message: Vec<u8>,
    size: usize,
}

impl Answers {
    fn new(size: usize) -> Self {
        Self {
            message: Vec::with_capacity(size),
            size,
        }
    }

    fn consume(&mut self, mut piece: &[u8], delays: &mut Delays) {
        let now = MonotonicTime::now();
        while !piece.is_empty() {
            let taken = piece.len().min(self.size - self.message.len());
            self.message.extend_from_slice(&piece[..taken]);
            piece = &piece[taken..];
            if self.message.len() == self.size {
                delays.answer(&self.message, now);
                self.message.clear();
            }
        }
    }
}

/// Sends the messages of the idle probe one after another, each when the one before is answered.
pub(crate) async fn idle<S: ByteStream>(
    stream: &mut S,
    plan: &ProbePlan,
    until: MonotonicTime,
) -> Probed {
    let mut delays = Delays::default();
    let broken = idle_messages(stream, plan, until, &mut delays).await.err();
    Probed { delays, broken }
}

async fn idle_messages<S: ByteStream>(
    stream: &mut S,
    plan: &ProbePlan,
    until: MonotonicTime,
    delays: &mut Delays,
) -> Result<(), TransportError> {
    let mut message = vec![0; plan.message];
    let mut scratch = vec![0; plan.message];
    let mut answers = Answers::new(plan.message);
    for _ in 0..plan.idle_messages {
        let now = MonotonicTime::now();
        write_probe(&mut message, delays.depart(now), now);
        stream.send_message(&message, &Bytes::new()).await?;
        stream.flush().await?;
        while delays.unanswered() > 0 {
            let received = stream
                .receive(&mut scratch, until, &mut |piece: &[u8]| {
                    answers.consume(piece, delays);
                })
                .await?;
            match received {
                Received::Bytes(_) => {}
                Received::TimedOut => return Ok(()),
                Received::Closed => return Err(TransportError::Closed { flow: "idle probe" }),
            }
        }
    }
    Ok(())
}

/// Sends messages by schedule, which began at `since`, until `over` is raised and those due by then have left, then waits a
/// little for the last answers.
pub(crate) async fn under_load<S: ByteStream>(
    stream: &mut S,
    plan: &ProbePlan,
    since: MonotonicTime,
    over: &Stop,
) -> Probed {
    let mut delays = Delays::default();
    let mut schedule = Schedule::new(plan, since);
    let broken = scheduled_messages(stream, plan, (over, &mut schedule), &mut delays)
        .await
        .err();
    schedule.note_held_back(&mut delays);
    Probed { delays, broken }
}

async fn scheduled_messages<S: ByteStream>(
    stream: &mut S,
    plan: &ProbePlan,
    (over, schedule): (&Stop, &mut Schedule),
    delays: &mut Delays,
) -> Result<(), TransportError> {
    let mut message = vec![0; plan.message];
    let mut scratch = vec![0; plan.message.max(4096)];
    let mut answers = Answers::new(plan.message);
    while let Some(next) = schedule.next(over) {
        let until = next.min(MonotonicTime::now() + LOOK);
        let received = stream
            .receive(&mut scratch, until, &mut |piece: &[u8]| {
                answers.consume(piece, delays);
            })
            .await?;
        match received {
            Received::Bytes(_) => {}
            Received::TimedOut if !next.has_passed() => {}
            Received::TimedOut => {
                write_probe(&mut message, delays.depart(next), next);
                schedule.advance();
                let sending = async {
                    stream.send_message(&message, &Bytes::new()).await?;
                    stream.flush().await
                };
                // A path that delivers nothing may leave no room for it in the stack.
                match over.unless_raised(sending).await {
                    Err(TransportError::Cancelled) if over.is_stopped() => break,
                    sent => sent?,
                }
            }
            Received::Closed => {
                return Err(TransportError::Closed {
                    flow: "probe under load",
                });
            }
        }
    }
    let until = schedule.answers_until();
    while delays.unanswered() > 0 {
        let received = stream
            .receive(&mut scratch, until, &mut |piece: &[u8]| {
                answers.consume(piece, delays);
            })
            .await?;
        if !matches!(received, Received::Bytes(_)) {
            break;
        }
    }
    Ok(())
}

/// Sends back everything that comes, beginning with `rest`, which came with the opening, until the
/// other end closes.
pub(crate) async fn echo<S: ByteStream>(stream: &mut S, rest: Vec<u8>) {
    let mut scratch = vec![0; 64 << 10];
    let mut back = rest;
    loop {
        if !back.is_empty() {
            let sent = async {
                stream.send_message(&back, &Bytes::new()).await?;
                stream.flush().await
            };
            if sent.await.is_err() {
                return;
            }
            back.clear();
        }
        let received = stream
            .receive(&mut scratch, MonotonicTime::NEVER, &mut |piece: &[u8]| {
                back.extend_from_slice(piece);
            })
            .await;
        // The sender's end of the probe says what broke; here it only ends.
        if !matches!(received, Ok(Received::Bytes(_))) {
            return;
        }
    }
}
