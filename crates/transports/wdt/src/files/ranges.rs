//! Byte ranges of a file that have arrived.

use std::collections::BTreeMap;

/// Byte ranges of one file, and the extent of blocks that were cut.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    /// Start and end of each range; they neither touch nor overlap.
    ranges: BTreeMap<u64, u64>,
    /// Start of each block that was cut, and the offset at which it was cut.
    cut: BTreeMap<u64, u64>,
}

impl Ranges {
    /// Notes that a block of `length` bytes begins at `offset`. A block that was cut with the same
    /// start is sent again, so its part is dropped; of one cut at or beyond `offset`, the part
    /// before `offset` is counted.
    pub(super) fn begin(&mut self, offset: u64, length: u64) {
        // An empty rest of one block has no effect on the block that begins where it ends.
        if length > 0 {
            self.cut.remove(&offset);
        }
        if let Some((&start, &end)) = self.cut.range(..offset).next_back()
            && offset <= end
        {
            self.cut.remove(&start);
            self.add(start, offset);
        }
    }

    /// Notes that a block from `start` was cut at `end`.
    pub(super) fn cut(&mut self, start: u64, end: u64) {
        if start < end {
            self.cut.insert(start, end);
        }
    }

    /// Adds the bytes from `start` to `end`.
    pub(super) fn add(&mut self, mut start: u64, mut end: u64) {
        if start >= end {
            return;
        }
        while let Some((&s, &e)) = self.ranges.range(..=end).next_back()
            && e >= start
        {
            self.ranges.remove(&s);
            start = start.min(s);
            end = end.max(e);
        }
        self.ranges.insert(start, end);
    }

    /// Whether all bytes of a file of `size` bytes have arrived.
    pub(super) fn are_all_of(&self, size: u64) -> bool {
        size == 0 || self.ranges.get(&0) == Some(&size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_in_any_order_complete_the_file() {
        let mut ranges = Ranges::default();
        assert!(ranges.are_all_of(0) && !ranges.are_all_of(1));
        for (start, end) in [(30, 40), (0, 10), (10, 20), (25, 30), (5, 15)] {
            ranges.add(start, end);
            assert!(!ranges.are_all_of(40));
        }
        ranges.add(20, 25);
        assert!(ranges.are_all_of(40) && !ranges.are_all_of(41));
    }

    #[test]
    fn truncated_block_counts_up_to_the_start_of_the_next() {
        // Sent again from its beginning: nothing of the first attempt counts.
        let mut ranges = Ranges::default();
        ranges.begin(0, 90);
        ranges.cut(0, 60);
        ranges.begin(0, 90);
        ranges.cut(0, 20);
        // Sent on from where it was cut: the part before that is there.
        ranges.begin(20, 70);
        ranges.add(20, 90);
        assert!(!ranges.are_all_of(100));
        // An empty rest of a block that had arrived whole.
        ranges.begin(90, 10);
        ranges.cut(90, 100);
        ranges.begin(100, 0);
        assert!(ranges.are_all_of(100));
        // Which leaves alone what was cut of the next block.
        ranges.begin(100, 50);
        ranges.cut(100, 120);
        ranges.begin(100, 0);
        ranges.begin(120, 30);
        ranges.add(120, 150);
        assert!(ranges.are_all_of(150));
    }
}
