//! CSV files made from a results file.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    path::Path,
};

use regatta_model::{
    Measurements, Part, Sweep, Sweeps, SweptValue, TrialRecord, metric,
    table::{Phrases, Value},
};

use crate::{
    Reader, ResultsError,
    cell::cell,
    hosts_csv::{HOSTS_FILE_NAME, hosts_csv},
    query::{IN_SPAN, Span, read_series},
    replace::replace,
    schema::SeriesTable,
    tables::{CsvTable, RowWriter as _, TrialColumns, TrialTexts},
};

/// Name of the file with one row for each trial.
pub const TRIALS_FILE_NAME: &str = "trials.csv";

/// Name of the file with one row for each sample.
pub const SERIES_FILE_NAME: &str = "series.csv";

/// Trials that are read at a time.
const TRIALS_AT_ONCE: usize = 4096;

/// Writes one row for each attempt at a trial, in the order of its number.
///
/// Columns: `trial`, `attempt` (from 1; the last one of a trial counts, those before it are
/// `invalid`), `round`, `transport`, `condition`, `workload`, `started_unix_ns`, `seed`, `outcome`,
/// `reasons` (joined by `; `, outermost first), `hint`, `warnings` (their codes, joined by `; `);
/// one column for each sweep of the study, under its key, such as `condition.loss`, with the value in
/// the unit of `parameter` in the results file, or as a text;
/// one column for each metric that occurs, under its name, which carries the unit; one for each
/// fact that occurs, under `fact.` and its name. An empty field was not measured.
///
/// # Errors
/// Errors of reading and writing.
pub fn trials_csv(reader: &Reader, out: &mut dyn Write) -> Result<(), ResultsError> {
    let columns = TrialColumns::of(reader)?;
    let sweeps = reader.header()?.study.sweeps;
    let parameters = Parameters::of(&sweeps, &columns.keys);
    let head = columns.names().map(cell);
    let mut csv = CsvTable::with_head(out, head).map_err(csv::Error::from)?;
    // A part after the other: the trials of a large run need not fit into memory.
    for part in reader.trial_indices()?.chunks(TRIALS_AT_ONCE) {
        for trial in reader.trials_of(span(part), false)? {
            let of_trial = TrialTexts::of(&trial);
            let Measurements { metrics, facts, .. } = &trial.measurements;
            let mut row = of_trial.values(&trial);
            row.extend(parameters.of_trial(&trial));
            let real = |name: &String| metrics.get(name).map_or(Value::Null, |it| Value::Real(*it));
            row.extend(columns.metrics.iter().map(real));
            let text = |name: &String| facts.get(name).map_or(Value::Null, |it| Value::Text(it));
            row.extend(columns.facts.iter().map(text));
            csv.write(&row).map_err(csv::Error::from)?;
        }
    }
    Box::new(csv).finish().map_err(csv::Error::from)?;
    Ok(())
}

/// Returns the numbers of the first and the last of some trials, in the order of the numbers.
fn span(trials: &[u32]) -> Span {
    [trials.first(), trials.last()].map(|trial| trial.copied().map_or(0, i64::from))
}

/// Values of the sweeps of a study by entry.
struct Parameters<'a> {
    /// Number of columns, one for each key.
    columns: usize,
    /// Columns and their values, by part and name.
    entries: BTreeMap<(Part, &'a str), Vec<(usize, Value<'a>)>>,
}

impl<'a> Parameters<'a> {
    fn of(sweeps: &'a Sweeps, keys: &[String]) -> Self {
        let value = |(sweep, value): (&Sweep, &'a SweptValue)| {
            let column = keys.iter().position(|key| *key == sweep.full_key())?;
            let text = Value::Text(&value.text);
            Some((column, value.value.map_or(text, Value::Real)))
        };
        let entries = (sweeps.entries.iter())
            .map(|entry| {
                let values = sweeps.parameters(entry).filter_map(value).collect();
                ((entry.part, entry.name.as_str()), values)
            })
            .collect();
        Self {
            columns: keys.len(),
            entries,
        }
    }

    /// Returns the columns of a trial, empty where a sweep does not apply.
    fn of_trial(&self, trial: &TrialRecord) -> Vec<Value<'a>> {
        let mut columns = vec![Value::Null; self.columns];
        for part in [
            (Part::Transport, trial.transport.as_str()),
            (Part::Condition, trial.condition.as_str()),
            (Part::Workload, trial.workload.as_str()),
        ] {
            for (column, value) in self.entries.get(&part).into_iter().flatten() {
                columns[*column] = *value;
            }
        }
        columns
    }
}

/// Writes one row for each sample of each series: `trial`, `round`, `transport`, `condition`,
/// `workload`, `side`, `name`, `unit`, `t_ns`, `value`, ordered by trial, then series, then as
/// sampled.
///
/// # Errors
/// Errors of reading and writing.
pub fn series_csv(reader: &Reader, out: &mut dyn Write) -> Result<(), ResultsError> {
    let head = [
        "trial",
        "round",
        "transport",
        "condition",
        "workload",
        "side",
        "name",
        "unit",
        "t_ns",
        "value",
    ];
    let mut csv = CsvTable::with_head(out, head).map_err(csv::Error::from)?;
    for part in reader.trial_indices()?.chunks(TRIALS_AT_ONCE) {
        let span = span(part);
        let no_phrases = Phrases::default();
        let mut trials = reader.trial_rows(span, &no_phrases)?;
        let mut of = reader.cursor(&mut trials);
        // Row by row: the series of a run of days need not fit into memory.
        reader.each_row::<SeriesTable>(IN_SPAN, span, &no_phrases, |(key, (_, row))| {
            let (trial, series) = (of.trial(key)?, read_series(&row));
            let unit = metric::find_series(&series.name).map_or("", |known| known.unit.name());
            for (t_ns, value) in series.t_ns.iter().zip(&series.values) {
                let sample = [
                    Value::Integer(trial.index.into()),
                    Value::Integer(trial.round.into()),
                    Value::Text(&trial.transport),
                    Value::Text(&trial.condition),
                    Value::Text(&trial.workload),
                    Value::Text(&series.side),
                    Value::Text(&series.name),
                    Value::Text(unit),
                    Value::Integer(*t_ns),
                    Value::Real(*value),
                ];
                let written = csv.write(&sample).map_err(csv::Error::from);
                written.map_err(ResultsError::from)?;
            }
            Ok(())
        })?;
    }
    Box::new(csv).finish().map_err(csv::Error::from)?;
    Ok(())
}

/// Writes [`TRIALS_FILE_NAME`] and [`SERIES_FILE_NAME`] into a directory, and [`HOSTS_FILE_NAME`] if
/// the hosts were monitored. Each file is replaced as a whole, or the old one stays.
///
/// # Errors
/// Errors of reading; [`ResultsError::Export`] for a file that cannot be written.
pub fn write_exports(reader: &Reader, dir: &Path) -> Result<(), ResultsError> {
    write_export(reader, &dir.join(TRIALS_FILE_NAME), trials_csv)?;
    write_export(reader, &dir.join(SERIES_FILE_NAME), series_csv)?;
    if reader.host_sample_names()?.is_empty() {
        return Ok(());
    }
    write_export(reader, &dir.join(HOSTS_FILE_NAME), hosts_csv)
}

fn write_export(
    reader: &Reader,
    path: &Path,
    export: fn(&Reader, &mut dyn Write) -> Result<(), ResultsError>,
) -> Result<(), ResultsError> {
    let fail = |source| ResultsError::Export {
        path: path.to_owned(),
        source,
    };
    replace(path, fail, |out| {
        export(reader, out).map_err(|error| match error {
            ResultsError::Csv(error) => match error.into_kind() {
                csv::ErrorKind::Io(source) => fail(source),
                kind => fail(io::Error::other(format!("{kind:?}"))),
            },
            error => error,
        })
    })
}
