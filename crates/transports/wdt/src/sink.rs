//! Destination of the files that a receiver gets.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use crate::codec::FileChunks;
use crate::path::RelativePath;

/// A block that is about to arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncomingBlock {
    /// The sender's number of the file, the same for all its blocks and for no other file.
    pub sequence: u64,
    /// Path of the file.
    pub path: RelativePath,
    /// Final size of the file, in bytes.
    pub file_size_bytes: u64,
    /// Offset of the block in the file, in bytes.
    pub offset: u64,
    /// Length in bytes; offset and length together are at most the file's size.
    pub length: u64,
    /// Sequence id of the file of an earlier transfer that this one replaces, as its size differs.
    pub replaces: Option<u64>,
}

/// Destination of the files of a transfer.
///
/// One sink serves all connections, each from its own thread. A block that was cut is sent again,
/// whole or from where it was cut, over any connection; the bytes written of it stay until then.
pub trait Sink: Send + Sync {
    /// Writer of one block.
    type Writer: SinkWriter;

    /// Prepares for a block. The first block of a file makes the file, with its directories and its
    /// whole size; blocks of other connections wait for that.
    ///
    /// Reason why the file cannot be written: it exists and must not be overwritten, it would be
    /// outside of the directory, or an error of the file system. The transfer then fails with
    /// [`Status::FileWrite`](crate::status::Status::FileWrite), and the peer is told.
    fn begin(&self, block: &IncomingBlock) -> io::Result<Self::Writer>;

    /// Returns the chunks held from an earlier transfer, of which the sender then sends the rest
    /// alone.
    fn held(&self) -> Vec<FileChunks> {
        Vec::new()
    }

    /// Discards the [held](Sink::held) chunks, as this sender sends everything.
    ///
    /// # Errors
    /// Error of the file system; the transfer then fails.
    fn forget(&self) -> io::Result<()> {
        Ok(())
    }

    /// Called when a block was counted: its tag, its checksum or the connection vouches for its
    /// content.
    fn counted(&self, sequence: u64, offset: u64, length: u64) {
        let _ = (sequence, offset, length);
    }

    /// Checks that the blocks received make up their files, each byte once. Called when they are as
    /// many as the sender counted, `bytes` in all, and before the sender is told of the success.
    ///
    /// The part that is missing or came twice. The transfer then fails with
    /// [`Status::Protocol`](crate::status::Status::Protocol), and the peer is told.
    fn check(&self, bytes: u64) -> io::Result<()> {
        let _ = bytes;
        Ok(())
    }
}

/// Writer of one block, front to back. If it is dropped without [`SinkWriter::finish`], the block
/// was cut.
pub trait SinkWriter: Send {
    /// Writes the block's next bytes, which belong at `offset` of the file.
    ///
    /// # Errors
    /// Error of the file system; the transfer then fails.
    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Ends a block that is whole, with the right checksum if it had one, and is about to be
    /// counted.
    ///
    /// # Errors
    /// As [`SinkWriter::write`].
    fn finish(&mut self) -> io::Result<()>;
}

/// Files in memory, by their paths; for tests and for small transfers, as memory is allocated for
/// the announced size of a file.
#[derive(Clone, Debug, Default)]
pub struct MemorySink {
    files: Files,
    limit_bytes: u64,
}

type Files = Arc<Mutex<BTreeMap<RelativePath, (u64, Vec<u8>)>>>;

impl MemorySink {
    /// Returns a sink for files of at most `limit_bytes` each.
    #[must_use]
    pub fn new(limit_bytes: u64) -> Self {
        Self {
            files: Files::default(),
            limit_bytes,
        }
    }

    /// Removes all files.
    pub fn clear(&self) {
        self.files
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// Returns the files received so far.
    #[must_use]
    pub fn contents(&self) -> BTreeMap<RelativePath, Vec<u8>> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files
            .iter()
            .map(|(path, (_, content))| (path.clone(), content.clone()))
            .collect()
    }
}

impl Sink for MemorySink {
    type Writer = MemoryWriter;

    fn begin(&self, block: &IncomingBlock) -> io::Result<MemoryWriter> {
        if block.file_size_bytes > self.limit_bytes {
            return Err(io::Error::other(format!(
                "`{}` has {} bytes, and at most {} are taken into memory",
                block.path, block.file_size_bytes, self.limit_bytes
            )));
        }
        let size = usize::try_from(block.file_size_bytes).map_err(io::Error::other)?;
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let (sequence, _) = files
            .entry(block.path.clone())
            .or_insert_with(|| (block.sequence, vec![0; size]));
        if *sequence != block.sequence {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                format!("`{}` was sent as two files", block.path),
            ));
        }
        Ok(MemoryWriter {
            files: self.files.clone(),
            path: block.path.clone(),
        })
    }
}

/// Writer of one block into a [`MemorySink`].
#[derive(Debug)]
pub struct MemoryWriter {
    files: Files,
    path: RelativePath,
}

impl SinkWriter for MemoryWriter {
    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let place = usize::try_from(offset).ok().and_then(|offset| {
            files
                .get_mut(&self.path)?
                .1
                .get_mut(offset..offset.checked_add(data.len())?)
        });
        match place {
            Some(place) => {
                place.copy_from_slice(data);
                Ok(())
            }
            None => Err(io::Error::other(format!(
                "{} bytes at {offset} are outside of `{}`",
                data.len(),
                self.path
            ))),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}
