//! Results of a handshake, for stacks that do not report them: certificate and tickets.

use std::{
    cell::RefCell,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
};

use parking_lot::Mutex;

thread_local! {
    /// Handshake observer of the connection whose TLS runs in this thread.
    static CURRENT: RefCell<Option<Arc<HandshakeWatch>>> = const { RefCell::new(None) };
}

/// Observed results of one connection's handshake at its connecting end.
///
/// The other end shows its certificate in a full handshake, and shows none in one with a ticket
/// (RFC 8446 §2.2). Tickets come after it, if they come. rustls reports both to objects that all
/// connections of an end share, without naming the connection: so the code that drives a connection
/// names it here, with [`HandshakeWatch::during`].
#[derive(Debug, Default)]
pub struct HandshakeWatch {
    certificate_seen: AtomicBool,
    ticket: Mutex<Ticket>,
}

#[derive(Debug, Default)]
struct Ticket {
    seen: bool,
    awaited_by: Option<Waker>,
}

impl HandshakeWatch {
    /// Runs `drive`, which may drive this connection's handshake, in this thread.
    pub fn during<T>(self: &Arc<Self>, drive: impl FnOnce() -> T) -> T {
        let before = CURRENT.replace(Some(Arc::clone(self)));
        let output = drive();
        CURRENT.set(before);
        output
    }

    /// Whether the other end showed its certificate.
    #[must_use]
    pub fn certificate_seen(&self) -> bool {
        self.certificate_seen.load(Ordering::Acquire)
    }

    /// Returns `Ready` once a ticket for later connections has come; one task may wait for it.
    pub fn poll_ticket(&self, context: &Context<'_>) -> Poll<()> {
        let mut ticket = self.ticket.lock();
        if ticket.seen {
            return Poll::Ready(());
        }
        ticket.awaited_by = Some(context.waker().clone());
        Poll::Pending
    }
}

/// Notes that a ticket came over the connection that is driven in this thread.
pub(crate) fn note_ticket() {
    let waker = CURRENT.with_borrow(|current| {
        let mut ticket = current.as_ref()?.ticket.lock();
        ticket.seen = true;
        ticket.awaited_by.take()
    });
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Notes that a certificate came in the handshake that is driven in this thread.
pub(crate) fn note_certificate() {
    CURRENT.with_borrow(|current| {
        if let Some(watch) = current {
            watch.certificate_seen.store(true, Ordering::Release);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_driven_connection_sees_the_event() {
        let (outer, inner) = (
            Arc::new(HandshakeWatch::default()),
            Arc::new(HandshakeWatch::default()),
        );
        note_certificate();
        outer.during(|| inner.during(note_certificate));
        assert!(inner.certificate_seen() && !outer.certificate_seen());
        outer.during(note_certificate);
        assert!(outer.certificate_seen());
        outer.during(note_ticket);
        let context = Context::from_waker(Waker::noop());
        assert!(outer.poll_ticket(&context).is_ready());
        assert!(inner.poll_ticket(&context).is_pending());
    }
}
