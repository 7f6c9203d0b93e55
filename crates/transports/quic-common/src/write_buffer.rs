//! Write buffer of a stream, which joins small messages.

use bytes::{Bytes, BytesMut};

/// Threshold, in bytes, below which messages are copied together; longer ones are handed over
/// without a copy.
///
/// A stack looks through its list of unacknowledged pieces for every packet, so that many small
/// pieces cost more than copying them.
const COPIED_BELOW_BYTES: usize = 4096;

/// Size of the pieces in which copied messages are handed over, in bytes.
const PIECE_BYTES: usize = 16 << 10;

/// Passes received pieces on, each of which is released then; returns the number of bytes.
pub fn pass_on(pieces: &mut [Bytes], consume: &mut impl FnMut(&[u8])) -> usize {
    let mut bytes = 0;
    for piece in pieces {
        let piece = std::mem::take(piece);
        bytes += piece.len();
        consume(&piece);
    }
    bytes
}

/// Data that is to be handed to the stack: one piece, or a header and its payload.
#[derive(Debug)]
pub struct Pieces([Bytes; 2]);

impl AsMut<[Bytes]> for Pieces {
    fn as_mut(&mut self) -> &mut [Bytes] {
        let [first, second] = &self.0;
        match (first.is_empty(), second.is_empty()) {
            (true, _) => &mut self.0[1..],
            (_, true) => &mut self.0[..1],
            _ => &mut self.0,
        }
    }
}

/// Messages of a stream that are not handed over yet, and the amount of data since its sender
/// yielded.
#[derive(Debug)]
pub struct WriteBuffer {
    pending: BytesMut,
    yield_bytes: usize,
    small_message_bytes: usize,
    since_yield: usize,
}

impl WriteBuffer {
    /// Makes an empty buffer. The sender yields to the stack's task after `yield_bytes`: on a current-thread runtime
    /// nothing is sent while the application writes. Each small message counts as `small_message_bytes` beside its
    /// bytes, so that the sender can also yield after some thousands of them.
    #[must_use]
    pub fn new(yield_bytes: usize, small_message_bytes: usize) -> Self {
        Self {
            pending: BytesMut::new(),
            yield_bytes,
            small_message_bytes,
            since_yield: 0,
        }
    }

    /// Adds a message; returns the data that is to be handed over now.
    pub fn add(&mut self, header: &[u8], payload: &Bytes) -> Option<Pieces> {
        if self.pending.capacity() - self.pending.len() < header.len() {
            self.pending.reserve(2 * PIECE_BYTES);
        }
        self.pending.extend_from_slice(header);
        if header.len() + payload.len() >= COPIED_BELOW_BYTES {
            return Some(self.hand_over(payload.clone()));
        }
        self.pending.extend_from_slice(payload);
        self.since_yield += self.small_message_bytes;
        (self.pending.len() >= PIECE_BYTES).then(|| self.hand_over(Bytes::new()))
    }

    /// Takes the data that is not handed over yet, if there is any.
    pub fn take(&mut self) -> Option<Pieces> {
        (!self.pending.is_empty()).then(|| self.hand_over(Bytes::new()))
    }

    fn hand_over(&mut self, payload: Bytes) -> Pieces {
        self.since_yield += self.pending.len() + payload.len();
        Pieces([self.pending.split().freeze(), payload])
    }

    /// Whether the sender has handed over so much that it is to yield; to be called after a write.
    pub fn is_time_to_yield(&mut self) -> bool {
        let is_time = self.since_yield >= self.yield_bytes;
        if is_time {
            self.since_yield = 0;
        }
        is_time
    }

    /// Discards the data that is not handed over yet.
    pub fn clear(&mut self) {
        self.pending.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(pieces: Option<Pieces>) -> Vec<usize> {
        let mut pieces = pieces.expect("data to hand over");
        pieces.as_mut().iter().map(Bytes::len).collect()
    }

    #[test]
    fn small_messages_are_joined_and_large_ones_are_not_copied() {
        let mut buffer = WriteBuffer::new(20_000, 1);
        let small = Bytes::from(vec![1; 4000]);
        for _ in 0..4 {
            assert!(buffer.add(&[0; 16], &small).is_none());
        }
        assert_eq!(lengths(buffer.add(&[0; 16], &small)), [5 * 4016]);
        assert!(buffer.is_time_to_yield() && !buffer.is_time_to_yield());
        let large = Bytes::from(vec![1; 5000]);
        let mut pieces = buffer.add(&[0; 16], &large).expect("it is large");
        assert_eq!(pieces.as_mut()[1].as_ptr(), large.as_ptr());
        assert_eq!(lengths(buffer.add(&[], &large)), [5000]);
        assert!(buffer.add(&[0; 16], &small).is_none());
        assert_eq!(lengths(buffer.take()), [4016]);
        assert!(buffer.take().is_none());
    }
}
