//! Messages of a socket with their ancillary data, many in one system call.

use std::{io, iter, mem, os::fd::AsRawFd, ptr};

/// Maximum number of messages that one call receives.
pub const MAX_RECEIVED: usize = 8;

/// Returns the room that ancillary data of type `T` takes, in bytes.
#[must_use]
pub const fn control_space<T>() -> usize {
    // SAFETY: the macro only computes with the length.
    unsafe { libc::CMSG_SPACE(size_of::<T>() as libc::c_uint) as usize }
}

/// Buffer for ancillary data, aligned as its headers must be.
#[repr(C, align(8))]
#[derive(Debug, Clone, Copy)]
pub struct Control<const N: usize>([u8; N]);

impl<const N: usize> Control<N> {
    /// Returns a buffer without ancillary data.
    #[must_use]
    pub const fn empty() -> Self {
        Self([0; N])
    }

    /// Returns one ancillary datum; the buffer must have the size that [`control_space`] returns.
    ///
    /// # Panics
    /// If it is smaller.
    #[must_use]
    pub fn with<T: Copy>(level: libc::c_int, kind: libc::c_int, value: T) -> Self {
        assert!(N >= control_space::<T>(), "room for the datum");
        let mut control = Self::empty();
        let mut header = empty_entry().msg_hdr;
        control.attach(&mut header);
        // SAFETY: the buffer has room for one header with the value after it, and is aligned for the
        // header; the value is written without regard to alignment.
        unsafe {
            let first = libc::CMSG_FIRSTHDR(&raw const header);
            (*first).cmsg_level = level;
            (*first).cmsg_type = kind;
            (*first).cmsg_len = libc::CMSG_LEN(size_of::<T>() as libc::c_uint) as _;
            ptr::write_unaligned(libc::CMSG_DATA(first).cast::<T>(), value);
        }
        control
    }

    /// Has a message header point to the buffer.
    pub fn attach(&mut self, header: &mut libc::msghdr) {
        header.msg_control = (&raw mut self.0).cast();
        header.msg_controllen = N as _;
    }
}

/// Returns an entry in which nothing is set.
#[must_use]
pub fn empty_entry() -> libc::mmsghdr {
    // SAFETY: a structure of integers and raw pointers, for which all zeros is valid.
    unsafe { mem::zeroed() }
}

/// Returns a part of a message, which the kernel reads.
#[must_use]
pub const fn part(bytes: &[u8]) -> libc::iovec {
    libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    }
}

/// Received message, or piece of one.
#[derive(Debug)]
pub struct Received<'a> {
    /// Offset of the slot that holds it.
    pub start: usize,
    /// The slot's bytes that were received.
    pub data: &'a [u8],
    /// `MSG_EOR` and other flags.
    pub flags: libc::c_int,
    header: &'a libc::msghdr,
}

impl Received<'_> {
    /// Iterates over the ancillary data of this level.
    pub fn control(&self, level: libc::c_int) -> impl Iterator<Item = &libc::cmsghdr> {
        // SAFETY: the header is as the kernel left it, so its control data is well formed.
        let mut next = unsafe { libc::CMSG_FIRSTHDR(self.header) };
        iter::from_fn(move || {
            // SAFETY: null, or a whole header.
            let one = unsafe { next.as_ref() }?;
            // SAFETY: as above.
            next = unsafe { libc::CMSG_NXTHDR(self.header, one) };
            Some(one)
        })
        .filter(move |one| one.cmsg_level == level)
    }
}

/// Returns the value of a datum that [`Received::control`] gave.
///
/// # Safety
/// The datum must be a `T`, by its level and type.
#[must_use]
pub unsafe fn value<T: Copy>(datum: &libc::cmsghdr) -> T {
    // SAFETY: as the caller promises; it is read without regard to alignment.
    unsafe { ptr::read_unaligned(libc::CMSG_DATA(datum).cast::<T>()) }
}

/// Receives what waits into slots of `slot_bytes` of `memory`, at most `slots` of them, with at most `N` bytes of
/// ancillary data each, and passes each to `consume`.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] if nothing waits; the error of the socket.
pub fn receive<const N: usize>(
    socket: &impl AsRawFd,
    memory: &mut [u8],
    slot_bytes: usize,
    slots: usize,
    mut consume: impl FnMut(&Received<'_>),
) -> io::Result<usize> {
    let mut parts = [part(&[]); MAX_RECEIVED];
    let mut controls = [Control::<N>::empty(); MAX_RECEIVED];
    let mut entries = [empty_entry(); MAX_RECEIVED];
    let slots = slots.min(MAX_RECEIVED);
    let mut count = 0;
    for (index, slot) in memory.chunks_mut(slot_bytes.max(1)).take(slots).enumerate() {
        parts[index].iov_base = slot.as_mut_ptr().cast();
        parts[index].iov_len = slot.len();
        let header = &mut entries[index].msg_hdr;
        header.msg_iov = &raw mut parts[index];
        header.msg_iovlen = 1;
        controls[index].attach(header);
        count += 1;
    }
    let received = receive_entries(socket, &mut entries[..count])?;
    for (index, entry) in entries[..received].iter().enumerate() {
        let start = index * slot_bytes;
        let length = (entry.msg_len as usize).min(parts[index].iov_len);
        consume(&Received {
            start,
            data: &memory[start..start + length],
            flags: entry.msg_hdr.msg_flags,
            header: &entry.msg_hdr,
        });
    }
    Ok(received)
}

fn receive_entries(socket: &impl AsRawFd, entries: &mut [libc::mmsghdr]) -> io::Result<usize> {
    let (socket, flags) = (socket.as_raw_fd(), libc::MSG_DONTWAIT);
    retried(|| match &mut *entries {
        [one] => {
            // SAFETY: the entry points to memory that outlives the call, for its number of bytes.
            let length = unsafe { libc::recvmsg(socket, &raw mut one.msg_hdr, flags) };
            one.msg_len = libc::c_uint::try_from(length).unwrap_or_default();
            if length < 0 { -1 } else { 1 }
        }
        many => {
            let (first, count) = (many.as_mut_ptr(), many.len() as libc::c_uint);
            // SAFETY: as above, for each entry.
            let received =
                unsafe { libc::recvmmsg(socket, first, count, flags as _, ptr::null_mut()) };
            received as isize
        }
    })
}

/// Calls the system until no signal interrupts it; returns its result if that is not negative.
///
/// # Errors
/// The error of the system.
pub fn retried(mut call: impl FnMut() -> isize) -> io::Result<usize> {
    loop {
        if let Ok(result) = usize::try_from(call()) {
            return Ok(result);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}
