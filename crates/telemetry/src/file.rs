//! Files of `/proc` that are read again and again: opened once, read with one `pread`.

use std::{fs::File, io, os::unix::fs::FileExt};

/// An open file of `/proc` with the buffer that it is read into.
#[derive(Debug)]
pub(crate) struct ProcFile {
    file: File,
    buffer: Vec<u8>,
}

/// Larger than any file that is read here on a host with thousands of interfaces; a limit all the
/// same, because these files grow with the host.
const LIMIT: usize = 1 << 20;

impl ProcFile {
    /// Opens a file; `None` if the kernel does not have it, or not for this user.
    pub(crate) fn open(path: &str) -> Option<Self> {
        Some(Self {
            file: File::open(path).ok()?,
            buffer: vec![0; 4096],
        })
    }

    /// Reads the first `limit` bytes, for files of which only the first line matters.
    pub(crate) fn read_start(&mut self, limit: usize) -> io::Result<&[u8]> {
        let limit = limit.min(self.buffer.len());
        let length = self.file.read_at(&mut self.buffer[..limit], 0)?;
        Ok(&self.buffer[..length])
    }

    /// Reads the whole file. The kernel hands out a file of `/proc` in pieces of a page or so,
    /// therefore until nothing more comes.
    pub(crate) fn read(&mut self) -> io::Result<&[u8]> {
        let mut length = 0;
        loop {
            if length == self.buffer.len() {
                if length >= LIMIT {
                    break;
                }
                self.buffer.resize(length * 2, 0);
            }
            let rest = &mut self.buffer[length..];
            match self.file.read_at(rest, length as u64)? {
                0 => break,
                n => length += n,
            }
        }
        Ok(&self.buffer[..length])
    }
}

/// Returns the numbers at the beginning of a line, up to the first field that is none.
pub(crate) fn numbers(line: &[u8]) -> impl Iterator<Item = u64> + '_ {
    line.split(u8::is_ascii_whitespace)
        .filter(|field| !field.is_empty())
        .map_while(|field| std::str::from_utf8(field).ok()?.parse().ok())
}

/// Returns the lines of a file, without their ends.
pub(crate) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> + '_ {
    text.split(|&byte| byte == b'\n')
}

/// Returns the value of a line such as `MemTotal:  8000 kB`, in bytes.
pub(crate) fn bytes_of(text: &[u8], name: &str) -> Option<u64> {
    let rest =
        lines(text).find_map(|line| line.strip_prefix(name.as_bytes())?.strip_prefix(b":"))?;
    let mut fields = std::str::from_utf8(rest).ok()?.split_ascii_whitespace();
    let kibibytes: u64 = fields.next()?.parse().ok()?;
    (fields.next()? == "kB").then(|| kibibytes.checked_mul(1024))?
}
