//! Destination of the files that a receiver gets.

use std::io;

use crate::codec::{FileChunks, FileHeader};

/// Destination of the files of a transfer.
///
/// One sink serves all connections, each from its own thread. A block that was cut is sent again,
/// whole or from where it was cut, over any connection; the bytes written of it stay until then.
pub trait Sink: Send + Sync {
    /// Writer of one block.
    type Writer: SinkWriter;

    /// Prepares for the block of this header; its offset and length together are at most the file's
    /// size. The first block of a file makes the file, with its directories and its whole size;
    /// blocks of other connections wait for that.
    ///
    /// # Errors
    /// Reason why the file cannot be written: it exists and must not be overwritten, it would be
    /// outside of the directory, or an error of the file system. The transfer then fails with
    /// [`Status::FileWrite`](crate::status::Status::FileWrite), and the peer gets it.
    fn begin(&self, block: &FileHeader) -> io::Result<Self::Writer>;

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

    /// Called for a [held](Sink::held) file that the sender no longer has; `file` has its path and its
    /// sequence id.
    ///
    /// # Errors
    /// Error of the file system; the transfer then fails.
    fn gone(&self, _file: &FileHeader) -> io::Result<()> {
        Ok(())
    }

    /// Called when a block was counted: its tag, its checksum or the connection vouches for its
    /// content.
    fn counted(&self, _block: &FileHeader) {}

    /// Checks that the blocks received make up their files, each byte once. Called when they are as
    /// many as the sender counted, `bytes` in all, and before the success is confirmed to the sender.
    ///
    /// # Errors
    /// The part that is missing or came twice. The transfer then fails with
    /// [`Status::Protocol`](crate::status::Status::Protocol), and the peer gets it.
    fn check(&self, _bytes: u64) -> io::Result<()> {
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
