//! A connection of quiche as a [`StreamConnection`].

use std::{
    sync::{Arc, Weak},
    task::Poll,
    time::Duration,
};

use regatta_model::reason;
use regatta_transport::{
    HandshakeMade, MonotonicTime, Result, StatisticsSource, StreamConnection, TransportError,
};

use crate::{
    datagram::is_closed_by_peer, end::End, entry::Entry, migration::Migration, protocol::Handle,
    statistics::Statistics, stream::QuicheStream,
};
use regatta_transport_quic_common::options::FRAMES;
use regatta_transport_sockets::wait::{in_time, within, within_exactly};

/// Waits for `after`, opens another port, and moves the connection to it. The result is kept with
/// the connection.
pub(crate) async fn migrate(handle: Weak<Handle>, after: Duration, buffer_bytes: Option<usize>) {
    tokio::time::sleep(after).await;
    let Some(handle) = handle.upgrade() else {
        return;
    };
    // The port is there before the connection knows its address. One that was dropped migrates nowhere.
    let port = handle.open_port(buffer_bytes);
    let _ = handle.with(|entry| match port {
        Ok(address) if entry.end.is_none() => {
            entry.migration = Some(Migration::make(&mut entry.quiche, address, after));
        }
        Ok(_) => {}
        Err(error) => entry.migration = Some(Migration(Err(error.reasons().join(": ")))),
    });
    handle.changed();
}

/// An established connection; closed when dropped.
pub(crate) struct QuicheConnection {
    pub handle: Arc<Handle>,
    pub statistics: Arc<Statistics>,
    /// Size of the longest datagram that a packet of the path carries, in bytes.
    pub longest_datagram: usize,
}

impl Drop for QuicheConnection {
    fn drop(&mut self) {
        self.statistics.release();
        // A probe's messages that have not left: nobody waits for their answers any more.
        let _ = self.handle.with(Entry::give_up_datagrams);
    }
}

impl StreamConnection for QuicheConnection {
    type Stream = QuicheStream;

    const DATAGRAMS: &str = FRAMES;

    async fn open_stream(&self) -> Result<QuicheStream> {
        let opened = self.handle.poll(|entry, context| {
            if let Some(end) = &entry.end {
                return Poll::Ready(Err(end.clone()));
            }
            match entry.open() {
                Some(stream) => Poll::Ready(Ok(stream)),
                None => {
                    entry.senders.register(context);
                    Poll::Pending
                }
            }
        });
        opened
            .await
            .map(|stream| QuicheStream::new(Arc::clone(&self.handle), stream))
            .map_err(|end: End| end.error(reason::cannot_open_quic_stream()))
    }

    async fn accept_stream(&self, moment: MonotonicTime) -> Result<QuicheStream> {
        let accepted = self.handle.poll(|entry, context| {
            if let Some(stream) = entry.opened.pop_front() {
                return Poll::Ready(Ok(stream));
            }
            if let Some(end) = &entry.end {
                return Poll::Ready(Err(end.clone()));
            }
            entry.watchers.register(context);
            Poll::Pending
        });
        let accepted = async {
            let stream = accepted
                .await
                .map_err(|end: End| end.error(reason::no_quic_stream_opened()))?;
            Ok(QuicheStream::new(Arc::clone(&self.handle), stream))
        };
        in_time(moment, reason::stream_of("QUIC"), accepted).await
    }

    fn handshake(&self) -> Option<HandshakeMade> {
        self.handle.with(|entry| entry.handshake()).ok()
    }

    fn statistics(&self) -> Arc<dyn StatisticsSource> {
        Arc::<Statistics>::clone(&self.statistics)
    }

    fn longest_datagram(&self) -> usize {
        let allowed = self
            .handle
            .with(|entry| entry.quiche.dgram_max_writable_len());
        let allowed = allowed.ok().flatten().unwrap_or_default();
        allowed.min(self.longest_datagram)
    }

    fn send_datagram(&self, datagram: &[u8]) -> Result<()> {
        let sent = self.handle.with(|entry| entry.quiche.dgram_send(datagram));
        self.handle.changed();
        match sent.unwrap_or(Err(quiche::Error::InvalidState)) {
            // The queue is full: as if lost.
            Ok(()) | Err(quiche::Error::Done) => Ok(()),
            Err(error) => Err(TransportError::stack(reason::cannot_send_datagram_frame())(
                error,
            )),
        }
    }

    async fn receive_datagram(
        &self,
        until: MonotonicTime,
        consume: &mut (impl FnMut(&[u8]) + Send),
    ) -> Result<bool> {
        let received = self.handle.poll(|entry, context| {
            if let Some(datagram) = entry.take_datagram() {
                return Poll::Ready(Ok(datagram));
            }
            if let Some(end) = &entry.end {
                return Poll::Ready(Err(end.clone()));
            }
            entry.watchers.register(context);
            Poll::Pending
        });
        let received = within_exactly(until, received).await;
        let datagram = received.transpose().map_err(|end| match end {
            end if is_closed_by_peer(&end) => TransportError::Closed { flow: "probe" },
            end => end.error(reason::no_datagram_frame()),
        })?;
        Ok(datagram.is_some_and(|datagram| {
            consume(&datagram);
            true
        }))
    }

    async fn close(self, moment: MonotonicTime) {
        // Closing forgets what is not acknowledged. The end that sent last is the listening one,
        // so it waits for the connecting one to close, which has nothing under way any more.
        let closes = self.handle.with(|entry| entry.kind.client) == Ok(true);
        if closes {
            self.statistics.release();
            let _ = self.handle.with(|entry| entry.close(End::Done));
            self.handle.changed();
        }
        let closed = self.handle.poll(|entry, context| {
            let over = if closes {
                !entry.is_closing()
            } else {
                entry.end.is_some()
            };
            if over {
                return Poll::Ready(Ok::<_, End>(()));
            }
            entry.watchers.register(context);
            entry.senders.register(context);
            Poll::Pending
        });
        let _ = within(moment, closed).await;
    }
}
