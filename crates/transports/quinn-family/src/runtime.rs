//! tokio as the stack's runtime, with an attribution of handshakes to connections.

use std::{
    future::{Future, poll_fn},
    io,
    net::UdpSocket,
    pin::Pin,
    sync::Arc,
    time::Instant,
};

use parking_lot::Mutex;
use regatta_transport_tls::HandshakeWatch;

use crate::stack::{
    Socket,
    quic::{AsyncTimer, Runtime, TokioRuntime},
};

/// Runtime of one end.
#[derive(Debug, Default)]
pub(crate) struct WatchingRuntime {
    /// Watch of the connection that is being created.
    next: Mutex<Option<Arc<HandshakeWatch>>>,
}

impl WatchingRuntime {
    fn set_next(&self, watch: Option<Arc<HandshakeWatch>>) -> Option<Arc<HandshakeWatch>> {
        std::mem::replace(&mut *self.next.lock(), watch)
    }

    /// Creates a connection whose handshake is watched: the task that the stack spawns during
    /// `make` is the connection's.
    pub(crate) fn watched<T>(&self, watch: &Arc<HandshakeWatch>, make: impl FnOnce() -> T) -> T {
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
