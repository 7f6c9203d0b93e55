//! Pending output of a connection of a sender: commands, and the payload of one block.

use std::io;

use super::session::Session;
use crate::codec::{Command, footer};
use crate::crypto::Seal;
use crate::failure::Failure;
use crate::queue::Block;
use crate::source::{Source, SourceReader};

/// Bytes read at once from a source into memory.
const SCRATCH_BYTES: usize = 256 << 10;
/// Bytes taken at once from a source that has them in memory.
const LARGEST_PART_BYTES: usize = 1 << 20;

/// Bytes to be written: `head`, then `body`.
#[derive(Clone, Copy, Debug)]
pub struct Output<'a> {
    /// Commands, and payload that was small or had to be encrypted.
    pub head: &'a [u8],
    /// Payload in the source's own memory.
    pub body: &'a [u8],
}

/// Pending output of a connection.
pub(super) struct Outgoing<R> {
    seal: Seal,
    /// Bytes for the wire; empty once they are written.
    pub(super) head: Vec<u8>,
    /// Bytes that are not sealed into `head` yet.
    pub(super) plain: Vec<u8>,
    pub(super) current: Option<Current<R>>,
    /// Bytes of the current block's payload in `head` or in a part from the source.
    part: u64,
    scratch: Vec<u8>,
    checksum: bool,
    /// Maximum payload sent at a time, in bytes.
    pub(super) part_bytes: usize,
}

/// The block that is being sent.
pub(super) struct Current<R> {
    pub(super) block: Block,
    pub(super) reader: R,
    pub(super) sent: u64,
    pub(super) crc: u32,
}

impl<R: SourceReader> Current<R> {
    /// Reads the next bytes of the block, at most `most`; there must be some left.
    pub(super) fn read<'a>(
        &'a mut self,
        most: usize,
        scratch: &'a mut [u8],
        checksum: bool,
    ) -> io::Result<&'a [u8]> {
        let rest = usize::try_from(self.block.length - self.sent).unwrap_or(usize::MAX);
        let most = most.min(rest);
        let offset = self.block.offset + self.sent;
        let part = self.reader.read(offset, most, scratch)?;
        if part.is_empty() || part.len() > most {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if checksum {
            self.crc = footer(self.crc, part);
        }
        self.sent += part.len() as u64;
        Ok(part)
    }
}

impl<R: SourceReader> Outgoing<R> {
    pub(super) fn new<S: Source<Reader = R>>(session: &Session<S>) -> Result<Self, Failure> {
        let interval = session.options().tag_interval_bytes;
        Ok(Self {
            seal: Seal::new(session.url.secret.as_ref(), interval)?,
            head: Vec::new(),
            plain: Vec::new(),
            current: None,
            part: 0,
            scratch: Vec::new(),
            checksum: session.options().checksum,
            part_bytes: session.part_bytes(),
        })
    }

    pub(super) fn command(&mut self, command: &Command) {
        command.encode(&mut self.plain);
    }

    /// Whether nothing is waiting to be written.
    pub(super) fn is_empty(&self) -> bool {
        self.plain.is_empty() && self.head.is_empty()
    }

    /// Appends a part of the current block to the commands.
    pub(super) fn take_small(&mut self) -> io::Result<()> {
        if let Some(current) = &mut self.current {
            self.scratch.resize(SCRATCH_BYTES, 0);
            let part = current.read(SCRATCH_BYTES, &mut self.scratch, self.checksum)?;
            self.part += part.len() as u64;
            self.plain.extend_from_slice(part);
        }
        Ok(())
    }

    pub(super) fn seal_plain(&mut self) -> Result<(), Failure> {
        if self.seal.encrypts() {
            self.seal.seal(&self.plain, &mut self.head)?;
            self.plain.clear();
        } else {
            self.head.append(&mut self.plain);
        }
        Ok(())
    }

    pub(super) fn output(&mut self) -> io::Result<Output<'_>> {
        let mut body: &[u8] = &[];
        if let Some(current) = self.current.as_mut().filter(|c| c.block.length > c.sent) {
            self.scratch.resize(SCRATCH_BYTES, 0);
            let encrypts = self.seal.encrypts();
            let most = if encrypts {
                SCRATCH_BYTES
            } else {
                LARGEST_PART_BYTES
            };
            let most = most.min(self.part_bytes);
            let part = current.read(most, &mut self.scratch, self.checksum)?;
            self.part += part.len() as u64;
            if encrypts {
                let sealed = self.seal.seal(part, &mut self.head);
                sealed.map_err(io::Error::other)?;
            } else {
                body = part;
            }
        }
        let head = &self.head;
        Ok(Output { head, body })
    }

    /// Clears the output; returns the bytes of payload in it.
    pub(super) fn written(&mut self) -> u64 {
        self.head.clear();
        std::mem::take(&mut self.part)
    }

    pub(super) fn end(&mut self) -> Result<(), Failure> {
        self.seal.seal(b"D", &mut self.head)?;
        Ok(self.seal.finish(&mut self.head)?)
    }
}
