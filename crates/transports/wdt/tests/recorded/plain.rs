//! One direction of a connection, decrypted and decoded.

use wdt_protocol::codec::{Decoded, Malformed};
use wdt_protocol::crypto::{Open, Secret};

/// Plain bytes of one direction, decrypted as they are read.
pub struct Plain {
    open: Open,
    wire: Vec<u8>,
    at: usize,
}

impl Plain {
    pub fn new(wire: Vec<u8>, secret: Option<&Secret>) -> Self {
        Self {
            open: Open::new(secret),
            wire,
            at: 0,
        }
    }

    /// Takes exactly `count` bytes; `None` at the end of the recording.
    pub fn take(&mut self, count: usize) -> Option<Vec<u8>> {
        let mut taken = Vec::new();
        while taken.len() < count {
            let opened = self
                .open
                .open(&mut self.wire, &mut self.at, count - taken.len())
                .expect("it decrypts");
            if opened.is_empty() {
                return None;
            }
            taken.extend_from_slice(opened);
        }
        Some(taken)
    }

    pub fn next<T>(
        &mut self,
        decode: impl Fn(&[u8]) -> Result<Decoded<T>, Malformed>,
    ) -> Option<T> {
        let mut bytes = Vec::new();
        loop {
            match decode(&bytes).expect("it is well-formed") {
                Decoded::Whole { value, length } => {
                    assert_eq!(length, bytes.len());
                    return Some(value);
                }
                Decoded::Needs(more) => bytes.extend(self.take(more)?),
            }
        }
    }

    /// Returns the next message, or `None` also for bytes that are none: an answer of one byte.
    pub fn next_or_none<T>(
        &mut self,
        decode: impl Fn(&[u8]) -> Result<Decoded<T>, Malformed>,
    ) -> Option<T> {
        let mut bytes = Vec::new();
        loop {
            match decode(&bytes).ok()? {
                Decoded::Whole { value, .. } => return Some(value),
                Decoded::Needs(more) => bytes.extend(self.take(more)?),
            }
        }
    }

    /// Returns the number of bytes of the wire that were not taken.
    pub fn left(&self) -> usize {
        self.wire.len() - self.at
    }

    /// Checks that nothing is left but the last tag, if there are tags.
    pub fn ends(mut self) {
        let all = self
            .open
            .finish(&self.wire, &mut self.at)
            .expect("the tag verifies");
        assert!(all, "the last tag is there");
        assert_eq!(self.at, self.wire.len(), "nothing is left");
    }
}
