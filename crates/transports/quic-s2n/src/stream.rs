//! A bidirectional stream of s2n-quic as a [`ByteStream`].

use std::{future::poll_fn, sync::Arc, task::Poll};

use bytes::Bytes;
use regatta_model::{Problem, ProblemKind, reason, reasons};
use regatta_transport::{ByteStream, MonotonicTime, Received, Result, TransportError};
use s2n_quic::{
    application::Error as Code,
    connection,
    stream::{BidirectionalStream, Error, ReceiveStream, SendStream},
};

use crate::{
    end::{ABORTED, is_done},
    events::Watch,
};
use regatta_transport_quic_common::{
    path::Sizes,
    write_buffer::{Pieces, WriteBuffer, pass_on},
};
use regatta_transport_sockets::wait::within;

/// Amount of written data, in bytes, after which the sender yields to the endpoint's own task: on a
/// current-thread runtime nothing is sent while the application writes.
const YIELD_BYTES: usize = 1 << 20;

/// Maximum number of pieces that are taken from the connection under one lock.
const PIECES: usize = 16;

/// Bidirectional stream.
#[derive(Debug)]
pub struct S2nStream {
    send: SendStream,
    receive: ReceiveStream,
    buffer: WriteBuffer,
    pieces: [Bytes; PIECES],
    /// Whether the other end has finished its direction.
    ended: bool,
    /// Number of bytes written, and where they are held back by the congestion window.
    written: u64,
    held: Option<Held>,
}

/// Connection that holds no more of the application's data than its congestion window allows.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) watch: Arc<Watch>,
    pub(crate) sizes: Sizes,
}

/// Makes the error of a stream. A connection that the stack gave up after silence of the other end has timed out.
fn stack_error(error: Error) -> TransportError {
    let broke = reason::quic_stream_broke();
    match error {
        Error::ConnectionError {
            error: connection::Error::IdleTimerExpired { .. },
            ..
        } => TransportError::stack(broke)(Problem::new(ProblemKind::TimedOut, reasons(&error), "")),
        error => TransportError::stack(broke)(error),
    }
}

/// Whether the other end closed the connection in good order, so that nothing more will come from
/// it.
fn is_closed(error: &Error) -> bool {
    matches!(error, Error::ConnectionError { error, .. } if is_done(error))
}

impl S2nStream {
    pub(crate) fn new(stream: BidirectionalStream, held: Option<Held>) -> Self {
        let (receive, send) = stream.split();
        Self {
            send,
            receive,
            buffer: WriteBuffer::new(YIELD_BYTES, 0),
            pieces: [const { Bytes::new() }; PIECES],
            ended: false,
            written: 0,
            held,
        }
    }

    async fn write(&mut self, pieces: Option<Pieces>) -> Result<()> {
        let Some(mut pieces) = pieces else {
            return Ok(());
        };
        let pieces = pieces.as_mut();
        self.written += pieces.iter().map(|it| it.len() as u64).sum::<u64>();
        let (send, mut taken) = (&mut self.send, 0);
        poll_fn(|context| {
            loop {
                match send.poll_send_vectored(&mut pieces[taken..], context) {
                    Poll::Ready(Ok(count)) => taken += count,
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => return Poll::Pending,
                }
                if taken >= pieces.len() {
                    return Poll::Ready(Ok(()));
                }
            }
        })
        .await
        .map_err(stack_error)?;
        if let Some(Held { watch, sizes }) = &self.held {
            watch
                .until_held(self.written, |window| sizes.held_bytes(window))
                .await;
        }
        if self.buffer.is_time_to_yield() {
            tokio::task::yield_now().await;
        }
        Ok(())
    }
}

impl ByteStream for S2nStream {
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
        _scratch: &mut [u8],
        moment: MonotonicTime,
        consume: &mut (impl FnMut(&[u8]) + Send),
    ) -> Result<Received> {
        while !self.ended {
            match within(moment, self.receive.receive_vectored(&mut self.pieces)).await {
                Some(Ok((count, is_open))) => {
                    self.ended = !is_open;
                    let bytes = pass_on(&mut self.pieces[..count], consume);
                    if bytes > 0 {
                        return Ok(Received::Bytes(bytes));
                    }
                }
                Some(Err(error)) if is_closed(&error) => return Ok(Received::Closed),
                Some(Err(error)) => return Err(stack_error(error)),
                None => return Ok(Received::TimedOut),
            }
        }
        Ok(Received::Closed)
    }

    fn abandon(&mut self) {
        self.buffer.clear();
        // One that is finished already has nothing to throw away.
        let _ = self.send.reset(Code::from(ABORTED));
    }

    async fn finish(&mut self) -> Result<()> {
        self.flush().await?;
        self.send.finish().map_err(stack_error)
    }
}
