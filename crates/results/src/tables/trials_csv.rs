//! Columns of `trials.csv`, which depend on the run: the sweeps, metrics and facts that occur.

use regatta_model::{Sweeps, metric, stack};

use super::{
    column::{Column, Kind},
    definition::TABLES,
};
use crate::{Reader, ResultsError};

/// Query for the metrics that have a value; see [`Reader::trials`] for values that are none.
const OCCURRING_METRICS: &str =
    "SELECT DISTINCT name FROM metric WHERE abs(value) <= 1.7976931348623157e308";

/// Columns that every run has.
pub(crate) const IDENTITY: [&str; 12] = [
    "trial",
    "attempt",
    "round",
    "transport",
    "condition",
    "workload",
    "started_unix_ns",
    "seed",
    "outcome",
    "reasons",
    "hint",
    "warnings",
];

/// Columns of a run after [`IDENTITY`].
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
        let text = |sql: &str| reader.rows(sql, |row| row.get::<_, String>(0));
        let mut metrics = text(OCCURRING_METRICS)?;
        for name in &mut metrics {
            *name = metric::current_name(name).to_owned();
        }
        let rank = |name: &String| {
            metric::METRICS
                .iter()
                .position(|metric| metric.name == name)
        };
        metrics.sort_by_cached_key(|name| (rank(name).unwrap_or(usize::MAX), name.clone()));
        metrics.dedup();
        let facts = text("SELECT DISTINCT name FROM fact ORDER BY name")?;
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
        let identity = IDENTITY.iter().map(|name| (*name).to_owned());
        let facts = self.facts.iter().map(|name| format!("fact.{name}"));
        let of_run = self.keys.iter().chain(&self.metrics).cloned();
        identity.chain(of_run).chain(facts)
    }

    /// Describes all columns, in their order.
    pub(super) fn described(&self) -> Vec<Column> {
        let tables = || TABLES.iter().filter(|table| table.name == "trial");
        let identity = IDENTITY.iter().map(|name| match *name {
            "reasons" => Column::new(
                Kind::Text,
                "reasons",
                "causes of an outcome other than `measured`, outermost first, with `; ` between",
            ),
            "warnings" => Column::new(
                Kind::Text,
                "warnings",
                "short names of the kinds of its warnings, with `; ` between",
            ),
            name => {
                let mut columns = tables().flat_map(|table| table.columns);
                let column = columns.find(|column| column.name == name);
                column
                    .cloned()
                    .unwrap_or_else(|| Column::new(Kind::Text, name, ""))
            }
        });
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
            Column::of_run(kind, key.clone(), unit, meaning)
        };
        let of_metric = |name: &String| {
            let known = metric::find(name);
            let meaning = known.map_or("metric of another version of Regatta", |it| it.definition);
            let meaning = meaning.trim_end_matches('.').to_owned();
            Column::of_run(Kind::Real, name.clone(), known.map(|it| it.unit), meaning)
        };
        let of_fact = |name: &String| {
            let known = stack::find(name).map(|fact| fact.definition.to_owned());
            let meaning = known.unwrap_or_else(|| {
                format!("the fact `{name}`, which was read back from the running stacks")
            });
            Column::of_run(Kind::Text, format!("fact.{name}"), None, meaning)
        };
        identity
            .chain(self.keys.iter().map(of_key))
            .chain(self.metrics.iter().map(of_metric))
            .chain(self.facts.iter().map(of_fact))
            .collect()
    }
}
