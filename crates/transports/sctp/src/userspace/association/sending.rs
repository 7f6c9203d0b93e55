//! Sending: room for messages, packets of the stack, and their counts.

use std::{
    task::{Context, Poll},
    time::Instant,
};

use bytes::Bytes;
use regatta_model::reason;
use regatta_transport::{Result, TransportError};
use sctp_proto::{Payload, PayloadProtocolIdentifier, StreamId};

use super::{
    Association, BINARY, DATAGRAMS, Ending, FINISHED, MAX_OUTSTANDING_CHUNKS, Tsn, before,
};
use crate::userspace::wire::{self, Chunk, Route};

impl Association {
    pub(super) fn outstanding(&self) -> u64 {
        self.written_chunks.saturating_sub(self.acknowledged_chunks)
    }

    /// Whether the other end has acknowledged everything, or never will.
    pub(crate) fn is_drained(&self) -> bool {
        self.outstanding() == 0 || self.ended.is_some()
    }

    /// Returns the number of chunks that the stack has sent.
    fn sent(&self) -> u64 {
        self.acknowledged_chunks + self.in_flight()
    }

    /// Returns the number of chunks that the stack has sent, and the other end has not acknowledged.
    pub(super) fn in_flight(&self) -> u64 {
        let in_flight = |tsn: Tsn| tsn.sent.wrapping_sub(self.last_acknowledged(tsn));
        self.tsn.map_or(0, in_flight).into()
    }

    /// Returns the maximum number of chunks that wait in the stack. Waiting chunks delay every
    /// stream, since the stack sends in the order of writing; but the stack must always have
    /// something to send, or its congestion window does not grow.
    fn most_waiting(&self) -> u64 {
        self.in_flight().max(self.limits.waiting_chunks)
    }

    fn waiting_chunks(&self) -> u64 {
        self.written_chunks.saturating_sub(self.sent())
    }

    pub(super) fn has_room(&self) -> bool {
        self.outstanding() < self.limits.outstanding_chunks
            && self.waiting_chunks() < self.most_waiting()
    }

    /// Wakes the writer whose turn it is, once half of the queue is free again.
    pub(crate) fn wake_writers(&self) {
        if 2 * self.waiting_chunks() <= self.most_waiting() {
            self.wake_next();
        }
    }

    fn wake_next(&self) {
        if self.has_room()
            && let Some((_, waker)) = self.writers.front()
        {
            waker.wake_by_ref();
        }
    }

    /// Hands a user message to the stack if there is room and it is not another stream's turn.
    pub(crate) fn poll_write(
        &mut self,
        id: StreamId,
        message: &Bytes,
        context: &Context<'_>,
    ) -> Poll<Result<()>> {
        self.check()?;
        let turn = self.writers.iter().position(|(other, _)| *other == id);
        let first = self.writers.is_empty() || turn == Some(0);
        if !first || !self.has_room() {
            let waker = context.waker().clone();
            match turn.and_then(|turn| self.writers.get_mut(turn)) {
                Some(waiting) => waiting.1 = waker,
                None => self.writers.push_back((id, waker)),
            }
            return Poll::Pending;
        }
        let written = self.write(id, message, BINARY);
        self.dequeue_writer(id);
        Poll::Ready(written)
    }

    /// Removes a stream from the queue of writers, and wakes the next one.
    pub(crate) fn dequeue_writer(&mut self, id: StreamId) {
        self.writers.retain(|(other, _)| *other != id);
        self.wake_next();
    }

    pub(crate) const fn longest_datagram(&self) -> usize {
        self.limits.chunk_bytes
    }

    /// Hands a datagram to the stack, unless too much waits there.
    pub(crate) fn send_datagram(&mut self, datagram: &[u8]) -> Result<()> {
        self.check()?;
        if self.outstanding() >= MAX_OUTSTANDING_CHUNKS {
            return Ok(());
        }
        self.make_stream(DATAGRAMS)?;
        self.write(DATAGRAMS, &Bytes::copy_from_slice(datagram), BINARY)
    }

    pub(super) fn write(
        &mut self,
        id: StreamId,
        message: &Bytes,
        kind: PayloadProtocolIdentifier,
    ) -> Result<()> {
        let failed = || TransportError::stack(reason::cannot_send_on_association());
        let mut stream = self.inner.stream(id).map_err(failed())?;
        let written = match kind {
            // The default kind of the stream; this way the message is not copied.
            BINARY => stream.write_chunks(&mut [message.clone()]),
            _ => stream.write_with_ppi(message, kind),
        };
        written.map_err(failed())?;
        self.dirty = true;
        self.written_chunks += message.len().div_ceil(self.limits.chunk_bytes) as u64;
        Ok(())
    }

    /// Ends the sending direction of a stream.
    pub(crate) fn finish(&mut self, id: StreamId) -> Result<()> {
        self.check()?;
        self.write(id, &Bytes::from_static(&[0]), FINISHED)
    }

    /// Takes all packets from the stack that it has to send now.
    pub(super) fn collect(&mut self, now: Instant) {
        if self.ended.is_some() {
            return;
        }
        // It gives everything at once; a second call would look at all that is in flight again,
        // to give nothing.
        if let Some(transmit) = self.inner.poll_transmit(now)
            && let Payload::RawEncode(packets) = transmit.payload
        {
            for packet in packets {
                self.count(&packet);
                self.packets.push_back(packet);
            }
        }
        if self.closing && !self.shut_down && self.outstanding() == 0 && !self.is_handshaking() {
            self.begin_to_close();
            // Refused only if the other end has begun to close.
            if self.inner.shutdown().is_ok() {
                self.collect(now);
            }
        }
    }

    pub(super) fn count(&mut self, packet: &[u8]) {
        self.counts.packets_sent += 1;
        self.route = Route::of(packet).or(self.route);
        let mut again = 0;
        let mut complete = false;
        for chunk in wire::chunks(packet) {
            match chunk {
                Chunk::Data(tsn) => match &mut self.tsn {
                    Some(known) if before(known.sent, tsn) => known.sent = tsn,
                    Some(_) => again += 1,
                    None => {
                        self.tsn = Some(Tsn {
                            first: tsn,
                            sent: tsn,
                        });
                    }
                },
                Chunk::ShutdownComplete => complete = true,
                Chunk::Sack(_) | Chunk::Abort => {}
            }
        }
        self.counts.retransmitted_chunks += again;
        self.counts.retransmitted_packets += u64::from(again > 0);
        if complete {
            // Nothing comes after it, and the stack has no event for that.
            self.end(Ending::Done);
        }
    }
}
