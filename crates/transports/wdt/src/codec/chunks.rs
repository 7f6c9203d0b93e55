//! Messages about the data that a receiver holds from an earlier transfer: CHUNKS, followed by
//! frames of entries, one entry per file.

use super::number::{Fields, put_string, put_uvar, put_uvars};
use super::{Decoded, Malformed, Stop, decoded, read_path};
use crate::path::RelativePath;

/// Length of a frame in bytes; the size of the reference's buffer.
pub const FRAME_BYTES: usize = 256 << 10;
/// Maximum length of a frame that is accepted, in bytes.
const MAX_FRAME_BYTES: usize = 16 << 20;

/// Byte ranges of one file that the receiver holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChunks {
    /// The file's number in the earlier transfer, which it keeps.
    pub sequence: u64,
    /// The file.
    pub path: RelativePath,
    /// The file's size in bytes.
    pub size: u64,
    /// Start and end offset of each range in bytes, in ascending order.
    pub chunks: Vec<(u64, u64)>,
}

impl FileChunks {
    fn encode(&self, out: &mut Vec<u8>) {
        put_uvar(out, self.sequence);
        put_string(out, self.path.as_bytes());
        put_uvars(out, [self.size, self.chunks.len() as u64]);
        for (start, end) in &self.chunks {
            put_uvars(out, [*start, *end]);
        }
    }

    fn decode(fields: &mut Fields<'_>) -> Result<Self, Stop> {
        let sequence = fields.cvar("a file's sequence id")?;
        let path = read_path(fields)?;
        let size = fields.cvar("a file's size")?;
        let count = fields.cvar("the number of a file's chunks")?;
        let mut chunks = Vec::new();
        let mut from = 0;
        for _ in 0..count {
            let start = fields.cvar("the beginning of a chunk")?;
            let end = fields.cvar("the end of a chunk")?;
            if start < from || end < start || end > size {
                return Err(Malformed::OutOfRange("a chunk").into());
            }
            chunks.push((start, end));
            from = end;
        }
        Ok(Self {
            sequence,
            path,
            size,
            chunks,
        })
    }
}

/// Appends frames of these entries, each at most [`FRAME_BYTES`] long unless a single entry is
/// longer.
pub fn encode_frames(files: &[FileChunks], out: &mut Vec<u8>) {
    let mut rest = files;
    while !rest.is_empty() {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        while let [first, after @ ..] = rest {
            let before = out.len();
            first.encode(out);
            if out.len() - start > FRAME_BYTES && before > start + 4 {
                out.truncate(before);
                break;
            }
            rest = after;
        }
        let length = (out.len() - start - 4) as i32;
        out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }
}

/// Decodes the frame at the start of `bytes`.
///
/// # Errors
/// [`Malformed`] as soon as the bytes cannot become a frame.
pub fn decode_frame(bytes: &[u8]) -> Result<Decoded<Vec<FileChunks>>, Malformed> {
    decoded(bytes, read_frame)
}

fn read_frame(fields: &mut Fields<'_>) -> Result<Vec<FileChunks>, Stop> {
    const FRAME: &str = "a frame of chunks";
    let length = fields.fixed::<4>(Malformed::WrongLength(FRAME))? as usize;
    if length == 0 || length > MAX_FRAME_BYTES {
        return Err(Malformed::WrongLength(FRAME).into());
    }
    fields.part(length, FRAME, |entries| {
        let mut files = Vec::new();
        while entries.position() < length {
            files.push(FileChunks::decode(entries)?);
        }
        Ok(files)
    })
}
