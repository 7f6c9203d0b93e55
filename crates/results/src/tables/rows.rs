//! Rows of the exported tables, read one after another from the results file.

use std::{collections::BTreeMap, io};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hdrhistogram::{Histogram, serialization::Deserializer};
use regatta_model::{HostSamples, host_sample, metric};
use rusqlite::types::ValueRef;

use super::{
    column::{Column, Kind, Value},
    definition::{Rows, Table},
};
use crate::{
    ResultsError,
    query::{RunFile, read_series},
};

/// Receiver of rows.
pub(crate) type Take<'a> = &'a mut dyn FnMut(&[Value<'_>]) -> Result<(), ResultsError>;

/// Returns the columns of a table for this run: of host samples also those of the quantities that occur.
pub(super) fn columns(file: &RunFile, table: &Table) -> Result<Vec<Column>, ResultsError> {
    let mut columns = table.columns.to_vec();
    if matches!(table.rows, Rows::HostSamples) {
        columns.extend(file.host_sample_names()?.into_iter().map(host_column));
    }
    Ok(columns)
}

/// Returns the column of one quantity of host samples; a file of another version may hold one that this version does
/// not know.
fn host_column(name: String) -> Column {
    let (unit, meaning) = match host_sample::find(&name) {
        Some((quantity, member)) => {
            let of = member.map_or_else(String::new, |member| {
                format!(" ({} `{member}`)", quantity.group.name())
            });
            let since = match quantity.kind {
                host_sample::Kind::State => "",
                host_sample::Kind::Share | host_sample::Kind::Count => {
                    ", since the previous sample"
                }
            };
            let meaning = format!("{}{of}{since}", quantity.definition);
            (Some(quantity.unit), meaning)
        }
        None => (None, "a quantity of another version of Regatta".to_owned()),
    };
    Column::of_host(name, unit, meaning)
}

/// Passes the rows of a table to `take`, in order.
///
/// # Errors
/// Errors of reading, and those of `take`.
pub(super) fn each(
    file: &RunFile,
    table: &Table,
    columns: &[Column],
    take: Take<'_>,
) -> Result<(), ResultsError> {
    match table.rows {
        Rows::Stored { since, from } if file.version()? >= since => {
            stored(file, columns, from, take)
        }
        Rows::Stored { .. } => Ok(()),
        Rows::Samples => samples(file, take),
        Rows::Histograms => histograms(file, take),
        Rows::HostSamples => host_samples(file, columns, take),
        Rows::MetricDefinitions => metric_definitions(file, take),
        Rows::SeriesDefinitions => metric::SERIES.iter().try_for_each(|series| {
            let unit = series.unit.name();
            take(&[series.name, unit, series.title, series.definition].map(Value::Text))
        }),
    }
}

/// Passes the stored definitions, ordered by the names of now; of a metric with two names the one under that of now.
fn metric_definitions(file: &RunFile, take: Take<'_>) -> Result<(), ResultsError> {
    let sql = "SELECT name, unit, title, definition FROM metric_definition";
    let mut definitions: BTreeMap<String, [String; 3]> = BTreeMap::new();
    for (name, unit, title, definition) in
        file.rows(sql, |row| <(String, _, _, _)>::try_from(row))?
    {
        let current = metric::current_name(&name);
        if current == name || !definitions.contains_key(current) {
            definitions.insert(current.to_owned(), [unit, title, definition]);
        }
    }
    definitions
        .iter()
        .try_for_each(|(name, [unit, title, definition])| {
            take(&[name, unit, title, definition].map(|text| Value::Text(text)))
        })
}

fn stored(
    file: &RunFile,
    columns: &[Column],
    from: &str,
    take: Take<'_>,
) -> Result<(), ResultsError> {
    let version = file.version()?;
    let expressions: Vec<&str> = columns
        .iter()
        .map(|column| column.expression(version))
        .collect();
    let sql = format!("SELECT {} FROM {from}", expressions.join(", "));
    file.each(&sql, [], |row| {
        let mut values = Vec::with_capacity(columns.len());
        for (position, column) in columns.iter().enumerate() {
            let value = value(column, row.get_ref(position)?);
            values.push(value.ok_or_else(|| {
                file.damaged(format!("a value of `{}` is of another type", column.name))
            })?);
        }
        Ok(take(&values)?)
    })
}

/// Converts a stored value; `None` if it is not of the type of its column.
fn value<'a>(column: &Column, stored: ValueRef<'a>) -> Option<Value<'a>> {
    match (column.kind, stored) {
        (_, ValueRef::Null) => column.nullable.then_some(Value::Null),
        (Kind::Integer, ValueRef::Integer(value)) => Some(Value::Integer(value)),
        (Kind::Real, ValueRef::Real(value)) => Some(Value::Real(value)),
        (Kind::Boolean, ValueRef::Integer(value)) => Some(Value::Boolean(value != 0)),
        (Kind::Text, ValueRef::Text(_)) => {
            let text = stored.as_str().ok()?;
            Some(Value::Text(match column.names_metrics {
                true => metric::current_name(text),
                false => text,
            }))
        }
        (Kind::Unsigned, ValueRef::Text(_)) => {
            Some(Value::Unsigned(stored.as_str().ok()?.parse().ok()?))
        }
        _ => None,
    }
}

fn samples(file: &RunFile, take: Take<'_>) -> Result<(), ResultsError> {
    let sql = "SELECT trial, side, name, t_ns, value FROM series ORDER BY trial, position";
    file.each(sql, [], |row| {
        let trial = Value::Integer(row.get(0)?);
        let series = read_series(row, 1)?;
        let known = metric::find_series(&series.name);
        let unit = known.map_or(Value::Null, |known| Value::Text(known.unit.name()));
        let (side, name) = (Value::Text(&series.side), Value::Text(&series.name));
        for (t_ns, value) in series.t_ns.iter().zip(&series.values) {
            let (t_ns, value) = (Value::Integer(*t_ns), Value::Real(*value));
            take(&[trial, side, name, unit, t_ns, value])?;
        }
        Ok(())
    })
}

fn histograms(file: &RunFile, take: Take<'_>) -> Result<(), ResultsError> {
    let sql = "SELECT trial, side, name, hdr_v2_base64 FROM histogram ORDER BY trial, position";
    file.each(sql, [], |row| {
        let (trial, side, name, text): (i64, String, String, String) = row.try_into()?;
        let bytes = STANDARD.decode(text).ok();
        let histogram = bytes.and_then(|it| Deserializer::new().deserialize(&mut &it[..]).ok());
        let histogram: Histogram<u64> = histogram.ok_or_else(|| {
            file.damaged(format!(
                "the histogram `{name}` of trial {trial} cannot be read"
            ))
        })?;
        let signed = |value: u64| Value::Integer(i64::try_from(value).unwrap_or(i64::MAX));
        for bucket in histogram.iter_recorded() {
            let value = bucket.value_iterated_to();
            take(&[
                Value::Integer(trial),
                Value::Text(&side),
                Value::Text(&name),
                signed(histogram.lowest_equivalent(value)),
                signed(histogram.highest_equivalent(value)),
                Value::Unsigned(bucket.count_at_value()),
            ])?;
        }
        Ok(())
    })
}

fn host_samples(file: &RunFile, columns: &[Column], take: Take<'_>) -> Result<(), ResultsError> {
    file.each_host_samples(|batch| {
        let quantities = columns.iter().skip(4).map(|column| &*column.name);
        sample_rows(&batch, quantities, take)
    })
}

/// Passes a row for each sample of a host to `take`: host, trial, both times, and the values of some quantities.
pub(crate) fn sample_rows<'n>(
    batch: &HostSamples,
    quantities: impl Iterator<Item = &'n str>,
    take: Take<'_>,
) -> Result<(), ResultsError> {
    let positions: Vec<Option<usize>> = quantities.map(|name| batch.position(name)).collect();
    let trial = batch.trial;
    let trial = trial.map_or(Value::Null, |trial| Value::Integer(trial.into()));
    for sample in &batch.samples {
        let mut row = vec![
            Value::Text(&batch.host),
            trial,
            Value::Integer(sample.unix_ns),
            Value::Integer(sample.monotonic_ns),
        ];
        row.extend(positions.iter().map(|position| {
            let value = position.and_then(|position| *sample.values.get(position)?);
            value.map_or(Value::Null, Value::Single)
        }));
        take(&row)?;
    }
    Ok(())
}

/// Writer of the rows of one table in one format.
pub(crate) trait RowWriter {
    /// Writes one row with a value for each column.
    ///
    /// # Errors
    /// Errors of writing.
    fn write(&mut self, row: &[Value<'_>]) -> io::Result<()>;

    /// Writes what is left.
    ///
    /// # Errors
    /// Errors of writing.
    fn finish(self: Box<Self>) -> io::Result<()>;
}
