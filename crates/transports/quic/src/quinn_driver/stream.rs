//! A bidirectional stream of quinn as a [`ByteStream`].

use bytes::{Bytes, BytesMut};
use quinn::{ReadError, RecvStream, SendStream};
use regatta_transport::{ByteStream, MonotonicTime, Received, TransportError};

use super::connection::{ABORTED, Timed, until};

/// Messages shorter than this are copied together, longer ones are handed over as they are.
///
/// quinn looks through its list of unacknowledged pieces for every packet, so that many small
/// pieces cost more than copying them.
const COPIED_BELOW_BYTES: usize = 4096;

/// Copied messages are handed over in pieces of this size.
const PIECE_BYTES: usize = 16 << 10;

/// After so many bytes, the sender lets the connection's own task send: on a current-thread
/// runtime nothing leaves while the application writes.
const YIELD_BYTES: usize = 16 << 20;

/// Pieces that are taken from the connection under one lock.
const PIECES: usize = 8;

/// One bidirectional stream.
#[derive(Debug)]
pub struct QuinnStream {
    send: SendStream,
    receive: RecvStream,
    /// Small messages that are not handed over yet, and room for headers.
    pending: BytesMut,
    /// Bytes handed over since the connection's task had its turn.
    since_yield: usize,
    pieces: [Bytes; PIECES],
}

fn broken(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> TransportError {
    TransportError::stack("the QUIC stream broke")(error)
}

impl QuinnStream {
    pub(super) fn new((send, receive): (SendStream, RecvStream)) -> Self {
        Self {
            send,
            receive,
            pending: BytesMut::new(),
            since_yield: 0,
            pieces: [const { Bytes::new() }; PIECES],
        }
    }

    async fn write(&mut self, pieces: &mut [Bytes]) -> Result<(), TransportError> {
        self.since_yield += pieces.iter().map(Bytes::len).sum::<usize>();
        self.send.write_all_chunks(pieces).await.map_err(broken)?;
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

impl ByteStream for QuinnStream {
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
        match until(moment, self.receive.read_chunks(&mut self.pieces)).await {
            Timed::Done(Ok(Some(count))) => {
                let mut bytes = 0;
                for piece in &mut self.pieces[..count] {
                    let piece = std::mem::take(piece);
                    bytes += piece.len();
                    consume(&piece);
                }
                Ok(Received::Bytes(bytes))
            }
            Timed::Done(Ok(None)) => Ok(Received::Closed),
            // A connection that the other end closed in good order has no more to say.
            Timed::Done(Err(ReadError::ConnectionLost(
                quinn::ConnectionError::ApplicationClosed(ref close),
            ))) if close.error_code.into_inner() == 0 => Ok(Received::Closed),
            Timed::Done(Err(error)) => Err(broken(error)),
            Timed::Late => Ok(Received::TimedOut),
        }
    }

    fn abandon(&mut self) {
        self.pending.clear();
        // One that is finished already has nothing to throw away.
        let _ = self.send.reset(ABORTED);
    }

    async fn finish(&mut self) -> Result<(), TransportError> {
        self.write_pending().await?;
        self.send.finish().map_err(broken)
    }
}
