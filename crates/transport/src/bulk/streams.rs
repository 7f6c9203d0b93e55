//! The workload over streams.

use std::sync::atomic::Ordering;

use crate::{
    clock::MonotonicTime,
    content::{
        plan::{HEADER_BYTES, Plan},
        stream_check::{StreamCheck, encode_header},
    },
    driver::TransportError,
    one_flow::{StreamSink, StreamWork, acknowledgement::await_acknowledgement},
    stream::ByteStream,
    trial::{
        Trial,
        watch::{Delivered, SenderWatch},
    },
};

impl StreamWork for Plan {
    type Sink = StreamCheck;

    fn stream_sink(&self) -> StreamCheck {
        StreamCheck::new(self)
    }

    async fn send<S: ByteStream>(
        &self,
        trial: &Trial,
        stream: &mut S,
        watch: &SenderWatch,
        (): &mut (),
    ) -> Result<(), TransportError> {
        send_all(trial, self, stream, watch).await
    }
}

impl StreamSink for StreamCheck {
    fn consume(&mut self, piece: &[u8]) -> usize {
        Self::consume(self, piece)
    }

    fn is_complete(&self) -> bool {
        Self::is_complete(self)
    }

    fn delivered(&self) -> Delivered {
        Delivered {
            bytes: self.bytes,
            messages: self.messages,
        }
    }

    fn corrupted(&self) -> u64 {
        self.corrupted
    }
}

/// Sends every message and waits for the acknowledgement.
async fn send_all<S: ByteStream>(
    trial: &Trial,
    plan: &Plan,
    stream: &mut S,
    watch: &SenderWatch,
) -> Result<(), TransportError> {
    let live = &trial.context.live;
    let mut bytes = 0;
    // All messages but the last have the same payload; cutting it once saves counting references.
    let whole = plan.payload(plan.message);
    for sequence in 0..plan.count {
        let length = plan.length(sequence);
        let header = Plan::header(length);
        let head: [u8; HEADER_BYTES] = if header > 0 {
            encode_header(plan, sequence, length)
        } else {
            [0; HEADER_BYTES]
        };
        if length == plan.message {
            stream.send_message(&head[..header], &whole).await?;
        } else {
            let last = plan.payload(length);
            stream.send_message(&head[..header], &last).await?;
        }
        bytes += length as u64;
        live.messages_sent.store(sequence + 1, Ordering::Relaxed);
        live.bytes_sent.store(bytes, Ordering::Relaxed);
    }
    stream.flush().await?;
    let delivered = await_acknowledgement(stream, Vec::new()).await?;
    let arrived = MonotonicTime::now();
    if delivered.bytes != plan.size {
        return Err(TransportError::Protocol {
            what: format!(
                "the receiver acknowledged {} of {} bytes",
                delivered.bytes, plan.size
            ),
        });
    }
    watch.acknowledged(arrived, delivered);
    Ok(())
}
