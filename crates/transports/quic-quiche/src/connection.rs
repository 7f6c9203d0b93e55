//! A connection of quiche as a [`StreamConnection`].

use std::{
    sync::{Arc, Weak},
    task::Poll,
    time::Duration,
};

use regatta_transport::{
    HandshakeMade, MonotonicTime, Result, StatisticsSource, StreamConnection, TransportError,
};

use crate::{
    end::End, migration::Migration, protocol::Handle, statistics::Statistics, stream::QuicheStream,
};
use regatta_transport_sockets::wait::{in_time, within};

/// Waits for `after`, opens another port, and moves the connection to it. The result is kept with
/// the connection.
pub(crate) async fn migrate(handle: Weak<Handle>, after: Duration, buffer_bytes: usize) {
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
}

impl Drop for QuicheConnection {
    fn drop(&mut self) {
        self.statistics.release();
    }
}

impl StreamConnection for QuicheConnection {
    type Stream = QuicheStream;

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
            .map_err(TransportError::stack("cannot open a QUIC stream"))
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
                .map_err(TransportError::stack("no QUIC stream was opened"))?;
            Ok(QuicheStream::new(Arc::clone(&self.handle), stream))
        };
        in_time(moment, "QUIC stream", accepted).await
    }

    fn handshake(&self) -> Option<HandshakeMade> {
        self.handle.with(|entry| entry.handshake()).ok()
    }

    fn statistics(&self) -> Arc<dyn StatisticsSource> {
        Arc::<Statistics>::clone(&self.statistics)
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
