//! tokio as the stack's runtime, which says of which connection a handshake is.

use std::{
    future::{Future, poll_fn},
    io,
    net::UdpSocket,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use regatta_transport_tls::HandshakeWatch;

use super::stack::{
    Socket,
    quic::{AsyncTimer, Runtime, TokioRuntime},
};

/// The runtime of one end.
#[derive(Debug, Default)]
pub(super) struct WatchingRuntime {
    /// Of the connection that is being made.
    next: Mutex<Option<Arc<HandshakeWatch>>>,
}

impl WatchingRuntime {
    fn set_next(&self, watch: Option<Arc<HandshakeWatch>>) -> Option<Arc<HandshakeWatch>> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *next, watch)
    }

    /// Makes a connection whose handshake is watched: what the stack spawns for it meanwhile is
    /// its task.
    pub(super) fn watched<T>(&self, watch: &Arc<HandshakeWatch>, make: impl FnOnce() -> T) -> T {
        self.set_next(Some(Arc::clone(watch)));
        let made = watch.during(make);
        self.set_next(None);
        made
    }
}

impl Runtime for WatchingRuntime {
    fn new_timer(&self, moment: Instant) -> Pin<Box<dyn AsyncTimer>> {
        TokioRuntime.new_timer(moment)
    }

    fn spawn(&self, mut future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        match self.set_next(None) {
            None => TokioRuntime.spawn(future),
            Some(watch) => TokioRuntime.spawn(Box::pin(poll_fn(move |context| {
                watch.during(|| future.as_mut().poll(context))
            }))),
        }
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Socket> {
        TokioRuntime.wrap_udp_socket(socket)
    }

    fn now(&self) -> Instant {
        TokioRuntime.now()
    }
}
