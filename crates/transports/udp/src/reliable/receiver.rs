//! The receiving half of a connection: order, duplicates, acknowledgements.

use std::collections::BTreeMap;

use super::frame::{Frame, LARGEST_WINDOW, LONGEST_BITMAP};

/// The receiving half.
#[derive(Debug, Default)]
pub(crate) struct Receiver {
    /// Number of the next message in order.
    next: u64,
    /// Messages that arrived before an earlier one; `None` is the end of the direction.
    early: BTreeMap<u64, Option<Vec<u8>>>,
    /// Largest transmission that has arrived.
    largest: Option<u64>,
    /// Whether everything that the other end sends has arrived.
    pub finished: bool,
    bitmap: Vec<u8>,
}

impl Receiver {
    /// Handles a message, or the end of the direction for no `payload`. Delivers the messages that
    /// are due.
    pub(crate) fn on_message(
        &mut self,
        number: u64,
        transmission: u64,
        payload: Option<&[u8]>,
        deliver: &mut impl FnMut(&[u8]),
    ) {
        // A peer that keeps to its window never sends what is further ahead.
        let ahead = number.saturating_sub(self.next);
        if ahead >= LARGEST_WINDOW as u64 || (self.finished && number >= self.next) {
            return;
        }
        self.largest = self.largest.max(Some(transmission));
        if number < self.next {
            return;
        }
        if number > self.next {
            let early = self.early.entry(number);
            early.or_insert_with(|| payload.map(<[u8]>::to_vec));
            return;
        }
        self.next += 1;
        match payload {
            Some(payload) => deliver(payload),
            None => return self.finish(),
        }
        while let Some(early) = self.early.remove(&self.next) {
            self.next += 1;
            match early {
                Some(payload) => deliver(&payload),
                None => return self.finish(),
            }
        }
    }

    fn finish(&mut self) {
        self.finished = true;
        self.early.clear();
    }

    /// Returns the acknowledgement of all that has arrived.
    pub(crate) fn acknowledgement(&mut self) -> Frame<'_> {
        self.bitmap.clear();
        if let Some((last, _)) = self.early.last_key_value() {
            let bytes = ((last - self.next - 1) / 8 + 1) as usize;
            self.bitmap.resize(bytes.min(LONGEST_BITMAP), 0);
            for number in self.early.keys() {
                let bit = (number - self.next - 1) as usize;
                if let Some(byte) = self.bitmap.get_mut(bit / 8) {
                    *byte |= 1 << (bit % 8);
                }
            }
        }
        Frame::Acc {
            next: self.next,
            largest: self.largest.unwrap_or(u64::MAX),
            bitmap: &self.bitmap,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_delivered_once_in_order_and_bitmap_lists_buffered_ones() {
        let mut receiver = Receiver::default();
        let mut got = Vec::new();
        for (transmission, number) in [0, 2, 2, 10, 1, 0].into_iter().enumerate() {
            receiver.on_message(
                number,
                transmission as u64,
                Some(&[number as u8]),
                &mut |data| {
                    got.extend_from_slice(data);
                },
            );
        }
        assert_eq!(got, [0, 1, 2]);
        let Frame::Acc {
            next,
            largest,
            bitmap,
        } = receiver.acknowledgement()
        else {
            panic!("an acknowledgement");
        };
        // 10 = 3 + 1 + 6.
        assert_eq!((next, largest, bitmap), (3, 5, [1 << 6].as_slice()));
    }

    #[test]
    fn messages_after_the_end_or_beyond_the_window_are_dropped() {
        let mut receiver = Receiver::default();
        let mut got = 0;
        let mut deliver = |_: &[u8]| got += 1;
        receiver.on_message(u64::MAX, 0, Some(b"far"), &mut deliver);
        receiver.on_message(LARGEST_WINDOW as u64, 0, Some(b"far"), &mut deliver);
        receiver.on_message(1, 1, None, &mut deliver);
        assert!(!receiver.finished);
        receiver.on_message(0, 0, Some(b"first"), &mut deliver);
        assert!(receiver.finished);
        receiver.on_message(2, 2, Some(b"after"), &mut deliver);
        assert_eq!(got, 1);
        assert!(matches!(
            receiver.acknowledgement(),
            Frame::Acc {
                next: 2,
                largest: 1,
                bitmap: []
            }
        ));
    }
}
