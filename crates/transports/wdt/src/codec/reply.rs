//! Messages of a receiver: DONE, WAIT, HEARTBEAT, ABORT, both kinds of checkpoint, CHUNKS and ACK.

use super::chunks::FRAME_BYTES;
use super::number::{Fields, put_uvar, put_uvars};
use super::{Decoded, Malformed, Stop, decoded};

const DONE: u8 = b'D';
const WAIT: u8 = b'W';
const HEARTBEAT: u8 = b'H';
const ERRORS: u8 = b'E';
/// The command byte of ABORT.
pub const ABORT: u8 = b'A';
const CHUNKS: u8 = b'C';
const ACK: u8 = b'a';
/// First byte of a local checkpoint: the length of its list, which has one entry.
const LOCAL_CHECKPOINT: u8 = 1;

/// Length of a local checkpoint with its padding, in bytes.
pub const LOCAL_CHECKPOINT_BYTES: usize = 60;
/// Maximum number of checkpoints in one message: the number of ports.
const MAX_CHECKPOINTS: usize = u16::MAX as usize;
/// Minimum length of a checkpoint, in bytes.
const MIN_CHECKPOINT_BYTES: usize = 5;

/// A message of a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Everything has arrived; one byte, which the sender answers with the same.
    Done,
    /// Other connections are still at work.
    Wait,
    /// The receiver is alive.
    Heartbeat,
    /// The global checkpoint: the data that these ports received before they were given up.
    Errors(Vec<Checkpoint>),
    /// The transfer is over.
    Abort(Abort),
    /// The data that this port received before its connection broke; first message of a connection
    /// that is made again.
    LocalCheckpoint(Checkpoint),
    /// Announces the files held from an earlier transfer; their ranges follow in
    /// [frames](super::decode_frame).
    Chunks {
        /// Number of files.
        files: u64,
    },
    /// The chunks were sent on another connection.
    Ack,
}

/// ABORT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abort {
    /// Version of the protocol that the receiver would use.
    pub version: u32,
    /// Reason, as the code of a [`Status`](crate::status::Status).
    pub code: u8,
    /// Number of blocks received.
    pub blocks: u64,
}

/// Data received on one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Checkpoint {
    /// The port of the receiver.
    pub port: u16,
    /// Number of whole blocks, over all connections of the port.
    pub blocks: u64,
    /// Bytes received of the next block, 0 for none.
    pub partial_bytes: u64,
    /// Sequence id of the partial block's file.
    pub partial_sequence: u64,
    /// Offset of the partial block in its file, in bytes.
    pub partial_offset: u64,
}

impl Reply {
    /// Decodes the message at the start of `bytes`.
    ///
    /// # Errors
    /// [`Malformed`] as soon as the bytes cannot become a message.
    pub fn decode(bytes: &[u8]) -> Result<Decoded<Self>, Malformed> {
        decoded(bytes, read)
    }

    /// Appends the encoded message to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Reply::Done => out.push(DONE),
            Reply::Wait => out.push(WAIT),
            Reply::Heartbeat => out.push(HEARTBEAT),
            Reply::Ack => out.push(ACK),
            Reply::Chunks { files } => {
                out.push(CHUNKS);
                out.extend_from_slice(&(FRAME_BYTES as i64).to_le_bytes());
                out.extend_from_slice(&(*files as i64).to_le_bytes());
            }
            Reply::Errors(checkpoints) => {
                out.push(ERRORS);
                let length_at = out.len();
                out.extend_from_slice(&[0; 2]);
                put_checkpoints(out, checkpoints);
                // The ports of a transfer are so few that 15 bits count the bytes of all of them.
                let length = (out.len() - length_at - 2) as i16;
                out[length_at..length_at + 2].copy_from_slice(&length.to_le_bytes());
            }
            Reply::Abort(abort) => {
                out.push(ABORT);
                out.extend_from_slice(&(abort.version as i32).to_le_bytes());
                out.push(abort.code);
                out.extend_from_slice(&(abort.blocks as i64).to_le_bytes());
            }
            Reply::LocalCheckpoint(checkpoint) => {
                let start = out.len();
                put_checkpoints(out, std::slice::from_ref(checkpoint));
                out.resize(start + LOCAL_CHECKPOINT_BYTES, 0);
            }
        }
    }
}

/// Appends a list of checkpoints with its length.
fn put_checkpoints(out: &mut Vec<u8>, checkpoints: &[Checkpoint]) {
    put_uvar(out, checkpoints.len() as u64);
    for checkpoint in checkpoints {
        put_uvars(out, [checkpoint.port.into(), checkpoint.blocks]);
        put_uvars(out, [checkpoint.partial_bytes, checkpoint.partial_sequence]);
        put_uvar(out, checkpoint.partial_offset);
    }
}

fn read(fields: &mut Fields<'_>) -> Result<Reply, Stop> {
    use Malformed::{OutOfRange, UnknownCommand, WrongLength};
    const LIST: &str = "a list of checkpoints";
    Ok(match fields.u8()? {
        DONE => Reply::Done,
        WAIT => Reply::Wait,
        HEARTBEAT => Reply::Heartbeat,
        ERRORS => {
            let length = fields.fixed::<2>(WrongLength(LIST))? as usize;
            Reply::Errors(fields.part(length, LIST, |fields| {
                let count = fields.uvar()?;
                if count > (length / MIN_CHECKPOINT_BYTES).min(MAX_CHECKPOINTS) as u64 {
                    return Err(WrongLength(LIST).into());
                }
                (0..count).map(|_| read_checkpoint(fields)).collect()
            })?)
        }
        ABORT => Reply::Abort(Abort {
            version: fields.fixed::<4>(OutOfRange("the protocol's version"))? as u32,
            code: fields.u8()?,
            blocks: fields.fixed::<8>(OutOfRange("the number of blocks"))?,
        }),
        LOCAL_CHECKPOINT => {
            // Its numbers are shorter than that, however large they are; the rest is padding.
            let mut padded = Fields::new(fields.bytes(LOCAL_CHECKPOINT_BYTES - 1)?);
            Reply::LocalCheckpoint(read_checkpoint(&mut padded)?)
        }
        CHUNKS => {
            fields.fixed::<8>(OutOfRange("the size of a frame of chunks"))?;
            Reply::Chunks {
                files: fields.fixed::<8>(OutOfRange("the number of files with chunks"))?,
            }
        }
        ACK => Reply::Ack,
        other => return Err(UnknownCommand(other).into()),
    })
}

fn read_checkpoint(fields: &mut Fields<'_>) -> Result<Checkpoint, Stop> {
    Ok(Checkpoint {
        port: fields.at_most(u16::MAX.into(), "a checkpoint's port")? as u16,
        blocks: fields.cvar("a checkpoint's blocks")?,
        partial_bytes: fields.cvar("a checkpoint's bytes")?,
        partial_sequence: fields.cvar("a checkpoint's sequence id")?,
        partial_offset: fields.cvar("a checkpoint's offset")?,
    })
}
