//! An association as a connection, its streams as byte streams.

use std::{collections::VecDeque, future::poll_fn, sync::Arc, task::Context};

use bytes::{Bytes, BytesMut};
use regatta_transport::{
    ByteStream, MonotonicTime, Received, StatisticsSource, Stop, StreamConnection, TransportError,
};
use regatta_transport_sockets::wait::{timed_out, within};
use sctp_proto::StreamId;

use crate::{
    association::Message, link::Link, options::LONGEST_MESSAGE_BYTES, statistics::Statistics,
};

/// Number of written bytes after which they are sent even if the application does not wait.
const SEND_BYTES: usize = 256 << 10;

/// Size of the pieces of memory that headers and short messages are copied into, in bytes.
const PIECE_BYTES: usize = 64 << 10;

/// An established association; closed in good order when dropped.
pub(crate) struct SctpConnection {
    link: Arc<Link>,
    statistics: Arc<Statistics>,
}

impl SctpConnection {
    pub(crate) fn new(link: Arc<Link>, side: &'static str, stop: &Stop) -> Self {
        stop.on_stop(&link);
        let statistics = Arc::new(Statistics::new(Arc::downgrade(&link), side));
        Self { link, statistics }
    }
}

impl StreamConnection for SctpConnection {
    type Stream = SctpStream;

    async fn open_stream(&self) -> Result<SctpStream, TransportError> {
        let id = self.link.with(|one| one.open_stream())?;
        Ok(SctpStream::new(Arc::clone(&self.link), id))
    }

    async fn accept_stream(&self, until: MonotonicTime) -> Result<SctpStream, TransportError> {
        let since = MonotonicTime::now();
        let accepted = poll_fn(|context: &mut Context<'_>| {
            self.link.poll(|one| one.poll_accept_stream(context))
        });
        match within(until, accepted).await {
            Some(id) => Ok(SctpStream::new(Arc::clone(&self.link), id?)),
            None => Err(timed_out("SCTP stream", since)),
        }
    }

    fn statistics(&self) -> Arc<dyn StatisticsSource> {
        Arc::<Statistics>::clone(&self.statistics)
    }

    async fn close(self, until: MonotonicTime) {
        self.link.close(until).await;
    }
}

/// Both directions of one SCTP stream number.
pub(crate) struct SctpStream {
    link: Arc<Link>,
    id: StreamId,
    memory: BytesMut,
    since_send: usize,
    arrived: VecDeque<Message>,
    finished: bool,
    abandoned: bool,
}

impl SctpStream {
    fn new(link: Arc<Link>, id: StreamId) -> Self {
        Self {
            link,
            id,
            memory: BytesMut::new(),
            since_send: 0,
            arrived: VecDeque::new(),
            finished: false,
            abandoned: false,
        }
    }

    async fn write(&mut self, message: &Bytes) -> Result<(), TransportError> {
        self.link.write(self.id, message).await?;
        self.since_send += message.len();
        if self.since_send >= SEND_BYTES {
            self.since_send = 0;
            self.link.send();
        } else {
            self.link.schedule();
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
        self.link.send();
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
        let (link, id, arrived) = (&self.link, self.id, &mut self.arrived);
        let read = poll_fn(|context: &mut Context<'_>| {
            link.poll(|one| one.poll_read(id, arrived, context))
        });
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
            self.link.with(|one| one.finish(self.id))?;
            self.link.send();
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
