//! Receiving end of a flow.

use std::{future::Future, sync::atomic::Ordering};

use regatta_model::Verify;

use super::Shared;
use crate::{
    clock::MonotonicTime,
    content::{acknowledgement::Acknowledgement, plan::ALIGNMENT, stream_check::StreamCheck},
    delivered::Delivered,
    error::{Result, TransportError},
    flows::Tally,
    stream::{ByteStream, Received},
    trial::findings::Deliveries,
};

/// Memory to receive into. Large enough that a system call is cheap beside its copy, small enough
/// to stay in a core's cache between copy and check.
pub(crate) const SCRATCH_BYTES: usize = 128 << 10;

/// Answer of the receiving end to a flow that waits for it, sent once it knows the flow.
pub(super) const WELCOME: &[u8] = b"!";

/// The receiver's part of a workload over a stream.
pub(crate) trait Sink: Send {
    /// Takes the next bytes of the stream; returns how many belong to the workload.
    fn consume(&mut self, piece: &[u8]) -> usize;

    /// Returns the check of the messages.
    fn check(&self) -> &StreamCheck;

    /// Counts the next bytes of a bulk transfer whose content is not looked at.
    fn skip(&mut self, bytes: u64) {
        let _ = bytes;
    }

    /// Whether the whole flow has arrived.
    fn is_complete(&self) -> bool {
        self.check().is_complete()
    }

    /// Adds the results to those of the other flows: the messages that came damaged.
    fn add_to(&self, tally: &mut Tally) {
        tally.corrupted += self.check().corrupted;
    }

    /// Answers what has come, if the workload has answers.
    fn answer<S: ByteStream>(&mut self, stream: &mut S) -> impl Future<Output = Result<()>> {
        let _ = stream;
        async { Ok(()) }
    }
}

impl Sink for StreamCheck {
    fn consume(&mut self, piece: &[u8]) -> usize {
        Self::consume(self, piece)
    }

    fn check(&self) -> &StreamCheck {
        self
    }

    fn skip(&mut self, bytes: u64) {
        Self::skip(self, bytes);
    }
}

/// Takes a flow's part and acknowledges it; returns the moment of its end. `rest` are the bytes that
/// came with its opening.
pub(super) async fn receive<K: Sink, S: ByteStream>(
    shared: &Shared<'_>,
    mut sink: K,
    stream: &mut S,
    rest: &[u8],
) -> Result<MonotonicTime> {
    let mut digest = crc32fast::Hasher::new();
    let result = take(shared, stream, rest, &mut sink, &mut digest).await;
    let digest = match shared.flows.options.verify {
        Verify::Digest => u64::from(digest.finalize()),
        _ => 0,
    };
    sink.add_to(&mut shared.tally());
    shared
        .own
        .digest_delivered
        .fetch_add(digest, Ordering::Relaxed);
    // A sender that abandons its transfer closes in the middle of it.
    let ended = match result {
        Ok(ended) => ended,
        Err(_) if shared.abandons() && !shared.stop.is_stopped() => false,
        Err(error) => return Err(error),
    };
    if shared.abandons() {
        return Ok(MonotonicTime::now());
    }
    if !ended {
        return Err(TransportError::Closed { flow: "transfer" });
    }
    let delivered = sink.check().delivered;
    let acknowledgement = Acknowledgement { delivered, digest };
    acknowledgement.send(stream).await?;
    Ok(MonotonicTime::now())
}

/// Takes data until the flow's part is complete, or the sender has ended a flow without a size;
/// returns false if it closed before.
async fn take<K: Sink, S: ByteStream>(
    shared: &Shared<'_>,
    stream: &mut S,
    rest: &[u8],
    sink: &mut K,
    digest: &mut crc32fast::Hasher,
) -> Result<bool> {
    let live = &shared.trial.context.live;
    let digests = shared.flows.options.verify == Verify::Digest;
    let skips = shared.flows.options.verify == Verify::None;
    let mut scratch = vec![0; SCRATCH_BYTES + ALIGNMENT];
    let start = scratch.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
    let scratch = &mut scratch[start..start + SCRATCH_BYTES];
    let mut before = Delivered::default();
    let mut received = match skips {
        true => {
            sink.skip(rest.len() as u64);
            rest.len()
        }
        false => sink.consume(rest),
    };
    if digests {
        digest.update(&rest[..received]);
    }
    let mut closed = false;
    loop {
        if received > 0 {
            let now = MonotonicTime::now();
            let delivered = sink.check().delivered;
            let all = shared.warm_up.count(live, now, delivered - before);
            before = delivered;
            Deliveries::note(&mut shared.tally().deliveries, now, all);
            sink.answer(stream).await?;
        }
        if sink.is_complete() {
            return Ok(true);
        }
        if closed {
            return Ok(shared.flows.duration.is_some() && sink.check().is_between_messages());
        }
        if skips {
            let most = sink.check().left();
            let discarding = stream.discard(scratch, most, MonotonicTime::NEVER);
            let discarded = discarding.await?;
            closed = discarded == Received::Closed;
            received = match discarded {
                Received::Bytes(bytes) => bytes,
                Received::TimedOut | Received::Closed => 0,
            };
            sink.skip(received as u64);
            continue;
        }
        received = 0;
        let mut consume = |piece: &[u8]| {
            let taken = sink.consume(piece);
            if digests {
                digest.update(&piece[..taken]);
            }
            received += taken;
        };
        let receiving = stream.receive(scratch, MonotonicTime::NEVER, &mut consume);
        // The last bytes may come with the end.
        closed = receiving.await? == Received::Closed;
    }
}
