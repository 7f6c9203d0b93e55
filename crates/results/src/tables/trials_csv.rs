//! Columns of `trials.csv`, which depend on the run: the sweeps, metrics and facts that occur.

use regatta_model::{
    Sweeps, TrialRecord, metric, stack,
    table::{Column, Columns as _, Kind, Value},
};

use super::definition::of_some_runs;
use crate::{Reader, ResultsError};

/// Query for the metrics that have a value; see [`Reader::trials`] for values that are none.
const OCCURRING_METRICS: &str =
    "SELECT DISTINCT name FROM metric WHERE abs(value) <= 1.7976931348623157e308";

/// Columns of `trials.csv` that every run has: those of a trial, its reasons before the hint, and its warnings.
fn of_every_run() -> Vec<Column> {
    let mut columns = Vec::new();
    TrialRecord::columns(&mut columns);
    let reasons = Column::new(
        Kind::Text,
        "reasons",
        "causes of an outcome other than `measured`, outermost first, with `; ` between",
    );
    let warnings = Column::new(
        Kind::Text,
        "warnings",
        "short names of the kinds of its warnings, with `; ` between",
    );
    columns.insert(position_of_reasons(&columns), reasons);
    columns.push(warnings);
    columns
}

fn position_of_reasons(columns: &[Column]) -> usize {
    let hint = columns.iter().position(|column| column.name == "hint");
    hint.unwrap_or(columns.len())
}

/// Texts of one trial in the columns that are no fields of it.
pub(crate) struct TrialTexts {
    reasons: String,
    warnings: String,
}

impl TrialTexts {
    pub(crate) fn of(trial: &TrialRecord) -> Self {
        let warnings = trial.measurements.warnings.iter();
        let codes: Vec<&str> = warnings.map(|warning| warning.code.as_str()).collect();
        Self {
            reasons: trial.reasons.join("; "),
            warnings: codes.join("; "),
        }
    }

    /// Returns the values of the columns of every run.
    pub(crate) fn values<'v>(&'v self, trial: &'v TrialRecord) -> Vec<Value<'v>> {
        let (mut columns, mut values) = (Vec::new(), Vec::new());
        TrialRecord::columns(&mut columns);
        trial.values(&mut values);
        values.insert(position_of_reasons(&columns), Value::Text(&self.reasons));
        values.push(Value::Text(&self.warnings));
        values
    }
}

/// Columns of a run after those of every run.
pub(crate) struct TrialColumns {
    sweeps: Sweeps,
    /// Keys of the sweeps, such as `condition.loss`.
    pub(crate) keys: Vec<String>,
    /// Names of the metrics. Those that this version does not know come last, in their own order.
    pub(crate) metrics: Vec<String>,
    /// Names of the facts, ascending.
    pub(crate) facts: Vec<String>,
}

impl TrialColumns {
    /// Returns the columns of a run.
    ///
    /// # Errors
    /// Errors of reading.
    pub(crate) fn of(reader: &Reader) -> Result<Self, ResultsError> {
        let names = |sql: &str| {
            let mut names: Vec<String> = Vec::new();
            reader.each(sql, [], |row| {
                names.push(row.get("name")?);
                Ok(())
            })?;
            Ok::<_, ResultsError>(names)
        };
        let mut metrics = names(OCCURRING_METRICS)?;
        let rank = |name: &String| {
            metric::METRICS
                .iter()
                .position(|metric| metric.name == name)
        };
        metrics.sort_by_cached_key(|name| (rank(name).unwrap_or(usize::MAX), name.clone()));
        let facts = names("SELECT DISTINCT name FROM fact ORDER BY name")?;
        let sweeps = reader.header()?.study.sweeps;
        let mut keys: Vec<String> = Vec::new();
        for sweep in &sweeps.sweeps {
            // Sweeps of one key for different entries share a column.
            if !keys.contains(&sweep.full_key()) {
                keys.push(sweep.full_key());
            }
        }
        Ok(Self {
            sweeps,
            keys,
            metrics,
            facts,
        })
    }

    /// Returns the names of all columns, in their order.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        self.described()
            .into_iter()
            .map(|column| column.name.into_owned())
    }

    /// Describes all columns, in their order.
    pub(super) fn described(&self) -> Vec<Column> {
        let of_key = |key: &String| {
            let mut sweeps = self.sweeps.sweeps.iter();
            let sweep = sweeps.find(|sweep| sweep.full_key() == *key);
            let unit = sweep.and_then(|sweep| sweep.unit);
            let kind = match unit {
                Some(_) => Kind::Real,
                None => Kind::Text,
            };
            let meaning = format!(
                "value of the sweep of `{key}` in the trial; absent where that sweep does not apply"
            );
            of_some_runs(kind, key.clone(), unit, meaning)
        };
        let of_metric = |name: &String| {
            let known = metric::find(name);
            let meaning = known.map_or("metric of another version of Regatta", |it| it.definition);
            let meaning = meaning.trim_end_matches('.').to_owned();
            of_some_runs(Kind::Real, name.clone(), known.map(|it| it.unit), meaning)
        };
        let of_fact = |name: &String| {
            let known = stack::find(name).map(|fact| fact.definition.to_owned());
            let meaning = known.unwrap_or_else(|| {
                format!("the fact `{name}`, which was read back from the running stacks")
            });
            of_some_runs(Kind::Text, format!("fact.{name}"), None, meaning)
        };
        (of_every_run().into_iter())
            .chain(self.keys.iter().map(of_key))
            .chain(self.metrics.iter().map(of_metric))
            .chain(self.facts.iter().map(of_fact))
            .collect()
    }
}
