//! Messages of a sender: SETTINGS, SIZE, FILE, FOOTER, DONE.

use super::number::{Fields, put_string, put_uvar, put_uvars, put_zvar};
use super::{Decoded, Malformed, Stop, decoded, read_path};
use crate::path::RelativePath;

const SETTINGS: u8 = b'S';
const SIZE: u8 = b'Z';
const FILE: u8 = b'L';
const FOOTER: u8 = b'F';
const DONE: u8 = b'D';
const ACK: u8 = b'a';

/// Length of DONE, and minimum length of SETTINGS with `request_chunks`, in bytes. A receiver reads
/// no command before this many bytes have arrived, so messages after which the sender waits are
/// padded to this length.
pub const DONE_BYTES: usize = 256;
/// The longest transfer id, in bytes.
pub const MAX_TRANSFER_ID_BYTES: usize = 1024;

/// A command of a sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// SETTINGS, the first command of every connection.
    Settings(Settings),
    /// Total size of the transfer in bytes, for progress only.
    Size(u64),
    /// A block; its bytes follow, and after them a FOOTER if the settings have `checksum`.
    File(FileHeader),
    /// CRC of the preceding block.
    Footer(u32),
    /// End of the data on this connection; padded to [`DONE_BYTES`].
    Done(Done),
    /// Acknowledgement of CHUNKS and its frames.
    Ack,
}

/// SETTINGS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Protocol version.
    pub version: u32,
    /// The sender's read time-out in milliseconds; not zero.
    pub read_timeout_ms: u32,
    /// The sender's write time-out in milliseconds; not zero.
    pub write_timeout_ms: u32,
    /// Transfer id of the connection URL.
    pub transfer_id: Vec<u8>,
    /// Whether a footer follows each block.
    pub checksum: bool,
    /// Whether the sender asks for the chunks that the receiver holds from an earlier transfer.
    pub request_chunks: bool,
    /// Whether every file is sent as one block.
    pub whole_files: bool,
    /// Whether the receiver is to send heartbeats.
    pub heartbeats: bool,
}

/// State of a file at the receiver, as FILE announces it; other than [`Allocation::New`] only when
/// a transfer is resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// No part of the file.
    New,
    /// The file with its full size.
    Exists,
    /// A file that is too large, under this earlier sequence id.
    TooLarge(u64),
    /// A file that is too small, under this earlier sequence id.
    TooSmall(u64),
    /// A file to be deleted.
    Delete,
}

impl Allocation {
    /// Returns the sequence id of the file of an earlier transfer that this one replaces, as its
    /// size differs.
    #[must_use]
    pub fn replaces(self) -> Option<u64> {
        match self {
            Allocation::TooLarge(previous) | Allocation::TooSmall(previous) => Some(previous),
            Allocation::New | Allocation::Exists | Allocation::Delete => None,
        }
    }
}

/// FILE: header of the block whose bytes follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// The sender's status, 0 when all is well.
    pub status: u8,
    /// The file.
    pub path: RelativePath,
    /// The file's number, from 1.
    pub sequence: u64,
    /// The block's length in bytes.
    pub length: u64,
    /// Offset of the block in the file, in bytes.
    pub offset: u64,
    /// The file's size in bytes.
    pub file_size: u64,
    /// State of the file at the receiver.
    pub allocation: Allocation,
}

/// DONE: the same on every connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The sender's status, 0 when all is well.
    pub status: u8,
    /// Blocks of the whole transfer.
    pub blocks: u64,
    /// Bytes of the whole transfer.
    pub bytes: u64,
}

/// CRC-32C as a footer carries it: the register begins at 0 and is not inverted at the end.
///
/// `before` is the footer of the bytes so far, 0 for none.
#[must_use]
pub fn footer(before: u32, data: &[u8]) -> u32 {
    !crc32c::crc32c_append(!before, data)
}

impl Command {
    /// Decodes the command at the start of `bytes` and its length in bytes.
    ///
    /// # Errors
    /// [`Malformed`] as soon as the bytes cannot become a command.
    pub fn decode(bytes: &[u8]) -> Result<Decoded<Self>, Malformed> {
        decoded(bytes, read)
    }

    /// Appends the encoded command to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        match self {
            Command::Settings(settings) => {
                out.push(SETTINGS);
                let timeouts = [settings.read_timeout_ms, settings.write_timeout_ms];
                put_uvar(out, settings.version.into());
                put_uvars(out, timeouts.map(u64::from));
                put_string(out, &settings.transfer_id);
                out.push(
                    u8::from(settings.checksum)
                        | u8::from(settings.request_chunks) << 1
                        | u8::from(settings.whole_files) << 2
                        | u8::from(settings.heartbeats) << 3,
                );
                if settings.request_chunks {
                    out.resize(out.len().max(start + DONE_BYTES), 0);
                }
            }
            Command::Size(bytes) => {
                out.push(SIZE);
                put_uvar(out, *bytes);
            }
            Command::File(header) => put_header(out, header),
            Command::Footer(crc) => {
                out.push(FOOTER);
                put_zvar(out, i64::from(*crc as i32));
            }
            Command::Ack => out.push(ACK),
            Command::Done(done) => {
                out.extend_from_slice(&[DONE, done.status]);
                put_uvars(out, [done.blocks, done.bytes]);
                out.resize(start + DONE_BYTES, 0);
            }
        }
    }
}

/// Writes FILE, with its length, which counts from the command byte.
fn put_header(out: &mut Vec<u8>, header: &FileHeader) {
    let start = out.len();
    out.extend_from_slice(&[FILE, header.status, 0, 0]);
    put_string(out, header.path.as_bytes());
    put_uvars(out, [header.sequence, header.length]);
    put_uvars(out, [header.offset, header.file_size]);
    out.push(match header.allocation {
        Allocation::New => 0,
        Allocation::Exists => 1,
        Allocation::TooLarge(_) => 2,
        Allocation::TooSmall(_) => 3,
        Allocation::Delete => 4,
    });
    if let Some(previous) = header.allocation.replaces() {
        put_uvar(out, previous);
    }
    // A path is at most 4095 bytes, so the length of the header fits in 15 bits.
    let length = (out.len() - start) as i16;
    out[start + 2..start + 4].copy_from_slice(&length.to_le_bytes());
}

fn read(fields: &mut Fields<'_>) -> Result<Command, Stop> {
    Ok(match fields.u8()? {
        SETTINGS => Command::Settings(read_settings(fields)?),
        SIZE => Command::Size(fields.cvar("the transfer's size")?),
        FILE => Command::File(read_header(fields)?),
        FOOTER => {
            let crc = i32::try_from(fields.zvar()?);
            Command::Footer(crc.map_err(|_| Malformed::OutOfRange("a checksum"))? as u32)
        }
        DONE => {
            // All of it, so that the padding is the command's and not what follows.
            let mut padded = Fields::new(fields.bytes(DONE_BYTES - 1)?);
            Command::Done(Done {
                status: padded.u8()?,
                blocks: padded.cvar("the number of blocks")?,
                bytes: padded.cvar("the number of bytes")?,
            })
        }
        ACK => Command::Ack,
        other => return Err(Malformed::UnknownCommand(other).into()),
    })
}

fn read_settings(fields: &mut Fields<'_>) -> Result<Settings, Stop> {
    let version = fields.cvar31("the protocol's version")?;
    let read_timeout_ms = fields.cvar31("the read time-out")?;
    let write_timeout_ms = fields.cvar31("the write time-out")?;
    if read_timeout_ms == 0 || write_timeout_ms == 0 {
        return Err(Malformed::OutOfRange("a time-out of zero").into());
    }
    let transfer_id = fields.string(MAX_TRANSFER_ID_BYTES, "the transfer id")?;
    let flags = fields.u8()?;
    let request_chunks = flags & 2 != 0;
    if request_chunks {
        fields.bytes(DONE_BYTES.saturating_sub(fields.position()))?;
    }
    Ok(Settings {
        version,
        read_timeout_ms,
        write_timeout_ms,
        transfer_id: transfer_id.to_vec(),
        checksum: flags & 1 != 0,
        request_chunks,
        whole_files: flags & 4 != 0,
        heartbeats: flags & 8 != 0,
    })
}

fn read_header(fields: &mut Fields<'_>) -> Result<FileHeader, Stop> {
    const HEADER: &str = "a file header";
    const WRONG: Malformed = Malformed::WrongLength(HEADER);
    let status = fields.u8()?;
    let length = fields.fixed::<2>(WRONG)? as usize;
    let body = length.checked_sub(fields.position()).ok_or(WRONG)?;
    fields.part(body, HEADER, |fields| read_header_body(status, fields))
}

fn read_header_body(status: u8, fields: &mut Fields<'_>) -> Result<FileHeader, Stop> {
    let path = read_path(fields)?;
    let sequence = fields.cvar("a file's sequence id")?;
    let length = fields.cvar("a block's length")?;
    let offset = fields.cvar("a block's offset")?;
    let file_size = fields.cvar("a file's size")?;
    // Both are below 2^63, so their sum cannot overflow.
    if offset + length > file_size {
        return Err(Malformed::OutOfRange("the end of a block").into());
    }
    const PREVIOUS: &str = "a file's previous sequence id";
    let allocation = match fields.u8()? & 7 {
        0 => Allocation::New,
        1 => Allocation::Exists,
        2 => Allocation::TooLarge(fields.cvar(PREVIOUS)?),
        3 => Allocation::TooSmall(fields.cvar(PREVIOUS)?),
        4 => Allocation::Delete,
        _ => return Err(Malformed::OutOfRange("a file's allocation status").into()),
    };
    Ok(FileHeader {
        status,
        path,
        sequence,
        length,
        offset,
        file_size,
        allocation,
    })
}
