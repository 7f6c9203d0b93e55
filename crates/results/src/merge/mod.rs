//! Merging the results files of the parts of a plan into one.
//!
//! [`Merge::open`] reads and checks all files, and refuses those that cannot be merged. [`Merge::write`]
//! takes each trial from one of them. Where several have it, as after a shard that was run twice:
//!
//! 1. a measured trial is taken before any other, and an invalid one last;
//! 2. of equal ones, that which began first;
//! 3. then that of the file that was named first.
//!
//! Figures are never looked at. All attempts at a trial come from the same file. Records keep their
//! checksums, so that what is merged is what was stored.

mod copy;
mod error;
mod part;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::OnceLock,
    thread,
};

use parking_lot::Mutex;
use regatta_model::{HostFacts, Outcome, RunHeader, RunPart, Study, Warning, phrase, warning};

use self::part::Attempt;
pub use self::{
    error::{MergeError, Refusal, Refused},
    part::MergePart,
};

/// Files that can be merged.
#[derive(Debug)]
pub struct Merge {
    parts: Vec<MergePart>,
    /// Files that cannot be merged, each with the reason.
    pub refused: Vec<Refused>,
    plan_sha256: String,
}

/// Plan that the files are of, as far as merging must know it.
#[derive(Debug, Clone, Copy)]
pub struct MergePlan {
    /// Number of trials of the whole plan.
    pub trials: u32,
    /// Attempts after which an invalid trial is not repeated.
    pub most_attempts: u32,
}

/// Result of a merge.
#[derive(Debug)]
pub struct Merged {
    /// Trials that are in the merged file.
    pub trials: u32,
    /// Positions in the plan of the trials that still have to be run.
    pub missing: Vec<u32>,
    /// Number of trials that several files have.
    pub duplicates: u32,
    /// Numbers of trials by the outcome of their last attempt.
    pub outcomes: BTreeMap<&'static str, u32>,
}

/// Position in the plan that at least one file has: the part that it is taken from.
#[derive(Debug, Clone, Copy)]
struct Choice {
    part: usize,
    /// Smaller is better: outcome, then start.
    rank: (u8, i64),
    outcome: Outcome,
    finished: bool,
}

impl Merge {
    /// Reads and checks files, as many at once as there are processors. Those that cannot be merged are
    /// in [`Merge::refused`].
    ///
    /// # Errors
    /// [`MergeError::Nothing`] if no file can be merged.
    pub fn open(paths: &[PathBuf]) -> Result<Self, MergeError> {
        let read: Vec<OnceLock<_>> = paths.iter().map(|_| OnceLock::new()).collect();
        let next = Mutex::new(paths.iter().zip(&read));
        let take = || next.lock().next();
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let read_all = || {
            while let Some((path, slot)) = take() {
                let _ = slot.set(MergePart::read(path));
            }
        };
        thread::scope(|scope| {
            for _ in 1..threads.min(paths.len()) {
                // At a limit of threads this one reads what is left.
                let _ = thread::Builder::new().spawn_scoped(scope, read_all);
            }
            read_all();
        });
        let (mut parts, mut refused) = (Vec::new(), Vec::new());
        for (path, part) in paths.iter().zip(read) {
            match part.into_inner() {
                Some(Ok(part)) => parts.push(part),
                Some(Err(refusal)) => refused.push(Refused::new(path, refusal)),
                // Each path was taken.
                None => {}
            }
        }
        let Some(plan_sha256) = most_common_plan(&parts) else {
            return Err(MergeError::Nothing { refused });
        };
        let merge = Self {
            parts,
            refused,
            plan_sha256,
        };
        Ok(merge.of_one_plan())
    }

    /// Refuses parts of other plans, and runs that are named twice.
    fn of_one_plan(mut self) -> Self {
        let reference = self.parts.iter().find(|part| self.is_of_plan(part));
        let reference = reference.map_or_else(PathBuf::new, |part| part.named.clone());
        let mut known = BTreeMap::new();
        for part in std::mem::take(&mut self.parts) {
            let path = part.named.clone();
            let same = (part.run_id.clone(), part.started_unix_ns);
            let refusal = if !self.is_of_plan(&part) {
                Refusal::OtherPlan {
                    study: part.study,
                    than: reference.clone(),
                }
            } else if let Some(other) = known.get(&same) {
                let as_other = PathBuf::clone(other);
                Refusal::Twice { as_other }
            } else {
                known.insert(same, path.clone());
                self.parts.push(part);
                continue;
            };
            self.refused.push(Refused::new(&path, refusal));
        }
        self
    }

    fn is_of_plan(&self, part: &MergePart) -> bool {
        part.part.plan_sha256 == self.plan_sha256
    }

    /// Returns the files that are merged.
    pub fn parts(&self) -> impl Iterator<Item = &MergePart> {
        self.parts.iter()
    }

    /// Returns the SHA-256 of the plan.
    #[must_use]
    pub fn plan_sha256(&self) -> &str {
        &self.plan_sha256
    }

    /// Returns the study, and its text in the header of the results.
    ///
    /// # Errors
    /// The first file can no longer be read.
    pub fn study(&self) -> Result<(Study, String), MergeError> {
        let header = crate::Reader::unexamined(&self.parts[0].path)?.header()?;
        Ok((header.study, header.study_text))
    }

    /// Writes the merged run into a directory. A merged run of the same plan that is there already is
    /// replaced; nothing else is.
    ///
    /// # Errors
    /// [`MergeError`] if the directory holds something else, or an error of reading or writing; then the
    /// directory is as it was.
    pub fn write(&self, dir: &Path, plan: MergePlan) -> Result<Merged, MergeError> {
        let choices = self.choose(plan)?;
        let is_finished = |choice: &Option<Choice>| choice.is_some_and(|choice| choice.finished);
        let unfinished = (0..plan.trials).zip(&choices.taken);
        let unfinished = unfinished.filter(|(_, choice)| !is_finished(choice));
        let missing: Vec<u32> = unfinished.map(|(position, _)| position).collect();
        let (study, study_text) = self.study()?;
        let started = self.parts.iter().map(|part| part.started_unix_ns);
        let (hosts, differing) = self.hosts();
        let header = RunHeader {
            // A merge of the same files makes the same file.
            run_id: self.plan_sha256.chars().take(32).collect(),
            regatta_version: self.parts[0].regatta_version.clone(),
            started_unix_ns: started.min().unwrap_or_default(),
            bed: self.parts[0].bed.as_str().into(),
            hosts,
            study,
            study_text,
            part: RunPart::default(),
        };
        let mut warnings: Vec<Warning> = differing.warning(&self.parts).into_iter().collect();
        warnings.extend(self.refused.iter().map(Refused::warning));
        let content = copy::Content {
            header: &header,
            choices: &choices,
            facts: &differing,
            warnings: &warnings,
            missing: missing.len(),
            plan,
        };
        copy::write(dir, self, &content)?;
        let mut outcomes = BTreeMap::new();
        for choice in choices.taken.iter().flatten() {
            *outcomes.entry(choice.outcome.name()).or_default() += 1;
        }
        Ok(Merged {
            trials: outcomes.values().sum(),
            duplicates: choices.duplicates,
            missing,
            outcomes,
        })
    }

    /// Chooses the file that each trial is taken from.
    fn choose(&self, plan: MergePlan) -> Result<Choices, MergeError> {
        let mut choices = Choices {
            taken: vec![None; plan.trials as usize],
            duplicates: 0,
        };
        for (number, part) in self.parts.iter().enumerate() {
            for (position, last) in last_attempts(&part.attempts, plan) {
                let choice = Choice {
                    part: number,
                    rank: (rank(last.outcome), last.started_unix_ns),
                    outcome: last.outcome,
                    finished: last.outcome != Outcome::Invalid
                        || last.attempt >= plan.most_attempts,
                };
                let Some(taken) = choices.taken.get_mut(position as usize) else {
                    return Err(MergeError::NoTrial {
                        path: part.path.clone(),
                        position,
                    });
                };
                choices.duplicates += u32::from(taken.is_some());
                if taken.is_none_or(|taken| choice.rank < taken.rank) {
                    *taken = Some(choice);
                }
            }
        }
        Ok(choices)
    }

    /// Returns the facts about the hosts that all parts share, and those of each part that differ.
    fn hosts(&self) -> (BTreeMap<String, HostFacts>, Differing) {
        let mut shared = self.parts[0].hosts.clone();
        for part in &self.parts[1..] {
            for (host, facts) in &mut shared {
                let other = part.hosts.get(host);
                let same =
                    |name: &String, value: &String| other?.0.get(name).filter(|it| *it == value);
                facts.0.retain(|name, value| same(name, value).is_some());
            }
        }
        let differing = self.parts.iter().map(|part| {
            let mut facts_of_part = Vec::new();
            for (host, facts) in &part.hosts {
                let of_all = shared.get(host);
                let differs = |name: &str| of_all.is_none_or(|all| !all.0.contains_key(name));
                let facts = facts.0.iter().filter(|(name, _)| differs(name));
                facts_of_part
                    .extend(facts.map(|(name, value)| [host, name, value].map(String::clone)));
            }
            facts_of_part
        });
        let differing = Differing(differing.collect());
        (shared, differing)
    }
}

/// Parts that trials are taken from, by position in the plan.
#[derive(Debug)]
struct Choices {
    taken: Vec<Option<Choice>>,
    duplicates: u32,
}

impl Choices {
    /// Returns the record numbers of the trials that are taken from a part.
    fn of_part<'a>(
        &'a self,
        number: usize,
        part: &'a MergePart,
        plan: MergePlan,
    ) -> impl Iterator<Item = u32> + 'a {
        let attempts = part.attempts.iter();
        attempts.map(|attempt| attempt.index).filter(move |index| {
            let choice = self.taken.get((index % plan.trials.max(1)) as usize);
            choice.is_some_and(|choice| choice.is_some_and(|choice| choice.part == number))
        })
    }
}

/// Facts about the hosts of each part that are not those of all parts: host, name, value.
#[derive(Debug)]
struct Differing(Vec<Vec<[String; 3]>>);

impl Differing {
    /// Returns the warning about parts whose hosts differ in more than what changes from start to start.
    fn warning(&self, parts: &[MergePart]) -> Option<Warning> {
        let mut values: BTreeMap<[&str; 2], BTreeMap<&str, BTreeSet<&str>>> = BTreeMap::new();
        for (part, facts) in parts.iter().zip(&self.0) {
            for [host, name, value] in facts {
                let all = part.hosts.get(host);
                if !all.is_some_and(|facts| facts.is_volatile(name)) {
                    let of_fact = values.entry([name, host]).or_default();
                    let node = part.part.node.as_str();
                    of_fact.entry(value).or_default().insert(node);
                }
            }
        }
        if values.is_empty() {
            return None;
        }
        let facts = values.iter().flat_map(|([name, host], values)| {
            values.iter().map(move |(value, nodes)| {
                let nodes = nodes.iter().map(|node| (*node).to_owned()).collect();
                phrase::fact_on_nodes(name, phrase::side(host), value, nodes)
            })
        });
        Some(warning::parts_differ(facts.collect()))
    }
}

/// Returns the last attempt at each trial of a part, by position in the plan.
fn last_attempts(attempts: &[Attempt], plan: MergePlan) -> BTreeMap<u32, Attempt> {
    let mut last: BTreeMap<u32, Attempt> = BTreeMap::new();
    for attempt in attempts {
        let position = match attempt.index / plan.trials.max(1) {
            earlier if earlier < plan.most_attempts => attempt.index % plan.trials.max(1),
            // No plan has it.
            _ => attempt.index,
        };
        let known = last.entry(position).or_insert(*attempt);
        if known.attempt <= attempt.attempt {
            *known = *attempt;
        }
    }
    last
}

/// Preference for an outcome; smaller is better.
const fn rank(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Measured => 0,
        Outcome::Unsupported | Outcome::Failed | Outcome::TimedOut => 1,
        Outcome::Invalid => 2,
    }
}

/// Returns the digest that most parts have; of several, that of the first part.
fn most_common_plan(parts: &[MergePart]) -> Option<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for part in parts {
        *counts.entry(&part.part.plan_sha256).or_default() += 1;
    }
    let most = counts.values().copied().max()?;
    let digests = parts.iter().map(|part| part.part.plan_sha256.as_str());
    let mut common = digests.filter(|digest| counts[digest] == most);
    common.next().map(str::to_owned)
}
