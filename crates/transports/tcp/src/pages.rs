//! Messages in pages of memory that a socket takes without a copy.

use std::{
    ffi::c_void,
    io::{self, IoSlice, Write as _},
    num::NonZeroUsize,
    os::fd::{AsFd, OwnedFd},
    ptr::NonNull,
};

use bytes::Bytes;
use nix::{
    fcntl::{FcntlArg, OFlag, SpliceFFlags, fcntl, splice, vmsplice},
    sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap},
    unistd::pipe2,
};

/// Pages that are under way from memory to a socket at a time, in bytes: what a process without privileges may have in a pipe.
const PIPE_BYTES: i32 = 1 << 20;

/// The payload that was sent last, in pages once it has come twice: all messages of a bulk transfer but the last have the same.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    /// It is held, so that no other can lie at its place.
    last: Bytes,
    spliced: Option<Spliced>,
}

impl Pages {
    /// Returns the pages with the bytes of `payload`; none if another payload was sent before.
    ///
    /// # Errors
    /// Memory or file descriptors have run out.
    pub(crate) fn of(&mut self, payload: &Bytes) -> io::Result<Option<&Spliced>> {
        let place = |bytes: &Bytes| (bytes.as_ptr(), bytes.len());
        if place(payload) != place(&self.last) {
            self.last = payload.clone();
            self.spliced = None;
            return Ok(None);
        }
        if self.spliced.is_none() {
            self.spliced = Some(Spliced::new(payload)?);
        }
        Ok(self.spliced.as_ref())
    }
}

/// A payload in pages, and the pipe through which sockets get them.
#[derive(Debug)]
pub(crate) struct Spliced {
    memory: Mapping,
    reader: OwnedFd,
    writer: OwnedFd,
}

impl Spliced {
    fn new(payload: &[u8]) -> io::Result<Self> {
        let memory = Mapping::new(payload)?;
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC)?;
        // A smaller pipe takes more calls.
        let _ = fcntl(&writer, FcntlArg::F_SETPIPE_SZ(PIPE_BYTES));
        Ok(Self {
            memory,
            reader,
            writer,
        })
    }

    /// Hands all of the payload to a socket, or to a file.
    ///
    /// # Errors
    /// Errors of the socket or file.
    pub(crate) fn send(&self, socket: impl AsFd) -> io::Result<()> {
        let mut left = self.memory.bytes();
        while !left.is_empty() {
            let taken = vmsplice(&self.writer, &[IoSlice::new(left)], SpliceFFlags::empty())?;
            left = &left[taken..];
            let more = match left.is_empty() {
                true => SpliceFFlags::empty(),
                false => SpliceFFlags::SPLICE_F_MORE,
            };
            let mut in_pipe = taken;
            while in_pipe > 0 {
                match splice(&self.reader, None, &socket, None, in_pipe, more) {
                    Ok(moved) => in_pipe -= moved,
                    Err(nix::Error::EINTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }
}

/// Memory of its own: the kernel keeps its pages until they have left, and nothing else can be written into them, also after
/// the end of this.
#[derive(Debug)]
struct Mapping {
    start: NonNull<c_void>,
    length: NonZeroUsize,
    used: usize,
}

// SAFETY: The memory belongs to this value alone.
unsafe impl Send for Mapping {}
// SAFETY: Nobody writes into it.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(content: &[u8]) -> io::Result<Self> {
        let length = NonZeroUsize::new(content.len()).unwrap_or(NonZeroUsize::MIN);
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: The kernel chooses a place where nothing is.
        let start = unsafe { mmap_anonymous(None, length, access, MapFlags::MAP_PRIVATE) }?;
        // SAFETY: There is room for as many bytes, which nobody else knows.
        let mut room =
            unsafe { std::slice::from_raw_parts_mut(start.cast::<u8>().as_ptr(), length.get()) };
        room.write_all(content)?;
        Ok(Self {
            start,
            length,
            used: content.len(),
        })
    }

    const fn bytes(&self) -> &[u8] {
        // SAFETY: As many bytes were written, and nobody writes any more.
        unsafe { std::slice::from_raw_parts(self.start.cast::<u8>().as_ptr(), self.used) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: No reference to the memory lives longer than this value.
        let _ = unsafe { munmap(self.start, self.length.get()) };
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Read as _, os::unix::net::UnixStream};

    use super::*;

    #[test]
    fn a_payload_that_repeats_is_sent_from_pages() {
        let mut pages = Pages::default();
        // Longer than a pipe.
        let payload: Bytes = (0..3_000_001_u32).map(|at| (at % 251) as u8).collect();
        assert!(pages.of(&payload).expect("memory").is_none());
        let (mut near, mut far) = UnixStream::pair().expect("sockets");
        let reading = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            far.read_to_end(&mut bytes).map(|_| bytes)
        });
        let spliced = pages.of(&payload).expect("memory").expect("pages");
        spliced.send(&near).expect("sent");
        near.write_all(b"end").expect("sent");
        drop(near);
        let arrived = reading.join().expect("no panic").expect("readable");
        assert!(arrived == [&payload[..], b"end"].concat());
        assert!(pages.of(&payload.slice(..100)).expect("memory").is_none());
    }

    /// Content of a file is read into memory that is used again.
    #[test]
    fn other_content_in_the_same_memory_is_not_taken_for_the_last() {
        let mut pages = Pages::default();
        let mut memory = bytes::BytesMut::new();
        for content in 0..4_u8 {
            memory.resize(5000, content);
            let payload = memory.split().freeze();
            assert!(pages.of(&payload).expect("memory").is_none(), "{content}");
            drop(payload);
            memory.reserve(5000);
        }
    }
}
