//! Reference program on quinn.

// One text for both, each with its own types.
#[allow(clippy::duplicate_mod)]
#[path = "quinn_like.rs"]
mod program;

use bytes::Bytes;
use quinn as quic;

use super::WINDOW_BYTES;

pub use program::{receive, send};

/// Returns the number of chunks that have arrived, without copying; `None` at the end of the stream.
async fn read_chunks(
    stream: &mut quic::RecvStream,
    chunks: &mut [Bytes],
) -> Result<Option<usize>, quic::ReadError> {
    stream.read_chunks(chunks).await
}
