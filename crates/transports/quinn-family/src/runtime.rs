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
    /// Handshake observer of the connection that is being created.
    next: Mutex<Option<Arc<HandshakeWatch>>>,
}

impl WatchingRuntime {
    /// Creates a connection whose handshake is watched: the task that the stack spawns during
    /// `make` is the connection's.
    pub(crate) fn watched<T>(&self, watch: &Arc<HandshakeWatch>, make: impl FnOnce() -> T) -> T {
        *self.next.lock() = Some(Arc::clone(watch));
        let made = watch.during(make);
        *self.next.lock() = None;
        made
    }
}

impl Runtime for WatchingRuntime {
    fn new_timer(&self, moment: Instant) -> Pin<Box<dyn AsyncTimer>> {
        TokioRuntime.new_timer(moment)
    }

    fn spawn(&self, mut future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        let next = self.next.lock().take();
        match next {
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
