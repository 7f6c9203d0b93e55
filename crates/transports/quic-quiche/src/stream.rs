//! A bidirectional stream of quiche as a [`ByteStream`].

use std::{sync::Arc, task::Poll};

use bytes::Bytes;
use quiche::Shutdown;
use regatta_model::reason;
use regatta_transport::{ByteStream, MonotonicTime, Received, Result, TransportError};

use crate::{end::End, entry::ABORTED, protocol::Handle};
use regatta_transport_quic_common::write_buffer::{Pieces, WriteBuffer};
use regatta_transport_sockets::wait::within;

/// Amount of written data, in bytes, after which the sender yields to the end's task: on a
/// current-thread runtime nothing is sent while the application writes.
const YIELD_BYTES: usize = 256 << 10;

/// Bidirectional stream.
pub(crate) struct QuicheStream {
    handle: Arc<Handle>,
    id: u64,
    buffer: WriteBuffer,
    /// Whether this end has ended its direction.
    finished: bool,
    /// Whether the other end's direction has ended.
    received_all: bool,
}

fn stack_error(end: End) -> TransportError {
    end.error(reason::quic_stream_broke())
}

/// Returns the reason for the end of the connection that a stream's error implies.
fn end_of(error: quiche::Error) -> End {
    match error {
        quiche::Error::StreamStopped(code) | quiche::Error::StreamReset(code) => {
            End::ClosedByPeer {
                application: true,
                code,
                reason: "the stream was given up".to_owned(),
            }
        }
        error => End::ClosedByStack(0, Some(error)),
    }
}

impl QuicheStream {
    pub(crate) fn new(handle: Arc<Handle>, id: u64) -> Self {
        // One that has ended holds none.
        let _ = handle.with(|entry| entry.open_streams.insert(id));
        Self {
            handle,
            id,
            buffer: WriteBuffer::new(YIELD_BYTES, 0),
            finished: false,
            received_all: false,
        }
    }

    /// Writes a piece without ever handing quiche more than its stated capacity, and only while
    /// nothing waits to be sent, since quiche would queue everything it is given.
    async fn write_piece(&self, piece: Bytes) -> Result<()> {
        let mut rest = Some(piece);
        let (id, handle) = (self.id, &self.handle);
        let written = handle.poll(|entry, context| {
            if let Some(end) = &entry.end {
                return Poll::Ready(Err(end.clone()));
            }
            while let Some(piece) = rest.take() {
                let capacity = match entry.quiche.stream_capacity(id) {
                    Ok(capacity) => capacity,
                    Err(error) => return Poll::Ready(Err(end_of(error))),
                };
                if capacity == 0 || !entry.flushed {
                    // The other end is notified if its window is what holds this one back.
                    let _ = entry.quiche.stream_writable(id, piece.len());
                    rest = Some(piece);
                    entry.flushed = false;
                    entry.writers.insert(id, context.waker().clone());
                    handle.changed();
                    return Poll::Pending;
                }
                match entry.quiche.stream_send_zc(id, piece, false) {
                    Ok((_, remaining)) => rest = remaining,
                    Err(error) => return Poll::Ready(Err(end_of(error))),
                }
            }
            Poll::Ready(Ok(()))
        });
        written.await.map_err(stack_error)?;
        self.handle.changed();
        Ok(())
    }

    async fn write(&mut self, pieces: Option<Pieces>) -> Result<()> {
        let Some(mut pieces) = pieces else {
            return Ok(());
        };
        for piece in pieces.as_mut() {
            self.write_piece(std::mem::take(piece)).await?;
        }
        if self.buffer.is_time_to_yield() {
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Ends the sending direction after the data written so far.
    fn end_sending(&mut self) -> Result<(), End> {
        if std::mem::replace(&mut self.finished, true) {
            return Ok(());
        }
        let id = self.id;
        let sent = self.handle.with(|entry| match &entry.end {
            Some(end) => Err(end.clone()),
            None => entry.quiche.stream_send(id, &[], true).map_err(end_of),
        });
        self.handle.changed();
        sent??;
        Ok(())
    }
}

impl ByteStream for QuicheStream {
    async fn send_message(&mut self, header: &[u8], payload: &Bytes) -> Result<()> {
        let pieces = self.buffer.add(header, payload);
        self.write(pieces).await
    }

    async fn flush(&mut self) -> Result<()> {
        let pieces = self.buffer.take();
        self.write(pieces).await
    }

    async fn receive(
        &mut self,
        scratch: &mut [u8],
        moment: MonotonicTime,
        consume: &mut (impl FnMut(&[u8]) + Send),
    ) -> Result<Received> {
        if self.received_all {
            return Ok(Received::Closed);
        }
        let id = self.id;
        let received = self.handle.poll(|entry, context| {
            // What came before the other end closed is still to be had; what came before this one
            // was stopped is not wanted.
            if entry.end == Some(End::Stopped) {
                return Poll::Ready(Err(End::Stopped));
            }
            match entry.quiche.stream_recv(id, scratch) {
                Ok(read) => return Poll::Ready(Ok(read)),
                Err(quiche::Error::Done) => {}
                Err(quiche::Error::InvalidStreamState(_)) => {
                    // A stream whose number is below another one's, of which nothing has come yet,
                    // is none to quiche; nor is one that has ended both ways.
                    if entry.quiche.stream_closed(id) {
                        return Poll::Ready(Ok((0, true)));
                    }
                }
                Err(error) => return Poll::Ready(Err(end_of(error))),
            }
            match &entry.end {
                // A connection that the other end closed in good order sends no more.
                Some(End::Done) => Poll::Ready(Ok((0, true))),
                Some(end) => Poll::Ready(Err(end.clone())),
                None => {
                    entry.readers.insert(id, context.waker().clone());
                    Poll::Pending
                }
            }
        });
        let (bytes, last) = match within(moment, received).await {
            Some(read) => read.map_err(stack_error)?,
            None => return Ok(Received::TimedOut),
        };
        self.received_all = last;
        if bytes == 0 {
            return Ok(Received::Closed);
        }
        // Room in the windows is to be sent to the other end.
        self.handle.changed();
        consume(&scratch[..bytes]);
        Ok(Received::Bytes(bytes))
    }

    fn abandon(&mut self) {
        self.buffer.clear();
        self.finished = true;
        let id = self.id;
        // One that is finished already has nothing to throw away.
        let _ = self
            .handle
            .with(|entry| entry.quiche.stream_shutdown(id, Shutdown::Write, ABORTED));
        self.handle.changed();
    }

    async fn finish(&mut self) -> Result<()> {
        self.flush().await?;
        self.end_sending().map_err(stack_error)
    }
}

impl Drop for QuicheStream {
    fn drop(&mut self) {
        let _ = self.end_sending();
        let (id, received_all) = (self.id, self.received_all);
        let _ = self.handle.with(|entry| {
            entry.forget_stream(id);
            if !received_all {
                // The other end need not send data that is not read.
                let _ = entry.quiche.stream_shutdown(id, Shutdown::Read, 0);
            }
        });
        self.handle.changed();
    }
}
