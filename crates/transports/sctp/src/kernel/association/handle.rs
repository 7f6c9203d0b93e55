//! An association as the workloads use it.

use std::{future::poll_fn, mem, sync::Arc};

use bytes::Bytes;
use regatta_model::reason;
use regatta_transport::{MonotonicTime, Result, StatisticsSource, TransportError};
use regatta_transport_sockets::{
    option::{self, Memory},
    wait::within_exactly,
};

use super::{Association, FINISHED, Reader};
use crate::{
    association::{self, OnDrop, number},
    kernel::statistics::Statistics,
};

/// Payload protocol identifier of user messages: `WebRTC Binary` (RFC 8831 §8), the same as in the
/// user-space driver.
const BINARY: u32 = 53;

impl Association {
    async fn send(&self, id: u16, protocol: u32, parts: [&[u8]; 2]) -> Result<()> {
        let _turn = OnDrop(|| self.dequeue_writer(id));
        poll_fn(|context| self.poll_send(id, protocol, parts, context)).await
    }
}

impl association::Association for Association {
    type Memory = ();

    const BATCH_MESSAGES: usize = 64;

    fn statistics(self: &Arc<Self>, side: &'static str) -> Arc<dyn StatisticsSource> {
        Arc::new(Statistics::new(self, side))
    }

    fn open_stream(&self) -> Result<u16> {
        let mut state = self.state.lock();
        state.check()?;
        let (index, streams) = (state.opened_here, state.streams);
        if index >= streams {
            return Err(TransportError::order(reason::all_streams_open(
                streams.into(),
            )));
        }
        state.opened_here += 1;
        let id = number(self.connects, index, streams);
        state.inboxes.entry(id).or_default();
        Ok(id)
    }

    async fn accept_stream(&self) -> Result<u16> {
        let _reading = OnDrop(|| self.leave(Reader::Streams));
        poll_fn(|context| self.poll_accept_stream(context)).await
    }

    async fn write(&self, id: u16, (): &mut (), head: &[u8], body: Bytes) -> Result<()> {
        self.send(id, BINARY, [head, &body]).await
    }

    fn flush(&self, (): &mut ()) {
        // The kernel has all of it, and by SCTP_NODELAY it is on its way.
    }

    async fn finish(&self, id: u16) -> Result<()> {
        self.send(id, FINISHED, [&[0], &[]]).await
    }

    async fn read(
        &self,
        id: u16,
        (): &mut (),
        scratch: &mut [u8],
        until: MonotonicTime,
        consume: &mut (impl FnMut(&[u8]) + Send),
    ) -> Option<Result<usize>> {
        let _reading = OnDrop(|| self.leave(Reader::Stream(id)));
        let read = poll_fn(|context| self.poll_read(id, scratch, consume, context));
        within_exactly(until, read).await
    }

    async fn read_messages(
        &self,
        (): &mut (),
        until: MonotonicTime,
        consume: &mut (impl FnMut(&[u8]) + Send),
    ) -> Option<Result<usize>> {
        let early = mem::take(&mut self.state.lock().early);
        if !early.is_empty() {
            early.iter().for_each(|message| consume(message));
            return Some(Ok(early.len()));
        }
        let _reading = OnDrop(|| self.leave(Reader::Streams));
        let read = poll_fn(|context| self.poll_messages(consume, context));
        within_exactly(until, read).await
    }

    fn is_drained(&self) -> bool {
        self.state.lock().ended.is_some()
            || option::memory(self.socket(), Memory::Queued).is_none_or(|queued| queued == 0)
    }

    async fn close(&self, _until: MonotonicTime) {
        // Dropping the socket closes it: the kernel goes on sending what is left, and then shuts
        // the association down.
    }
}
