//! History of the blocks sent over one port, so that a checkpoint shows which must be sent again.

use crate::codec::Checkpoint;
use crate::queue::{Block, Queue};

/// Blocks of which sending began on one port and that were not given back to the queue, in the order of sending.
#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) blocks: Vec<Block>,
    /// Number of blocks at the front of `blocks` that the receiver is known to have.
    acknowledged: usize,
    /// Number of blocks that the last checkpoint counted. `acknowledged` can be larger: the receiver's WAIT
    /// acknowledges blocks that no checkpoint counts yet, since with tags a block counts only once its tag has arrived.
    counted: usize,
}

impl History {
    pub(super) fn acknowledged(&self) -> u64 {
        self.acknowledged as u64
    }

    /// Whether the receiver has everything that was sent over this port.
    pub(super) fn is_acknowledged(&self) -> bool {
        self.acknowledged == self.blocks.len()
    }

    /// Counts everything that was sent over this port as received.
    pub(super) fn acknowledge_all(&mut self) {
        self.acknowledged = self.blocks.len();
    }

    /// Applies a checkpoint: gives the blocks that the receiver does not have back to the queue.
    /// Returns whether the receiver has more than was known before.
    ///
    /// # Errors
    /// The contradiction, as a clause, of a checkpoint that does not fit the blocks sent.
    pub(super) fn apply(
        &mut self,
        checkpoint: &Checkpoint,
        queue: &mut Queue,
    ) -> Result<bool, &'static str> {
        let count = match usize::try_from(checkpoint.blocks) {
            Ok(count) if count <= self.blocks.len() => count,
            _ => return Err("it counts more blocks than were sent"),
        };
        if count < self.counted {
            return Err("it counts fewer blocks than before");
        }
        let mut credited = 0;
        // A block that is not the named one was begun after the receiver wrote the checkpoint.
        if let Some(block) = self.blocks.get(count)
            && checkpoint.partial_bytes > 0
            && block.sequence == checkpoint.partial_sequence
            && block.offset == checkpoint.partial_offset
        {
            if checkpoint.partial_bytes > block.length {
                return Err("it counts more of a block than the block has");
            }
            credited = checkpoint.partial_bytes;
        }
        for (index, block) in self.blocks.drain(count..).enumerate() {
            queue.give_back(block, if index == 0 { credited } else { 0 });
        }
        let progress = count > self.counted || credited > 0;
        (self.acknowledged, self.counted) = (count, count);
        Ok(progress)
    }

    /// Gives all blocks back, as if nothing had been sent on this port.
    pub(super) fn give_all_back(&mut self, queue: &mut Queue) {
        for block in self.blocks.drain(..) {
            queue.give_back(block, 0);
        }
        (self.acknowledged, self.counted) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::RelativePath;
    use crate::source::SourceFile;

    fn sent() -> (History, Queue) {
        let file = |name: &str| SourceFile {
            path: RelativePath::new(name.as_bytes()).unwrap(),
            size_bytes: 100,
        };
        let mut queue = Queue::new(&[file("a"), file("b"), file("c")], 0);
        let mut history = History::default();
        while let Some(block) = queue.pop() {
            history.blocks.push(block);
        }
        (history, queue)
    }

    #[test]
    fn uncounted_blocks_are_resent_without_the_credited_part() {
        let (mut history, mut queue) = sent();
        let checkpoint = Checkpoint {
            port: 1,
            blocks: 1,
            partial_bytes: 40,
            partial_sequence: 2,
            partial_offset: 0,
        };
        assert_eq!(history.apply(&checkpoint, &mut queue), Ok(true));
        let again: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(
            again
                .iter()
                .map(|b| (b.file, b.offset, b.length))
                .collect::<Vec<_>>(),
            [(2, 0, 100), (1, 40, 60)]
        );
        // Said again, it changes nothing, also when another block was begun in the meantime.
        history.blocks.push(again[0]);
        assert_eq!(history.apply(&checkpoint, &mut queue), Ok(false));
        assert_eq!(
            queue.pop().map(|b| (b.file, b.offset, b.length)),
            Some((2, 0, 100))
        );
        // And a whole block may be credited, of which an empty rest remains to be sent.
        history.blocks.push(again[1]);
        let all = Checkpoint {
            partial_bytes: 60,
            partial_offset: 40,
            ..checkpoint
        };
        assert_eq!(history.apply(&all, &mut queue), Ok(true));
        assert_eq!(
            queue.pop().map(|b| (b.file, b.offset, b.length)),
            Some((1, 100, 0))
        );
    }

    #[test]
    fn a_checkpoint_is_compared_with_the_one_before_and_not_with_wait() {
        let (mut history, mut queue) = sent();
        let counts = |blocks| Checkpoint {
            port: 1,
            blocks,
            ..Checkpoint::default()
        };
        assert_eq!(history.apply(&counts(1), &mut queue), Ok(true));
        history.blocks.extend(queue.pop());
        history.acknowledge_all();
        assert!(history.is_acknowledged());
        // With tags, the block after the last one was not counted.
        assert_eq!(history.apply(&counts(1), &mut queue), Ok(false));
        assert_eq!(history.blocks.len(), 1);
        assert!(history.apply(&counts(0), &mut queue).is_err());
    }

    #[test]
    fn contradictory_checkpoints_are_refused() {
        let (mut history, mut queue) = sent();
        let counts = |blocks| Checkpoint {
            port: 1,
            blocks,
            ..Checkpoint::default()
        };
        assert!(history.apply(&counts(4), &mut queue).is_err());
        assert_eq!(history.apply(&counts(2), &mut queue), Ok(true));
        assert!(history.apply(&counts(1), &mut queue).is_err());
        let (mut history, mut queue) = sent();
        let too_much = Checkpoint {
            partial_bytes: 101,
            partial_sequence: 1,
            ..counts(0)
        };
        assert!(history.apply(&too_much, &mut queue).is_err());
    }
}
