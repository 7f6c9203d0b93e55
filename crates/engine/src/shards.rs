//! Division of a plan into shards, and the digest by which they are known to be of one plan.

use std::ops::Range;

use regatta_model::{RunPart, Shard};
use sha2::{Digest, Sha256};

use crate::plan::{Done, Plan, PlannedTrial};

/// Plan that cannot be divided as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShardsError {
    /// More shards than there are blocks.
    #[error(
        "the plan has `{blocks}` blocks, which are one condition of one round each: too few for \
         `{shards}` shards"
    )]
    TooMany {
        /// Blocks of the plan.
        blocks: u32,
        /// Shards asked for.
        shards: u32,
    },
    /// Run that ends when its intervals are narrow.
    #[error("shards do not know one another's intervals, so that `until` cannot end them")]
    Until,
}

impl ShardsError {
    /// Returns a suggestion for the user.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::TooMany { blocks, .. } => format!("ask for at most {blocks} shards"),
            Self::Until => "leave `--shard` out, or give a number of rounds".to_owned(),
        }
    }
}

impl Plan {
    /// Returns the block of a trial: all trials of one round under one condition, which share the seed
    /// of their path and are compared with one another. Blocks are numbered round by round.
    #[must_use]
    pub(crate) fn block(&self, trial: &PlannedTrial) -> u32 {
        trial.round * self.conditions() + trial.cell.condition as u32
    }

    /// Returns the number of blocks.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        self.study().rounds * self.conditions()
    }

    /// Returns the number of conditions.
    pub(crate) fn conditions(&self) -> u32 {
        self.study().conditions.len() as u32
    }

    /// Returns the number of trials, finished or not, of the blocks that are to be run.
    #[must_use]
    pub fn trials_of(&self, done: &Done) -> u32 {
        let in_block = self.cells() as u32 / self.conditions().max(1);
        done.blocks(self).len() as u32 * in_block
    }

    /// Returns the blocks in which a trial is left to be run.
    pub(crate) fn blocks_left(&self, done: &Done) -> Vec<u32> {
        let left = self.left(done);
        let mut blocks: Vec<u32> = left.iter().map(|trial| self.block(trial)).collect();
        blocks.sort_unstable();
        blocks.dedup();
        blocks
    }

    /// Returns the state of a shard of which nothing else is done, with the trials that `done` has.
    ///
    /// The shards of a plan are equal ranges of whole rounds if it has as many rounds as shards or
    /// more, and otherwise of blocks. They depend on the plan and on their numbers only.
    ///
    /// # Errors
    /// [`ShardsError`] for a plan that cannot be divided into so many.
    pub fn shard(&self, shard: Shard, done: Done) -> Result<Done, ShardsError> {
        if self.study().until.is_some() {
            return Err(ShardsError::Until);
        }
        let (rounds, conditions) = (self.study().rounds, self.conditions());
        let (units, unit) = match rounds >= shard.of {
            true => (rounds, conditions),
            false => (self.blocks(), 1),
        };
        if units < shard.of {
            return Err(ShardsError::TooMany {
                blocks: units,
                shards: shard.of,
            });
        }
        let Range { start, end } = share(u64::from(units), shard.number - 1, shard.of);
        Ok(done.within(start as u32 * unit..end as u32 * unit))
    }

    /// Returns the identity of a run of this plan, or of a shard of it, whose state is `done`.
    #[must_use]
    pub fn part(&self, shard: Option<Shard>, done: &Done, node: String) -> RunPart {
        RunPart {
            plan_sha256: self.digest(),
            shard,
            trials: self.trials_of(done),
            node,
        }
    }

    /// Returns the SHA-256 of the study and of every trial: which cell it is, and its seed.
    #[must_use]
    pub fn digest(&self) -> String {
        let mut digest = Sha256::new();
        // A study is plain data; what cannot be written as JSON would be no study.
        digest.update(serde_json::to_vec(self.study()).unwrap_or_default());
        for trial in self.trials() {
            let cell = trial.cell;
            for position in [cell.transport, cell.condition, cell.workload] {
                digest.update((position as u32).to_le_bytes());
            }
            digest.update(trial.seed.to_le_bytes());
        }
        let bytes = digest.finalize();
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Returns the range of one of `of` shares, of which none is larger than another by more than one.
pub(crate) fn share(units: u64, number: u32, of: u32) -> Range<u64> {
    let edge = |number: u32| units * u64::from(number) / u64::from(of.max(1));
    edge(number)..edge(number + 1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use regatta_model::Ratio;

    use super::*;
    use crate::testing::study;

    fn indices(plan: &Plan, number: u32, of: u32) -> Vec<u32> {
        let done = plan.shard(Shard { number, of }, Done::default()).unwrap();
        let left: Vec<u32> = (plan.left(&done).iter()).map(|trial| trial.index).collect();
        assert_eq!(left.len() as u32, plan.trials_of(&done));
        left
    }

    #[test]
    fn shards_have_every_trial_once_and_whole_blocks() {
        for (rounds, conditions) in [(10, 1), (10, 3), (2, 5), (1, 7), (4, 6)] {
            let plan = Plan::new(&study(3, conditions, rounds)).unwrap();
            for of in 1..=plan.blocks() {
                let shards: Vec<Vec<u32>> = (1..=of).map(|i| indices(&plan, i, of)).collect();
                let mut all: Vec<u32> = shards.iter().flatten().copied().collect();
                all.sort_unstable();
                assert_eq!(all, (0..plan.trials().len() as u32).collect::<Vec<_>>());
                let whole = if rounds >= of { conditions * 3 } else { 3 };
                for shard in &shards {
                    assert_eq!(shard.len() % whole, 0, "{rounds} {conditions} {of}");
                    let blocks: BTreeSet<u32> = (shard.iter())
                        .map(|index| plan.block(&plan.trials()[*index as usize]))
                        .collect();
                    assert_eq!(blocks.len() * 3, shard.len(), "a block is in two shards");
                }
                let sizes = shards.iter().map(Vec::len);
                let (least, most) = (sizes.clone().min().unwrap(), sizes.max().unwrap());
                assert!(most - least <= whole, "{least} and {most}");
            }
        }
    }

    #[test]
    fn plans_that_cannot_be_divided_are_refused() {
        let mut study = study(2, 3, 2);
        let seventh = Shard { number: 1, of: 7 };
        let plan = Plan::new(&study).unwrap();
        let refused = plan.shard(seventh, Done::default()).unwrap_err();
        assert!(refused.hint().contains("at most 6"), "{}", refused.hint());
        study.until = Some(Ratio(0.05));
        let plan = Plan::new(&study).unwrap();
        let whole = Shard { number: 1, of: 1 };
        assert_eq!(plan.shard(whole, Done::default()), Err(ShardsError::Until));
    }

    #[test]
    fn the_digest_tells_plans_apart() {
        let one = study(2, 3, 2);
        let digest = |study| Plan::new(study).unwrap().digest();
        assert_eq!(digest(&one), digest(&one));
        assert_eq!(digest(&one).len(), 64);
        let mut other = one.clone();
        other.seed += 1;
        assert_ne!(digest(&one), digest(&other));
        let mut other = one.clone();
        other.conditions[1].mtu_bytes -= 1;
        assert_ne!(digest(&one), digest(&other));
    }

    #[test]
    fn plans_of_a_million_trials_are_quick() {
        let study = study(10, 1000, 100);
        let begun = std::time::Instant::now();
        let plan = Plan::new(&study).unwrap();
        assert_eq!(indices(&plan, 3, 100).len(), 10_000);
        assert_eq!(plan.digest().len(), 64);
        assert!(begun.elapsed().as_secs() < 30, "{:?}", begun.elapsed());
    }
}
