//! The sender's queue of blocks, shared by all its connections.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::source::SourceFile;

/// A range of bytes of one file, sent over one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Block {
    /// The file's index in the source; from its number of files on, that of a file which only the
    /// receiver has.
    pub file: usize,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Length in bytes; 0 for an empty file or one that only the receiver has, and for the rest of a
    /// block that arrived whole but was not counted.
    pub length: u64,
    /// The file's sequence id.
    pub sequence: u64,
    /// Number of times that it was sent without being counted.
    pub failed_attempts: u32,
    /// Rank of the file's path among all paths.
    pub name: usize,
}

/// Blocks that are still to be sent: those of files that only the receiver has come first, as another
/// file may need their names; then those with the fewest failed attempts, of these the longest, then
/// by offset and by name.
#[derive(Debug, Default)]
pub struct Queue {
    /// Blocks after their ranks; the greatest goes first.
    heap: BinaryHeap<(Rank, Block)>,
    /// Number of files of the source.
    files: usize,
    /// Number of blocks of the whole transfer.
    pub(crate) blocks: u64,
    /// Number of bytes of the whole transfer.
    pub(crate) bytes: u64,
}

/// Whether only the receiver has the file; failed attempts, length, offset and name of a block.
type Rank = (bool, Reverse<u32>, u64, Reverse<u64>, Reverse<usize>);

/// Parts of one file to send: its sequence ID, and the start and end of each range, in bytes. An empty range is a block
/// without bytes.
pub(crate) type Plan = (u64, Vec<(u64, u64)>);

impl Queue {
    /// Returns a queue of all blocks of `files`; of one block per file for a `block_bytes` of 0.
    #[must_use]
    pub fn new(files: &[SourceFile], block_bytes: u64) -> Self {
        let all = files.iter().enumerate();
        let all = all.map(|(index, file)| (index as u64 + 1, vec![(0, file.size_bytes)]));
        Self::of_plans(files, all.collect(), block_bytes)
    }

    /// Returns a queue of what is planned for each file.
    pub(crate) fn of_plans(files: &[SourceFile], mut plans: Vec<Plan>, block_bytes: u64) -> Self {
        let mut by_name: Vec<usize> = (0..files.len()).collect();
        by_name.sort_by(|a, b| files[*a].path.cmp(&files[*b].path));
        let step = Some(block_bytes).filter(|bytes| *bytes > 0);
        let mut queue = Self {
            files: files.len(),
            ..Self::default()
        };
        for (name, file) in by_name.into_iter().enumerate() {
            let (sequence, ranges) = std::mem::take(&mut plans[file]);
            for (mut offset, end) in ranges {
                queue.bytes += end - offset;
                loop {
                    let length = step.unwrap_or(u64::MAX).min(end - offset);
                    queue.blocks += 1;
                    queue.push(Block {
                        file,
                        offset,
                        length,
                        sequence,
                        failed_attempts: 0,
                        name,
                    });
                    offset += length;
                    if offset == end {
                        break;
                    }
                }
            }
        }
        queue
    }

    /// Adds a block without bytes for a file that only the receiver has.
    pub(crate) fn add_gone(&mut self, file: usize, sequence: u64) {
        self.blocks += 1;
        self.push(Block {
            file,
            offset: 0,
            length: 0,
            sequence,
            failed_attempts: 0,
            name: file,
        });
    }

    /// Takes the next block.
    pub(crate) fn pop(&mut self) -> Option<Block> {
        self.heap.pop().map(|(_, block)| block)
    }

    /// Puts a block back that was not counted, without its first `credited` bytes, which arrived.
    pub(crate) fn give_back(&mut self, mut block: Block, credited: u64) {
        block.failed_attempts = block.failed_attempts.saturating_add(1);
        block.offset += credited;
        block.length -= credited;
        self.push(block);
    }

    fn push(&mut self, block: Block) {
        let (offset, name) = (Reverse(block.offset), Reverse(block.name));
        let attempts = Reverse(block.failed_attempts);
        let is_gone = block.file >= self.files;
        let rank = (is_gone, attempts, block.length, offset, name);
        self.heap.push((rank, block));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::RelativePath;

    fn file(path: &str, size_bytes: u64) -> SourceFile {
        SourceFile {
            path: RelativePath::new(path.as_bytes()).unwrap(),
            size_bytes,
        }
    }

    fn drain(queue: &mut Queue) -> Vec<(usize, u64, u64)> {
        std::iter::from_fn(|| queue.pop())
            .map(|block| (block.file, block.offset, block.length))
            .collect()
    }

    #[test]
    fn queue_orders_by_length_then_offset_then_name() {
        let files = [
            file("z", 25),
            file("b", 10),
            file("a", 10),
            file("empty", 0),
        ];
        let mut queue = Queue::new(&files, 10);
        assert_eq!((queue.blocks, queue.bytes), (6, 45));
        let order = [
            (2, 0, 10),
            (1, 0, 10),
            (0, 0, 10),
            (0, 10, 10),
            (0, 20, 5),
            (3, 0, 0),
        ];
        assert_eq!(drain(&mut queue), order);
        let mut all = Queue::new(&files, 0);
        assert_eq!(
            drain(&mut all),
            [(0, 0, 25), (2, 0, 10), (1, 0, 10), (3, 0, 0)]
        );
    }

    #[test]
    fn files_that_are_gone_come_first() {
        let mut queue = Queue::new(&[file("a", 30)], 0);
        queue.add_gone(1, 7);
        assert_eq!((queue.blocks, queue.bytes), (2, 30));
        assert_eq!(drain(&mut queue), [(1, 0, 0), (0, 0, 30)]);
    }

    #[test]
    fn returned_block_is_queued_last_without_its_received_part() {
        let mut queue = Queue::new(&[file("a", 30), file("b", 5)], 0);
        let first = queue.pop().unwrap();
        queue.give_back(first, 12);
        assert_eq!(drain(&mut queue), [(1, 0, 5), (0, 12, 18)]);
    }
}
