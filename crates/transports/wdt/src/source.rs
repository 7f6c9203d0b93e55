//! Source of the files that a sender sends.

use std::io;

use crate::path::RelativePath;

/// One file of a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Path of the file below the receiver's directory.
    pub path: RelativePath,
    /// Number of bytes to send.
    pub size_bytes: u64,
}

/// The files of a transfer, known before it begins, and their content.
///
/// One source serves all connections, each from its own thread.
pub trait Source: Send + Sync {
    /// Reader of one block.
    type Reader: SourceReader;

    /// Returns every file, each path once. The sender refers to a file by its index here.
    fn files(&self) -> &[SourceFile];

    /// Opens a file for one block of it; called once for each block that is sent.
    ///
    /// # Errors
    /// Error of the file system; the transfer then fails with
    /// [`Status::SourceRead`](crate::status::Status::SourceRead).
    fn open(&self, file: usize) -> io::Result<Self::Reader>;
}

/// An open file that a block is read from, front to back.
pub trait SourceReader: Send {
    /// Returns the bytes at `offset` of the file, at least one and at most `max` (which is not
    /// zero).
    ///
    /// They are borrowed from the reader where it has them in memory, so that nothing is copied;
    /// else they are read into `scratch`, and if that has fewer than `max` bytes, its length is the
    /// limit.
    ///
    /// # Errors
    /// Error of the file system, or [`io::ErrorKind::UnexpectedEof`] for a file that became shorter
    /// than the source had listed.
    fn read<'a>(
        &'a mut self,
        offset: u64,
        max: usize,
        scratch: &'a mut [u8],
    ) -> io::Result<&'a [u8]>;

    /// Reports that all bytes of the block were read.
    ///
    /// # Errors
    /// Error of the file system, or the change of a file that is no longer the one that the source
    /// listed, so that its blocks may be of different contents.
    fn check_unchanged(&self) -> io::Result<()> {
        Ok(())
    }
}
