//! Division of a plan: into chunks, which have a guest each in virtual time, and into shards, which are
//! run apart; and the digest by which shards are known to be of one plan.

use std::{collections::BTreeSet, ops::Range, time::Duration};

use regatta_model::{Clock, RunPart, Shard};
use sha2::{Digest, Sha256};

use crate::plan::{Done, Plan, PlannedTrial};

/// Minimum and maximum work of a chunk, by the plan's estimate. A guest starts in a second or two, and
/// what was stopped within a chunk is run again from the chunk's first trial on.
const CHUNK_WORK: [Duration; 2] = [Duration::from_secs(4), Duration::from_secs(40)];

/// Number of chunks of equal work that is not divided further: with an odd one, two guests at once would
/// not end at once.
const EVEN: u128 = 2;

/// Plan that cannot be divided as requested.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShardsError {
    /// More shards than the plan has parts that can be run apart.
    #[error("`{shards}` shards are more than the `{most}` that this plan can be divided into")]
    TooMany {
        /// Maximum number of shards of the plan.
        most: u32,
        /// Requested number of shards.
        shards: u32,
    },
    /// Run that may end before its last round.
    #[error(
        "shards do not know one another's trials, so that none of `until`, `successes` and `deadlines` can end them"
    )]
    EndsEarly,
    /// Series in real time.
    #[error(
        "the rounds of a series begin one after another at their times, and shards run at the same time"
    )]
    Series,
}

impl ShardsError {
    /// Returns a suggestion for the user.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::TooMany { most: 0 | 1, .. } => {
                "the plan is too small to be divided: use `regatta run` without `--shard`"
                    .to_owned()
            }
            Self::TooMany { most, .. } => format!("ask for at most {most} shards"),
            Self::EndsEarly => {
                "add `--rounds N`, or use `regatta run` without `--shard`".to_owned()
            }
            Self::Series => {
                "add `--bed uml --clock virtual`, or use `regatta run` without `--shard`".to_owned()
            }
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
    pub(crate) fn blocks(&self) -> u32 {
        self.study().rounds * self.conditions()
    }

    /// Returns the number of conditions, at least 1.
    pub(crate) fn conditions(&self) -> u32 {
        (self.study().conditions.len() as u32).max(1)
    }

    /// Returns the number of trials, finished or not, of the blocks that are to be run.
    #[must_use]
    pub fn trials_of(&self, done: &Done) -> u32 {
        let mut in_block = vec![0; self.conditions() as usize];
        for trial in self.trials().iter().take(self.cells()) {
            in_block[trial.cell.condition] += 1;
        }
        let blocks = done.blocks(self);
        blocks
            .map(|it| in_block[(it % self.conditions()) as usize])
            .sum()
    }

    /// Returns the chunks of the plan: the blocks that one guest with a virtual clock runs.
    ///
    /// The kernel and the agents of a guest carry state from trial to trial (random numbers, ports, caches of
    /// paths, memory), so that the last digits of a trial depend on all trials that its guest has run before.
    /// These are always the same ones if a guest runs a whole chunk and nothing else. The chunks depend on
    /// the plan only, so that its figures do not depend on how it is divided among guests, machines and
    /// starts. A chunk is some whole rounds, or, where a round is too much work, some conditions of one.
    pub(crate) fn chunks(&self) -> Vec<Range<u32>> {
        let costs = self.virtual_costs();
        let (rounds, conditions) = (self.study().rounds, self.conditions());
        let round: Duration = costs.iter().sum();
        let [least, most] = CHUNK_WORK;
        let needed = |work: Duration| work.as_nanos().div_ceil(most.as_nanos());
        if round <= most {
            let total = round.saturating_mul(rounds);
            let chunks = match total < least * EVEN as u32 {
                true => 1,
                false => needed(total).next_multiple_of(EVEN) as u32,
            };
            return shares(rounds, chunks.clamp(1, rounds.max(1)), conditions).collect();
        }
        // Each condition belongs to the part of the round's work in which the middle of its own is.
        let mut before = Duration::ZERO;
        let parts = costs.iter().map(|cost| {
            let middle = before + *cost / 2;
            before += *cost;
            middle.as_nanos() * needed(round) / round.as_nanos()
        });
        let parts: Vec<u128> = parts.collect();
        let of_one_part = || parts.chunk_by(|a, b| a == b).map(<[u128]>::len);
        let mut end = 0;
        let chunk = |conditions| {
            let start = end;
            end += conditions as u32;
            start..end
        };
        (0..rounds).flat_map(|_| of_one_part()).map(chunk).collect()
    }

    /// Returns the largest number of shards that the plan can be divided into.
    #[must_use]
    pub fn most_shards(&self) -> u32 {
        match self.study().guest.clock {
            Clock::Virtual => self.chunks().len() as u32,
            Clock::Real => self.blocks(),
        }
    }

    /// Returns the blocks of all shards, if there are `shards` of them.
    ///
    /// They are equal shares of the chunks in virtual time. In real time they are equal shares of the rounds
    /// if the plan has as many rounds as shards or more, and otherwise of the blocks. They depend on the
    /// plan and on the number of shards only.
    fn blocks_of_shards(&self, shards: u32) -> Result<Vec<Range<u32>>, ShardsError> {
        let study = self.study();
        if study.may_end_early() {
            return Err(ShardsError::EndsEarly);
        }
        let is_virtual = study.guest.clock == Clock::Virtual;
        if study.every.is_some() && !is_virtual {
            return Err(ShardsError::Series);
        }
        let most = self.most_shards();
        if shards > most {
            return Err(ShardsError::TooMany { most, shards });
        }
        Ok(match is_virtual {
            true => {
                let chunks = self.chunks();
                shares(most, shards, 1)
                    .filter_map(|share| {
                        let of_shard = chunks.get(share.start as usize..share.end as usize)?;
                        Some(of_shard.first()?.start..of_shard.last()?.end)
                    })
                    .collect()
            }
            false if study.rounds >= shards => {
                shares(study.rounds, shards, self.conditions()).collect()
            }
            false => shares(most, shards, 1).collect(),
        })
    }

    /// Returns the state of a shard, with those of its trials that `done` has.
    ///
    /// # Errors
    /// [`ShardsError`] for a plan that cannot be divided into so many.
    pub fn shard(&self, shard: Shard, done: Done) -> Result<Done, ShardsError> {
        let mut all = self.blocks_of_shards(shard.of)?.into_iter();
        let blocks = all.nth(shard.number.saturating_sub(1) as usize);
        Ok(done.only(self, blocks.unwrap_or(0..0)))
    }

    /// Returns the shards, of `of` in all, that have one of these trials.
    ///
    /// # Errors
    /// [`ShardsError`] for a plan that cannot be divided into so many.
    pub fn shards_with(&self, trials: &[u32], of: u32) -> Result<Vec<Shard>, ShardsError> {
        let all = self.blocks_of_shards(of)?;
        let trials = trials.iter().filter_map(|index| self.trial(*index));
        let number = |trial| all.partition_point(|blocks| blocks.end <= self.block(&trial));
        let numbers: BTreeSet<usize> = trials.map(number).collect();
        let shard = |number: usize| Shard {
            number: number as u32 + 1,
            of,
        };
        Ok(numbers.into_iter().map(shard).collect())
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

    /// Returns the SHA-256 of the study, of every trial (which cell it is, and its seed), and of the chunks
    /// of a plan in virtual time.
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
        if self.study().guest.clock == Clock::Virtual {
            for chunk in self.chunks() {
                digest.update(chunk.start.to_le_bytes());
            }
        }
        let bytes = digest.finalize();
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Returns `of` shares of `units` units of this many blocks, of which none is larger than another by more
/// than one unit.
fn shares(units: u32, of: u32, blocks: u32) -> impl Iterator<Item = Range<u32>> {
    let edge = move |number: u32| {
        let units = u64::from(units) * u64::from(number) / u64::from(of.max(1));
        units as u32 * blocks
    };
    (0..of).map(move |number| edge(number)..edge(number + 1))
}

#[cfg(test)]
mod tests {
    use regatta_model::{Bytes, CellEnd, Study, Until, WorkloadKind};

    use super::*;
    use crate::tests::fake_bed::study;

    fn indices(plan: &Plan, number: u32, of: u32) -> Vec<u32> {
        let done = plan.shard(Shard { number, of }, Done::default()).unwrap();
        let remaining: Vec<u32> = (plan.remaining_trials(&done).iter())
            .map(|trial| trial.index)
            .collect();
        assert_eq!(remaining.len() as u32, plan.trials_of(&done));
        remaining
    }

    #[test]
    fn shards_partition_the_trials_into_complete_blocks() {
        for (rounds, conditions) in [(10, 1), (10, 3), (2, 5), (1, 7), (4, 6)] {
            let plan = Plan::new(&study(3, conditions, rounds)).unwrap();
            for of in 1..=plan.most_shards() {
                let shards: Vec<Vec<u32>> = (1..=of).map(|i| indices(&plan, i, of)).collect();
                let mut all: Vec<u32> = shards.iter().flatten().copied().collect();
                all.sort_unstable();
                assert_eq!(all, (0..plan.trials().len() as u32).collect::<Vec<_>>());
                let unit = if rounds >= of { conditions * 3 } else { 3 };
                for shard in &shards {
                    assert_eq!(shard.len() % unit, 0, "{rounds} {conditions} {of}");
                    let blocks: BTreeSet<u32> = (shard.iter())
                        .map(|index| plan.block(&plan.trials()[*index as usize]))
                        .collect();
                    assert_eq!(blocks.len() * 3, shard.len(), "a block is in two shards");
                }
                let sizes = shards.iter().map(Vec::len);
                let (least, most) = (sizes.clone().min().unwrap(), sizes.max().unwrap());
                assert!(most - least <= unit, "{least} and {most}");
            }
        }
    }

    #[test]
    fn plans_that_cannot_be_divided_are_refused() {
        let refused = |shards: u32, change: fn(&mut Study)| {
            let mut study = study(2, 3, 2);
            change(&mut study);
            let first = Shard {
                number: 1,
                of: shards,
            };
            let plan = Plan::new(&study).unwrap();
            plan.shard(first, Done::default()).unwrap_err()
        };
        let too_many = refused(7, |_| ());
        assert!(too_many.hint().contains("at most 6"), "{}", too_many.hint());
        let small = refused(2, |study| {
            study.guest.clock = Clock::Virtual;
            study.conditions.truncate(1);
            study.rounds = 1;
        });
        assert!(small.hint().contains("too small"), "{}", small.hint());
        let until = refused(1, |study| study.until = Some(Until::Decided));
        assert_eq!(until, ShardsError::EndsEarly);
        let successes = refused(1, |study| study.cell_end = Some(CellEnd::Successes(1)));
        assert_eq!(successes, ShardsError::EndsEarly);
        let series = refused(1, |study| study.every = Some(Duration::from_secs(60)));
        assert_eq!(series, ShardsError::Series);
    }

    /// Makes a plan in virtual time whose transfers are of this size. By the estimate a trial of 10 MB takes
    /// about 1.1 s.
    fn virtual_plan((conditions, rounds): (usize, u32), megabytes: u64) -> Plan {
        let mut study = study(2, conditions, rounds);
        study.guest.clock = Clock::Virtual;
        study.deadline = Duration::from_secs(3600);
        let WorkloadKind::Bulk { amount, .. } = &mut study.workloads[0].kind else {
            unreachable!("the study of the tests is of bulk transfers")
        };
        *amount = Bytes(megabytes * 1_000_000).into();
        Plan::new(&study).unwrap()
    }

    #[test]
    fn chunks_are_rounds_or_parts_of_one_within_the_work_limits() {
        // Conditions, rounds and size; the number of chunks, and the blocks of the first.
        for (shape, megabytes, chunks, first) in [
            // 4.4 s in all.
            ((1, 2), 10, 1, 2),
            // 8.8 s in all.
            ((1, 4), 10, 2, 2),
            // 88 s in all: three chunks of 40 s, and one more.
            ((2, 20), 10, 4, 10),
            // 88 min in all, 40 s each.
            ((4, 600), 10, 132, 16),
            // 88 s a round, of which a third is 13 conditions.
            ((40, 3), 10, 9, 13),
            // Each trial more than 40 s.
            ((2, 2), 1000, 4, 1),
        ] {
            let plan = virtual_plan(shape, megabytes);
            let all = plan.chunks();
            let found = (all.len(), all[0].len());
            let near = |a: usize, b: usize| a.abs_diff(b) * 10 <= b;
            assert!(
                near(found.0, chunks) && near(found.1, first),
                "{shape:?}: {found:?}"
            );
            assert_eq!((all[0].start, all[all.len() - 1].end), (0, plan.blocks()));
            for ends in all.windows(2) {
                assert_eq!(ends[0].end, ends[1].start);
            }
            for chunk in all {
                let round = |block: u32| block / plan.conditions();
                let is_rounds = chunk.start.is_multiple_of(plan.conditions())
                    && chunk.end.is_multiple_of(plan.conditions());
                assert!(
                    is_rounds || round(chunk.start) == round(chunk.end - 1),
                    "{chunk:?}"
                );
            }
        }
    }

    #[test]
    fn shards_in_virtual_time_consist_of_complete_chunks() {
        let plan = virtual_plan((40, 3), 10);
        let chunks = plan.chunks();
        for of in 1..=plan.most_shards() {
            let shards = plan.blocks_of_shards(of).unwrap();
            assert_eq!(shards.len() as u32, of);
            assert_eq!((shards[0].start, shards[shards.len() - 1].end), (0, 120));
            for shard in shards {
                assert!(chunks.iter().any(|chunk| chunk.start == shard.start));
                assert!(chunks.iter().any(|chunk| chunk.end == shard.end));
            }
        }
    }

    #[test]
    fn shards_with_a_trial_are_found() {
        let plan = Plan::new(&study(3, 2, 10)).unwrap();
        let numbers = |trials: &[u32]| {
            let shards = plan.shards_with(trials, 5).unwrap();
            shards.iter().map(|shard| shard.number).collect::<Vec<_>>()
        };
        assert_eq!(numbers(&[]), [0; 0]);
        // Twelve trials a shard.
        assert_eq!(numbers(&[11, 12, 13, 59]), [1, 2, 5]);
        for number in 1..=5 {
            let all = indices(&plan, number, 5);
            assert_eq!(numbers(&all), [number]);
        }
    }

    #[test]
    fn the_digest_distinguishes_plans() {
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
