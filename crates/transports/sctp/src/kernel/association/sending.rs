//! Sending: the turns of the streams, which share the socket's send buffer.

use std::{
    io,
    task::{Context, Poll},
};

use regatta_transport::Result;

use super::{Association, ending, receiving::waits};
use crate::kernel::socket;

impl Association {
    /// Hands a user message of a stream to the kernel when it is the stream's turn.
    pub(crate) fn poll_send(
        &self,
        id: u16,
        protocol: u32,
        parts: [&[u8]; 2],
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        let mut state = self.state.lock();
        state.check()?;
        match state.writers.iter().position(|(writer, _)| *writer == id) {
            Some(index) => state.writers[index].1.clone_from(context.waker()),
            None if state.writers.is_empty() => {}
            None => state.writers.push_back((id, context.waker().clone())),
        }
        if state.writers.front().is_some_and(|(front, _)| *front != id) {
            return Poll::Pending;
        }
        loop {
            let Poll::Ready(guard) = self.socket.poll_write_ready(context) else {
                if state.writers.is_empty() {
                    state.writers.push_back((id, context.waker().clone()));
                }
                return Poll::Pending;
            };
            let sent = guard.and_then(|mut guard| {
                let sent = socket::send(self.socket(), id, self.flags, protocol, parts);
                if sent.as_ref().is_err_and(waits) {
                    guard.clear_ready();
                }
                sent
            });
            match sent {
                Ok(()) => return Poll::Ready(Ok(())),
                Err(error) if waits(&error) => {}
                Err(mut error) => {
                    // The socket has the reason why nothing can be sent any more.
                    if error.kind() == io::ErrorKind::BrokenPipe {
                        error = self.socket().take_error().ok().flatten().unwrap_or(error);
                    }
                    let ending = ending(&error);
                    // Of a message that is too long the association knows nothing.
                    if error.raw_os_error() != Some(libc::EMSGSIZE) {
                        state.end(ending.clone());
                    }
                    return Poll::Ready(Err(ending.error()));
                }
            }
        }
    }

    /// Ends a stream's wait to write; the next stream has its turn.
    pub(crate) fn dequeue_writer(&self, id: u16) {
        let mut state = self.state.lock();
        let was_first = state.writers.front().is_some_and(|(front, _)| *front == id);
        state.writers.retain(|(writer, _)| *writer != id);
        if was_first && let Some((_, next)) = state.writers.front() {
            next.wake_by_ref();
        }
    }
}
