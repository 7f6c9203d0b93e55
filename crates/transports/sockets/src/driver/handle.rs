//! Handle to one connection of an end.

use std::{
    future::poll_fn,
    net::SocketAddr,
    sync::{Arc, Weak},
    task::{Context, Poll},
};

use regatta_model::reason;
use regatta_transport::{Abort, TransportError};

use super::{Connection, Number, Protocol, port::Port, state::Driver};
use crate::socket;

/// The end of the connection was dropped, and with it the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dropped;

impl From<Dropped> for TransportError {
    fn from(_: Dropped) -> Self {
        Self::Closed { flow: "connection" }
    }
}

/// A connection, which is closed in good order when its last handle is dropped, and aborted by a
/// [`Stop`](regatta_transport::Stop) that it is registered with.
pub struct Handle<P: Protocol> {
    driver: Arc<Driver<P>>,
    number: Number,
}

impl<P: Protocol> Handle<P> {
    pub(super) fn new(driver: &Arc<Driver<P>>, number: Number) -> Arc<Self> {
        Arc::new(Self {
            driver: Arc::clone(driver),
            number,
        })
    }

    /// Calls `act` with the connection, under its end's lock.
    ///
    /// # Errors
    /// [`Dropped`] if the connection has been removed.
    pub fn with<T>(&self, act: impl FnOnce(&mut P::Connection) -> T) -> Result<T, Dropped> {
        let mut state = self.driver.state.lock();
        state
            .connections
            .get_mut(self.number)
            .map(act)
            .ok_or(Dropped)
    }

    /// Calls `act` with the connection until it is ready; `act` registers the waker itself.
    ///
    /// # Errors
    /// Errors of `act`; [`Dropped`] if the connection has been removed.
    pub async fn poll<T, E: From<Dropped>>(
        &self,
        mut act: impl FnMut(&mut P::Connection, &mut Context<'_>) -> Poll<Result<T, E>>,
    ) -> Result<T, E> {
        poll_fn(|context| self.poll_now(context, &mut act)).await
    }

    /// Calls `act` with the connection once, as [`Handle::poll`] does.
    pub fn poll_now<T, E: From<Dropped>>(
        &self,
        context: &mut Context<'_>,
        act: impl FnOnce(&mut P::Connection, &mut Context<'_>) -> Poll<Result<T, E>>,
    ) -> Poll<Result<T, E>> {
        match self.driver.state.lock().connections.get_mut(self.number) {
            Some(connection) => act(connection, context),
            None => Poll::Ready(Err(Dropped.into())),
        }
    }

    /// Has the end's task send what the connection has to send, when the application waits next.
    pub fn changed(&self) {
        self.driver.changed.notify_one();
    }

    /// Sends what the connection has to send now.
    pub fn send(&self) {
        self.driver.state.lock().send(self.number);
        // Its timers may have changed, or the kernel may have had no room.
        self.changed();
    }

    /// Opens another socket of this end on the same address, and returns its port's address.
    ///
    /// # Errors
    /// [`TransportError::Io`] if it cannot be opened.
    pub fn open_port(&self, buffer_bytes: Option<usize>) -> Result<SocketAddr, TransportError> {
        let local = self.driver.state.lock().local().ip();
        let (socket, _) = socket::bind(local, None, buffer_bytes, buffer_bytes)?;
        let port = Port::new(socket, false)
            .map_err(TransportError::io(reason::cannot_set_up_udp_socket()))?;
        let address = port.address;
        self.driver.state.lock().ports.push(port);
        self.changed();
        Ok(address)
    }

    /// Returns a reference that does not keep the connection open.
    #[must_use]
    pub fn weak(self: &Arc<Self>) -> Weak<Self> {
        Arc::downgrade(self)
    }
}

impl<P: Protocol> Abort for Handle<P> {
    fn abort(&self) {
        if self.with(Connection::abort).is_ok() {
            self.send();
        }
    }
}

impl<P: Protocol> Drop for Handle<P> {
    fn drop(&mut self) {
        self.driver.state.lock().release(self.number);
        self.changed();
    }
}
