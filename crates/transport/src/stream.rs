//! Traits of the connections of streams, and their guarantees to the workloads.

use std::{future::Future, sync::Arc};

use bytes::Bytes;
use regatta_model::reason;

use crate::{
    clock::MonotonicTime,
    context::StatisticsSource,
    endpoint::{Client, Endpoint, Server},
    error::{Result, TransportError},
};

/// Result of a receive call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// Number of bytes that came, at least one.
    Bytes(usize),
    /// Nothing came until the given moment.
    TimedOut,
    /// The other end has finished its direction; nothing more comes.
    Closed,
}

/// Reliable bytes in order, both ways.
pub trait ByteStream: Send {
    /// Hands a whole message to the transport: `header` first, then `payload`, either of which may
    /// be empty. Returns when the transport has taken all of it, and need not have sent it.
    fn send_message(&mut self, header: &[u8], payload: &Bytes) -> impl Future<Output = Result<()>>;

    /// Whether a few small messages leave at once at the beginning of a connection, although none is acknowledged yet.
    fn sends_at_once(&self) -> bool {
        true
    }

    /// Sends everything that was handed over and is still held back in this process.
    fn flush(&mut self) -> impl Future<Output = Result<()>>;

    /// Waits for bytes, at most until the moment `until` ([`MonotonicTime::NEVER`]: without limit),
    /// and passes them to `consume`, in order, in one call or several.
    ///
    /// `scratch` is memory to read into for a transport that needs some; one that has the bytes in
    /// memory of its own passes them on uncopied. A moment that has passed still gets what is
    /// there. Nothing is lost when it times out.
    fn receive(
        &mut self,
        scratch: &mut [u8],
        until: MonotonicTime,
        consume: &mut (impl FnMut(&[u8]) + Send),
    ) -> impl Future<Output = Result<Received>>;

    /// Waits for bytes as [`Self::receive`] does, and discards at most `most` of them, of which nobody needs to know more than
    /// the number. A stack that can do so does not copy them.
    fn discard(
        &mut self,
        scratch: &mut [u8],
        most: u64,
        until: MonotonicTime,
    ) -> impl Future<Output = Result<Received>> {
        async move {
            let most = usize::try_from(most)
                .unwrap_or(usize::MAX)
                .min(scratch.len());
            let mut discarded = 0;
            let mut count = |piece: &[u8]| discarded += piece.len();
            let received = self
                .receive(&mut scratch[..most], until, &mut count)
                .await?;
            Ok(match received {
                Received::Bytes(_) => Received::Bytes(discarded),
                other => other,
            })
        }
    }

    /// Ends this direction after everything that was sent; the other direction stays open.
    fn finish(&mut self) -> impl Future<Output = Result<()>>;

    /// Discards what was handed over and is not delivered yet, and sends nothing more: the deadline
    /// has come. Only for a transport that multiplexes, where other streams of the connection go
    /// on; the others close the connection.
    fn abandon(&mut self) {}
}

/// Handshake that a connection made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandshakeMade {
    /// A full handshake.
    Full,
    /// A handshake with a ticket of an earlier connection.
    Resumed,
    /// A handshake with a ticket, whose early data the other end took.
    EarlyDataTaken,
    /// A handshake with a ticket, whose early data the other end refused, so that it was sent
    /// again.
    EarlyDataRefused,
}

/// An established connection. Dropping it closes it; blocked calls of its streams are woken with
/// an error by the [`Stop`](crate::Stop) that it was made with.
pub trait StreamConnection: Send + Sync {
    /// Stream of the connection.
    type Stream: ByteStream;

    /// Units of the transport that carry datagrams, by their name in its specification.
    const DATAGRAMS: &str = "datagrams";

    /// Opens a stream. A transport that does not multiplex gives its only one, once.
    fn open_stream(&self) -> impl Future<Output = Result<Self::Stream>>;

    /// Takes the next stream that the other end opened, in the order of opening. A transport that
    /// does not multiplex gives its only one, once.
    ///
    /// # Errors
    /// [`TransportError::TimedOut`] when there is none until `until`.
    fn accept_stream(&self, until: MonotonicTime) -> impl Future<Output = Result<Self::Stream>>;

    /// Returns the handshake that the connection made, by its stack's account once data has come
    /// from the other end. `None` where the stack does not report it.
    fn handshake(&self) -> Option<HandshakeMade> {
        Some(HandshakeMade::Full)
    }

    /// Lifts the rate that an option of the driver sets, if there is one: the connection is a probe's, whose few messages
    /// would wait for their turn at a low rate and show a delay that the path does not have.
    fn lift_rate(&self) {}

    /// Returns the connection's statistics, which must not keep the connection open.
    fn statistics(&self) -> Arc<dyn StatisticsSource>;

    /// Returns the size of the longest datagram that the connection carries beside its streams, in bytes; 0 if it carries
    /// none. Nothing sends a datagram again. Both ends of a connection have the same answer.
    fn longest_datagram(&self) -> usize {
        0
    }

    /// Sends a datagram of at most [`Self::longest_datagram`] bytes. One that the congestion control holds back leaves
    /// later, one for which the stack's queue has no room never.
    ///
    /// # Errors
    /// The error of the stack.
    fn send_datagram(&self, _datagram: &[u8]) -> Result<()> {
        Ok(())
    }

    /// Waits for datagrams, at most until the moment `until`, and passes each to `consume`; returns whether one came. A wait
    /// that is dropped loses nothing.
    fn receive_datagram(
        &self,
        _until: MonotonicTime,
        _consume: &mut (impl FnMut(&[u8]) + Send),
    ) -> impl Future<Output = Result<bool>> {
        std::future::ready(Ok(false))
    }

    /// Closes gracefully, after both ends have agreed that the work is done: data already sent is still delivered to a
    /// peer that is reachable. Returns by `until`. At the connecting end it does not wait: the closing packets are sent
    /// once, and a note over control follows.
    fn close(self, until: MonotonicTime) -> impl Future<Output = ()>;
}

/// Stream of an endpoint's connections.
pub(crate) type StreamOf<E> = <<E as Endpoint>::Connection as StreamConnection>::Stream;

/// One end whose connections carry streams.
pub trait StreamEndpoint: Endpoint<Connection: StreamConnection> {}

impl<E: Endpoint<Connection: StreamConnection>> StreamEndpoint for E {}

/// The end of these that connects.
pub trait StreamClient: Client<Connection: StreamConnection> {}

impl<E: Client<Connection: StreamConnection>> StreamClient for E {}

/// The end of these that listens.
pub trait StreamServer: Server<Connection: StreamConnection> {}

impl<E: Server<Connection: StreamConnection>> StreamServer for E {}

/// Reads the next `N` bytes of a stream, of which the first may be in `rest` already. Bytes after
/// them are left there.
///
/// # Errors
/// The error of the stack; [`TransportError::Closed`] if the stream ends before, [`TransportError::TimedOut`] if `until` comes:
/// what came until then is in `rest`.
pub(crate) async fn read_exact<const N: usize, S: ByteStream>(
    stream: &mut S,
    rest: &mut Vec<u8>,
    until: MonotonicTime,
) -> Result<[u8; N]> {
    let begun = MonotonicTime::now();
    let mut scratch = [0; N];
    loop {
        if let Some(bytes) = rest.first_chunk() {
            let bytes = *bytes;
            rest.drain(..N);
            return Ok(bytes);
        }
        let missing = &mut scratch[..N - rest.len()];
        let mut take = |piece: &[u8]| rest.extend_from_slice(piece);
        let receiving = stream.receive(missing, until, &mut take);
        match receiving.await? {
            Received::Bytes(_) => {}
            Received::TimedOut => {
                let what = reason::beginning_of_flow();
                return Err(TransportError::timed_out_since(what, begun));
            }
            Received::Closed => return Err(TransportError::Closed { flow: "transfer" }),
        }
    }
}

/// Sends bytes at once.
pub(crate) async fn send_now<S: ByteStream>(stream: &mut S, bytes: &[u8]) -> Result<()> {
    stream.send_message(bytes, &Bytes::new()).await?;
    stream.flush().await
}

/// Receives and discards until the other end has closed, at most until `until`. The other end
/// closes when it has what was sent to it, and may have vanished when that is seen here.
pub(crate) async fn await_close<S: ByteStream>(stream: &mut S, until: MonotonicTime) {
    let (mut scratch, mut discard) = ([0; 256], |_: &[u8]| {});
    while let Ok(Received::Bytes(_)) = stream.receive(&mut scratch, until, &mut discard).await {}
}
