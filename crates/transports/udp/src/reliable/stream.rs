//! The two directions of a connection as a stream of bytes whose messages are datagrams.

use std::sync::Arc;

use bytes::Bytes;
use regatta_transport::{
    ByteStream, MonotonicTime, Received, TransportError, opening::OPENING_BYTES,
};

use super::{connection::Link, sender::LONGEST_PART};

/// The stream of a connection.
pub(crate) struct Stream {
    link: Arc<Link>,
    /// Opening that CONN carried, until the workload sends it: it has arrived already.
    opening: Option<[u8; OPENING_BYTES]>,
}

impl Stream {
    pub(crate) fn new(link: Arc<Link>, opening: Option<[u8; OPENING_BYTES]>) -> Self {
        Self { link, opening }
    }

    /// Cuts the rest of a message into datagrams: one, except for a message that is longer than one
    /// carries with its header.
    fn push(&self, mut header: &[u8], payload: &Bytes) -> Result<(), TransportError> {
        let mut rest = 0;
        loop {
            let (prefix, later) = header.split_at(header.len().min(LONGEST_PART));
            header = later;
            let end = payload.len().min(rest + LONGEST_PART - prefix.len());
            if prefix.is_empty() && end == rest {
                return Ok(());
            }
            self.link.push(prefix, payload.slice(rest..end))?;
            rest = end;
        }
    }
}

impl ByteStream for Stream {
    async fn send_message(&mut self, header: &[u8], payload: &Bytes) -> Result<(), TransportError> {
        let Some(opening) = self.opening.take() else {
            return self.push(header, payload);
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
    }

    async fn flush(&mut self) -> Result<(), TransportError> {
        self.link.transmit()
    }

    async fn receive(
        &mut self,
        _scratch: &mut [u8],
        until: MonotonicTime,
        consume: &mut (impl FnMut(&[u8]) + Send),
    ) -> Result<Received, TransportError> {
        self.link.receive(until, consume)
    }

    async fn finish(&mut self) -> Result<(), TransportError> {
        self.link.push_end()
    }
}
