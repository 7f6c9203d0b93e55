//! A bidirectional stream of the stack as a [`ByteStream`].

use std::error::Error;

use bytes::Bytes;
use regatta_model::{Problem, ProblemKind, reason, reasons};
use regatta_transport::{ByteStream, MonotonicTime, Received, Result, TransportError};

use regatta_transport_quic_common::write_buffer::{Pieces, WriteBuffer, pass_on};
use regatta_transport_sockets::wait::within;

use crate::{
    closer::ABORTED,
    send_window::SendWindow,
    stack::{
        self,
        quic::{Connection, ConnectionError, ReadError, RecvStream, SendStream, WriteError},
    },
};

/// Extra weight of a small message, in bytes, so that the connection's own task has a turn after
/// some thousands of them.
const SMALL_MESSAGE_BYTES: usize = 1024;

/// Amount of written data, in bytes, after which the sender yields to the connection's own task: on
/// a current-thread runtime nothing is sent while the application writes.
const YIELD_BYTES: usize = 16 << 20;

/// Maximum number of pieces that are taken from the connection under one lock.
const PIECES: usize = 32;

/// Data written before the other end has answered, to be sent again on another stream if it rejects
/// early data: RFC 9001 §4.6.2 has the stack forget it.
struct Early {
    connection: Connection,
    written: Vec<Bytes>,
    finished: bool,
}

/// Bidirectional stream.
pub struct QuicStream {
    send: SendStream,
    receive: RecvStream,
    buffer: WriteBuffer,
    pieces: [Bytes; PIECES],
    /// Early data of a connection that began with it, until something has come from the other end.
    early: Option<Early>,
    /// Send window of the connection, where it follows the congestion window.
    send_window: Option<SendWindow>,
}

/// Whether an error, or a cause of it, is the idle time-out of the connection.
fn is_silence(error: &(dyn Error + 'static)) -> bool {
    matches!(error.downcast_ref(), Some(ConnectionError::TimedOut))
        || error.source().is_some_and(is_silence)
}

/// Makes the error of a stream. A connection that the stack gave up after silence of the other end has timed out.
fn stack_error<E: Error + Send + Sync + 'static>(error: E) -> TransportError {
    let broke = reason::quic_stream_broke();
    match is_silence(&error) {
        true => {
            TransportError::stack(broke)(Problem::new(ProblemKind::TimedOut, reasons(&error), ""))
        }
        false => TransportError::stack(broke)(error),
    }
}

impl QuicStream {
    /// Creates a stream from its two halves; `early` is its connection if that began with early
    /// data; `send_window` is its send window if that follows the congestion window.
    pub(crate) fn new(
        (send, receive): (SendStream, RecvStream),
        early: Option<Connection>,
        send_window: Option<SendWindow>,
    ) -> Self {
        Self {
            send,
            receive,
            buffer: WriteBuffer::new(YIELD_BYTES, SMALL_MESSAGE_BYTES),
            pieces: [const { Bytes::new() }; PIECES],
            early: early.map(|connection| Early {
                connection,
                written: Vec::new(),
                finished: false,
            }),
            send_window,
        }
    }

    /// Sends early data that the other end has rejected again, on a stream of the connection that
    /// is established now. Returns `false` if there is none.
    async fn send_again(&mut self) -> Result<bool> {
        let Some(mut early) = self.early.take() else {
            return Ok(false);
        };
        (self.send, self.receive) = early.connection.open_bi().await.map_err(stack_error)?;
        self.send
            .write_all_chunks(&mut early.written)
            .await
            .map_err(stack_error)?;
        if early.finished {
            self.send.finish().map_err(stack_error)?;
        }
        Ok(true)
    }

    async fn write(&mut self, pieces: Option<Pieces>) -> Result<()> {
        let Some(mut pieces) = pieces else {
            return Ok(());
        };
        let pieces = pieces.as_mut();
        if let Some(early) = &mut self.early {
            // Pieces are shared, not copied.
            early.written.extend_from_slice(pieces);
        }
        if let Some(window) = &mut self.send_window {
            window.before(pieces.iter().map(Bytes::len).sum());
        }
        match self.send.write_all_chunks(pieces).await {
            Ok(()) => {}
            // These pieces are among what is sent again.
            Err(WriteError::ZeroRttRejected) if self.send_again().await? => {}
            Err(error) => return Err(stack_error(error)),
        }
        if self.buffer.is_time_to_yield() {
            tokio::task::yield_now().await;
        }
        Ok(())
    }
}

impl ByteStream for QuicStream {
    async fn send_message(&mut self, header: &[u8], payload: &Bytes) -> Result<()> {
        let pieces = self.buffer.add(header, payload);
        self.write(pieces).await
    }

    async fn flush(&mut self) -> Result<()> {
        let pieces = self.buffer.take();
        self.write(pieces).await?;
        // It leaves when the connection's own task has its turn.
        tokio::task::yield_now().await;
        Ok(())
    }

    async fn receive(
        &mut self,
        _scratch: &mut [u8],
        moment: MonotonicTime,
        consume: &mut (impl FnMut(&[u8]) + Send),
    ) -> Result<Received> {
        loop {
            let taken = stack::read_chunks(&mut self.receive, &mut self.pieces);
            match within(moment, taken).await {
                Some(Ok(Some(count))) => {
                    self.early = None;
                    let bytes = pass_on(&mut self.pieces[..count], consume);
                    return Ok(Received::Bytes(bytes));
                }
                Some(Ok(None)) => return Ok(Received::Closed),
                Some(Err(ReadError::ZeroRttRejected)) if self.send_again().await? => {}
                // A connection that the other end closed in good order sends no more.
                Some(Err(ReadError::ConnectionLost(ConnectionError::ApplicationClosed(
                    ref close,
                )))) if close.error_code.into_inner() == 0 => return Ok(Received::Closed),
                Some(Err(error)) => return Err(stack_error(error)),
                None => return Ok(Received::TimedOut),
            }
        }
    }

    fn abandon(&mut self) {
        self.buffer.clear();
        // One that is finished already has nothing to throw away.
        let _ = self.send.reset(ABORTED);
    }

    async fn finish(&mut self) -> Result<()> {
        let pieces = self.buffer.take();
        self.write(pieces).await?;
        if let Some(early) = &mut self.early {
            early.finished = true;
        }
        self.send.finish().map_err(stack_error)
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread, time::Duration};

    use regatta_control::Role;
    use regatta_transport::{
        Accepted, Client as _, Endpoint as _, Executor, Purpose, Server as _, StreamConnection,
        stop::Stop, testing::order_for,
    };

    use super::*;
    use crate::{
        endpoint::{QuicEndpoint, streams},
        options::{Needs, Options},
    };

    /// A whole window waits in the stack's buffer before anything is read: a stack that counts
    /// packets instead of bytes there must not end the connection.
    #[test]
    fn unread_window_does_not_end_the_connection() {
        let order = |role| {
            let mut order = order_for(role, stack::NAME, 1, 1);
            order.path.mtu_bytes = 1500;
            order
        };
        let moment = MonotonicTime::now() + Duration::from_secs(20);
        let receiving = order(Role::Receiver);
        let needs = Needs::of(&receiving, &Options::read(&receiving.transport.options));
        let window = needs
            .expect("packets large enough")
            .sizes
            .windows
            .stream_bytes as usize;
        let (listening, connecting) = (
            streams(QuicEndpoint::server(&receiving).expect("an endpoint")),
            streams(QuicEndpoint::client(&order(Role::Sender)).expect("an endpoint")),
        );
        let peer = listening.address();
        let (acknowledged, arrived) = tokio::sync::oneshot::channel();
        let (done, finished) = mpsc::channel();
        thread::spawn(move || {
            connecting.executor().block_on(async {
                let stop = Stop::new();
                let connect = connecting.connect(peer, Purpose::Transfer, moment, &stop);
                let connection = connect.await.expect("a connection");
                let mut stream = connection.open_stream().await.expect("a stream");
                stream.send.write_all(&vec![7; window]).await.expect("room");
                stream.send.finish().expect("an open stream");
                let stopped = stream.send.stopped().await;
                let _ = acknowledged.send(());
                stopped.expect("the connection is open");
                connection.close(moment).await;
            });
            let _ = done.send(());
        });
        let read = listening.executor().block_on(async {
            let accepted = listening.accept(moment, &Stop::new(), &mut |_| true).await;
            let Ok(Accepted::Connection(connection)) = accepted else {
                panic!("no connection");
            };
            let mut stream = connection.accept_stream(moment).await.expect("a stream");
            arrived.await.expect("the window was sent");
            let mut read = 0;
            while let Received::Bytes(bytes) = stream
                .receive(&mut [], moment, &mut |_| ())
                .await
                .expect("the connection is open")
            {
                read += bytes;
            }
            read
        });
        assert_eq!(read, window);
        finished.recv().expect("the sender closed");
    }
}
