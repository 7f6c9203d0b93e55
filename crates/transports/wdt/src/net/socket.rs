//! A connected socket, with waits that its thread's waker ends.

use std::io::{self, IoSlice, Read};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use nix::poll::PollFlags;
use socket2::{SockRef, Socket};

use crate::host::Host;
use crate::waker::Waker;

/// Longest wait of a read for the socket alone. While bytes come a read then is one system call, where a wait for socket
/// and waker would be another; a wake-up is seen that much later at most.
const ALONE: Duration = Duration::from_millis(200);

/// A connection, and the host to notify when it closes.
pub(super) struct Connected<'a> {
    socket: Arc<TcpStream>,
    port: u16,
    host: &'a dyn Host,
    announced: bool,
}

impl<'a> Connected<'a> {
    pub(super) fn new(socket: Socket, port: u16, host: &'a dyn Host) -> io::Result<Self> {
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(ALONE))?;
        Ok(Self {
            socket: Arc::new(socket.into()),
            port,
            host,
            announced: false,
        })
    }

    /// Notifies the host that the connection belongs to the transfer; the host is then notified of its end
    /// too.
    pub(super) fn announce(&mut self, took: Option<Duration>) {
        self.announced = true;
        self.host.connected(self.port, &self.socket, took);
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Reads, waiting for `longest` at most; `None` if nothing came, or the thread was woken.
    pub(super) fn read(
        &self,
        buffer: &mut [u8],
        waker: &Waker,
        longest: Duration,
    ) -> io::Result<Option<usize>> {
        let mut rest = longest;
        if longest > ALONE {
            if let Some(count) = not_ended((&*self.socket).read(buffer))? {
                return Ok(Some(count));
            }
            rest -= ALONE;
        }
        match waker.ready(self.descriptor(), PollFlags::POLLIN, rest) {
            true => self.read_now(buffer),
            false => Ok(None),
        }
    }

    /// Reads without waiting; `None` if nothing has come.
    pub(super) fn read_now(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        // SAFETY: bytes that are initialised stay so, whatever is received into them.
        let buffer =
            unsafe { &mut *(std::ptr::from_mut(buffer) as *mut [std::mem::MaybeUninit<u8>]) };
        not_ended(SockRef::from(&*self.socket).recv_with_flags(buffer, libc::MSG_DONTWAIT))
    }

    /// Writes some of `head` and `body` without waiting; `None` if there is no room.
    pub(super) fn write(&self, head: &[u8], body: &[u8]) -> io::Result<Option<usize>> {
        let parts = [IoSlice::new(head), IoSlice::new(body)];
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        unless_waiting(SockRef::from(&*self.socket).send_vectored_with_flags(&parts, flags))
    }

    /// Sends at once the bytes that the kernel holds back for a fuller segment (Nagle's algorithm),
    /// which would wait for a round trip.
    pub(super) fn push(&self) {
        // A socket that has failed returns its error to the read that follows.
        let _ = self
            .socket
            .set_nodelay(true)
            .and_then(|()| self.socket.set_nodelay(false));
    }

    pub(super) fn shutdown(&self) {
        // On a socket that has no peer any more there is nothing to end.
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// Returns the number of bytes written that the peer's system has not acknowledged.
    pub(super) fn undelivered(&self) -> u64 {
        self.queued(libc::TIOCOUTQ)
    }

    /// Returns the number of bytes that have come and were not read.
    pub(super) fn unread(&self) -> u64 {
        self.queued(libc::FIONREAD)
    }

    /// Returns the bytes in the queue that this request of ioctl(2) is about; 0 for a socket that has failed.
    fn queued(&self, request: libc::Ioctl) -> u64 {
        let mut bytes: libc::c_int = 0;
        // SAFETY: the request writes one `int`, at a place that is valid for that.
        let result = unsafe { libc::ioctl(self.socket.as_raw_fd(), request, &raw mut bytes) };
        if result == 0 {
            u64::try_from(bytes).unwrap_or(0)
        } else {
            0
        }
    }
}

impl Drop for Connected<'_> {
    fn drop(&mut self) {
        if self.announced {
            self.host.closing(self.port, &self.socket);
        }
        // The program around the transfer may keep the socket; the connection ends here.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

fn not_ended(read: io::Result<usize>) -> io::Result<Option<usize>> {
    match read {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        read => unless_waiting(read),
    }
}

fn unless_waiting(moved: io::Result<usize>) -> io::Result<Option<usize>> {
    match moved {
        Err(error) if waits(&error) => Ok(None),
        moved => moved.map(Some),
    }
}

pub(super) fn waits(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}
