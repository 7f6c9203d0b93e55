//! The receiving end of a flow.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use regatta_model::Verify;

use super::{Flow, Shared};
use crate::{
    clock::MonotonicTime,
    content::{acknowledgement::Acknowledgement, plan::ALIGNMENT, stream_check::StreamCheck},
    driver::TransportError,
    one_flow::streams::SCRATCH_BYTES,
    stream::{ByteStream, Received},
    trial::findings::Deliveries,
};

/// Length of a flow's index, which follows the opening, in bytes.
pub(super) const INTRODUCTION_BYTES: usize = 2;

/// Answer of the receiving end to a flow that will be abandoned, sent once it knows the flow.
pub(super) const WELCOME: &[u8] = b"!";

/// Sends [`WELCOME`].
pub(super) async fn welcome<S: ByteStream>(stream: &mut S) -> Result<(), TransportError> {
    stream.send_message(WELCOME, &Bytes::new()).await?;
    stream.flush().await
}

/// Takes a flow's part and acknowledges it. `rest` are the bytes that came with its opening.
pub(super) async fn receive<S: ByteStream>(
    shared: &Shared<'_>,
    flow: &Flow,
    stream: &mut S,
    rest: &[u8],
) -> Result<(), TransportError> {
    let mut check = StreamCheck::new(&flow.plan);
    let mut digest = crc32fast::Hasher::new();
    let result = take(shared, stream, rest, &mut check, &mut digest).await;
    let digest = if shared.flows.options.verify == Verify::Digest {
        u64::from(digest.finalize())
    } else {
        0
    };
    shared.tally().corrupted += check.corrupted;
    shared.digest_delivered.fetch_add(digest, Ordering::Relaxed);
    // A sender that abandons its transfer closes in the middle of it.
    let ended = match result {
        Ok(ended) => ended,
        Err(_) if shared.abandons() && !shared.stop.is_stopped() => false,
        Err(error) => return Err(error),
    };
    if shared.abandons() {
        return Ok(());
    }
    if !ended {
        return Err(TransportError::Closed { flow: "transfer" });
    }
    let said = Acknowledgement {
        bytes: check.bytes,
        messages: check.messages,
        digest,
    };
    stream.send_message(&said.encode(), &Bytes::new()).await?;
    stream.flush().await
}

/// Takes data until the flow's part is complete, or the sender has ended a flow without a size;
/// returns false if it closed before.
async fn take<S: ByteStream>(
    shared: &Shared<'_>,
    stream: &mut S,
    rest: &[u8],
    check: &mut StreamCheck,
    digest: &mut crc32fast::Hasher,
) -> Result<bool, TransportError> {
    let live = &shared.trial.context.live;
    let digests = shared.flows.options.verify == Verify::Digest;
    let mut scratch = vec![0; SCRATCH_BYTES + ALIGNMENT];
    let start = scratch.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
    let scratch = &mut scratch[start..start + SCRATCH_BYTES];
    let mut messages = 0;
    let mut came = check.consume(rest);
    if digests {
        digest.update(&rest[..came]);
    }
    let mut closed = false;
    loop {
        if came > 0 {
            let now = MonotonicTime::now();
            if !shared.is_warm(now) {
                live.bytes_in_warm_up
                    .fetch_add(came as u64, Ordering::Relaxed);
            }
            live.messages_delivered
                .fetch_add(check.messages - messages, Ordering::Relaxed);
            messages = check.messages;
            let all = live
                .bytes_delivered
                .fetch_add(came as u64, Ordering::Release)
                + came as u64;
            Deliveries::note(&mut shared.tally().deliveries, now, all);
        }
        if check.is_complete() {
            return Ok(true);
        }
        if closed {
            return Ok(shared.flows.options.duration.is_some() && check.is_between_messages());
        }
        came = 0;
        let received = stream
            .receive(scratch, MonotonicTime::NEVER, &mut |piece: &[u8]| {
                let taken = check.consume(piece);
                if digests {
                    digest.update(&piece[..taken]);
                }
                came += taken;
            })
            .await?;
        // The last bytes may come with the end.
        closed = received == Received::Closed;
    }
}

/// Waits until the other end has closed, at most until `until`.
pub(super) async fn await_close<S: ByteStream>(stream: &mut S, until: MonotonicTime) {
    let mut scratch = [0; 256];
    while let Ok(Received::Bytes(_)) = stream
        .receive(&mut scratch, until, &mut |_: &[u8]| {})
        .await
    {}
}
