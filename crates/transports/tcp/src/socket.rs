//! A connected TCP socket: its system calls, with absolute deadlines instead of time-outs.

use std::{
    io::{self, IoSlice, Read as _},
    mem::MaybeUninit,
    net::Shutdown,
    time::Duration,
};

use regatta_model::reason;
use regatta_transport::{Abort, MonotonicTime, Received, Result, TransportError, wait};
use socket2::Socket;

use crate::pages::Spliced;

/// A socket whose blocking calls a stop can end.
#[derive(Debug)]
pub struct Connected(pub Socket);

impl Abort for Connected {
    fn abort(&self) {
        abort(&self.0);
    }
}

/// Ends the connection of a socket, and the calls that block in it.
pub fn abort(socket: &Socket) {
    // What is in the send buffer must not travel on after the trial, into the next one's
    // path: with no time to linger, closing discards it. A socket that is not connected any
    // more needs no waking, so failures mean nothing.
    let _ = socket.set_linger(Some(Duration::ZERO));
    let _ = socket.shutdown(Shutdown::Both);
}

impl Connected {
    /// Sends all of the parts, in order.
    pub(crate) fn send_all(&self, parts: &mut [IoSlice<'_>]) -> Result<()> {
        let mut parts = parts;
        // Empty parts at the front would look like a socket that takes nothing.
        IoSlice::advance_slices(&mut parts, 0);
        while !parts.is_empty() {
            let sent = self.send(parts);
            let sent = sent.map_err(TransportError::io(reason::cannot_send()))?;
            IoSlice::advance_slices(&mut parts, sent);
        }
        Ok(())
    }

    /// Sends all of the bytes, with flags of `send` beside those that every call has.
    pub(crate) fn send_bytes(&self, mut bytes: &[u8], flags: libc::c_int) -> Result<()> {
        let flags = flags | libc::MSG_NOSIGNAL;
        while !bytes.is_empty() {
            match self.0.send_with_flags(bytes, flags) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(TransportError::io(reason::cannot_send())(error)),
            }
        }
        Ok(())
    }

    /// Sends `header`, and a payload from its pages.
    pub(crate) fn send_pages(&self, header: &[u8], payload: &Spliced) -> Result<()> {
        self.send_bytes(header, libc::MSG_MORE)?;
        let failed = TransportError::io(reason::cannot_send());
        payload.send(&self.0).map_err(failed)
    }

    /// Sends some of the parts, in order; returns the number of bytes sent.
    pub(crate) fn send(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        loop {
            match self.0.send_vectored_with_flags(parts, libc::MSG_NOSIGNAL) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    /// Shuts down the sending direction, after everything that was sent.
    pub(crate) fn finish(&self) -> Result<()> {
        let failed = TransportError::io(reason::cannot_finish_sending());
        self.0.shutdown(Shutdown::Write).map_err(failed)
    }

    /// Receives the available bytes, waiting until `until` at most.
    pub(crate) fn receive(&self, buffer: &mut [u8], until: MonotonicTime) -> Result<Received> {
        self.received(until, || (&self.0).read(buffer))
    }

    /// Discards the available bytes, no more than `room` holds, waiting until `until` at most. Nothing is written into `room`.
    pub(crate) fn discard(
        &self,
        room: &mut [MaybeUninit<u8>],
        until: MonotonicTime,
    ) -> Result<Received> {
        self.received(until, || self.0.recv_with_flags(room, libc::MSG_TRUNC))
    }

    fn received(
        &self,
        until: MonotonicTime,
        mut call: impl FnMut() -> io::Result<usize>,
    ) -> Result<Received> {
        let failed = || TransportError::io(reason::cannot_receive());
        if until != MonotonicTime::NEVER
            && !wait::ready(&self.0, libc::POLLIN, until).map_err(failed())?
        {
            return Ok(Received::TimedOut);
        }
        loop {
            match call() {
                Ok(0) => return Ok(Received::Closed),
                Ok(received) => return Ok(Received::Bytes(received)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed()(error)),
            }
        }
    }

    /// Sends at once the bytes that the kernel holds back for a fuller packet if Nagle's algorithm is on
    /// (`holds_back`), and turns it on again.
    pub(crate) fn flush(&self, holds_back: bool) -> Result<()> {
        if !holds_back {
            return Ok(());
        }
        self.0
            .set_tcp_nodelay(true)
            .and_then(|()| self.0.set_tcp_nodelay(false))
            .map_err(TransportError::io(reason::cannot_set("TCP_NODELAY")))
    }
}
