//! An association as a connection, its streams as byte streams.

use std::sync::Arc;

use bytes::Bytes;
use regatta_model::reason;
use regatta_transport::{
    ByteStream, MonotonicTime, Received, Result, StatisticsSource, StreamConnection,
};
use regatta_transport_sockets::wait::in_time;

use crate::association::{Association, LONGEST_STREAM_MESSAGE_BYTES};

/// An established association; closed in good order when its last reference is dropped.
pub(crate) struct SctpConnection<A> {
    association: Arc<A>,
    statistics: Arc<dyn StatisticsSource>,
}

impl<A: Association> SctpConnection<A> {
    pub(crate) fn new(association: Arc<A>, side: &'static str) -> Self {
        Self {
            statistics: association.statistics(side),
            association,
        }
    }

    fn stream(&self, id: u16) -> SctpStream<A> {
        SctpStream {
            association: Arc::clone(&self.association),
            id,
            memory: A::Memory::default(),
            abandoned: false,
        }
    }
}

impl<A: Association> StreamConnection for SctpConnection<A> {
    type Stream = SctpStream<A>;

    const DATAGRAMS: &str = "messages that are sent once (RFC 3758)";

    async fn open_stream(&self) -> Result<SctpStream<A>> {
        Ok(self.stream(self.association.open_stream()?))
    }

    async fn accept_stream(&self, until: MonotonicTime) -> Result<SctpStream<A>> {
        let accepted = self.association.accept_stream();
        Ok(self.stream(in_time(until, reason::stream_of("SCTP"), accepted).await?))
    }

    fn statistics(&self) -> Arc<dyn StatisticsSource> {
        Arc::clone(&self.statistics)
    }

    fn longest_datagram(&self) -> usize {
        self.association.longest_datagram()
    }

    fn send_datagram(&self, datagram: &[u8]) -> Result<()> {
        self.association.send_datagram(datagram)
    }

    async fn receive_datagram(
        &self,
        until: MonotonicTime,
        consume: &mut (impl FnMut(&[u8]) + Send),
    ) -> Result<bool> {
        self.association.receive_datagram(until, consume).await
    }

    async fn close(self, until: MonotonicTime) {
        self.association.close(until).await;
    }
}

/// Both directions of one SCTP stream number.
pub(crate) struct SctpStream<A: Association> {
    association: Arc<A>,
    id: u16,
    memory: A::Memory,
    abandoned: bool,
}

impl<A: Association> ByteStream for SctpStream<A> {
    async fn send_message(&mut self, header: &[u8], payload: &Bytes) -> Result<()> {
        if self.abandoned {
            return Ok(());
        }
        let (mut header, mut payload) = (header, payload.clone());
        // One message of the workload is one user message; a longer one is several.
        while !(header.is_empty() && payload.is_empty()) {
            let (head, rest) = header.split_at(header.len().min(LONGEST_STREAM_MESSAGE_BYTES));
            let room = LONGEST_STREAM_MESSAGE_BYTES - head.len();
            let body = payload.split_to(payload.len().min(room));
            let memory = &mut self.memory;
            self.association.write(self.id, memory, head, body).await?;
            header = rest;
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<()> {
        self.association.flush(&mut self.memory);
        Ok(())
    }

    async fn receive(
        &mut self,
        scratch: &mut [u8],
        until: MonotonicTime,
        consume: &mut (impl FnMut(&[u8]) + Send),
    ) -> Result<Received> {
        let memory = &mut self.memory;
        let read = self
            .association
            .read(self.id, memory, scratch, until, consume);
        Ok(match read.await.transpose()? {
            Some(0) => Received::Closed,
            Some(bytes) => Received::Bytes(bytes),
            None => Received::TimedOut,
        })
    }

    async fn finish(&mut self) -> Result<()> {
        if self.abandoned {
            return Ok(());
        }
        self.association.finish(self.id).await
    }

    fn abandon(&mut self) {
        // What the stack has, it sends: a reliable message cannot be taken back from it.
        self.abandoned = true;
    }
}
