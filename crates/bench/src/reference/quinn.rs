//! Reference program on quinn.

// One text for both, each with its own types.
#[allow(clippy::duplicate_mod)]
#[path = "quinn_like.rs"]
mod program;

use bytes::Bytes;
use quinn as quic;

use crate::error::BenchError;

pub use program::{receive, send};

/// Returns the data that has arrived, without copying; `None` at the end of the stream.
async fn next_chunk(stream: &mut quic::RecvStream) -> Result<Option<Bytes>, BenchError> {
    let chunk = stream
        .read_chunk(usize::MAX, true)
        .await
        .map_err(BenchError::reference)?;
    Ok(chunk.map(|chunk| chunk.bytes))
}
