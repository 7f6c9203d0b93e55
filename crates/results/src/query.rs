//! Reading rows back into records.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
    vec::Drain,
};

use regatta_model::{
    AskedAchieved, Histogram, HostFacts, Measurements, Named as _, Outcome, PathCheck, Phrase,
    RunHeader, RunPart, Series, Shard, Text, TrialRecord, Warning, metric, warning,
};
use rusqlite::{Connection, Params, Row, types::Type};

use crate::{ResultsError, RunState, explain::explain};

/// Open results file, of which a run is read.
#[derive(Debug)]
pub struct RunFile {
    pub(crate) connection: Connection,
    pub(crate) path: PathBuf,
}

impl RunFile {
    /// Returns the path of the results file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn damaged(&self, what: impl Into<String>) -> ResultsError {
        ResultsError::Damaged {
            path: self.path.clone(),
            what: what.into(),
        }
    }

    /// Reads the one row of a query with `read`.
    pub(crate) fn one<T>(
        &self,
        sql: &str,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, ResultsError> {
        let row = self.connection.query_row(sql, [], read);
        row.map_err(|e| explain(e, "read", &self.path))
    }

    /// Reads all rows of a query with `read`, in order.
    pub(crate) fn rows<T>(
        &self,
        sql: &str,
        mut read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, ResultsError> {
        let mut all = Vec::new();
        self.each(sql, [], |row| {
            all.push(read(row)?);
            Ok(())
        })?;
        Ok(all)
    }

    /// Passes each row of a query to `take`, in order.
    pub(crate) fn each(
        &self,
        sql: &str,
        parameters: impl Params,
        mut take: impl FnMut(&Row<'_>) -> Result<(), RowError>,
    ) -> Result<(), ResultsError> {
        let all = || -> Result<(), RowError> {
            let mut statement = self.connection.prepare_cached(sql)?;
            let mut rows = statement.query(parameters)?;
            while let Some(row) = rows.next()? {
                take(row)?;
            }
            Ok(())
        };
        all().map_err(|error| match error {
            RowError::Sqlite(error) => explain(error, "read", &self.path),
            RowError::Results(error) => error,
        })
    }

    /// Returns the data that was known before the first trial.
    ///
    /// # Errors
    /// [`ResultsError::Damaged`] for a study that cannot be read; as for all functions here, errors
    /// of SQLite.
    pub fn header(&self) -> Result<RunHeader, ResultsError> {
        let sql =
            "SELECT run_id, regatta_version, started_unix_ns, study_json, study_text, bed FROM run";
        let row = self.one(sql, |row| <(_, _, _, String, _, _)>::try_from(row))?;
        let (run_id, regatta_version, started_unix_ns, study_json, study_text, bed) = row;
        let texts = self.texts()?;
        let study = serde_json::from_str(&study_json)
            .map_err(|e| self.damaged(format!("its study cannot be read: {e}")))?;
        Ok(RunHeader {
            run_id,
            regatta_version,
            started_unix_ns,
            study,
            study_text,
            bed: texts.read(bed),
            hosts: self.hosts()?,
            part: self.part()?,
        })
    }

    /// Reads the facts about all hosts.
    pub(crate) fn hosts(&self) -> Result<BTreeMap<String, HostFacts>, ResultsError> {
        let mut hosts: BTreeMap<String, HostFacts> = BTreeMap::new();
        self.each("SELECT host FROM host", [], |row| {
            hosts.insert(row.get(0)?, HostFacts::default());
            Ok(())
        })?;
        self.each("SELECT host, name, value FROM host_fact", [], |row| {
            let facts = hosts.entry(row.get(0)?).or_default();
            facts.0.insert(row.get(1)?, row.get(2)?);
            Ok(())
        })?;
        Ok(hosts)
    }

    /// Reads the identity of the run as a part of its plan: of a merged file, that of a run of the whole
    /// plan.
    pub(crate) fn part(&self) -> Result<RunPart, ResultsError> {
        if self.version()? < 5 {
            return Ok(RunPart::default());
        }
        let merged = "SELECT 1 FROM part_trial LIMIT 1";
        let is_merged = !self.rows(merged, |_| Ok(()))?.is_empty();
        let parts = self.rows(
            "SELECT plan_sha256, shard, shards, trials, node FROM part ORDER BY id LIMIT 1",
            |row| {
                let shard = row.get::<_, Option<u32>>(1)?.zip(row.get(2)?);
                Ok(RunPart {
                    plan_sha256: row.get(0)?,
                    shard: shard.map(|(number, of)| Shard { number, of }),
                    trials: row.get(3)?,
                    node: row.get(4)?,
                })
            },
        )?;
        let part = parts.into_iter().next().unwrap_or_default();
        Ok(match is_merged {
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
        let (state, reason) = self.one("SELECT state, state_reason FROM run", |row| {
            <(String, _)>::try_from(row)
        })?;
        match state.as_str() {
            "running" => Ok(RunState::Running),
            "complete" => Ok(RunState::Complete),
            "interrupted" => Ok(RunState::Interrupted {
                reason: self.texts()?.read(reason),
            }),
            _ => Err(self.damaged(format!("`{state}` is not a state of a run"))),
        }
    }

    /// Returns the positions in the plan of the trials that are stored, in order.
    ///
    /// # Errors
    /// As [`RunFile::header`].
    pub fn trial_indices(&self) -> Result<Vec<u32>, ResultsError> {
        self.rows("SELECT trial FROM trial ORDER BY trial", |row| row.get(0))
    }

    /// Returns the warnings about the whole run, in the order in which they came; a trial's own are
    /// in its record.
    ///
    /// # Errors
    /// As [`RunFile::header`].
    pub fn warnings(&self) -> Result<Vec<Warning>, ResultsError> {
        self.rows(
            &format!(
                "SELECT {} FROM warning WHERE trial IS NULL ORDER BY id",
                self.of_warning()?
            ),
            |row| read_warning(row, 0),
        )
    }

    /// Returns the self-checks of the path, in the order in which they were made.
    ///
    /// # Errors
    /// As [`RunFile::header`].
    pub fn path_checks(&self) -> Result<Vec<PathCheck>, ResultsError> {
        let of_version_2 = self.since_version(2, ["step_at_ns", "spoiled"], ["0", "NULL"])?;
        let sql = format!(
            "SELECT id, condition, checked_unix_ns, within, {of_version_2} FROM path_check ORDER BY id"
        );
        let mut checks = Vec::new();
        let mut position = BTreeMap::new();
        self.each(&sql, [], |row| {
            position.insert(row.get::<_, i64>(0)?, checks.len());
            checks.push(PathCheck {
                condition: row.get(1)?,
                step_at_ns: u64::try_from(row.get::<_, i64>(4)?).unwrap_or_default(),
                checked_unix_ns: row.get(2)?,
                within: row.get(3)?,
                spoiled: row.get::<_, Option<String>>(5)?.map(Text::from),
                quantities: Vec::new(),
            });
            Ok(())
        })?;
        let sql = "SELECT path_check, name, asked, achieved, lowest, highest, n, within
            FROM path_quantity ORDER BY path_check, position";
        self.each(sql, [], |row| {
            let id = row.get(0)?;
            let number =
                |column| Ok::<_, RowError>(row.get::<_, Option<f64>>(column)?.unwrap_or(f64::NAN));
            let check = position.get(&id).ok_or_else(|| {
                self.damaged(format!("a quantity of path check {id}, which is not there"))
            })?;
            checks[*check].quantities.push(AskedAchieved {
                name: row.get(1)?,
                asked: number(2)?,
                achieved: number(3)?,
                lowest: number(4)?,
                highest: number(5)?,
                n: u64::try_from(row.get::<_, i64>(6)?).unwrap_or_default(),
                within: row.get(7)?,
            });
            Ok(())
        })?;
        Ok(checks)
    }

    /// Returns the name of the machine on which each trial was run, by the number of its record; empty
    /// for a run that is not merged.
    ///
    /// # Errors
    /// As [`RunFile::header`].
    pub fn nodes(&self) -> Result<BTreeMap<u32, Arc<str>>, ResultsError> {
        if self.version()? < 5 {
            return Ok(BTreeMap::new());
        }
        let names = self.rows("SELECT id, node FROM part", |row| row.try_into())?;
        // The trials of a part share its name.
        let names: BTreeMap<i64, Arc<str>> = names.into_iter().collect();
        let sql = "SELECT trial, part FROM part_trial ORDER BY trial";
        let parts = self.rows(sql, |row| row.try_into())?;
        let named = |(trial, part): (u32, i64)| Some((trial, names.get(&part)?.clone()));
        Ok(parts.into_iter().filter_map(named).collect())
    }

    /// Reads the phrases of the texts of the other tables.
    fn texts(&self) -> Result<Texts, ResultsError> {
        if self.version()? < 8 {
            return Ok(Texts::default());
        }
        let phrases = self.rows("SELECT text, content_json FROM phrase", |row| {
            let phrase = serde_json::from_str(row.get_ref(1)?.as_str()?);
            let phrase = phrase.map_err(|error| {
                rusqlite::Error::FromSqlConversionFailure(1, Type::Text, error.into())
            })?;
            Ok((row.get(0)?, Arc::new(phrase)))
        })?;
        Ok(Texts(phrases.into_iter().collect()))
    }

    /// Returns the columns of a warning, for [`read_warning`].
    fn of_warning(&self) -> Result<String, ResultsError> {
        let content = self.since_version(7, ["content_json"], ["NULL"])?;
        Ok(format!("code, message, hint, {content}"))
    }

    /// Returns columns that a version of the tables added, or their substitutes in an older file.
    fn since_version<const N: usize>(
        &self,
        since: i32,
        columns: [&str; N],
        older: [&str; N],
    ) -> Result<String, ResultsError> {
        let older_file = self.version()? < since;
        Ok((if older_file { older } else { columns }).join(", "))
    }

    /// Returns the version of the file's tables.
    pub(crate) fn version(&self) -> Result<i32, ResultsError> {
        self.one("PRAGMA user_version", |row| row.get(0))
    }

    /// Reads the rows of the attempts of `span` in the order of their number, without what other tables hold of them.
    fn trial_rows(&self, span: Span, texts: &Texts) -> Result<Vec<TrialRecord>, ResultsError> {
        let attempt = self.since_version(2, ["attempt"], ["1"])?;
        let mut trials = Vec::new();
        let sql = format!(
            "SELECT trial, round, transport, condition, workload, started_unix_ns, seed, outcome, hint, {attempt}
             FROM trial WHERE {IN_SPAN} ORDER BY trial"
        );
        self.each(&sql, span, |row| {
            let index = row.get(0)?;
            let text = |column| Ok::<_, rusqlite::Error>(row.get_ref(column)?.as_str()?);
            let outcome = text(7)?;
            let seed = text(6)?.parse();
            trials.push(TrialRecord {
                index,
                attempt: row.get(9)?,
                round: row.get(1)?,
                transport: row.get(2)?,
                condition: row.get(3)?,
                workload: row.get(4)?,
                started_unix_ns: row.get(5)?,
                seed: seed.map_err(|_| {
                    self.damaged(format!("the seed of trial {index} is not a number"))
                })?,
                outcome: Outcome::from_name(outcome)
                    .ok_or_else(|| self.damaged(format!("`{outcome}` is not an outcome")))?,
                reasons: Vec::new(),
                hint: texts.read(row.get(8)?),
                measurements: Measurements::default(),
            });
            Ok(())
        })?;
        Ok(trials)
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
        let texts = self.texts()?;
        let mut trials = self.trial_rows(span, &texts)?;
        self.attach(
            &mut trials,
            span,
            "SELECT trial, reason FROM reason WHERE {IN_SPAN} ORDER BY trial, position",
            |row| Ok(texts.read(row.get(1)?)),
            |trial, reasons| trial.reasons.extend(reasons),
        )?;
        // All records share the names.
        let mut names: BTreeSet<Arc<str>> = BTreeSet::new();
        self.attach(
            &mut trials,
            span,
            "SELECT trial, name, value FROM metric WHERE {IN_SPAN} ORDER BY trial, name",
            |row| {
                let name = metric::current_name(row.get_ref(1)?.as_str()?);
                if let Some(known) = names.get(name) {
                    return Ok((known.clone(), row.get(2)?));
                }
                let new: Arc<str> = name.into();
                names.insert(new.clone());
                Ok((new, row.get(2)?))
            },
            |trial, values: Drain<'_, (Arc<str>, f64)>| {
                let warnings = &mut trial.measurements.warnings;
                let finite = values.filter(|(name, value)| {
                    if !value.is_finite() {
                        let value = value.to_string();
                        warnings.push(warning::stored_value_not_finite(name, &value));
                    }
                    value.is_finite()
                });
                trial.measurements.metrics = finite.collect();
            },
        )?;
        self.attach(
            &mut trials,
            span,
            "SELECT trial, name, value FROM fact WHERE {IN_SPAN} ORDER BY trial, name",
            |row| Ok((row.get::<_, String>(1)?, texts.read(row.get(2)?))),
            |trial, facts| trial.measurements.facts.extend(facts),
        )?;
        self.attach(
            &mut trials,
            span,
            &format!(
                "SELECT trial, {} FROM warning WHERE {{IN_SPAN}} ORDER BY trial, id",
                self.of_warning()?
            ),
            |row| read_warning(row, 1),
            |trial, warnings| trial.measurements.warnings.extend(warnings),
        )?;
        if with_series {
            self.attach(
                &mut trials,
                span,
                "SELECT trial, side, name, t_ns, value FROM series WHERE {IN_SPAN} ORDER BY trial, position",
                |row| read_series(row, 1),
                |trial, series| trial.measurements.series = series.collect(),
            )?;
            self.attach(
                &mut trials,
                span,
                "SELECT trial, side, name, hdr_v2_base64 FROM histogram WHERE {IN_SPAN} ORDER BY trial, position",
                |row| {
                    Ok(Histogram {
                        side: row.get(1)?,
                        name: row.get(2)?,
                        hdr_v2_base64: row.get(3)?,
                    })
                },
                |trial, histograms| trial.measurements.histograms = histograms.collect(),
            )?;
        }
        Ok(trials)
    }

    /// Reads the rows of a query about the trials of `span`, whose first column is a trial by which they are ordered,
    /// and passes those of each trial with `give`.
    fn attach<T>(
        &self,
        trials: &mut [TrialRecord],
        span: Span,
        sql: &str,
        mut read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
        mut give: impl FnMut(&mut TrialRecord, Drain<'_, T>),
    ) -> Result<(), ResultsError> {
        let mut trials = trials.iter_mut();
        let mut current: Option<&mut TrialRecord> = None;
        let mut of_trial = Vec::new();
        self.each(&sql.replace("{IN_SPAN}", IN_SPAN), span, |row| {
            let index: u32 = row.get(0)?;
            if current.as_ref().is_none_or(|trial| trial.index != index) {
                if let Some(trial) = current.take() {
                    give(trial, of_trial.drain(..));
                }
                current = trials
                    .find(|trial| trial.index >= index)
                    .filter(|trial| trial.index == index);
                if current.is_none() {
                    let what = format!("a row of trial {index}, which is not there");
                    return Err(self.damaged(what).into());
                }
            }
            of_trial.push(read(row)?);
            Ok(())
        })?;
        if let Some(trial) = current {
            give(trial, of_trial.drain(..));
        }
        Ok(())
    }
}

/// Phrases of the texts of a file.
#[derive(Default)]
struct Texts(BTreeMap<String, Arc<Phrase>>);

impl Texts {
    /// Returns a stored text with its phrase.
    fn read(&self, english: String) -> Text {
        let phrase = self.0.get(&english).cloned();
        Text::new(english, phrase)
    }
}

/// Numbers of trials: the first and the last.
pub(crate) type Span = [i64; 2];

/// All trials.
const ALL_TRIALS: Span = [i64::MIN, i64::MAX];

/// Condition on the rows of a table that they are of the trials of a span.
const IN_SPAN: &str = "trial BETWEEN ?1 AND ?2";

/// Error of a row.
pub(crate) enum RowError {
    Sqlite(rusqlite::Error),
    Results(ResultsError),
}

impl From<rusqlite::Error> for RowError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<rusqlite::types::FromSqlError> for RowError {
    fn from(error: rusqlite::types::FromSqlError) -> Self {
        Self::Sqlite(error.into())
    }
}

impl From<ResultsError> for RowError {
    fn from(error: ResultsError) -> Self {
        Self::Results(error)
    }
}

fn read_warning(row: &Row<'_>, first: usize) -> rusqlite::Result<Warning> {
    let content = row.get_ref(first + 3)?.as_str_or_null()?;
    let content = content.map(serde_json::from_str).transpose();
    Ok(Warning {
        code: row.get(first)?,
        message: row.get(first + 1)?,
        hint: row.get(first + 2)?,
        content: content.map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(first + 3, Type::Text, error.into())
        })?,
    })
}

/// Reads side, name, times and values from four columns.
pub(crate) fn read_series(row: &Row<'_>, first: usize) -> rusqlite::Result<Series> {
    let chunks = |column: usize| -> rusqlite::Result<Vec<[u8; 8]>> {
        let bytes = row.get_ref(column)?.as_blob()?;
        Ok(bytes.as_chunks::<8>().0.to_vec())
    };
    let times = chunks(first + 2)?.into_iter().map(i64::from_le_bytes);
    let values = chunks(first + 3)?.into_iter().map(f64::from_le_bytes);
    let (t_ns, values) = times
        .zip(values)
        .filter(|(_, value)| value.is_finite())
        .unzip();
    Ok(Series {
        side: row.get(first)?,
        name: row.get(first + 1)?,
        t_ns,
        values,
    })
}
