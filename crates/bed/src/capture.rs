//! Captures of the path, as the controller asks for them and reads them.

use std::{
    fs::File,
    io,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use pcap_parser::{
    Block, OptionCode, PcapBlockOwned, PcapError, PcapNGReader,
    traits::{PcapNGPacketBlock, PcapReaderIterator},
};
use regatta_forwarder::PASSED;
pub use regatta_forwarder::{CaptureOrder, CaptureSummary};

/// Bytes read from a file at a time: more than the largest packet.
const READ_AHEAD: usize = 1 << 20;

/// A packet of a capture.
#[derive(Debug, Clone, Copy)]
pub struct Captured<'a> {
    /// Whether the packet was sent by the connecting host.
    pub forward: bool,
    /// Time at which the packet entered the path (if `forward`) or left it (otherwise), in
    /// nanoseconds since the Unix epoch.
    pub unix_ns: u64,
    /// Size of the packet in bytes.
    pub size: u32,
    /// Captured bytes of the packet, from the IP header on.
    pub bytes: &'a [u8],
    /// Description of the packet's outcome: the comment of its block.
    pub comment: &'a str,
}

impl Captured<'_> {
    /// Whether the packet left the path at its other end.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.comment.starts_with(PASSED)
    }
}

/// Errors of reading a capture.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file cannot be opened.
    #[error("cannot open the capture `{}`", path.display())]
    Open {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The file is not a pcapng capture, or it is damaged.
    #[error("the capture `{}` cannot be read: {reason}", path.display())]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Message of the parser.
        reason: String,
    },
}

/// Reads a capture that [`crate::Bed::start_capture`] made, packet by packet, until `take` has
/// enough. One that was cut short ends with its last whole packet.
///
/// # Errors
/// [`CaptureError`].
pub fn read(
    path: &Path,
    mut take: impl FnMut(Captured<'_>) -> ControlFlow<()>,
) -> Result<(), CaptureError> {
    let file = File::open(path).map_err(|source| CaptureError::Open {
        path: path.to_owned(),
        source,
    })?;
    let damaged = |reason: String| CaptureError::Damaged {
        path: path.to_owned(),
        reason,
    };
    let mut reader =
        PcapNGReader::new(READ_AHEAD, file).map_err(|error| damaged(error.to_string()))?;
    loop {
        match reader.next() {
            Ok((length, block)) => {
                if let PcapBlockOwned::NG(Block::EnhancedPacket(packet)) = block {
                    let mut options = packet.options.iter();
                    let comment = options.find(|option| option.code == OptionCode::Comment);
                    let comment = comment.and_then(|option| option.as_str().ok());
                    let captured = Captured {
                        forward: packet.if_id == 0,
                        unix_ns: u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low),
                        size: packet.origlen,
                        bytes: packet.packet_data(),
                        comment: comment.unwrap_or_default(),
                    };
                    if take(captured).is_break() {
                        return Ok(());
                    }
                }
                reader.consume(length);
            }
            Err(PcapError::Eof | PcapError::UnexpectedEof) => return Ok(()),
            Err(PcapError::Incomplete(_)) => {
                reader
                    .refill()
                    .map_err(|error| damaged(error.to_string()))?;
            }
            Err(error) => return Err(damaged(error.to_string())),
        }
    }
}
