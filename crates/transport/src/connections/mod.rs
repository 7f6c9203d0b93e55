//! Workload `short-connections`: connections one after another, each with one small exchange.
//!
//! One exchange before them is not measured. It gets a ticket where the handshake needs one, and
//! warms the caches of both ends for every kind of handshake. Each connection sends its opening and
//! its request as soon as it can, reads the whole response, and is closed while the next one is
//! made. With 0-RTT it stays open for one more round trip, because the ticket for the next
//! connection arrives after the response. There is no probe under load: the exchanges are the
//! measurement.

mod client;
mod server;

use bytes::Bytes;
use regatta_control::TrialOrder;
use regatta_model::{Handshake, Pattern, WorkloadKind, reason};

use crate::{
    content::plan::message_content,
    error::{Result, TransportError},
    opening::{self, OPENING_BYTES, Purpose, Token},
};

/// Largest request and answer, in bytes: both ends hold them whole.
const LONGEST: u64 = 256 << 20;

/// Number of the exchange that is not measured.
const NOT_MEASURED: u64 = u64::MAX;

/// Length of the number of an exchange, which follows the opening, in bytes.
const NUMBER_BYTES: usize = 8;

/// The exchanges of a trial. Both ends make the same from their orders.
#[derive(Debug)]
pub(crate) struct Exchanges {
    connections: u64,
    handshake: Handshake,
    request: Bytes,
    response: Bytes,
}

impl Exchanges {
    pub(crate) fn new(order: &TrialOrder) -> Result<Self> {
        let WorkloadKind::ShortConnections {
            connections,
            handshake,
            request,
            response,
        } = order.workload.kind
        else {
            let name = order.workload.kind.name();
            let what = reason::no_short_connections(name);
            return Err(TransportError::order(what));
        };
        let longest = request.max(response);
        if longest.0 > LONGEST {
            let what = reason::exchange_too_long(longest);
            return Err(TransportError::order(what));
        }
        if response.0 == 0 {
            let what = reason::empty_answer();
            return Err(TransportError::order(what));
        }
        Ok(Self {
            connections: connections.into(),
            handshake,
            request: message_content(Pattern::Random, request.0 as usize, order.seed),
            response: message_content(Pattern::Random, response.0 as usize, !order.seed),
        })
    }
}

/// Returns the bytes before a request: the opening and the number of the exchange.
fn head(token: Token, number: u64) -> [u8; OPENING_BYTES + NUMBER_BYTES] {
    let mut head = [0; OPENING_BYTES + NUMBER_BYTES];
    head[..OPENING_BYTES].copy_from_slice(&opening::encode(token, Purpose::Transfer));
    head[OPENING_BYTES..].copy_from_slice(&number.to_le_bytes());
    head
}

/// Comparison of the bytes that come with those that are expected.
#[derive(Debug)]
struct Expected<'a> {
    rest: &'a [u8],
    sound: bool,
}

impl<'a> Expected<'a> {
    const fn new(all: &'a [u8]) -> Self {
        Self {
            rest: all,
            sound: true,
        }
    }

    /// Takes the next bytes.
    fn take(&mut self, piece: &[u8]) {
        let length = piece.len().min(self.rest.len());
        let (now, rest) = self.rest.split_at(length);
        // More than must come is wrong as well.
        self.sound &= piece == now;
        self.rest = rest;
    }

    const fn is_complete(&self) -> bool {
        self.rest.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expected_bytes_match_in_any_pieces() {
        let all = b"question";
        for cut in 0..=all.len() {
            let mut expected = Expected::new(all);
            expected.take(&all[..cut]);
            assert_eq!(expected.is_complete(), cut == all.len());
            expected.take(&all[cut..]);
            assert!(expected.is_complete() && expected.sound);
        }
        for wrong in [&b"Question"[..], b"questions"] {
            let mut expected = Expected::new(all);
            expected.take(wrong);
            assert!(!expected.sound);
        }
    }

    #[test]
    fn connection_number_follows_the_opening() {
        let token = Token([7; 16]);
        let head = head(token, 0x0102);
        let opening: [u8; OPENING_BYTES] = head[..OPENING_BYTES].try_into().expect("an opening");
        assert_eq!(opening::decode(&opening, token), Some(Purpose::Transfer));
        assert_eq!(head[OPENING_BYTES..], 0x0102_u64.to_le_bytes());
    }
}
