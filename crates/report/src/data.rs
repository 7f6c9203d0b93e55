//! Saved run, the only input of every report.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    path::Path,
    sync::Arc,
};

use regatta_model::{
    CellTrials, Clock, Condition, Name, Outcome, Part, PathCheck, RunHeader, TrialRecord, Warning,
    Workload, warning_code,
};
use regatta_results::{Reader, RunState, checkpoint, state_now};

use crate::{
    ReportError, harm,
    language::tr,
    timeline::{self, HostTimeline},
};

/// Complete data of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunData {
    /// Data about the run that is known before its first trial.
    pub header: RunHeader,
    /// Last attempt at each saved trial, in the order of the plan.
    pub trials: Vec<TrialRecord>,
    /// Earlier attempts, all of them invalid, which only enter warnings.
    pub repeated: Vec<TrialRecord>,
    /// Checks by the bed of its own path.
    pub path_checks: Vec<PathCheck>,
    /// Warnings of the run that belong to no single trial.
    pub warnings: Vec<Warning>,
    /// The hosts over time; none if they were not monitored.
    pub hosts: Vec<HostTimeline>,
    /// Name of the machine that ran each trial, by the number of its record, for a merged run in real
    /// time; else empty: in virtual time all machines give the same figures.
    pub nodes: BTreeMap<u32, Arc<str>>,
    /// State of the run: running only if a process was writing it when it was read.
    pub state: RunState,
}

/// Reads a run from its result directory. If a run ended while another program was reading it, its
/// log is merged into its results file first, if possible; nothing is changed otherwise.
///
/// # Errors
/// [`ReportError::Results`] if there is no results file, or it is damaged or newer.
pub fn load(dir: &Path) -> Result<RunData, ReportError> {
    read(dir).map_err(|source| ReportError::of_results(dir, source))
}

fn read(dir: &Path) -> Result<RunData, regatta_results::ResultsError> {
    let mut reader = Reader::open(dir)?;
    if !reader.is_single_file()? && reader.state()? != RunState::Running {
        drop(reader);
        checkpoint(dir);
        reader = Reader::open(dir)?;
    }
    let (mut trials, repeated) = last_attempts(reader.trials()?);
    let mut hosts = Vec::new();
    reader.host_samples(&mut |batch| timeline::add(&mut hosts, &batch))?;
    let header = reader.header()?;
    harm::add(&header.study, &mut trials);
    let nodes = match header.study.guest.clock {
        Clock::Real => reader.nodes()?,
        Clock::Virtual => BTreeMap::new(),
    };
    Ok(RunData {
        header,
        nodes,
        trials,
        repeated,
        path_checks: reader.path_checks()?,
        warnings: reader.warnings()?,
        hosts,
        state: state_now(dir, reader.state()?),
    })
}

/// Splits records into the last attempt at each trial, in the place of the first, and the earlier
/// attempts.
fn last_attempts(records: Vec<TrialRecord>) -> (Vec<TrialRecord>, Vec<TrialRecord>) {
    // Only an invalid trial has several attempts, which most runs have none of.
    if records.iter().all(|record| record.attempt <= 1) {
        return (records, Vec::new());
    }
    let mut last: Vec<TrialRecord> = Vec::new();
    let mut positions: BTreeMap<(u32, [String; 3]), usize> = BTreeMap::new();
    let mut earlier = Vec::new();
    for record in records {
        let cell = cell_of(&record).map(str::to_owned);
        match positions.entry((record.round, cell)) {
            Entry::Occupied(entry) => {
                earlier.push(std::mem::replace(&mut last[*entry.get()], record))
            }
            Entry::Vacant(entry) => {
                entry.insert(last.len());
                last.push(record);
            }
        }
    }
    (last, earlier)
}

/// Key of a cell: transport, condition and workload.
pub type CellKey<'a> = [&'a str; 3];

/// Returns the key of the cell of a trial.
pub(crate) fn cell_of(trial: &TrialRecord) -> CellKey<'_> {
    [&trial.transport, &trial.condition, &trial.workload].map(Name::as_str)
}

/// Condition and workload: the cells of all transports that are compared with one another.
#[derive(Debug, Clone, Copy)]
pub struct CellGroup<'a> {
    /// The condition.
    pub condition: &'a Condition,
    /// The workload.
    pub workload: &'a Workload,
    /// Whether the study has several workloads, so that a name needs the workload's.
    several: bool,
    /// Whether a sweep made these cells, which are then shown together with the others of it.
    pub is_swept: bool,
}

impl<'a> CellGroup<'a> {
    /// Returns the name of the group for a heading.
    #[must_use]
    pub fn heading(&self) -> String {
        match self.several {
            true => format!("{}, {}", self.condition.name, self.workload.name),
            false => self.condition.name.clone(),
        }
    }

    /// Returns the name of the group for a sentence.
    #[must_use]
    pub fn text(&self) -> String {
        match self.several {
            true => tr!("`{}` with `{}`", self.condition.name, self.workload.name),
            false => format!("`{}`", self.condition.name),
        }
    }

    /// Returns the key of the cell of a transport.
    #[must_use]
    pub fn cell(&self, transport: &'a str) -> CellKey<'a> {
        [transport, &self.condition.name, &self.workload.name]
    }

    /// Whether something of this condition and workload belongs here.
    #[must_use]
    pub fn is(&self, condition: &str, workload: &str) -> bool {
        self.condition.name == condition && self.workload.name == workload
    }
}

impl RunData {
    /// Iterates over the groups of cells of the study, workload by workload.
    pub fn groups(&self) -> impl Iterator<Item = CellGroup<'_>> {
        let study = &self.header.study;
        let names = |part: Part| -> BTreeSet<&str> {
            let entries = study.sweeps.entries.iter();
            let of_part = entries.filter(|entry| entry.part == part);
            of_part.map(|entry| entry.name.as_str()).collect()
        };
        let [conditions, workloads] = [Part::Condition, Part::Workload].map(names);
        let mut labels = study.transports.iter().map(|it| it.label.as_str());
        let has_quantity = labels.any(|label| self.has_swept_quantity(label));
        study.workloads.iter().flat_map(move |workload| {
            let workload_is_swept = has_quantity || workloads.contains(workload.name.as_str());
            let conditions = conditions.clone();
            let under = study.conditions.iter();
            let under = under.filter(|condition| workload.is_under(&condition.name));
            under.map(move |condition| CellGroup {
                condition,
                workload,
                several: study.workloads.len() > 1,
                is_swept: workload_is_swept || conditions.contains(condition.name.as_str()),
            })
        })
    }

    /// Whether a sweep of a quantity made a transport. One of names, such as congestion controls, makes transports that are
    /// compared like any others.
    #[must_use]
    pub fn has_swept_quantity(&self, transport: &str) -> bool {
        let sweeps = &self.header.study.sweeps;
        let entry = sweeps.entry(Part::Transport, transport);
        entry.is_some_and(|entry| {
            let mut parameters = sweeps.parameters(entry);
            parameters.any(|(sweep, _)| sweep.unit.is_some())
        })
    }

    /// Iterates over the groups of cells that no sweep made.
    pub fn plain_groups(&self) -> impl Iterator<Item = CellGroup<'_>> {
        self.groups().filter(|group| !group.is_swept)
    }

    /// Returns the names of the conditions that are described: of a sweep only the first.
    #[must_use]
    pub fn listed_conditions(&self) -> BTreeSet<&str> {
        let mut bases = BTreeSet::new();
        let entries = self.header.study.sweeps.entries.iter();
        let further: BTreeSet<&str> = entries
            .filter(|entry| entry.part == Part::Condition && !bases.insert(entry.base.as_str()))
            .map(|entry| entry.name.as_str())
            .collect();
        let conditions = self.header.study.conditions.iter();
        let names = conditions.map(|condition| condition.name.as_str());
        names.filter(|name| !further.contains(name)).collect()
    }

    /// Returns the number of trials that the study plans, or the shard of it that the run is; where a
    /// rule ends cells, if those that are not done yet are whole.
    #[must_use]
    pub fn planned(&self) -> u64 {
        let study = &self.header.study;
        if self.header.part.shard.is_some() {
            return u64::from(self.header.part.trials);
        }
        let cells = study.cells() as u64;
        if study.cell_end.is_none() {
            return cells * u64::from(self.rounds());
        }
        let mut done: BTreeMap<CellKey<'_>, CellTrials> = BTreeMap::new();
        for trial in &self.trials {
            done.entry(cell_of(trial))
                .or_default()
                .add(study.counts(trial));
        }
        let without = cells.saturating_sub(done.len() as u64);
        let with = (done.into_values()).map(|it| u64::from(study.trials_of_cell(it)));
        without * u64::from(study.trials_of_cell(CellTrials::default())) + with.sum::<u64>()
    }

    /// Returns the number of rounds of the study; for a run that ended before, by its rule, the rounds
    /// that it had.
    #[must_use]
    pub fn rounds(&self) -> u32 {
        let study = &self.header.study;
        match (study.may_end_early(), &self.state) {
            (true, RunState::Complete) => {
                let rounds = self.trials.iter().map(|trial| trial.round + 1);
                rounds.max().unwrap_or(0)
            }
            _ => study.rounds,
        }
    }

    /// Whether transports are ranked by this metric for this workload.
    #[must_use]
    pub fn is_primary(&self, metric: &str, workload: &str) -> bool {
        let study = &self.header.study;
        (study.workloads.iter())
            .any(|known| known.name == workload && study.primary_metric(known) == metric)
    }

    /// Returns the finite values of a metric in the measured trials of a cell, as they are shown, in the order of the plan.
    pub fn values<'a>(
        &'a self,
        cell: CellKey<'a>,
        metric: &str,
    ) -> impl Iterator<Item = (&'a TrialRecord, f64)> {
        let mut workloads = self.header.study.workloads.iter();
        let workload = workloads.find(|it| it.name == cell[2]);
        self.measured(cell).filter_map(move |trial| {
            let value = trial.value(metric, &workload?.kind)?;
            value.is_finite().then_some((trial, value))
        })
    }

    /// Iterates over the measured trials of a cell, in the order of the plan.
    pub fn measured<'a>(&'a self, cell: CellKey<'a>) -> impl Iterator<Item = &'a TrialRecord> {
        let trials = self.trials.iter();
        trials.filter(move |it| it.outcome == Outcome::Measured && cell_of(it) == cell)
    }

    /// Returns the names of the metrics that occur in any measured trial, in the order of the
    /// metric table.
    #[must_use]
    pub fn metrics_that_occur(&self) -> Vec<&'static regatta_model::MetricDefinition> {
        let measured = (self.trials.iter()).filter(|trial| trial.outcome == Outcome::Measured);
        let present: BTreeSet<&str> = measured
            .flat_map(|trial| trial.measurements.metrics.keys())
            .collect();
        let metrics = regatta_model::METRICS.iter();
        metrics.filter(|it| present.contains(it.name)).collect()
    }
}

/// Whether a trial's path was not as configured.
pub fn path_doubted(trial: &TrialRecord) -> bool {
    is_warned(trial, warning_code::PATH_OVERRUN)
        || is_warned(trial, warning_code::PATH_OUT_OF_TOLERANCE)
}

fn is_warned(trial: &TrialRecord, code: &str) -> bool {
    let mut warnings = trial.measurements.warnings.iter();
    warnings.any(|warning| warning.code == code)
}
