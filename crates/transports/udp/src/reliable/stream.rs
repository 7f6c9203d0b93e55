//! The two directions of a connection as a stream of bytes whose messages are datagrams.

use std::sync::Arc;

use bytes::Bytes;
use regatta_transport::{
    ByteStream, MonotonicTime, Received, TransportError, opening::OPENING_BYTES,
};
use regatta_transport_sockets::wait::within;

use super::{
    connection::{Connection, Handle},
    sender::LONGEST_PART,
};

/// The stream of a connection.
pub(crate) struct Stream {
    handle: Arc<Handle>,
    /// Opening that CONN carried, until the workload sends it: it has arrived already.
    opening: Option<[u8; OPENING_BYTES]>,
    /// Bytes that were read; empty between calls.
    read: Vec<u8>,
}

impl Stream {
    pub(crate) fn new(handle: Arc<Handle>, opening: Option<[u8; OPENING_BYTES]>) -> Self {
        Self {
            handle,
            opening,
            read: Vec::new(),
        }
    }

    /// Cuts the rest of a message into datagrams: one, except for a message that is longer than one
    /// carries with its header.
    async fn push(&self, mut header: &[u8], payload: &Bytes) -> Result<(), TransportError> {
        let mut rest = 0;
        loop {
            let (prefix, later) = header.split_at(header.len().min(LONGEST_PART));
            header = later;
            let end = payload.len().min(rest + LONGEST_PART - prefix.len());
            if prefix.is_empty() && end == rest {
                return Ok(());
            }
            let mut waited = false;
            self.handle
                .poll(|one, context| one.poll_room(context, &mut waited))
                .await?;
            let part = payload.slice(rest..end);
            if self.handle.with(|one| one.push(prefix, part))?? {
                self.handle.send();
            }
            rest = end;
        }
    }
}

impl ByteStream for Stream {
    async fn send_message(&mut self, header: &[u8], payload: &Bytes) -> Result<(), TransportError> {
        let Some(opening) = self.opening.take() else {
            return self.push(header, payload).await;
        };
        let from_header = header.len().min(OPENING_BYTES);
        let from_payload = (OPENING_BYTES - from_header).min(payload.len());
        let begin = [&header[..from_header], &payload[..from_payload]].concat();
        if begin != opening {
            return Err(TransportError::Protocol {
                what: "the flow does not begin with the opening that its CONN has carried"
                    .to_owned(),
            });
        }
        self.push(&header[from_header..], &payload.slice(from_payload..))
            .await
    }

    fn sends_at_once(&self) -> bool {
        self.handle.with(|one| one.sends_at_once()).unwrap_or(false)
    }

    async fn flush(&mut self) -> Result<(), TransportError> {
        self.handle.send();
        Ok(())
    }

    async fn receive(
        &mut self,
        _scratch: &mut [u8],
        until: MonotonicTime,
        consume: &mut (impl FnMut(&[u8]) + Send),
    ) -> Result<Received, TransportError> {
        let (handle, bytes) = (&self.handle, &mut self.read);
        let read = handle.poll(|one, context| one.poll_read(bytes, context));
        let received = match within(until, read).await {
            Some(received) => received?,
            None => Received::TimedOut,
        };
        if !self.read.is_empty() {
            consume(&self.read);
            self.read.clear();
        }
        Ok(received)
    }

    async fn finish(&mut self) -> Result<(), TransportError> {
        self.handle.with(Connection::push_end)??;
        self.handle.send();
        Ok(())
    }
}
