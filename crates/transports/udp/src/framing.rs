//! Frames CONN, CONACC, DATA and RCVD around the messages of `udp`.
//!
//! The first message of each direction opens the flow: the connecting end's travels in CONN, the
//! accepting end's answer in CONACC. After that every message is DATA, except those of the
//! transfer's receiving end, which are RCVD: that it has counted everything. Nothing is
//! acknowledged or sent again in between.

use std::hash::{BuildHasher, Hasher, RandomState};

use bytes::{Buf as _, BufMut as _};
use regatta_control::Role;
use regatta_transport::Purpose;

/// Bytes before every message: type (1), session (8), number (8), length (4); little-endian. As
/// many as before a message of `udp-reliable`, so that the two carry the same load.
pub(crate) const HEADER_BYTES: usize = 1 + 8 + 8 + 4;

/// Type of a frame, with its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Conn = 0xd1,
    ConAcc = 0xd2,
    Data = 0xd3,
    Rcvd = 0xd4,
}

impl Kind {
    fn from_code(code: u8) -> Option<Self> {
        let kinds = [Self::Conn, Self::ConAcc, Self::Data, Self::Rcvd];
        kinds.into_iter().find(|kind| *kind as u8 == code)
    }
}

/// A decoded frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub kind: Kind,
    pub session: u64,
    /// Position among the frames of its direction; in CONN, the purpose of the flow.
    pub number: u64,
    pub message: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Decodes a datagram; `None` for anything that is no frame.
    pub(crate) fn decode(datagram: &'a [u8]) -> Option<Self> {
        let mut rest = datagram;
        let kind = Kind::from_code(rest.try_get_u8().ok()?)?;
        let session = rest.try_get_u64_le().ok()?;
        let number = rest.try_get_u64_le().ok()?;
        let length = rest.try_get_u32_le().ok()?;
        (usize::try_from(length) == Ok(rest.len())).then_some(Self {
            kind,
            session,
            number,
            message: rest,
        })
    }

    /// Appends the frame to `buffer`.
    fn append(self, buffer: &mut Vec<u8>) {
        buffer.put_u8(self.kind as u8);
        buffer.put_u64_le(self.session);
        buffer.put_u64_le(self.number);
        buffer.put_u32_le(self.message.len() as u32);
        buffer.put_slice(self.message);
    }
}

/// Names of facts of both drivers; see [`Framing::marks`].
pub(crate) const CONN_FACT: &str = "frame_conn";
pub(crate) const RCVD_FACT: &str = "frame_rcvd";

/// Returns the first bytes of a frame, its type and its session, in Wireshark's notation.
pub(crate) fn mark(kind: u8, session: &[u8]) -> String {
    let begin = format!("{kind:02x}");
    (session.iter()).fold(begin, |text, byte| format!("{text}:{byte:02x}"))
}

const TRANSFER: u64 = 1;
const PROBE: u64 = 0;

/// Framing of one end of one flow.
#[derive(Debug)]
pub(crate) struct Framing {
    session: u64,
    /// Type of this end's messages after the opening.
    kind: Kind,
    stage: Stage,
    next: u64,
    framed: Vec<u8>,
}

#[derive(Debug)]
enum Stage {
    /// The connecting end, until it has received a frame.
    Connecting { number: u64 },
    /// The accepting end, with its answer once that was sent: it may be lost, and be sent again.
    Accepting { answer: Option<Vec<u8>> },
    /// The connecting end, after the first frame received.
    Open,
}

impl Framing {
    fn new(session: u64, role: Role, is_transfer: bool, stage: Stage) -> Self {
        Self {
            session,
            kind: match role {
                Role::Receiver if is_transfer => Kind::Rcvd,
                _ => Kind::Data,
            },
            stage,
            next: 0,
            framed: Vec::new(),
        }
    }

    /// Returns the framing of the connecting end of a new flow.
    pub(crate) fn connecting(role: Role, purpose: Purpose) -> Self {
        let is_transfer = purpose == Purpose::Transfer;
        // Keyed anew in every process, and different at each call.
        let session = RandomState::new().build_hasher().finish();
        let number = if is_transfer { TRANSFER } else { PROBE };
        Self::new(session, role, is_transfer, Stage::Connecting { number })
    }

    /// Returns the framing of the accepting end of the flow that `conn` opens.
    pub(crate) fn accepting(role: Role, conn: Frame<'_>) -> Self {
        let stage = Stage::Accepting { answer: None };
        Self::new(conn.session, role, conn.number == TRANSFER, stage)
    }

    /// Returns the first bytes of the frames that begin and end this transfer, as facts: they find
    /// the frames in a capture, with `udp.payload[0:9] == FACT` in Wireshark too.
    pub(crate) fn marks(&self) -> [(String, String); 2] {
        [(CONN_FACT, Kind::Conn), (RCVD_FACT, Kind::Rcvd)].map(|(fact, kind)| {
            let mark = mark(kind as u8, &self.session.to_le_bytes());
            (fact.to_owned(), mark)
        })
    }

    /// Frames the messages of a batch, one after another.
    pub(crate) fn frame(&mut self, batch: &[u8], message_bytes: usize) -> &[u8] {
        self.framed.clear();
        for message in batch.chunks(message_bytes.max(1)) {
            let (kind, number) = match &mut self.stage {
                Stage::Connecting { number } => (Kind::Conn, *number),
                Stage::Accepting { answer } if answer.as_deref().is_none_or(|a| a == message) => {
                    answer.get_or_insert_with(|| message.to_vec());
                    (Kind::ConAcc, 0)
                }
                Stage::Accepting { .. } | Stage::Open => {
                    self.next += 1;
                    (self.kind, self.next - 1)
                }
            };
            let frame = Frame {
                kind,
                session: self.session,
                number,
                message,
            };
            frame.append(&mut self.framed);
        }
        &self.framed
    }

    /// Returns the message of a datagram of this flow; `None` for any other.
    pub(crate) fn unframe<'a>(&mut self, datagram: &'a [u8]) -> Option<&'a [u8]> {
        let frame = Frame::decode(datagram).filter(|frame| frame.session == self.session)?;
        if let Stage::Connecting { .. } = self.stage {
            self.stage = Stage::Open;
        }
        Some(frame.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(framed: &[u8], message_bytes: usize) -> Vec<(Kind, u64)> {
        framed
            .chunks(message_bytes + HEADER_BYTES)
            .map(|frame| {
                let frame = Frame::decode(frame).expect("a frame");
                (frame.kind, frame.number)
            })
            .collect()
    }

    #[test]
    fn flow_opens_carries_data_and_ends_with_receiver_confirmation() {
        let mut client = Framing::connecting(Role::Sender, Purpose::Transfer);
        let conn = client.frame(b"open", 4).to_vec();
        assert_eq!(kinds(&conn, 4), [(Kind::Conn, TRANSFER)]);
        assert_eq!(client.frame(b"open", 4), conn, "it comes again as it was");

        let conn = Frame::decode(&conn).expect("a frame");
        assert_eq!(conn.message, b"open");
        let mut server = Framing::accepting(Role::Receiver, conn);
        let answer = server.frame(b"opened", 6).to_vec();
        assert_eq!(kinds(&answer, 6), [(Kind::ConAcc, 0)]);
        assert_eq!(client.unframe(&answer), Some(b"opened".as_slice()));

        let data = client.frame(b"aabbc", 2).to_vec();
        assert_eq!(
            kinds(&data, 2),
            [(Kind::Data, 0), (Kind::Data, 1), (Kind::Data, 2)]
        );
        assert_eq!(
            server.unframe(&data[..HEADER_BYTES + 2]),
            Some(b"aa".as_slice())
        );
        assert_eq!(server.unframe(&data[..HEADER_BYTES + 1]), None, "cut short");
        assert_eq!(kinds(server.frame(b"opened", 6), 6), [(Kind::ConAcc, 0)]);
        assert_eq!(kinds(server.frame(b"word", 4), 4), [(Kind::Rcvd, 0)]);
    }

    #[test]
    fn other_sessions_are_ignored_and_a_probe_sends_no_confirmation() {
        let mut client = Framing::connecting(Role::Sender, Purpose::IdleProbe);
        let mut other = Framing::connecting(Role::Sender, Purpose::IdleProbe);
        let conn = client.frame(b"open", 4).to_vec();
        let mut server = Framing::accepting(Role::Receiver, Frame::decode(&conn).expect("one"));
        let answer = server.frame(b"opened", 6).to_vec();
        assert_eq!(other.unframe(&answer), None);
        assert_eq!(client.unframe(b"rubbish"), None);
        assert_eq!(kinds(server.frame(b"echo", 4), 4), [(Kind::Data, 0)]);
    }
}
