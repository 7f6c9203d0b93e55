//! Commands as bytes, and back, without I/O.
//!
//! Decoding takes the bytes that have arrived so far and returns the minimum number that are
//! missing, so that a reader above an encryption layer never takes a byte of the next command. No
//! length field is trusted: memory is allocated only for bytes that have arrived.

mod chunks;
mod command;
mod number;
mod reply;
#[cfg(test)]
mod tests;

pub use chunks::{FRAME_BYTES, FileChunks, decode_frame, encode_frames};
pub use command::{
    Allocation, Command, DONE_BYTES, Done, FileHeader, MAX_TRANSFER_ID_BYTES, Settings, footer,
};
pub use reply::{ABORT, Abort, Checkpoint, LOCAL_CHECKPOINT_BYTES, Reply};

use self::number::Fields;
use crate::path::{MAX_PATH_BYTES, RelativePath, UnsafePath};

/// Maximum length of a refused path in an error message, in bytes.
const MAX_SHOWN_BYTES: usize = 200;

/// Result of decoding the bytes that have arrived so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decoded<T> {
    /// A complete message in the first `length` bytes.
    Whole {
        /// Decoded message.
        value: T,
        /// Length of the message in bytes, padding included.
        length: usize,
    },
    /// Incomplete message: minimum number of bytes still missing.
    Needs(usize),
}

/// Bytes that no peer may send.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A first byte that is no command of this side.
    #[error("{0:#04x} is no command that may come here")]
    UnknownCommand(u8),
    /// A number that is negative, or larger than its field.
    #[error("{0} is out of range")]
    OutOfRange(&'static str),
    /// A text that is too long.
    #[error("{0} is too long")]
    TooLong(&'static str),
    /// A length that disagrees with its content.
    #[error("the length of {0} is wrong")]
    WrongLength(&'static str),
    /// A path that could lead out of the directory.
    #[error("the path `{}` is refused: {why}", String::from_utf8_lossy(path))]
    Path {
        /// The path as received, cut where it is very long.
        path: Box<[u8]>,
        /// Reason for the refusal.
        why: UnsafePath,
    },
}

/// Reason why the decoding of a field stopped.
enum Stop {
    Needs(usize),
    Malformed(Malformed),
}

impl From<Malformed> for Stop {
    fn from(malformed: Malformed) -> Self {
        Stop::Malformed(malformed)
    }
}

/// Reads the path of a file.
fn read_path(fields: &mut Fields<'_>) -> Result<RelativePath, Stop> {
    let path = fields.string(MAX_PATH_BYTES, "a file's path")?;
    RelativePath::normalised(path).map_err(|why| {
        let path = path[..path.len().min(MAX_SHOWN_BYTES)].into();
        Malformed::Path { path, why }.into()
    })
}

/// Decodes the message at the start of `bytes` with `read`.
fn decoded<T>(
    bytes: &[u8],
    read: impl FnOnce(&mut Fields<'_>) -> Result<T, Stop>,
) -> Result<Decoded<T>, Malformed> {
    let mut fields = Fields::new(bytes);
    match read(&mut fields) {
        Ok(value) => Ok(Decoded::Whole {
            value,
            length: fields.position(),
        }),
        Err(Stop::Needs(bytes)) => Ok(Decoded::Needs(bytes)),
        Err(Stop::Malformed(malformed)) => Err(malformed),
    }
}
