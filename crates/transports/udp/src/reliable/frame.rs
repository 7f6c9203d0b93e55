//! The frames of `udp-reliable`, one per datagram.
//!
//! Every frame begins with its type (1 byte) and the session (4 bytes, chosen by the connecting
//! end). Numbers are little-endian. A DATA frame has 21 bytes before its payload, as many as the
//! published protocol has.

use bytes::{Buf as _, BufMut as _};

use crate::framing::{CONN_FACT, RCVD_FACT, mark};

/// Bytes before the payload of a DATA frame: type, session, number, transmission.
pub(crate) const DATA_HEADER_BYTES: usize = 1 + 4 + 8 + 8;

/// Longest bitmap of an ACC frame, in bytes: with its other fields it fits a packet of any path.
pub(crate) const LONGEST_BITMAP: usize = 1024;

/// Maximum number of messages in flight: the number that the bitmap can represent.
pub(crate) const LARGEST_WINDOW: usize = LONGEST_BITMAP * 8;

const CONN: u8 = 0xc1;
const CONACC: u8 = 0xc2;
const CONRJT: u8 = 0xc3;
const DATA: u8 = 0xc4;
const FIN: u8 = 0xc5;
const ACC: u8 = 0xc6;
const CLOSE: u8 = 0xc7;

/// A decoded frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frame<'a> {
    /// Request of a connection; the payload is the opening of the flow.
    Conn { opening: &'a [u8] },
    /// Acceptance of the connection.
    ConAcc,
    /// Refusal of the connection.
    ConRjt,
    /// One message, or a part of one that is longer than a datagram.
    Data {
        /// Position among the messages of this direction, from zero.
        number: u64,
        /// Position among all DATA and FIN frames of this direction in the order of sending, so
        /// that an acknowledgement shows which copy of a message it is for.
        transmission: u64,
        payload: &'a [u8],
    },
    /// The end of this direction, numbered and acknowledged like a message.
    Fin { number: u64, transmission: u64 },
    /// Acknowledgement.
    Acc {
        /// Number of the first message that has not arrived.
        next: u64,
        /// Largest transmission that has arrived; [`u64::MAX`] if none.
        largest: u64,
        /// Further messages that have arrived: bit `i` is for message `next + 1 + i`.
        bitmap: &'a [u8],
    },
    /// End of the connection.
    Close,
}

/// Takes the two numbers of a frame that has such.
fn numbers(rest: &mut &[u8]) -> Option<(u64, u64)> {
    Some((rest.try_get_u64_le().ok()?, rest.try_get_u64_le().ok()?))
}

impl<'a> Frame<'a> {
    /// Decodes a datagram into its session and its frame; `None` for anything else.
    pub(crate) fn decode(datagram: &'a [u8]) -> Option<(u32, Self)> {
        let mut rest = datagram;
        let kind = rest.try_get_u8().ok()?;
        let session = rest.try_get_u32_le().ok()?;
        let frame = match kind {
            CONN => Self::Conn { opening: rest },
            CONACC if rest.is_empty() => Self::ConAcc,
            CONRJT if rest.is_empty() => Self::ConRjt,
            CLOSE if rest.is_empty() => Self::Close,
            DATA => {
                let (number, transmission) = numbers(&mut rest)?;
                Self::Data {
                    number,
                    transmission,
                    payload: rest,
                }
            }
            FIN if rest.len() == 16 => {
                let (number, transmission) = numbers(&mut rest)?;
                Self::Fin {
                    number,
                    transmission,
                }
            }
            ACC if rest.len() <= 16 + LONGEST_BITMAP => {
                let (next, largest) = numbers(&mut rest)?;
                Self::Acc {
                    next,
                    largest,
                    bitmap: rest,
                }
            }
            _ => return None,
        };
        Some((session, frame))
    }

    /// Writes a frame to `buffer`, replacing its content.
    pub(crate) fn encode(self, session: u32, buffer: &mut Vec<u8>) {
        let (kind, numbers, rest) = match self {
            Self::Conn { opening } => (CONN, None, opening),
            Self::ConAcc => (CONACC, None, &[][..]),
            Self::ConRjt => (CONRJT, None, &[][..]),
            Self::Data {
                number,
                transmission,
                payload,
            } => (DATA, Some([number, transmission]), payload),
            Self::Fin {
                number,
                transmission,
            } => (FIN, Some([number, transmission]), &[][..]),
            Self::Acc {
                next,
                largest,
                bitmap,
            } => (ACC, Some([next, largest]), bitmap),
            Self::Close => (CLOSE, None, &[][..]),
        };
        buffer.clear();
        buffer.put_u8(kind);
        buffer.put_u32_le(session);
        for number in numbers.into_iter().flatten() {
            buffer.put_u64_le(number);
        }
        buffer.put_slice(rest);
    }
}

/// Returns the first bytes of a session's CONN and of its DATA, which from the receiver's end
/// confirms the transfer, as facts.
pub(crate) fn marks(session: u32) -> [(String, String); 2] {
    [(CONN_FACT, CONN), (RCVD_FACT, DATA)]
        .map(|(fact, kind)| (fact.to_owned(), mark(kind, &session.to_le_bytes())))
}

/// Writes the transmission into a DATA or FIN frame that is about to be sent.
pub(crate) fn set_transmission(frame: &mut [u8], transmission: u64) {
    if let Some(field) = frame.get_mut(13..21) {
        field.copy_from_slice(&transmission.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_round_trip() {
        let mut buffer = Vec::new();
        for frame in [
            Frame::Conn { opening: b"abc" },
            Frame::ConAcc,
            Frame::ConRjt,
            Frame::Data {
                number: 7,
                transmission: 9,
                payload: b"xyz",
            },
            Frame::Data {
                number: u64::MAX,
                transmission: 0,
                payload: b"",
            },
            Frame::Fin {
                number: 1,
                transmission: 2,
            },
            Frame::Acc {
                next: 3,
                largest: u64::MAX,
                bitmap: &[1, 2, 3],
            },
            Frame::Close,
        ] {
            frame.encode(0xdead_beef, &mut buffer);
            assert_eq!(Frame::decode(&buffer), Some((0xdead_beef, frame)));
        }
    }

    #[test]
    fn truncated_and_overlong_frames_are_rejected() {
        let mut buffer = Vec::new();
        Frame::Data {
            number: 7,
            transmission: 9,
            payload: b"",
        }
        .encode(1, &mut buffer);
        assert_eq!(buffer.len(), DATA_HEADER_BYTES);
        for length in 0..DATA_HEADER_BYTES {
            assert_eq!(Frame::decode(&buffer[..length]), None, "{length}");
        }
        for kind in [CONACC, CONRJT, FIN, CLOSE] {
            assert_eq!(Frame::decode(&[[kind].as_slice(), &[0; 30]].concat()), None);
        }
        assert_eq!(Frame::decode(&[0; 21]), None);
        assert_eq!(
            Frame::decode(&[[ACC].as_slice(), &[0; 21 + LONGEST_BITMAP]].concat()),
            None
        );
    }
}
