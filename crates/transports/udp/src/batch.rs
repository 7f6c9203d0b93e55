//! Sending and receiving many datagrams with one system call.

use std::{io, mem, os::fd::RawFd, ptr};

/// Maximum number of segments that every kernel with UDP_SEGMENT takes at once
/// (`UDP_MAX_SEGMENTS`).
pub(crate) const MOST_SEGMENTS: usize = 64;

/// Longest payload of one datagram, and of all segments of one call together, in bytes.
pub(crate) const LONGEST_PAYLOAD: usize = 65_507;

/// Maximum number of entries of one call of `sendmmsg`.
const SEND_ENTRIES: usize = 32;

/// Number of entries of one call of `recvmmsg`.
const RECEIVE_ENTRIES: usize = 8;

/// Size of the buffer for one datagram, or for all that receive offload puts together, in bytes.
const RECEIVE_BYTES: usize = 65_536;

/// Buffer for one control message with one integer, aligned as the kernel requires it.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct ControlSpace([u8; 32]);

const EMPTY_CONTROL: ControlSpace = ControlSpace([0; 32]);

/// Returns an entry in which nothing is set.
fn empty_entry() -> libc::mmsghdr {
    // SAFETY: a structure of integers and raw pointers, for which all zeros is valid.
    unsafe { mem::zeroed() }
}

/// Sends the chunks of `payload`, each of `chunk` bytes but the last; returns the number of chunks
/// that the kernel took, at least one. With `segment` the kernel cuts each chunk into datagrams of
/// that many bytes.
pub(crate) fn send(
    socket: RawFd,
    payload: &[u8],
    chunk: usize,
    segment: Option<u16>,
) -> io::Result<usize> {
    let mut parts = [libc::iovec {
        iov_base: ptr::null_mut(),
        iov_len: 0,
    }; SEND_ENTRIES];
    let mut entries = [empty_entry(); SEND_ENTRIES];
    let mut control = segment.map_or(EMPTY_CONTROL, segment_control);
    let mut count = 0;
    for (index, piece) in payload.chunks(chunk).take(SEND_ENTRIES).enumerate() {
        parts[index] = libc::iovec {
            iov_base: piece.as_ptr().cast_mut().cast(),
            iov_len: piece.len(),
        };
        let header = &mut entries[index].msg_hdr;
        header.msg_iov = &raw mut parts[index];
        header.msg_iovlen = 1;
        if segment.is_some_and(|segment| piece.len() > usize::from(segment)) {
            header.msg_control = (&raw mut control).cast();
            // SAFETY: only computes a length.
            header.msg_controllen = unsafe { libc::CMSG_SPACE(mem::size_of::<u16>() as u32) } as _;
        }
        count += 1;
    }
    // SAFETY: `count` entries point to parts that point into `payload`, and to a control message;
    // all of them outlive the call, and the kernel only reads the payload.
    let sent = unsafe { libc::sendmmsg(socket, entries.as_mut_ptr(), count, libc::MSG_NOSIGNAL) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Returns the control message that asks for segments of `segment` bytes.
fn segment_control(segment: u16) -> ControlSpace {
    let mut control = EMPTY_CONTROL;
    let mut header: libc::msghdr = empty_entry().msg_hdr;
    header.msg_control = (&raw mut control).cast();
    header.msg_controllen = mem::size_of::<ControlSpace>() as _;
    // SAFETY: the control space is large enough for one message with a `u16` and aligned for its
    // header, so the first header and its data lie within it.
    unsafe {
        let message = libc::CMSG_FIRSTHDR(&raw const header);
        (*message).cmsg_level = libc::SOL_UDP;
        (*message).cmsg_type = libc::UDP_SEGMENT;
        (*message).cmsg_len = libc::CMSG_LEN(mem::size_of::<u16>() as u32) as _;
        ptr::write_unaligned(libc::CMSG_DATA(message).cast::<u16>(), segment);
    }
    control
}

/// Buffer for the datagrams of one receive call.
pub(crate) struct ReceiveBatch {
    bytes: Vec<u8>,
}

impl ReceiveBatch {
    pub(crate) fn new() -> Self {
        Self {
            bytes: vec![0; RECEIVE_ENTRIES * RECEIVE_BYTES],
        }
    }

    /// Receives without waiting, and passes each datagram to `consume`; returns their number.
    pub(crate) fn receive(
        &mut self,
        socket: RawFd,
        consume: &mut impl FnMut(&[u8]),
    ) -> io::Result<usize> {
        let mut parts = [libc::iovec {
            iov_base: ptr::null_mut(),
            iov_len: 0,
        }; RECEIVE_ENTRIES];
        let mut controls = [EMPTY_CONTROL; RECEIVE_ENTRIES];
        let mut entries = [empty_entry(); RECEIVE_ENTRIES];
        for (index, place) in self.bytes.chunks_exact_mut(RECEIVE_BYTES).enumerate() {
            parts[index] = libc::iovec {
                iov_base: place.as_mut_ptr().cast(),
                iov_len: place.len(),
            };
            let header = &mut entries[index].msg_hdr;
            header.msg_iov = &raw mut parts[index];
            header.msg_iovlen = 1;
            header.msg_control = (&raw mut controls[index]).cast();
            header.msg_controllen = mem::size_of::<ControlSpace>() as _;
        }
        // SAFETY: every entry points to a part and to control space of its own, which outlive the
        // call; the parts point to distinct pieces of `self.bytes`.
        let received = unsafe {
            libc::recvmmsg(
                socket,
                entries.as_mut_ptr(),
                RECEIVE_ENTRIES as u32,
                libc::MSG_DONTWAIT,
                ptr::null_mut(),
            )
        };
        let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        let mut datagrams = 0;
        let filled = entries.iter().zip(self.bytes.chunks_exact(RECEIVE_BYTES));
        for (entry, place) in filled.take(received) {
            let data = &place[..(entry.msg_len as usize).min(place.len())];
            let segment = segment_size(&entry.msg_hdr).unwrap_or(data.len());
            if data.is_empty() {
                datagrams += 1;
                consume(data);
            }
            for datagram in data.chunks(segment.max(1)) {
                datagrams += 1;
                consume(datagram);
            }
        }
        Ok(datagrams)
    }
}

/// Returns the length of the datagrams that receive offload has put together; `None` if it has not.
fn segment_size(header: &libc::msghdr) -> Option<usize> {
    // SAFETY: the kernel has filled the control space that the header points to, and says in the
    // header how much of it; the macros stay within that.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while !message.is_null() {
            if (*message).cmsg_level == libc::SOL_UDP && (*message).cmsg_type == libc::UDP_GRO {
                let size = ptr::read_unaligned(libc::CMSG_DATA(message).cast::<libc::c_int>());
                return usize::try_from(size).ok();
            }
            message = libc::CMSG_NXTHDR(header, message);
        }
    }
    None
}
