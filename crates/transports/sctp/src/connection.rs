//! An association as a connection, its streams as byte streams.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use regatta_transport::{
    ByteStream, MonotonicTime, Received, StatisticsSource, StreamConnection, TransportError,
};
use regatta_transport_sockets::{
    driver::{self, Gone},
    wait::{timed_out, within},
};
use sctp_proto::StreamId;

use crate::{
    association::{Association, Message},
    options::LONGEST_MESSAGE_BYTES,
    protocol::Sctp,
    statistics::Statistics,
};

/// Handle to an association.
pub(crate) type Handle = driver::Handle<Sctp>;

/// Hands a user message of a stream to the stack when it is the stream's turn.
pub(crate) async fn write(
    handle: &Handle,
    id: StreamId,
    message: &Bytes,
) -> Result<(), TransportError> {
    let _turn = Turn { handle, id };
    let written = handle.poll(|one, context| {
        let written = one.poll_write(id, message, context);
        if written.is_pending() {
            // There is room when what waits was sent.
            handle.changed();
        }
        written
    });
    written.await
}

/// Guard of a stream's wait to write: ends it when dropped, so that other streams do not wait for
/// this one.
struct Turn<'a> {
    handle: &'a Handle,
    id: StreamId,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // One that is gone has no writers.
        let _ = self.handle.with(|one| one.leave_turn(self.id));
    }
}

/// Number of written bytes after which they are sent even if the application does not wait.
const SEND_BYTES: usize = 256 << 10;

/// Size of the pieces of memory that headers and short messages are copied into, in bytes.
const PIECE_BYTES: usize = 64 << 10;

/// An established association; closed in good order when dropped.
pub(crate) struct SctpConnection {
    handle: Arc<Handle>,
    statistics: Arc<Statistics>,
    /// Maximum time to wait for the packets that close it.
    goodbye: Duration,
}

impl SctpConnection {
    pub(crate) fn new(handle: Arc<Handle>, side: &'static str, goodbye: Duration) -> Self {
        let statistics = Arc::new(Statistics::new(handle.weak(), side));
        Self {
            handle,
            statistics,
            goodbye,
        }
    }
}

impl StreamConnection for SctpConnection {
    type Stream = SctpStream;

    async fn open_stream(&self) -> Result<SctpStream, TransportError> {
        let id = self.handle.with(Association::open_stream)??;
        Ok(SctpStream::new(Arc::clone(&self.handle), id))
    }

    async fn accept_stream(&self, until: MonotonicTime) -> Result<SctpStream, TransportError> {
        let since = MonotonicTime::now();
        let accepted = self
            .handle
            .poll(|one, context| one.poll_accept_stream(context));
        match within(until, accepted).await {
            Some(id) => Ok(SctpStream::new(Arc::clone(&self.handle), id?)),
            None => Err(timed_out("SCTP stream", since)),
        }
    }

    fn statistics(&self) -> Arc<dyn StatisticsSource> {
        Arc::<Statistics>::clone(&self.statistics)
    }

    async fn close(self, until: MonotonicTime) {
        let _ = self.handle.with(Association::close);
        self.handle.changed();
        let shut_down = self
            .handle
            .poll(|one, context| one.poll_shut_down(context).map(Ok::<_, Gone>));
        if within(until, shut_down).await.is_none() {
            return;
        }
        // Everything has arrived. The last packet of all may be lost, and is not sent again.
        let until = until.min(MonotonicTime::now() + self.goodbye);
        let ended = self
            .handle
            .poll(|one, context| one.poll_ended(context).map(Ok::<_, Gone>));
        let _ = within(until, ended).await;
    }
}

/// Both directions of one SCTP stream number.
pub(crate) struct SctpStream {
    handle: Arc<Handle>,
    id: StreamId,
    memory: BytesMut,
    since_send: usize,
    arrived: VecDeque<Message>,
    finished: bool,
    abandoned: bool,
}

impl SctpStream {
    fn new(handle: Arc<Handle>, id: StreamId) -> Self {
        Self {
            handle,
            id,
            memory: BytesMut::new(),
            since_send: 0,
            arrived: VecDeque::new(),
            finished: false,
            abandoned: false,
        }
    }

    async fn write(&mut self, message: &Bytes) -> Result<(), TransportError> {
        write(&self.handle, self.id, message).await?;
        self.since_send += message.len();
        if self.since_send >= SEND_BYTES {
            self.since_send = 0;
            self.handle.send();
        } else {
            self.handle.changed();
        }
        Ok(())
    }
}

impl ByteStream for SctpStream {
    async fn send_message(&mut self, header: &[u8], payload: &Bytes) -> Result<(), TransportError> {
        let length = header.len() + payload.len();
        if length == 0 || self.abandoned {
            return Ok(());
        }
        if header.is_empty() && length <= LONGEST_MESSAGE_BYTES {
            return self.write(payload).await;
        }
        // A user message is one piece of memory.
        let head = header.len().min(LONGEST_MESSAGE_BYTES);
        let first = payload.len().min(LONGEST_MESSAGE_BYTES - head);
        if self.memory.capacity() < head + first {
            self.memory.reserve(PIECE_BYTES.max(head + first));
        }
        self.memory.extend_from_slice(&header[..head]);
        self.memory.extend_from_slice(&payload[..first]);
        let message = self.memory.split().freeze();
        self.write(&message).await?;
        for piece in header[head..].chunks(LONGEST_MESSAGE_BYTES) {
            self.write(&Bytes::copy_from_slice(piece)).await?;
        }
        let mut rest = payload.slice(first..);
        while !rest.is_empty() {
            let piece = rest.split_to(rest.len().min(LONGEST_MESSAGE_BYTES));
            self.write(&piece).await?;
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), TransportError> {
        self.since_send = 0;
        self.handle.send();
        Ok(())
    }

    async fn receive(
        &mut self,
        scratch: &mut [u8],
        until: MonotonicTime,
        consume: &mut (impl FnMut(&[u8]) + Send),
    ) -> Result<Received, TransportError> {
        if self.finished {
            return Ok(Received::Closed);
        }
        let (id, arrived) = (self.id, &mut self.arrived);
        let read = self
            .handle
            .poll(|one, context| one.poll_read(id, arrived, context));
        match within(until, read).await {
            Some(Ok(true)) => {
                let mut bytes = 0;
                for message in self.arrived.drain(..) {
                    bytes += message.len();
                    pass_on(message, scratch, &mut *consume);
                }
                Ok(Received::Bytes(bytes))
            }
            Some(Ok(false)) => {
                self.finished = true;
                Ok(Received::Closed)
            }
            Some(Err(error)) => Err(error),
            None => Ok(Received::TimedOut),
        }
    }

    async fn finish(&mut self) -> Result<(), TransportError> {
        if !self.abandoned {
            self.handle.with(|one| one.finish(self.id))??;
            self.handle.send();
        }
        Ok(())
    }

    fn abandon(&mut self) {
        // What the stack has, it sends: a reliable message cannot be taken back from it.
        self.abandoned = true;
    }
}

/// Passes a message to `consume`, through `scratch` if it fits there: the stack gives access to the
/// bytes only as a copy.
pub(crate) fn pass_on(mut message: Message, scratch: &mut [u8], mut consume: impl FnMut(&[u8])) {
    let length = message.len();
    if let Some(place) = scratch.get_mut(..length)
        && message.read(place).is_ok()
    {
        consume(place);
        return;
    }
    if let Some(piece) = message.next(length) {
        consume(&piece.bytes);
    }
}
