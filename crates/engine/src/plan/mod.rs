//! Trials that a study asks for, and their order.
//!
//! A plan is a pure function of the study: resuming a run builds the same plan again and leaves
//! out what is done. Every round runs every cell once. The order within a round is random, so
//! that a drift of the machine meets all cells alike, and follows from the study's seed.

mod done;
mod remaining;

use std::{collections::BTreeMap, time::Duration};

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use regatta_model::{
    CompetitionFlow, Condition, Measurements, Name, Outcome, Study, Text, Transport, TrialRecord,
    Until, Workload,
};

pub use self::done::Done;
use crate::{limits, stop_rule::StopRule};

/// One transport under one condition with one workload, as positions in the study's lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cell {
    /// Position in [`Study::transports`].
    pub transport: usize,
    /// Position in [`Study::conditions`].
    pub condition: usize,
    /// Position in [`Study::workloads`].
    pub workload: usize,
}

/// One run of one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedTrial {
    /// Number of its record: the position in the plan, from 0, plus the number of trials in the
    /// plan for each earlier attempt.
    pub index: u32,
    /// Attempt, from 1.
    pub attempt: u32,
    /// Round, from 0.
    pub round: u32,
    /// Combination of transport, condition and workload.
    pub cell: Cell,
    /// Seed of the path and of random data. All cells of a round under one condition have the
    /// same: their paths draw the same losses for the same sequence of packets, which is what
    /// makes a comparison within a round a paired one.
    pub seed: u64,
}

/// Study that asks for more trials than a run can number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{rounds}` rounds of `{cells}` cells are more trials than the `{most}` of one run")]
pub struct TooManyTrials {
    /// Requested rounds.
    pub rounds: u32,
    /// Cells in a round.
    pub cells: usize,
    /// Maximum number of trials of one run.
    pub most: u32,
}

/// Trial that was done before and is not the one that the plan has in its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("trial {index} was done as {found}, the plan has {planned} there")]
pub struct OtherPlan {
    /// Position in the plan.
    pub index: u32,
    /// Description of the trial in the results.
    pub found: String,
    /// Description of the trial in the plan.
    pub planned: String,
}

/// Trials of a study in the order in which they are run.
#[derive(Debug, Clone)]
pub struct Plan {
    study: Study,
    trials: Vec<PlannedTrial>,
    /// Number of cells, which is that of the trials of a round.
    cells: usize,
    /// Work of the flows of competitions, by transport and workload.
    flows: BTreeMap<[usize; 2], Workload>,
    stop_rule: Option<StopRule>,
}

impl Plan {
    /// Maximum number of trials of one run: at one a second, four months.
    pub const MAX_TRIALS: u32 = 10_000_000;

    /// Plans a study.
    ///
    /// # Errors
    /// [`TooManyTrials`] above [`Plan::MAX_TRIALS`].
    pub fn new(study: &Study) -> Result<Self, TooManyTrials> {
        // Trials that are run together: that of a cell, or those of a competition's flows.
        let mut together: Vec<Vec<Cell>> = Vec::new();
        let members = study.workloads.iter().map(|workload| {
            let transports = study.transports_of(workload);
            (workload, transports.map(|(position, _)| position).collect())
        });
        let members: Vec<(&Workload, Vec<usize>)> = members.collect();
        for condition in 0..study.conditions.len() {
            let name = &study.conditions[condition].name;
            for (position, (workload, transports)) in members.iter().enumerate() {
                if !workload.is_under(name) {
                    continue;
                }
                let cells = transports.iter().map(|transport| Cell {
                    transport: *transport,
                    condition,
                    workload: position,
                });
                match workload.competition {
                    Some(_) => together.push(cells.collect()),
                    None => together.extend(cells.map(|cell| vec![cell])),
                }
            }
        }
        let cells = together.iter().map(Vec::len).sum();
        if cells as u128 * u128::from(study.rounds) > u128::from(Self::MAX_TRIALS) {
            return Err(TooManyTrials {
                rounds: study.rounds,
                cells,
                most: Self::MAX_TRIALS,
            });
        }
        let mut trials = Vec::with_capacity(cells * study.rounds as usize);
        for round in 0..study.rounds {
            let mut order: Vec<&[Cell]> = together.iter().map(Vec::as_slice).collect();
            shuffle(&mut order, derive(study.seed, "order", round));
            let names = study.conditions.iter().map(|condition| &condition.name);
            let seeds: Vec<u64> = names.map(|name| derive(study.seed, name, round)).collect();
            for &cell in order.into_iter().flatten() {
                trials.push(PlannedTrial {
                    index: trials.len() as u32,
                    attempt: 1,
                    round,
                    cell,
                    seed: seeds[cell.condition],
                });
            }
        }
        let mut flows = BTreeMap::new();
        for (position, workload) in study.workloads.iter().enumerate() {
            if workload.competition.is_none() {
                continue;
            }
            for (transport, known) in study.transports_of(workload) {
                let mut work = workload.of_transport(&known.label).clone();
                work.competition = None;
                // The path is not idle when a flow starts beside others.
                work.probe.idle_messages = 0;
                flows.insert([transport, position], work);
            }
        }
        Ok(Self {
            study: study.clone(),
            trials,
            cells,
            flows,
            stop_rule: None,
        })
    }

    /// Sets the rule of `until = "decided"`. Without it, such a run has all its rounds.
    #[must_use]
    pub fn with_stop_rule(mut self, rule: StopRule) -> Self {
        self.stop_rule = Some(rule);
        self
    }

    /// Returns the rule of `until = "decided"`; `None` for a study that does not end by it.
    pub(crate) fn rule_of_study(&self) -> Option<StopRule> {
        let is_used = self.study.until == Some(Until::Decided);
        self.stop_rule.filter(|_| is_used)
    }

    /// Returns the seed of the random numbers that both ends of a trial draw with a virtual clock. Transports of a round
    /// draw different ones: two that are the same would have the same figures.
    #[must_use]
    pub fn random_seed(&self, trial: &PlannedTrial) -> u64 {
        let [transport, _, workload] = self.names(trial.cell);
        derive(trial.seed, &format!("{transport} {workload}"), trial.round)
    }

    /// Returns the study.
    #[must_use]
    pub fn study(&self) -> &Study {
        &self.study
    }

    /// Returns the trials, in the order in which they are run.
    #[must_use]
    pub fn trials(&self) -> &[PlannedTrial] {
        &self.trials
    }

    /// Returns the state of the plan when these records are stored.
    ///
    /// # Errors
    /// [`OtherPlan`] for a record that is not of this plan.
    pub fn done(&self, records: &[TrialRecord]) -> Result<Done, OtherPlan> {
        let mut done = Done::default();
        for record in records {
            let found = [&record.transport, &record.condition, &record.workload];
            let found = found.map(Name::as_str);
            let name = |[transport, condition, workload]: [&str; 3]| {
                format!("`{transport}` under `{condition}` with `{workload}`")
            };
            let planned = self.trial(record.index);
            let planned = planned.map(|trial| self.names(trial.cell).map(String::as_str));
            if planned != Some(found) {
                return Err(OtherPlan {
                    index: record.index,
                    found: name(found),
                    planned: planned.map_or_else(|| "nothing".to_owned(), name),
                });
            }
            done.add(self, record);
        }
        Ok(done)
    }

    /// Returns the attempt at a trial with this record number; `None` for a number that no attempt
    /// has.
    #[must_use]
    pub fn trial(&self, index: u32) -> Option<PlannedTrial> {
        let trials = u32::try_from(self.trials.len()).ok().filter(|n| *n > 0)?;
        let attempt = index / trials + 1;
        let first = self.trials[(index % trials) as usize];
        (attempt <= Done::MAX_ATTEMPTS).then_some(PlannedTrial {
            index,
            attempt,
            ..first
        })
    }

    /// Returns the value of the ranking's metric for a measured trial.
    fn ranked_by(&self, record: &TrialRecord) -> Option<f64> {
        let trial = self.trial(record.index)?;
        let workload = self.workload(trial.cell);
        let value = record.value(self.study.primary_metric(workload), &workload.kind)?;
        (record.outcome == Outcome::Measured && value > 0.0).then_some(value)
    }

    /// Returns the number of cells, which is the number of trials of a round.
    #[must_use]
    pub const fn cells(&self) -> usize {
        self.cells
    }

    /// Returns the trials that run at once with this one, itself included: those of the flows of a competition, in the
    /// same attempt.
    #[must_use]
    pub fn flows(&self, trial: &PlannedTrial) -> Vec<PlannedTrial> {
        if self.study.workloads[trial.cell.workload]
            .competition
            .is_none()
        {
            return vec![*trial];
        }
        let is_beside = |other: &PlannedTrial| {
            let place = |it: &PlannedTrial| (it.round, it.cell.condition, it.cell.workload);
            place(other) == place(trial)
        };
        let first = trial.round as usize * self.cells;
        let round = self.trials.iter().skip(first).take(self.cells);
        let earlier = trial.attempt.saturating_sub(1) * self.trials.len() as u32;
        let flows = round.filter(|other| is_beside(other));
        flows
            .map(|other| PlannedTrial {
                index: other.index + earlier,
                attempt: trial.attempt,
                ..*other
            })
            .collect()
    }

    /// Returns the transport of a cell.
    #[must_use]
    pub fn transport(&self, cell: Cell) -> &Transport {
        &self.study.transports[cell.transport]
    }

    /// Returns the condition of a cell.
    #[must_use]
    pub fn condition(&self, cell: Cell) -> &Condition {
        &self.study.conditions[cell.condition]
    }

    /// Returns the workload of a cell: in a competition that of its flow.
    #[must_use]
    pub fn workload(&self, cell: Cell) -> &Workload {
        let flow = self.flows.get(&[cell.transport, cell.workload]);
        flow.unwrap_or(&self.study.workloads[cell.workload])
    }

    /// Returns the flow of a trial in a competition.
    pub(crate) fn flow(&self, cell: Cell) -> Option<&CompetitionFlow> {
        let competition = self.study.workloads[cell.workload].competition.as_ref()?;
        competition.flow(&self.study.transports[cell.transport].label)
    }

    /// Returns the delay each way that a flow of a competition has beside its condition's.
    pub(crate) fn flow_delay(&self, cell: Cell) -> Duration {
        let own = self.flow(cell).and_then(|flow| flow.rtt);
        let shared = self.condition(cell).longest_round_trip_delay();
        own.map_or(Duration::ZERO, |own| own.saturating_sub(shared) / 2)
    }

    /// Returns the names of a cell's transport, condition and workload.
    pub(crate) fn names(&self, cell: Cell) -> [&String; 3] {
        [
            &self.transport(cell).label,
            &self.condition(cell).name,
            &self.workload(cell).name,
        ]
    }

    /// Makes the record of a trial with its outcome, its reasons and a hint, without figures.
    pub(crate) fn record(
        &self,
        trial: &PlannedTrial,
        started_unix_ns: i64,
        (outcome, reasons, hint): (Outcome, Vec<Text>, Text),
    ) -> TrialRecord {
        let names = self.names(trial.cell);
        let [transport, condition, workload] = names.map(|name| name.as_str().into());
        TrialRecord {
            index: trial.index,
            attempt: trial.attempt,
            round: trial.round,
            transport,
            condition,
            workload,
            started_unix_ns,
            seed: trial.seed,
            outcome,
            reasons,
            hint,
            measurements: Measurements::default(),
        }
    }

    /// Returns an upper bound of the run's time if every transfer takes its whole deadline and
    /// nothing hangs; real runs are mostly much shorter.
    #[must_use]
    pub fn longest_time(&self) -> Duration {
        let conditions = self.study.conditions.iter();
        let longest = conditions.flat_map(|condition| {
            let workloads = self.study.workloads.iter();
            let workloads = workloads.filter(|work| work.is_under(&condition.name));
            workloads.map(move |work| {
                let trials = match work.competition {
                    Some(_) => 1,
                    None => self.study.transports_of(work).count() as u32,
                };
                limits::expected_longest(&self.study, condition, work) * trials
            })
        });
        let round = longest.sum::<Duration>();
        round * self.study.rounds + limits::PATH_CHECK * self.study.conditions.len() as u32
    }
}

/// Derives a seed for one purpose and round. Purposes are distinguished by name, so that a
/// condition keeps its seeds when another one is added to the study.
///
/// FNV-1a over the name, then the finaliser of SplitMix64 over the whole, so that similar inputs
/// give unrelated outputs.
fn derive(seed: u64, purpose: &str, round: u32) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in purpose.bytes().chain([0xff]).chain(round.to_le_bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let mut z = hash ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Shuffles by Fisher and Yates's algorithm. It is written out because a library may change how it
/// draws from one version to the next, and an order must stay the same for as long as result files
/// are used.
fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for i in (1..items.len()).rev() {
        let j = (u128::from(rng.next_u64()) * (i as u128 + 1)) >> 64;
        items.swap(i, j as usize);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::tests::fake_bed::study;

    #[test]
    fn every_round_runs_every_cell_once() {
        let plan = Plan::new(&study(3, 2, 4)).unwrap();
        assert_eq!(plan.trials().len(), 24);
        for round in 0..4 {
            let cells: BTreeSet<Cell> = plan
                .trials()
                .iter()
                .filter(|trial| trial.round == round)
                .map(|trial| trial.cell)
                .collect();
            assert_eq!(cells.len(), 6);
        }
        for (position, trial) in plan.trials().iter().enumerate() {
            assert_eq!(trial.index as usize, position);
        }
    }

    #[test]
    fn only_cells_of_one_round_and_condition_share_a_path_seed() {
        let plan = Plan::new(&study(3, 2, 4)).unwrap();
        let seeds: BTreeSet<(u32, usize, u64)> = plan
            .trials()
            .iter()
            .map(|trial| (trial.round, trial.cell.condition, trial.seed))
            .collect();
        assert_eq!(seeds.len(), 8, "one seed for each round and condition");
        let distinct: BTreeSet<u64> = seeds.iter().map(|seed| seed.2).collect();
        assert_eq!(distinct.len(), 8, "no seed twice");
    }

    #[test]
    fn rounds_differ_in_order_and_the_seed_decides() {
        let one = study(5, 2, 8);
        let mut other = one.clone();
        other.seed += 1;
        let order = |study: &Study| -> Vec<Cell> {
            let plan = Plan::new(study).unwrap();
            plan.trials().iter().map(|trial| trial.cell).collect()
        };
        assert_eq!(order(&one), order(&one));
        assert_ne!(order(&one), order(&other));
        let cells = order(&one);
        let rounds: BTreeSet<&[Cell]> = cells.chunks(10).collect();
        // Two of eight orders of ten cells agree by chance once in 10! / 28 = 129 600 seeds; this
        // seed is fixed.
        assert_eq!(rounds.len(), 8);
    }

    /// A result file of today must be resumed by a Regatta of tomorrow: this order may not change.
    #[test]
    fn the_order_of_trials_is_stable_across_versions() {
        let plan = Plan::new(&study(3, 2, 2)).unwrap();
        let order: Vec<(usize, usize)> = plan
            .trials()
            .iter()
            .map(|trial| (trial.cell.transport, trial.cell.condition))
            .collect();
        let expected = [
            (0, 0),
            (2, 0),
            (0, 1),
            (2, 1),
            (1, 0),
            (1, 1),
            (0, 1),
            (2, 1),
            (0, 0),
            (1, 0),
            (2, 0),
            (1, 1),
        ];
        assert_eq!(order, expected);
        assert_eq!(plan.trials()[0].seed, 16_366_824_739_393_726_105);
    }

    #[test]
    fn too_many_trials_are_refused() {
        let mut study = study(5, 2, 1);
        study.rounds = u32::MAX;
        assert!(Plan::new(&study).is_err());
    }
}
