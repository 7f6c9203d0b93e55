//! Reference program on noq, which is a fork of quinn: the same source text.

// One text for both, each with its own types.
#[allow(clippy::duplicate_mod)]
#[path = "quinn_like.rs"]
mod program;

use bytes::Bytes;
use noq as quic;

use crate::error::BenchError;

pub use program::{receive, send};

/// Returns the data that has arrived, without copying; `None` at the end of the stream.
async fn next_chunk(stream: &mut quic::RecvStream) -> Result<Option<Bytes>, BenchError> {
    stream
        .read_chunk(usize::MAX)
        .await
        .map_err(BenchError::reference)
}
