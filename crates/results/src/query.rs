//! Reading rows back into records.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    ResultsError, RunState,
    run_file::RunFile,
    schema::{
        CheckNumber, FactTable, HistogramTable, HostFactTable, HostRow, HostTable, MetricRow,
        MetricTable, OfTrial, PartTable, PartTrialTable, PathCheckTable, PathQuantityTable,
        PhraseTable, ReasonTable, RunRow, RunTable, SeriesRow, SeriesTable, TrialTable,
        WarningTable, WarningTrial,
    },
};
use regatta_model::{
    HostFacts, PathCheck, RunHeader, RunPart, Series, Shard, TrialRecord, Warning, table::Phrases,
    warning,
};

impl RunFile {
    /// Returns the data that was known before the first trial.
    ///
    /// # Errors
    /// [`ResultsError::Damaged`] for a study that cannot be read; as for all functions here, errors
    /// of SQLite.
    pub fn header(&self) -> Result<RunHeader, ResultsError> {
        let (hosts, part) = (self.hosts()?, self.part()?);
        self.run(|run| {
            let study = serde_json::from_str(run.study_json)
                .map_err(|e| self.damaged(format!("its study cannot be read: {e}")))?;
            Ok(RunHeader {
                run_id: run.run_id.to_owned(),
                regatta_version: run.regatta_version.to_owned(),
                started_unix_ns: run.started_unix_ns,
                study,
                study_text: run.study_text.to_owned(),
                bed: run.bed,
                hosts,
                part,
            })
        })
    }

    /// Reads the row of the run.
    pub(crate) fn run<T>(
        &self,
        read: impl FnOnce(RunRow<'_>) -> Result<T, ResultsError>,
    ) -> Result<T, ResultsError> {
        let (mut read, mut result) = (Some(read), None);
        self.each_row::<RunTable>("", [], &self.phrases()?, |(_, run)| {
            result = read.take().map(|read| read(run));
            Ok(())
        })?;
        result.unwrap_or_else(|| Err(self.damaged("it holds no run")))
    }

    /// Reads the facts about all hosts.
    pub(crate) fn hosts(&self) -> Result<BTreeMap<String, HostFacts>, ResultsError> {
        let no_phrases = Phrases::default();
        let hosts = self.all::<HostTable, _>(&no_phrases, |HostRow { host }| {
            (host.to_owned(), HostFacts::default())
        })?;
        let mut hosts: BTreeMap<String, HostFacts> = hosts.into_iter().collect();
        self.each_row::<HostFactTable>("", [], &no_phrases, |fact| {
            let facts = hosts.entry(fact.host.to_owned()).or_default();
            facts.0.insert(fact.name.to_owned(), fact.value.to_owned());
            Ok(())
        })?;
        Ok(hosts)
    }

    /// Whether the file is merged of several runs.
    pub(crate) fn is_merged(&self) -> Result<bool, ResultsError> {
        self.one("SELECT EXISTS (SELECT 1 FROM part_trial)")
    }

    /// Reads the identity of the run as a part of its plan: of a merged file, that of a run of the whole
    /// plan.
    pub(crate) fn part(&self) -> Result<RunPart, ResultsError> {
        let parts = self.all::<PartTable, _>(&Phrases::default(), |(_, part)| RunPart {
            plan_sha256: part.plan_sha256.to_owned(),
            shard: (part.shard.zip(part.shards)).map(|(number, of)| Shard { number, of }),
            trials: part.trials,
            node: part.node.to_owned(),
        })?;
        let part = parts.into_iter().next().unwrap_or_default();
        Ok(match self.is_merged()? {
            false => part,
            true => RunPart {
                plan_sha256: part.plan_sha256,
                ..RunPart::default()
            },
        })
    }

    /// Returns the state of the run.
    ///
    /// # Errors
    /// As [`RunFile::header`].
    pub fn state(&self) -> Result<RunState, ResultsError> {
        self.run(|run| match run.state {
            "running" => Ok(RunState::Running),
            "complete" => Ok(RunState::Complete),
            "interrupted" => Ok(RunState::Interrupted {
                reason: run.state_reason,
            }),
            state => Err(self.damaged(format!("`{state}` is not a state of a run"))),
        })
    }

    /// Returns the positions in the plan of the trials that are stored, in order.
    ///
    /// # Errors
    /// As [`RunFile::header`].
    pub fn trial_indices(&self) -> Result<Vec<u32>, ResultsError> {
        let mut indices = Vec::new();
        self.each("SELECT trial FROM trial ORDER BY trial", [], |row| {
            indices.push(row.get("trial")?);
            Ok(())
        })?;
        Ok(indices)
    }

    /// Returns the warnings about the whole run, in the order in which they came; a trial's own are
    /// in its record.
    ///
    /// # Errors
    /// As [`RunFile::header`].
    pub fn warnings(&self) -> Result<Vec<Warning>, ResultsError> {
        let mut warnings = Vec::new();
        let of_run = "trial IS NULL";
        self.each_row::<WarningTable>(of_run, [], &Phrases::default(), |(_, (_, warning))| {
            warnings.push(warning);
            Ok(())
        })?;
        Ok(warnings)
    }

    /// Returns the self-checks of the path, in the order in which they were made.
    ///
    /// # Errors
    /// As [`RunFile::header`].
    pub fn path_checks(&self) -> Result<Vec<PathCheck>, ResultsError> {
        let phrases = self.phrases()?;
        let numbered = |(number, check): (CheckNumber, _)| (number.id.unwrap_or_default(), check);
        let checks = self.all::<PathCheckTable, _>(&phrases, numbered)?;
        let mut checks: BTreeMap<i64, PathCheck> = checks.into_iter().collect();
        self.each_row::<PathQuantityTable>("", [], &phrases, |(of, quantity)| {
            let id = of.path_check;
            let check = checks.get_mut(&id).ok_or_else(|| {
                self.damaged(format!("a quantity of path check {id}, which is not there"))
            })?;
            check.quantities.push(quantity);
            Ok(())
        })?;
        Ok(checks.into_values().collect())
    }

    /// Returns the name of the machine on which each trial was run, by the number of its record; empty
    /// for a run that is not merged.
    ///
    /// # Errors
    /// As [`RunFile::header`].
    pub fn nodes(&self) -> Result<BTreeMap<u32, Arc<str>>, ResultsError> {
        let no_phrases = Phrases::default();
        // The trials of a part share its name.
        let names = self.all::<PartTable, _>(&no_phrases, |(number, part)| {
            (number.id, Arc::from(part.node))
        })?;
        let names: BTreeMap<Option<i64>, Arc<str>> = names.into_iter().collect();
        let mut nodes = BTreeMap::new();
        self.each_row::<PartTrialTable>("", [], &no_phrases, |(OfTrial { trial }, of)| {
            if let Some(node) = names.get(&Some(of.part)) {
                nodes.insert(trial, node.clone());
            }
            Ok(())
        })?;
        Ok(nodes)
    }

    /// Reads the phrases of the texts of the other tables.
    pub(crate) fn phrases(&self) -> Result<Phrases, ResultsError> {
        let phrases = self.all::<PhraseTable, _>(&Phrases::default(), |(_, phrase)| {
            (phrase.text.to_owned(), phrase.content)
        })?;
        Ok(phrases.into_iter().collect())
    }

    /// Returns all trials, with series and histograms, in the order of the plan.
    ///
    /// A value that is not finite was not stored by Regatta and is no measurement: it is left out,
    /// and a warning of the trial says so. Samples of a series that are not finite are left out.
    ///
    /// # Errors
    /// As [`RunFile::header`].
    pub fn trials(&self) -> Result<Vec<TrialRecord>, ResultsError> {
        self.trials_of(ALL_TRIALS, true)
    }

    /// Returns all trials as [`RunFile::trials`] does, without series and histograms.
    ///
    /// # Errors
    /// As [`RunFile::header`].
    pub fn trials_without_series(&self) -> Result<Vec<TrialRecord>, ResultsError> {
        self.trials_of(ALL_TRIALS, false)
    }

    /// Reads the attempts of `span` in the order of their number; series and histograms only if `with_series`.
    pub(crate) fn trials_of(
        &self,
        span: Span,
        with_series: bool,
    ) -> Result<Vec<TrialRecord>, ResultsError> {
        let phrases = self.phrases()?;
        let mut trials = self.trial_rows(span, &phrases)?;
        let mut of = self.cursor(&mut trials);
        self.each_row::<ReasonTable>(IN_SPAN, span, &phrases, |(key, row)| {
            add(&mut of.trial(key)?.reasons, row.reason);
            Ok(())
        })?;
        self.attach_metrics(&mut trials, span)?;
        let mut of = self.cursor(&mut trials);
        self.each_row::<FactTable>(IN_SPAN, span, &phrases, |(key, fact)| {
            let facts = &mut of.trial(key)?.measurements.facts;
            facts.insert(fact.name, fact.value);
            Ok(())
        })?;
        let mut of = self.cursor(&mut trials);
        self.each_row_by::<WarningTable>(
            "trial, id",
            IN_SPAN,
            span,
            &phrases,
            |(_, (WarningTrial { trial }, warning))| {
                // Those of no trial are of no span.
                if let Some(trial) = trial {
                    let measurements = &mut of.trial(OfTrial { trial })?.measurements;
                    add(&mut measurements.warnings, warning);
                }
                Ok(())
            },
        )?;
        if with_series {
            let mut of = self.cursor(&mut trials);
            self.each_row::<SeriesTable>(IN_SPAN, span, &phrases, |(key, (_, series))| {
                let measurements = &mut of.trial(key)?.measurements;
                add(&mut measurements.series, read_series(&series));
                Ok(())
            })?;
            let mut of = self.cursor(&mut trials);
            self.each_row::<HistogramTable>(IN_SPAN, span, &phrases, |(key, (_, histogram))| {
                let measurements = &mut of.trial(key)?.measurements;
                add(&mut measurements.histograms, histogram);
                Ok(())
            })?;
        }
        Ok(trials)
    }

    /// Reads the rows of the attempts of `span` in the order of their number, without what other tables have of them.
    pub(crate) fn trial_rows(
        &self,
        span: Span,
        phrases: &Phrases,
    ) -> Result<Vec<TrialRecord>, ResultsError> {
        let (mut trials, mut names) = (Vec::new(), BTreeSet::new());
        self.each_row::<TrialTable>(IN_SPAN, span, phrases, |mut trial| {
            let TrialRecord {
                transport,
                condition,
                workload,
                ..
            } = &mut trial;
            for name in [transport, condition, workload] {
                name.share(&mut names);
            }
            trials.push(trial);
            Ok(())
        })?;
        Ok(trials)
    }

    /// Reads the metrics of the trials of `span`. All records share the names.
    fn attach_metrics(&self, trials: &mut [TrialRecord], span: Span) -> Result<(), ResultsError> {
        let mut names: BTreeSet<Arc<str>> = BTreeSet::new();
        let mut of = self.cursor(trials);
        let mut values: Vec<(Arc<str>, f64)> = Vec::new();
        let mut current = None;
        let no_phrases = Phrases::default();
        self.each_row::<MetricTable>(IN_SPAN, span, &no_phrases, |(key, metric)| {
            if current != Some(key.trial) {
                of.set_metrics(current.replace(key.trial), &mut values)?;
            }
            let MetricRow { name, value } = metric;
            let name = match names.get(name) {
                Some(known) => known.clone(),
                None => {
                    let new: Arc<str> = name.into();
                    names.insert(new.clone());
                    new
                }
            };
            values.push((name, value));
            Ok(())
        })?;
        of.set_metrics(current, &mut values)
    }

    /// Returns a cursor before the first trial.
    pub(crate) fn cursor<'t>(&'t self, trials: &'t mut [TrialRecord]) -> Cursor<'t> {
        Cursor {
            file: self,
            trials,
            position: 0,
        }
    }
}

/// Position in a list of trials, which moves forward to the trial of each row.
pub(crate) struct Cursor<'t> {
    file: &'t RunFile,
    trials: &'t mut [TrialRecord],
    position: usize,
}

impl Cursor<'_> {
    /// Returns the trial of a row, which is that of the previous row or a later one.
    pub(crate) fn trial(
        &mut self,
        OfTrial { trial: index }: OfTrial,
    ) -> Result<&mut TrialRecord, ResultsError> {
        let is_before = |trial: &TrialRecord| trial.index < index;
        while self.trials.get(self.position).is_some_and(is_before) {
            self.position += 1;
        }
        let trial = self.trials.get_mut(self.position);
        trial.filter(|trial| trial.index == index).ok_or_else(|| {
            let what = format!("a row of trial {index}, which is not there");
            self.file.damaged(what)
        })
    }

    /// Moves values to a trial. One that is not finite is left out, with a warning.
    fn set_metrics(
        &mut self,
        trial: Option<u32>,
        values: &mut Vec<(Arc<str>, f64)>,
    ) -> Result<(), ResultsError> {
        let Some(trial) = trial else {
            return Ok(());
        };
        let measurements = &mut self.trial(OfTrial { trial })?.measurements;
        let warnings = &mut measurements.warnings;
        let finite = values.drain(..).filter(|(name, value)| {
            if !value.is_finite() {
                warnings.push(warning::stored_value_not_finite(name, &value.to_string()));
            }
            value.is_finite()
        });
        measurements.metrics = finite.collect();
        Ok(())
    }
}

/// Numbers of trials: the first and the last.
pub(crate) type Span = [i64; 2];

/// All trials.
const ALL_TRIALS: Span = [i64::MIN, i64::MAX];

/// Condition on the rows of a table that they are of the trials of a span.
pub(crate) const IN_SPAN: &str = "trial BETWEEN ?1 AND ?2";

/// Adds an item to a short list without room to spare, which a million records would keep.
fn add<T>(list: &mut Vec<T>, item: T) {
    list.reserve_exact(1);
    list.push(item);
}

/// Unpacks a series. Samples that are not finite are left out.
pub(crate) fn read_series(row: &SeriesRow<'_>) -> Series {
    let numbers = |bytes: &[u8]| bytes.as_chunks::<8>().0.to_vec();
    let times = numbers(row.t_ns).into_iter().map(i64::from_le_bytes);
    let values = numbers(row.value).into_iter().map(f64::from_le_bytes);
    let (t_ns, values) = times
        .zip(values)
        .filter(|(_, value)| value.is_finite())
        .unzip();
    Series {
        side: row.side.to_owned(),
        name: row.name.to_owned(),
        t_ns,
        values,
    }
}
