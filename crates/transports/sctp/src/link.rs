//! What the users of one end share: the state under its lock, and a hold on one association.

use std::{
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use regatta_transport::{Abort, MonotonicTime, TransportError};
use sctp_proto::StreamId;

use crate::{
    association::{Association, Ending},
    core::{Core, Number},
    wait::within,
};

/// The state of one end; all its tasks run on one thread, aborts come from others.
pub(crate) struct Shared {
    core: Mutex<Core>,
    /// How long an end waits for the packets that close an association.
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

    /// Drives the associations for ever; the task of an end.
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

/// A hold on an association: it is closed in good order when the last one is gone.
pub(crate) struct Link {
    shared: Arc<Shared>,
    number: Number,
}

impl Link {
    pub(crate) fn new(shared: Arc<Shared>, number: Number) -> Arc<Self> {
        Arc::new(Self { shared, number })
    }

    /// The association with its end's lock held; an error once it is forgotten.
    pub(crate) fn with<T>(
        &self,
        act: impl FnOnce(&mut Association) -> Result<T, TransportError>,
    ) -> Result<T, TransportError> {
        match self.shared.lock().association(self.number) {
            Some(association) => act(association),
            None => Err(Ending::Done.error()),
        }
    }

    /// As [`Link::with`], for what may have to wait.
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

    /// Hands a user message of a stream to the stack, in its turn.
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

    /// Has what was written sent when the application waits next.
    pub(crate) fn schedule(&self) {
        self.shared.lock().schedule(self.number);
    }

    /// Sends what was written now.
    pub(crate) fn send(&self) {
        self.shared.lock().send(self.number);
    }

    /// Closes in good order, and waits for that until the moment.
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

/// A stream's wait to write; a writer that gives up must not keep the others waiting.
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
