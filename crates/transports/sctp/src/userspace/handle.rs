//! An association as the workloads use it.

use std::{collections::VecDeque, sync::Arc};

use bytes::{Bytes, BytesMut};
use regatta_transport::{MonotonicTime, Result, StatisticsSource};
use regatta_transport_sockets::{
    driver::Dropped,
    wait::{within, within_exactly},
};

use super::{
    association::{Association, DATAGRAMS, Message, pass_on},
    options::LONGEST_MESSAGE_BYTES,
    protocol::Handle,
    statistics::Statistics,
};
use crate::association::{self, CLOSED_BY_PEER, MESSAGES, OnDrop};

/// Number of written bytes after which they are sent even if the application does not wait.
const SEND_BYTES: usize = 256 << 10;

/// Size of the pieces of memory that headers and short messages are copied into, in bytes.
const PIECE_BYTES: usize = 64 << 10;

/// Memory of a stream or a flow.
#[derive(Default)]
pub(crate) struct Memory {
    /// Place that messages of several parts are copied into.
    pieces: BytesMut,
    /// Bytes that were written after the last ones were sent.
    since_send: usize,
    /// Messages that were received; empty between calls.
    arrived: VecDeque<Message>,
    /// Place for one message of a flow.
    scratch: Vec<u8>,
}

impl Memory {
    /// Returns a user message as the one piece of memory that the stack takes.
    fn message(&mut self, head: &[u8], body: Bytes) -> Bytes {
        if head.is_empty() {
            return body;
        }
        let length = head.len() + body.len();
        if self.pieces.capacity() < length {
            self.pieces.reserve(PIECE_BYTES.max(length));
        }
        self.pieces.extend_from_slice(head);
        self.pieces.extend_from_slice(&body);
        self.pieces.split().freeze()
    }
}

impl association::Association for Handle {
    type Memory = Memory;

    const BATCH_MESSAGES: usize = 256;

    fn statistics(self: &Arc<Self>, side: &'static str) -> Arc<dyn StatisticsSource> {
        Arc::new(Statistics::new(self.weak(), side))
    }

    fn open_stream(&self) -> Result<u16> {
        self.with(Association::open_stream)?
    }

    fn open_flow(&self) -> Result<()> {
        self.open_stream().map(drop)
    }

    async fn accept_stream(&self) -> Result<u16> {
        self.poll(|one, context| one.poll_accept_stream(context))
            .await
    }

    async fn write(&self, id: u16, memory: &mut Memory, head: &[u8], body: Bytes) -> Result<()> {
        let message = memory.message(head, body);
        {
            // One that has ended has no writers.
            let _turn = OnDrop(|| {
                let _ = self.with(|one| one.dequeue_writer(id));
            });
            let written = self.poll(|one, context| {
                let written = one.poll_write(id, &message, context);
                if written.is_pending() {
                    // There is room when what waits was sent.
                    self.changed();
                }
                written
            });
            written.await?;
        }
        memory.since_send += message.len();
        if memory.since_send >= SEND_BYTES {
            self.flush(memory);
        } else {
            self.changed();
        }
        Ok(())
    }

    fn flush(&self, memory: &mut Memory) {
        memory.since_send = 0;
        self.send();
    }

    async fn finish(&self, id: u16) -> Result<()> {
        self.with(|one| one.finish(id))??;
        self.send();
        Ok(())
    }

    async fn read(
        &self,
        id: u16,
        memory: &mut Memory,
        scratch: &mut [u8],
        until: MonotonicTime,
        consume: &mut (impl FnMut(&[u8]) + Send),
    ) -> Option<Result<usize>> {
        let arrived = &mut memory.arrived;
        let read = self.poll(|one, context| one.poll_read(id, arrived, context));
        let read = within(until, read).await?;
        let bytes = memory.arrived.iter().map(Message::len).sum();
        for message in memory.arrived.drain(..) {
            pass_on(message, scratch, &mut *consume);
        }
        Some(read.map(|_| bytes))
    }

    async fn read_messages(
        &self,
        memory: &mut Memory,
        until: MonotonicTime,
        consume: &mut (impl FnMut(&[u8]) + Send),
    ) -> Option<Result<usize>> {
        let arrived = &mut memory.arrived;
        let read = self.poll(|one, context| one.poll_read(MESSAGES, arrived, context));
        let read = within(until, read).await?;
        let messages = memory.arrived.len();
        memory.scratch.resize(LONGEST_MESSAGE_BYTES, 0);
        for message in memory.arrived.drain(..) {
            pass_on(message, &mut memory.scratch, &mut *consume);
        }
        Some(read.map(|_| messages))
    }

    fn longest_datagram(&self) -> usize {
        self.with(|one| one.longest_datagram()).unwrap_or_default()
    }

    fn send_datagram(&self, datagram: &[u8]) -> Result<()> {
        self.with(|one| one.send_datagram(datagram))??;
        self.send();
        Ok(())
    }

    async fn receive_datagram(
        &self,
        until: MonotonicTime,
        consume: &mut (impl FnMut(&[u8]) + Send),
    ) -> Result<bool> {
        let mut arrived = VecDeque::new();
        let read = self.poll(|one, context| one.poll_read(DATAGRAMS, &mut arrived, context));
        match within_exactly(until, read).await {
            None => return Ok(false),
            Some(Ok(true)) => {}
            Some(Ok(false)) => return Err(CLOSED_BY_PEER),
            Some(Err(error)) => {
                let aborted = self.with(|one| one.peer_aborted).unwrap_or_default();
                return Err(if aborted { CLOSED_BY_PEER } else { error });
            }
        }
        for message in arrived {
            pass_on(message, &mut [], &mut *consume);
        }
        Ok(true)
    }

    fn is_drained(&self) -> bool {
        // An association that has ended sends nothing any more.
        self.with(|one| one.is_drained()).unwrap_or(true)
    }

    async fn close(&self, until: MonotonicTime) {
        let Ok(linger) = self.with(Association::close) else {
            return;
        };
        self.changed();
        let shut_down = self.poll(|one, context| one.poll_shut_down(context).map(Ok::<_, Dropped>));
        if within(until, shut_down).await.is_none() {
            return;
        }
        // Everything has arrived. The last packet of all may be lost, and is not sent again.
        let until = until.min(MonotonicTime::now() + linger);
        let ended = self.poll(|one, context| one.poll_ended(context).map(Ok::<_, Dropped>));
        let _ = within(until, ended).await;
    }
}
