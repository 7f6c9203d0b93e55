//! Where a receiver puts what arrives.

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
    /// Where the file goes.
    pub path: RelativePath,
    /// How large the file will be.
    pub file_size_bytes: u64,
    /// Where the block begins in the file.
    pub offset: u64,
    /// How long it is; offset and length together are at most the file's size.
    pub length: u64,
    /// Number of the file of an earlier transfer in whose place this one comes, as its size differs.
    pub replaces: Option<u64>,
}

/// Takes the files of a transfer.
///
/// One sink serves all connections, each from its own thread. A block that was cut is sent again,
/// whole or from where it was cut, over any connection; what was written of it stands until then.
pub trait Sink: Send + Sync {
    /// What writes one block.
    type Writer: SinkWriter;

    /// Makes ready for a block. The first block of a file makes the file, with its directories and
    /// its whole size; blocks of other connections wait for that.
    ///
    /// # Errors
    /// Why the file cannot be written: it exists and must not be overwritten, it would be outside of
    /// the directory, the file system's own. The transfer then fails with
    /// [`Status::FileWrite`](crate::status::Status::FileWrite), and the peer is told.
    fn begin(&self, block: &IncomingBlock) -> io::Result<Self::Writer>;

    /// What is there from an earlier transfer, of which the sender then sends the rest alone.
    fn held(&self) -> Vec<FileChunks> {
        Vec::new()
    }

    /// Throws away what was [held](Sink::held), as this sender sends everything.
    ///
    /// # Errors
    /// The file system's own; the transfer then fails.
    fn forget(&self) -> io::Result<()> {
        Ok(())
    }

    /// A block was counted: by its tag, its checksum or the connection it is what the sender sent.
    fn counted(&self, sequence: u64, offset: u64, length: u64) {
        let _ = (sequence, offset, length);
    }

    /// Checks that the blocks that came are all of the files they belong to, each byte once; asked once
    /// they are as many as the sender counted, `bytes` in all, and before it is told that all is well.
    ///
    /// # Errors
    /// What is missing or came twice. The transfer then fails with
    /// [`Status::Protocol`](crate::status::Status::Protocol), and the peer is told.
    fn check(&self, bytes: u64) -> io::Result<()> {
        let _ = bytes;
        Ok(())
    }
}

/// Writes one block, front to back. Dropped without [`SinkWriter::finish`], the block was cut.
pub trait SinkWriter: Send {
    /// Writes the block's next bytes, which belong at `offset` of the file.
    ///
    /// # Errors
    /// The file system's own; the transfer then fails.
    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// The block is whole, and its checksum right if it had one: it is about to be counted.
    ///
    /// # Errors
    /// As [`SinkWriter::write`].
    fn finish(&mut self) -> io::Result<()>;
}

/// Files in memory, by their paths; for tests and for small transfers, as it believes a file's size.
#[derive(Clone, Debug, Default)]
pub struct MemorySink {
    files: Files,
    limit_bytes: u64,
}

type Files = Arc<Mutex<BTreeMap<RelativePath, (u64, Vec<u8>)>>>;

impl MemorySink {
    /// A sink for files of at most `limit_bytes` each.
    #[must_use]
    pub fn new(limit_bytes: u64) -> Self {
        Self {
            files: Files::default(),
            limit_bytes,
        }
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.files
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// What has arrived so far.
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

/// Writes one block into a [`MemorySink`].
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
