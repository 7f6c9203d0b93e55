//! Reference program on quinn.

use quinn as quic;

use super::WINDOW_BYTES;

include!("quinn_like.rs");

/// Returns the number of chunks that have arrived, without copying; `None` at the end of the stream.
async fn read_chunks(
    stream: &mut quic::RecvStream,
    chunks: &mut [Bytes],
) -> std::result::Result<Option<usize>, quic::ReadError> {
    stream.read_chunks(chunks).await
}
