//! A connection as the workloads use it, and its two directions as a stream of bytes whose messages are datagrams.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;
use regatta_model::{Facts, reason};
use regatta_transport::{
    ByteStream, MonotonicTime, ProtocolSample, Received, Result, StatisticsSource,
    StreamConnection, TransportError, opening::OPENING_BYTES,
};
use regatta_transport_sockets::wait::within;

use super::{connection::Connection, frame::marks, protocol::Handle, sender::LONGEST_PART};

/// The stream of a connection.
pub(crate) struct Stream {
    handle: Arc<Handle>,
    /// Opening that CONN carried, until the workload sends it: it has arrived already.
    opening: Option<[u8; OPENING_BYTES]>,
    /// Bytes that were read; empty between calls.
    read: Vec<u8>,
}

impl Stream {
    /// Cuts the rest of a message into datagrams: one, except for a message that is longer than one
    /// carries with its header.
    async fn push(&self, mut header: &[u8], payload: &Bytes) -> Result<()> {
        let mut rest = 0;
        loop {
            let (prefix, later) = header.split_at(header.len().min(LONGEST_PART));
            header = later;
            let end = payload.len().min(rest + LONGEST_PART - prefix.len());
            if prefix.is_empty() && end == rest {
                return Ok(());
            }
            let mut waited = false;
            let room = self
                .handle
                .poll(|one, context| one.poll_room(context, &mut waited));
            room.await?;
            let part = payload.slice(rest..end);
            if self.handle.with(|one| one.push(prefix, part))?? {
                self.handle.send();
            }
            rest = end;
        }
    }
}

impl ByteStream for Stream {
    async fn send_message(&mut self, header: &[u8], payload: &Bytes) -> Result<()> {
        let Some(opening) = self.opening.take() else {
            return self.push(header, payload).await;
        };
        let from_header = header.len().min(OPENING_BYTES);
        let from_payload = (OPENING_BYTES - from_header).min(payload.len());
        let begin = [&header[..from_header], &payload[..from_payload]].concat();
        if begin != opening {
            return Err(TransportError::protocol(reason::no_opening_in_flow()));
        }
        let payload = payload.slice(from_payload..);
        self.push(&header[from_header..], &payload).await
    }

    fn sends_at_once(&self) -> bool {
        self.handle.with(|one| one.sends_at_once()).unwrap_or(false)
    }

    async fn flush(&mut self) -> Result<()> {
        self.handle.send();
        Ok(())
    }

    async fn receive(
        &mut self,
        _scratch: &mut [u8],
        until: MonotonicTime,
        consume: &mut (impl FnMut(&[u8]) + Send),
    ) -> Result<Received> {
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

    async fn finish(&mut self) -> Result<()> {
        self.handle.with(Connection::push_end)??;
        self.handle.send();
        Ok(())
    }
}

/// An established connection.
pub(crate) struct Established {
    handle: Arc<Handle>,
    statistics: Arc<dyn StatisticsSource>,
    /// The only stream, until it is taken.
    stream: Mutex<Option<Stream>>,
}

impl Established {
    pub(crate) fn new(handle: Arc<Handle>) -> Result<Self> {
        let (session, opening) = handle.with(|one| (one.core.session, one.opening.take()))?;
        let statistics = Arc::new(Statistics {
            handle: handle.weak(),
            facts: marks(session).into(),
        });
        let stream = Stream {
            handle: Arc::clone(&handle),
            opening,
            read: Vec::new(),
        };
        Ok(Self {
            handle,
            statistics,
            stream: Mutex::new(Some(stream)),
        })
    }

    fn take(&self) -> Result<Stream> {
        let stream = self.stream.lock().take();
        stream.ok_or_else(|| TransportError::protocol(reason::one_reliable_stream()))
    }
}

impl StreamConnection for Established {
    type Stream = Stream;

    async fn open_stream(&self) -> Result<Stream> {
        self.take()
    }

    async fn accept_stream(&self, _until: MonotonicTime) -> Result<Stream> {
        self.take()
    }

    fn statistics(&self) -> Arc<dyn StatisticsSource> {
        Arc::clone(&self.statistics)
    }

    async fn close(self, until: MonotonicTime) {
        let handle = &self.handle;
        let acknowledged = handle.poll(|one, context| one.poll_acknowledged(context));
        // Whatever goes wrong now, it is closed.
        let _ = within(until, acknowledged).await;
    }
}

/// Statistics of a connection, readable while that exists.
struct Statistics {
    handle: Weak<Handle>,
    facts: Facts,
}

impl StatisticsSource for Statistics {
    fn sample(&self) -> Option<ProtocolSample> {
        let handle = self.handle.upgrade()?;
        handle.with(|one| one.core.sender.sample()).ok()
    }

    fn facts(&self) -> Facts {
        self.facts.clone()
    }
}
