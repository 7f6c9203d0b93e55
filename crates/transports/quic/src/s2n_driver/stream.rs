//! A bidirectional stream of s2n-quic as a [`ByteStream`].

use std::{future::poll_fn, task::Poll};

use bytes::{Bytes, BytesMut};
use regatta_transport::{ByteStream, MonotonicTime, Received, TransportError};
use s2n_quic::{
    application::Error as Code,
    stream::{BidirectionalStream, Error, ReceiveStream, SendStream},
};

use super::connection::{ABORTED, is_done};
use crate::wait::within;

/// Threshold, in bytes, below which messages are copied together; longer ones are handed over
/// without a copy: each piece takes the connection's lock and a place in its list.
const COPIED_BELOW_BYTES: usize = 4096;

/// Size of the pieces in which copied messages are handed over, in bytes.
const PIECE_BYTES: usize = 16 << 10;

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
    /// Small messages that are not handed over yet, and room for headers.
    pending: BytesMut,
    /// Bytes handed over since the endpoint's task had its turn.
    since_yield: usize,
    pieces: [Bytes; PIECES],
    /// Whether the other end has finished its direction.
    ended: bool,
}

fn broken(error: Error) -> TransportError {
    TransportError::stack("the QUIC stream broke")(error)
}

/// Whether the other end closed the connection in good order, so that nothing more will come from
/// it.
fn is_closed(error: &Error) -> bool {
    matches!(error, Error::ConnectionError { error, .. } if is_done(error))
}

impl S2nStream {
    pub(super) fn new(stream: BidirectionalStream) -> Self {
        let (receive, send) = stream.split();
        Self {
            send,
            receive,
            pending: BytesMut::new(),
            since_yield: 0,
            pieces: [const { Bytes::new() }; PIECES],
            ended: false,
        }
    }

    async fn write(&mut self, pieces: &mut [Bytes]) -> Result<(), TransportError> {
        self.since_yield += pieces.iter().map(Bytes::len).sum::<usize>();
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
        .map_err(broken)?;
        if self.since_yield >= YIELD_BYTES {
            self.since_yield = 0;
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    async fn write_pending(&mut self) -> Result<(), TransportError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let piece = self.pending.split().freeze();
        self.write(&mut [piece]).await
    }
}

impl ByteStream for S2nStream {
    async fn send_message(&mut self, header: &[u8], payload: &Bytes) -> Result<(), TransportError> {
        if self.pending.capacity() - self.pending.len() < header.len() {
            self.pending.reserve(2 * PIECE_BYTES);
        }
        self.pending.extend_from_slice(header);
        if header.len() + payload.len() < COPIED_BELOW_BYTES {
            self.pending.extend_from_slice(payload);
            if self.pending.len() >= PIECE_BYTES {
                self.write_pending().await?;
            }
            return Ok(());
        }
        let before = self.pending.split().freeze();
        let mut both = [before, payload.clone()];
        let pieces = if both[0].is_empty() {
            &mut both[1..]
        } else {
            &mut both[..]
        };
        self.write(pieces).await
    }

    async fn flush(&mut self) -> Result<(), TransportError> {
        self.write_pending().await
    }

    async fn receive(
        &mut self,
        _scratch: &mut [u8],
        moment: MonotonicTime,
        consume: &mut (impl FnMut(&[u8]) + Send),
    ) -> Result<Received, TransportError> {
        while !self.ended {
            match within(moment, self.receive.receive_vectored(&mut self.pieces)).await {
                Some(Ok((count, is_open))) => {
                    self.ended = !is_open;
                    let mut bytes = 0;
                    for piece in &mut self.pieces[..count] {
                        let piece = std::mem::take(piece);
                        bytes += piece.len();
                        consume(&piece);
                    }
                    if bytes > 0 {
                        return Ok(Received::Bytes(bytes));
                    }
                }
                Some(Err(error)) if is_closed(&error) => return Ok(Received::Closed),
                Some(Err(error)) => return Err(broken(error)),
                None => return Ok(Received::TimedOut),
            }
        }
        Ok(Received::Closed)
    }

    fn abandon(&mut self) {
        self.pending.clear();
        // One that is finished already has nothing to throw away.
        let _ = self.send.reset(Code::from(ABORTED));
    }

    async fn finish(&mut self) -> Result<(), TransportError> {
        self.write_pending().await?;
        self.send.finish().map_err(broken)
    }
}
