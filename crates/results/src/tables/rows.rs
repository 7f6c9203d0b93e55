//! Rows of the exported tables, read one after another from the results file.

use std::io;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hdrhistogram::{Histogram, serialization::Deserializer};
use regatta_model::{
    HostSamples, metric,
    table::{Column, Phrases, Value},
};

use super::definition::{Packed, Rows, StoredColumn, Table, host_column, stored_columns};
use crate::{
    ResultsError,
    query::read_series,
    run_file::{RowError, RunFile, value},
    schema::{HistogramTable, OfTrial, SeriesTable},
};

/// Receiver of rows.
pub(crate) type Take<'a> = &'a mut dyn FnMut(&[Value<'_>]) -> Result<(), ResultsError>;

/// Returns the columns of a table for this run: of host samples also those of the quantities that occur.
pub(super) fn columns(file: &RunFile, table: &Table) -> Result<Vec<Column>, ResultsError> {
    Ok(match table.rows {
        Rows::Stored {
            table, computed, ..
        } => {
            let columns = stored_columns(&table, computed).into_iter();
            columns.map(|it| it.column).collect()
        }
        Rows::Computed(Packed::HostSamples, columns) => {
            let of_quantities = file.host_sample_names()?.into_iter().map(host_column);
            columns().into_iter().chain(of_quantities).collect()
        }
        Rows::Computed(_, columns) => columns(),
    })
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
        Rows::Stored {
            table,
            computed,
            from,
        } => {
            let (name, key) = (table.name, table.key);
            let from = match from {
                "" => format!("{name} ORDER BY {key}"),
                from => from.to_owned(),
            };
            stored(file, &stored_columns(&table, computed), &from, take)
        }
        Rows::Computed(Packed::Series, _) => samples(file, take),
        Rows::Computed(Packed::Histograms, _) => histograms(file, take),
        Rows::Computed(Packed::HostSamples, _) => host_samples(file, columns, take),
        Rows::Computed(Packed::SeriesDefinitions, _) => {
            metric::SERIES.iter().try_for_each(|series| {
                let unit = series.unit.name();
                take(&[series.name, unit, series.title, series.definition].map(Value::Text))
            })
        }
    }
}

fn stored(
    file: &RunFile,
    columns: &[StoredColumn],
    from: &str,
    take: Take<'_>,
) -> Result<(), ResultsError> {
    let expressions: Vec<&str> = columns.iter().map(|it| &*it.sql).collect();
    let sql = format!("SELECT {} FROM {from}", expressions.join(", "));
    file.each(&sql, [], |row| {
        let mut values = Vec::with_capacity(columns.len());
        for (position, StoredColumn { column, .. }) in columns.iter().enumerate() {
            let value = value(column, row.get_ref(position)?);
            values.push(value.ok_or_else(|| RowError::other_type(column))?);
        }
        Ok(take(&values)?)
    })
}

fn samples(file: &RunFile, take: Take<'_>) -> Result<(), ResultsError> {
    let no_phrases = Phrases::default();
    file.each_row::<SeriesTable>("", [], &no_phrases, |(OfTrial { trial }, (_, row))| {
        let (trial, series) = (Value::Integer(trial.into()), read_series(&row));
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
    let no_phrases = Phrases::default();
    file.each_row::<HistogramTable>("", [], &no_phrases, |(OfTrial { trial }, (_, row))| {
        let regatta_model::Histogram {
            side,
            name,
            hdr_v2_base64,
        } = &row;
        let bytes = STANDARD.decode(hdr_v2_base64).ok();
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
                Value::Integer(trial.into()),
                Value::Text(side),
                Value::Text(name),
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
