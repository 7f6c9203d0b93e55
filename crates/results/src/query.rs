//! Reading rows back into records.

use std::{collections::BTreeMap, path::Path, sync::Arc, vec::Drain};

use regatta_model::{
    AskedAchieved, Histogram, HostFacts, Measurements, Outcome, PathCheck, RunHeader, RunPart,
    Series, Shard, TrialRecord, Warning,
};
use rusqlite::{Connection, Row};

use crate::{ResultsError, RunState, open::explain, schema};

/// Open results file, as the functions of this module need it.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) connection: &'a Connection,
    /// Path for messages.
    pub(crate) path: &'a Path,
}

impl Source<'_> {
    pub(crate) fn damaged(&self, what: impl Into<String>) -> ResultsError {
        ResultsError::Damaged {
            path: self.path.to_owned(),
            what: what.into(),
        }
    }

    /// Reads all rows of a query with `read`, in order.
    pub(crate) fn rows<T>(
        &self,
        sql: &str,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, ResultsError> {
        let all = || -> rusqlite::Result<Vec<T>> {
            let mut statement = self.connection.prepare(sql)?;
            statement.query_map([], read)?.collect()
        };
        all().map_err(|e| explain(e, "read", self.path))
    }

    pub(crate) fn header(&self) -> Result<RunHeader, ResultsError> {
        let (run_id, regatta_version, started_unix_ns, study_json, study_text, bed) = self
            .connection
            .query_row(
                "SELECT run_id, regatta_version, started_unix_ns, study_json, study_text, bed
                 FROM run",
                [],
                |row| {
                    Ok((
                        row.get(0)?,
                        row.get(1)?,
                        row.get(2)?,
                        row.get::<_, String>(3)?,
                        row.get(4)?,
                        row.get(5)?,
                    ))
                },
            )
            .map_err(|e| explain(e, "read", self.path))?;
        let study = serde_json::from_str(&study_json)
            .map_err(|e| self.damaged(format!("its study cannot be read: {e}")))?;
        Ok(RunHeader {
            run_id,
            regatta_version,
            started_unix_ns,
            study,
            study_text,
            bed,
            hosts: self.hosts()?,
            part: self.part()?,
        })
    }

    /// Reads the facts about all hosts.
    pub(crate) fn hosts(&self) -> Result<BTreeMap<String, HostFacts>, ResultsError> {
        let mut hosts: BTreeMap<String, HostFacts> = self
            .rows("SELECT host FROM host", |row| row.get::<_, String>(0))?
            .into_iter()
            .map(|host| (host, HostFacts::default()))
            .collect();
        for (host, name, value) in self.rows("SELECT host, name, value FROM host_fact", |row| {
            Ok((row.get::<_, String>(0)?, row.get(1)?, row.get(2)?))
        })? {
            hosts.entry(host).or_default().0.insert(name, value);
        }
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

    pub(crate) fn state(&self) -> Result<RunState, ResultsError> {
        let (state, reason) = self
            .connection
            .query_row("SELECT state, state_reason FROM run", [], |row| {
                Ok((row.get::<_, String>(0)?, row.get(1)?))
            })
            .map_err(|e| explain(e, "read", self.path))?;
        match state.as_str() {
            "running" => Ok(RunState::Running),
            "complete" => Ok(RunState::Complete),
            "interrupted" => Ok(RunState::Interrupted { reason }),
            _ => Err(self.damaged(format!("`{state}` is not a state of a run"))),
        }
    }

    pub(crate) fn trial_indices(&self) -> Result<Vec<u32>, ResultsError> {
        self.rows("SELECT trial FROM trial ORDER BY trial", |row| row.get(0))
    }

    pub(crate) fn warnings(&self) -> Result<Vec<Warning>, ResultsError> {
        self.rows(
            "SELECT code, message, hint FROM warning WHERE trial IS NULL ORDER BY id",
            |row| read_warning(row, 0),
        )
    }

    pub(crate) fn path_checks(&self) -> Result<Vec<PathCheck>, ResultsError> {
        let mut checks = Vec::new();
        let mut position = BTreeMap::new();
        let of_version_2 = self.since_version_2(["step_at_ns", "spoiled"], ["0", "NULL"])?;
        for (id, check) in self.rows(
            &format!(
                "SELECT id, condition, checked_unix_ns, within, {of_version_2} FROM path_check
                 ORDER BY id"
            ),
            |row| {
                Ok((
                    row.get::<_, i64>(0)?,
                    PathCheck {
                        condition: row.get(1)?,
                        step_at_ns: u64::try_from(row.get::<_, i64>(4)?).unwrap_or_default(),
                        checked_unix_ns: row.get(2)?,
                        within: row.get(3)?,
                        spoiled: row.get(5)?,
                        quantities: Vec::new(),
                    },
                ))
            },
        )? {
            position.insert(id, checks.len());
            checks.push(check);
        }
        let not_null = |value: Option<f64>| value.unwrap_or(f64::NAN);
        for (id, quantity) in self.rows(
            "SELECT path_check, name, asked, achieved, lowest, highest, n, within
             FROM path_quantity ORDER BY path_check, position",
            |row| {
                Ok((
                    row.get::<_, i64>(0)?,
                    AskedAchieved {
                        name: row.get(1)?,
                        asked: not_null(row.get(2)?),
                        achieved: not_null(row.get(3)?),
                        lowest: not_null(row.get(4)?),
                        highest: not_null(row.get(5)?),
                        n: u64::try_from(row.get::<_, i64>(6)?).unwrap_or_default(),
                        within: row.get(7)?,
                    },
                ))
            },
        )? {
            let check = position.get(&id).ok_or_else(|| {
                self.damaged(format!("a quantity of path check {id}, which is not there"))
            })?;
            checks[*check].quantities.push(quantity);
        }
        Ok(checks)
    }

    /// Returns columns that version 2 of the tables added, or their substitutes in an older file.
    fn since_version_2<const N: usize>(
        &self,
        columns: [&str; N],
        older: [&str; N],
    ) -> Result<String, ResultsError> {
        let older_file = self.version()? < 2;
        Ok((if older_file { older } else { columns }).join(", "))
    }

    /// Returns the version of the file's tables.
    pub(crate) fn version(&self) -> Result<i32, ResultsError> {
        let versions = self.rows("PRAGMA user_version", |row| row.get::<_, i32>(0))?;
        Ok(versions.first().copied().unwrap_or(schema::VERSION))
    }

    /// Passes each row of a query about the trials of `span` to `take`, in order.
    fn each_row(
        &self,
        sql: &str,
        span: Span,
        mut take: impl FnMut(&Row<'_>) -> Result<(), RowError>,
    ) -> Result<(), ResultsError> {
        let mut all = || -> Result<(), RowError> {
            let mut statement = self.connection.prepare_cached(sql)?;
            let mut rows = statement.query([span.first, span.last])?;
            while let Some(row) = rows.next()? {
                take(row)?;
            }
            Ok(())
        };
        all().map_err(|error| match error {
            RowError::Sqlite(error) => explain(error, "read", self.path),
            RowError::Damaged(what) => self.damaged(what),
        })
    }

    /// Reads the rows of the attempts of `span` in the order of their number, without what other tables hold of them.
    fn trial_rows(&self, span: Span) -> Result<Vec<TrialRecord>, ResultsError> {
        let attempt = self.since_version_2(["attempt"], ["1"])?;
        let mut trials = Vec::new();
        let sql = format!(
            "SELECT trial, round, transport, condition, workload, started_unix_ns, seed, outcome, hint, {attempt}
             FROM trial WHERE {IN_SPAN} ORDER BY trial"
        );
        self.each_row(&sql, span, |row| {
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
                seed: seed
                    .map_err(|_| damaged(format!("the seed of trial {index} is not a number")))?,
                outcome: (Outcome::ALL.into_iter())
                    .find(|known| known.name() == outcome)
                    .ok_or_else(|| damaged(format!("`{outcome}` is not an outcome")))?,
                reasons: Vec::new(),
                hint: row.get(8)?,
                measurements: Measurements::default(),
            });
            Ok(())
        })?;
        Ok(trials)
    }

    /// Reads the attempts of `span` in the order of their number; series and histograms only if `whole`.
    pub(crate) fn trials(&self, span: Span, whole: bool) -> Result<Vec<TrialRecord>, ResultsError> {
        let mut trials = self.trial_rows(span)?;
        self.attach(
            &mut trials,
            span,
            "SELECT trial, reason FROM reason WHERE {IN_SPAN} ORDER BY trial, position",
            |row| row.get(1),
            |trial, reasons| trial.reasons.extend(reasons),
        )?;
        // All records share the names.
        let mut names: BTreeMap<String, Arc<str>> = BTreeMap::new();
        self.attach(
            &mut trials,
            span,
            "SELECT trial, name, value FROM metric WHERE {IN_SPAN} ORDER BY trial, name",
            |row| {
                let name = row.get_ref(1)?.as_str()?;
                let shared = match names.get(name) {
                    Some(known) => known.clone(),
                    None => {
                        let shared: Arc<str> = name.into();
                        names.insert(name.to_owned(), shared.clone());
                        shared
                    }
                };
                Ok((shared, row.get(2)?))
            },
            |trial, values: Drain<'_, (Arc<str>, f64)>| {
                let warnings = &mut trial.measurements.warnings;
                let finite = values.filter(|(name, value)| {
                    if !value.is_finite() {
                        warnings.push(value_not_kept(format!(
                            "`{name}` is {value} in the results file and was left out"
                        )));
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
            |row| Ok((row.get(1)?, row.get(2)?)),
            |trial, facts| trial.measurements.facts.extend(facts),
        )?;
        self.attach(
            &mut trials,
            span,
            "SELECT trial, code, message, hint FROM warning WHERE {IN_SPAN} ORDER BY trial, id",
            |row| read_warning(row, 1),
            |trial, warnings| trial.measurements.warnings.extend(warnings),
        )?;
        if whole {
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
        self.each_row(&sql.replace("{IN_SPAN}", IN_SPAN), span, |row| {
            let index: u32 = row.get(0)?;
            if current.as_ref().is_none_or(|trial| trial.index != index) {
                if let Some(trial) = current.take() {
                    give(trial, of_trial.drain(..));
                }
                current = trials
                    .find(|trial| trial.index >= index)
                    .filter(|trial| trial.index == index);
                if current.is_none() {
                    return Err(damaged(format!(
                        "a row of trial {index}, which is not there"
                    )));
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

/// Trials by number, from the first to the last.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) first: i64,
    pub(crate) last: i64,
}

impl Span {
    /// All trials.
    pub(crate) const ALL: Self = Self {
        first: i64::MIN,
        last: i64::MAX,
    };
}

/// Condition on the rows of a table that they are of the trials of a [`Span`].
const IN_SPAN: &str = "trial BETWEEN ?1 AND ?2";

/// Error of a row.
enum RowError {
    Sqlite(rusqlite::Error),
    /// Row that Regatta did not store, with what is wrong.
    Damaged(String),
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

fn damaged(what: String) -> RowError {
    RowError::Damaged(what)
}

/// Returns the warning that a value of a trial was left out.
pub(crate) fn value_not_kept(message: String) -> Warning {
    Warning {
        code: "value_not_kept".to_owned(),
        message,
        hint: String::new(),
    }
}

fn read_warning(row: &Row<'_>, first: usize) -> rusqlite::Result<Warning> {
    Ok(Warning {
        code: row.get(first)?,
        message: row.get(first + 1)?,
        hint: row.get(first + 2)?,
    })
}

/// Reads side, name, times and values from four columns.
pub(crate) fn read_series(row: &Row<'_>, first: usize) -> rusqlite::Result<Series> {
    let words = |column: usize| -> rusqlite::Result<Vec<[u8; 8]>> {
        let bytes = row.get_ref(column)?.as_blob()?;
        Ok(bytes.as_chunks::<8>().0.to_vec())
    };
    let times = words(first + 2)?.into_iter().map(i64::from_le_bytes);
    let values = words(first + 3)?.into_iter().map(f64::from_le_bytes);
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
