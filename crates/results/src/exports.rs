//! CSV files made from a results file.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    path::Path,
};

use regatta_model::{Part, Sweep, Sweeps, SweptValue, Text, TrialRecord, metric};

use crate::{
    Reader, ResultsError,
    cell::cell,
    hosts_csv::{HOSTS_FILE_NAME, hosts_csv},
    query::read_series,
    replace::replace,
    tables::{IDENTITY, TrialColumns},
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

    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(columns.names().map(cell))?;
    // A part after the other: the trials of a large run need not fit into memory.
    for part in reader.trial_indices()?.chunks(TRIALS_AT_ONCE) {
        let span = [part[0], part[part.len() - 1]].map(i64::from);
        for trial in reader.trials_of(span, false)? {
            let measurements = &trial.measurements;
            let measured = columns.metrics.iter().map(|name| {
                let value = measurements.metrics.get(name);
                value.map_or_else(String::new, f64::to_string)
            });
            let read_back = (columns.facts.iter()).map(|name| {
                cell(
                    measurements
                        .facts
                        .get(name)
                        .map_or_else(String::new, Text::to_string),
                )
            });
            let swept = parameters.of_trial(&trial);
            let cells = OF_IDENTITY.iter().map(|value| value(&trial)).chain(swept);
            csv.write_record(cells.chain(measured).chain(read_back))?;
        }
    }
    csv.flush().map_err(csv::Error::from)?;
    Ok(())
}

/// Values of the sweeps of a study by entry.
struct Parameters<'a> {
    /// Number of columns, one for each key.
    columns: usize,
    /// Columns and their values, by part and name.
    entries: BTreeMap<(Part, &'a str), Vec<(usize, String)>>,
}

impl<'a> Parameters<'a> {
    fn of(sweeps: &'a Sweeps, keys: &[String]) -> Self {
        let value = |(sweep, value): (&Sweep, &SweptValue)| {
            let column = keys.iter().position(|key| *key == sweep.full_key())?;
            let number = value.value.map(|number| number.to_string());
            Some((column, number.unwrap_or_else(|| cell(value.text.clone()))))
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
    fn of_trial(&self, trial: &TrialRecord) -> Vec<String> {
        let mut columns = vec![String::new(); self.columns];
        for part in [
            (Part::Transport, trial.transport.as_str()),
            (Part::Condition, trial.condition.as_str()),
            (Part::Workload, trial.workload.as_str()),
        ] {
            for (column, value) in self.entries.get(&part).into_iter().flatten() {
                columns[*column].clone_from(value);
            }
        }
        columns
    }
}

/// Formats one column of a trial.
type OfTrial = fn(&TrialRecord) -> String;

/// Values of the columns that every run has.
const OF_IDENTITY: [OfTrial; IDENTITY.len()] = [
    |trial| trial.index.to_string(),
    |trial| trial.attempt.to_string(),
    |trial| trial.round.to_string(),
    |trial| cell(trial.transport.clone()),
    |trial| cell(trial.condition.clone()),
    |trial| cell(trial.workload.clone()),
    |trial| trial.started_unix_ns.to_string(),
    |trial| trial.seed.to_string(),
    |trial| trial.outcome.name().to_owned(),
    |trial| cell(trial.reasons.join("; ")),
    |trial| cell(trial.hint.to_string()),
    |trial| {
        let warnings = trial.measurements.warnings.iter();
        let codes: Vec<&str> = warnings.map(|warning| warning.code.as_str()).collect();
        cell(codes.join("; "))
    },
];

/// Writes one row for each sample of each series: `trial`, `round`, `transport`, `condition`,
/// `workload`, `side`, `name`, `unit`, `t_ns`, `value`, ordered by trial, then series, then as
/// sampled.
///
/// # Errors
/// Errors of reading and writing.
pub fn series_csv(reader: &Reader, out: &mut dyn Write) -> Result<(), ResultsError> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record([
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
    ])?;
    // Row by row: the series of a run of days need not fit into memory.
    let sql = "SELECT side, name, t_ns, value, trial, round, transport, condition, workload
         FROM series JOIN trial USING (trial) ORDER BY trial, position";
    reader.each(sql, [], |row| {
        let series = read_series(row, 0)?;
        let number = |column| row.get::<_, i64>(column).map(|value| value.to_string());
        let text = |column| row.get::<_, String>(column).map(cell);
        let (side, name) = (cell(series.side), cell(series.name.clone()));
        let unit = metric::find_series(&series.name).map_or("", |known| known.unit.name());
        let trial = [number(4)?, number(5)?, text(6)?, text(7)?, text(8)?];
        for (t, value) in series.t_ns.iter().zip(&series.values) {
            let (t, value) = (t.to_string(), value.to_string());
            let sample = [&side, &name, unit, &t, &value];
            let row = trial.iter().map(String::as_str).chain(sample);
            csv.write_record(row).map_err(ResultsError::from)?;
        }
        Ok(())
    })?;
    csv.flush().map_err(csv::Error::from)?;
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
