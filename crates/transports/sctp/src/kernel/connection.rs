//! An association as a connection, its streams as byte streams.

use std::{future::poll_fn, sync::Arc};

use bytes::Bytes;
use regatta_transport::{
    ByteStream, MonotonicTime, Received, StatisticsSource, Stop, StreamConnection, TransportError,
};
use regatta_transport_sockets::wait::{timed_out, within};

use super::{
    association::{Association, Reader, Reading, Turn},
    endpoint::{LONGEST_STREAM_MESSAGE_BYTES, within_exactly},
    statistics::Statistics,
};

/// An established association; closed in good order when its last user is gone.
pub(crate) struct KernelConnection {
    association: Arc<Association>,
    statistics: Arc<Statistics>,
}

impl KernelConnection {
    pub(crate) fn new(association: Arc<Association>, side: &'static str, stop: &Stop) -> Self {
        stop.on_stop(&association);
        let statistics = Arc::new(Statistics::new(&association, side));
        Self {
            association,
            statistics,
        }
    }
}

impl StreamConnection for KernelConnection {
    type Stream = KernelStream;

    async fn open_stream(&self) -> Result<KernelStream, TransportError> {
        let id = self.association.open_stream()?;
        Ok(KernelStream::new(&self.association, id))
    }

    async fn accept_stream(&self, until: MonotonicTime) -> Result<KernelStream, TransportError> {
        let since = MonotonicTime::now();
        let _reading = Reading(&self.association, Reader::Streams);
        let accepted = poll_fn(|context| self.association.poll_accept_stream(context));
        match within(until, accepted).await {
            Some(id) => Ok(KernelStream::new(&self.association, id?)),
            None => Err(timed_out("SCTP stream", since)),
        }
    }

    fn statistics(&self) -> Arc<dyn StatisticsSource> {
        Arc::<Statistics>::clone(&self.statistics)
    }

    async fn close(self, _until: MonotonicTime) {
        // Dropping the socket closes it: the kernel goes on sending what is left, and then shuts
        // the association down.
    }
}

/// Both directions of one SCTP stream number.
pub(crate) struct KernelStream {
    association: Arc<Association>,
    id: u16,
    abandoned: bool,
}

impl KernelStream {
    fn new(association: &Arc<Association>, id: u16) -> Self {
        Self {
            association: Arc::clone(association),
            id,
            abandoned: false,
        }
    }

    async fn write(&self, parts: [&[u8]; 2]) -> Result<(), TransportError> {
        let _turn = Turn(&self.association, self.id);
        poll_fn(|context| self.association.poll_write((self.id, 0), parts, context)).await
    }
}

impl ByteStream for KernelStream {
    async fn send_message(&mut self, header: &[u8], payload: &Bytes) -> Result<(), TransportError> {
        if self.abandoned {
            return Ok(());
        }
        let (mut header, mut payload): (&[u8], &[u8]) = (header, payload);
        // One message of the workload is one user message; a longer one is several.
        while !(header.is_empty() && payload.is_empty()) {
            let (head, rest_of_header) =
                header.split_at(header.len().min(LONGEST_STREAM_MESSAGE_BYTES));
            let room = LONGEST_STREAM_MESSAGE_BYTES - head.len();
            let (body, rest_of_payload) = payload.split_at(payload.len().min(room));
            self.write([head, body]).await?;
            (header, payload) = (rest_of_header, rest_of_payload);
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), TransportError> {
        // The kernel has all of it, and by SCTP_NODELAY it is on its way.
        Ok(())
    }

    async fn receive(
        &mut self,
        scratch: &mut [u8],
        until: MonotonicTime,
        consume: &mut (impl FnMut(&[u8]) + Send),
    ) -> Result<Received, TransportError> {
        let _reading = Reading(&self.association, Reader::Stream(self.id));
        let read = poll_fn(|context| {
            self.association
                .poll_read(self.id, scratch, consume, context)
        });
        Ok(match within_exactly(until, read).await {
            Some(read) => match read? {
                0 => Received::Closed,
                bytes => Received::Bytes(bytes),
            },
            None => Received::TimedOut,
        })
    }

    async fn finish(&mut self) -> Result<(), TransportError> {
        if self.abandoned {
            return Ok(());
        }
        let _turn = Turn(&self.association, self.id);
        poll_fn(|context| self.association.poll_finish(self.id, context)).await
    }

    fn abandon(&mut self) {
        // What the kernel has, it sends: a reliable message cannot be taken back from it.
        self.abandoned = true;
    }
}
