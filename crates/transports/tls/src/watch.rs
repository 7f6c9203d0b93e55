//! Whether a handshake was a full one, for stacks that do not tell.

use std::{
    cell::RefCell,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

thread_local! {
    /// The connection for which TLS works in this thread.
    static CURRENT: RefCell<Option<Arc<HandshakeWatch>>> = const { RefCell::new(None) };
}

/// What is seen of one connection's handshake at its connecting end.
///
/// The other end shows its certificate in a full handshake, and shows none in one with a ticket
/// (RFC 8446 §2.2). rustls asks the configuration's verifier, which all connections of an end
/// share, and does not say for which of them: so whoever drives a connection says it here.
#[derive(Debug, Default)]
pub struct HandshakeWatch {
    certificate_seen: AtomicBool,
}

impl HandshakeWatch {
    /// Runs what may drive this connection's handshake, in this thread.
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
}

/// A certificate came in the handshake that is driven in this thread.
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
    fn only_the_connection_that_is_driven_sees_it() {
        let (outer, inner) = (
            Arc::new(HandshakeWatch::default()),
            Arc::new(HandshakeWatch::default()),
        );
        note_certificate();
        outer.during(|| inner.during(note_certificate));
        assert!(inner.certificate_seen() && !outer.certificate_seen());
        outer.during(note_certificate);
        assert!(outer.certificate_seen());
    }
}
