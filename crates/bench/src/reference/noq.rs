//! Reference program on noq, which is a fork of quinn: the same source text.

use noq as quic;

include!("quinn_like.rs");

/// Flow-control windows: noq ends a connection in which a stream has more than 2048 packets unread.
const WINDOW_BYTES: u32 = 2 << 20;

/// Returns the number of chunks that have arrived, without copying; `None` at the end of the stream.
async fn read_chunks(
    stream: &mut quic::RecvStream,
    chunks: &mut [Bytes],
) -> std::result::Result<Option<usize>, quic::ReadError> {
    stream.read_many_chunks(chunks).await
}
