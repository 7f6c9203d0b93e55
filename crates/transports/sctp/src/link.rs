//! State that the users of one end share, under its lock, and the handle to one association.

use std::{
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use regatta_transport::{Abort, MonotonicTime, TransportError};
use regatta_transport_sockets::wait::within;
use sctp_proto::StreamId;

use crate::{
    association::{Association, Ending},
    core::{Core, Number},
};

/// State of one end; all its tasks run on one thread, aborts come from others.
pub(crate) struct Shared {
    core: Mutex<Core>,
    /// Maximum time for which an end waits for the packets that close an association.
    pub goodbye: Duration,
}

impl Shared {
    pub(crate) fn new(core: Core, goodbye: Duration) -> Arc<Self> {
        Arc::new(Self {
            core: Mutex::new(core),
            goodbye,
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Core> {
        // A panic under this lock ends the trial all the same.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drives the associations forever, as the task of an end.
    pub(crate) async fn drive(self: Arc<Self>) {
        let mut timer = Box::pin(tokio::time::sleep(Duration::ZERO));
        poll_fn(|context| {
            let next = self.lock().poll_drive(context);
            if let Some(next) = next {
                let next = next.into();
                if timer.deadline() != next {
                    timer.as_mut().reset(next);
                }
                if timer.as_mut().poll(context).is_ready() {
                    context.waker().wake_by_ref();
                }
            }
            Poll::<()>::Pending
        })
        .await;
    }
}

/// Handle to an association, which is closed in good order when the last handle is dropped.
pub(crate) struct Link {
    shared: Arc<Shared>,
    number: Number,
}

impl Link {
    pub(crate) fn new(shared: Arc<Shared>, number: Number) -> Arc<Self> {
        Arc::new(Self { shared, number })
    }

    /// Calls `act` with the association, under its end's lock; fails once the association's state
    /// is dropped.
    pub(crate) fn with<T>(
        &self,
        act: impl FnOnce(&mut Association) -> Result<T, TransportError>,
    ) -> Result<T, TransportError> {
        match self.shared.lock().association(self.number) {
            Some(association) => act(association),
            None => Err(Ending::Done.error()),
        }
    }

    /// Polls `act` with the association, as [`Link::with`] does.
    pub(crate) fn poll<T>(
        &self,
        act: impl FnOnce(&mut Association) -> Poll<Result<T, TransportError>>,
    ) -> Poll<Result<T, TransportError>> {
        match self.shared.lock().association(self.number) {
            Some(association) => act(association),
            None => Poll::Ready(Err(Ending::Done.error())),
        }
    }

    /// Waits until the association is established.
    pub(crate) async fn opened(&self) -> Result<(), TransportError> {
        poll_fn(|context: &mut Context<'_>| self.poll(|one| one.poll_open(context))).await
    }

    /// Hands a user message of a stream to the stack when it is the stream's turn.
    pub(crate) async fn write(&self, id: StreamId, message: &Bytes) -> Result<(), TransportError> {
        let _turn = Turn { link: self, id };
        poll_fn(|context: &mut Context<'_>| {
            let written = self.poll(|one| one.poll_write(id, message, context));
            if written.is_pending() {
                // There is room when what waits was sent.
                self.schedule();
            }
            written
        })
        .await
    }

    /// Makes the driving task send written data, when the application waits next.
    pub(crate) fn schedule(&self) {
        self.shared.lock().schedule(self.number);
    }

    /// Sends written data now.
    pub(crate) fn send(&self) {
        self.shared.lock().send(self.number);
    }

    /// Closes in good order, and waits for that until `until` at most.
    pub(crate) async fn close(&self, until: MonotonicTime) {
        self.shared.lock().close(self.number);
        let shut_down = poll_fn(|context: &mut Context<'_>| {
            self.poll(|one| one.poll_shut_down(context).map(Ok))
        });
        if within(until, shut_down).await.is_none() {
            return;
        }
        // Everything has arrived. The last packet of all may be lost, and is not sent again.
        let until = until.min(MonotonicTime::now() + self.shared.goodbye);
        let ended =
            poll_fn(|context: &mut Context<'_>| self.poll(|one| one.poll_ended(context).map(Ok)));
        // One that is forgotten has ended too.
        let _ = within(until, ended).await;
    }
}

/// Guard of a stream's wait to write: ends it when dropped, so that other streams do not wait for
/// this one.
struct Turn<'a> {
    link: &'a Link,
    id: StreamId,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // One that is forgotten has no writers.
        let _ = self.link.with(|one| {
            one.leave_turn(self.id);
            Ok(())
        });
    }
}

impl Abort for Link {
    fn abort(&self) {
        self.shared.lock().abort(self.number, Ending::Stopped);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.shared.lock().release(self.number);
    }
}
