//! A connection of quiche as a [`StreamConnection`], and handles to the connection's state, which
//! the end's task owns.

use std::{
    future::poll_fn,
    sync::{Arc, Weak},
    task::{Context, Poll},
};

use regatta_transport::{
    HandshakeMade, MonotonicTime, StatisticsSource, StreamConnection, TransportError,
    stop::{Abort, Stop},
};

use super::{end::End, entry::Entry, state::Shared, statistics::Statistics, stream::QuicheStream};
use crate::wait::{timed_out, within};

/// Handle to one connection of its end.
#[derive(Clone)]
pub(super) struct Link {
    shared: Arc<Shared>,
    id: u64,
}

impl Link {
    pub fn new(shared: &Arc<Shared>, id: u64) -> Self {
        Self {
            shared: Arc::clone(shared),
            id,
        }
    }

    /// Calls `action` with the connection's state; returns `None` once the end has dropped that
    /// state.
    pub fn with<T>(&self, action: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        self.shared.lock().entry(self.id).map(action)
    }

    /// Tells the end's task that there may be something to send.
    pub fn changed(&self) {
        self.shared.changed.notify_one();
    }

    /// Calls `attempt` until it is ready; `attempt` registers the waker itself.
    pub async fn poll<T>(
        &self,
        mut attempt: impl FnMut(&mut Entry, &mut Context<'_>) -> Poll<Result<T, End>>,
    ) -> Result<T, End> {
        poll_fn(|context| match self.shared.lock().entry(self.id) {
            Some(entry) => attempt(entry, context),
            None => Poll::Ready(Err(End::Gone)),
        })
        .await
    }

    /// Ends the connection.
    pub fn close(&self, end: End) {
        self.with(|entry| entry.close(end));
        self.changed();
    }
}

/// Closes the connection when the trial, or the transfer, is stopped.
pub(super) struct Closer {
    shared: Weak<Shared>,
    id: u64,
}

impl Closer {
    fn of(link: &Link) -> Arc<Self> {
        Arc::new(Self {
            shared: Arc::downgrade(&link.shared),
            id: link.id,
        })
    }
}

impl Abort for Closer {
    fn abort(&self) {
        if let Some(shared) = self.shared.upgrade() {
            Link {
                shared,
                id: self.id,
            }
            .close(End::Stopped);
        }
    }
}

/// Stops the datagrams of a connection, and leaves it open for those that wait to be sent.
pub(super) struct Halter {
    shared: Weak<Shared>,
    id: u64,
}

impl Halter {
    pub fn of(link: &Link) -> Arc<Self> {
        Arc::new(Self {
            shared: Arc::downgrade(&link.shared),
            id: link.id,
        })
    }
}

impl Abort for Halter {
    fn abort(&self) {
        if let Some(entry) = self.shared.upgrade()
            && let Some(entry) = entry.lock().entry(self.id)
        {
            entry.halt();
        }
    }
}

/// Handle that closes its connection when dropped.
pub(super) struct Owner {
    pub link: Link,
    /// Strong reference, since a [`Stop`] holds only a weak one.
    closer: Arc<Closer>,
}

impl Owner {
    /// Takes ownership of a connection that `stop` closes.
    pub fn new(link: Link, stop: &Stop) -> Self {
        let owner = Self::unstopped(link);
        owner.stops_with(stop);
        owner
    }

    /// Takes ownership of a connection whose [`Stop`] is not known yet.
    pub fn unstopped(link: Link) -> Self {
        Self {
            closer: Closer::of(&link),
            link,
        }
    }

    /// Makes `stop` close the connection.
    pub fn stops_with(&self, stop: &Stop) {
        stop.on_stop(&self.closer);
    }

    /// Waits until streams can be opened.
    ///
    /// # Errors
    /// The reason for which the connection ended instead.
    pub async fn usable(&self) -> Result<(), End> {
        self.link
            .poll(|entry, context| {
                if let Some(end) = &entry.end {
                    return Poll::Ready(Err(end.clone()));
                }
                if entry.is_usable() {
                    return Poll::Ready(Ok(()));
                }
                entry.wait(context);
                Poll::Pending
            })
            .await
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.link.shared.lock().release(self.link.id);
        self.link.changed();
    }
}

/// An established connection; closed when dropped.
pub struct QuicheConnection {
    owner: Owner,
    statistics: Arc<Statistics>,
}

impl QuicheConnection {
    pub(super) fn new(owner: Owner, statistics: Arc<Statistics>) -> Self {
        Self { owner, statistics }
    }

    fn link(&self) -> &Link {
        &self.owner.link
    }
}

impl Drop for QuicheConnection {
    fn drop(&mut self) {
        self.statistics.release();
    }
}

impl StreamConnection for QuicheConnection {
    type Stream = QuicheStream;

    async fn open_stream(&self) -> Result<QuicheStream, TransportError> {
        let opened = self.link().poll(|entry, context| {
            if let Some(end) = &entry.end {
                return Poll::Ready(Err(end.clone()));
            }
            match entry.open() {
                Some(stream) => Poll::Ready(Ok(stream)),
                None => {
                    entry.wait_to_send(context);
                    Poll::Pending
                }
            }
        });
        opened
            .await
            .map(|stream| QuicheStream::new(self.link().clone(), stream))
            .map_err(TransportError::stack("cannot open a QUIC stream"))
    }

    async fn accept_stream(&self, moment: MonotonicTime) -> Result<QuicheStream, TransportError> {
        let since = MonotonicTime::now();
        let accepted = self.link().poll(|entry, context| {
            if let Some(stream) = entry.opened.pop_front() {
                return Poll::Ready(Ok(stream));
            }
            if let Some(end) = &entry.end {
                return Poll::Ready(Err(end.clone()));
            }
            entry.wait(context);
            Poll::Pending
        });
        match within(moment, accepted).await {
            Some(accepted) => accepted
                .map(|stream| QuicheStream::new(self.link().clone(), stream))
                .map_err(TransportError::stack("no QUIC stream was opened")),
            None => Err(timed_out("QUIC stream", since)),
        }
    }

    fn handshake(&self) -> Option<HandshakeMade> {
        self.link().with(|entry| entry.handshake())
    }

    fn statistics(&self) -> Arc<dyn StatisticsSource> {
        Arc::<Statistics>::clone(&self.statistics)
    }

    async fn close(self, moment: MonotonicTime) {
        // Closing forgets what is not acknowledged. The end that sent last is the listening one,
        // so it waits for the connecting one to close, which has nothing under way any more.
        let closes = self.link().with(|entry| entry.is_client()) == Some(true);
        if closes {
            self.statistics.release();
            self.link().close(End::Done);
        }
        let closed = self.link().poll(|entry, context| {
            let over = if closes {
                !entry.is_closing()
            } else {
                entry.end.is_some()
            };
            if over {
                return Poll::Ready(Ok(()));
            }
            entry.wait(context);
            entry.wait_to_send(context);
            Poll::Pending
        });
        let _ = within(moment, closed).await;
    }
}
