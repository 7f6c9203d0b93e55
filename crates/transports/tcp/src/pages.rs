//! Messages in pages of memory that a socket takes without a copy.

use std::{
    fs::File,
    io::{self, Write as _},
};

use bytes::Bytes;
use nix::sys::memfd::{MFdFlags, memfd_create};

/// The payload that was sent last, in pages once it has come twice: all messages of a bulk transfer but the last have the same.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    /// It is held, so that no other can lie at its place.
    last: Bytes,
    file: Option<File>,
}

impl Pages {
    /// Returns a file in memory with the bytes of `payload`, which nobody ever changes; none if another one was sent before.
    ///
    /// # Errors
    /// Memory or file descriptors have run out.
    pub(crate) fn of(&mut self, payload: &Bytes) -> io::Result<Option<&File>> {
        let place = |bytes: &Bytes| (bytes.as_ptr(), bytes.len());
        if place(payload) != place(&self.last) {
            self.last = payload.clone();
            self.file = None;
            return Ok(None);
        }
        if self.file.is_none() {
            let mut file = File::from(memfd_create(c"messages", MFdFlags::MFD_CLOEXEC)?);
            file.write_all(payload)?;
            self.file = Some(file);
        }
        Ok(self.file.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::*;

    #[test]
    fn a_payload_that_repeats_is_in_a_file() {
        let mut pages = Pages::default();
        let payload = Bytes::from(vec![7; 5000]);
        assert!(pages.of(&payload).expect("memory").is_none());
        let file = pages.of(&payload).expect("memory").expect("a file");
        let mut bytes = vec![0; 5000];
        file.read_exact_at(&mut bytes, 0).expect("readable");
        assert_eq!(bytes, payload);
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
