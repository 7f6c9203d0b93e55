//! Rows of the results file: the header of a run, its trials and warnings.

use std::path::Path;

use regatta_model::{
    Histogram, Named as _, RunHeader, RunPart, Series, Sweeps, SweptValue, Text, TrialRecord, Unit,
    Warning, metric, warning,
};
use rusqlite::{
    Connection, ErrorCode, OpenFlags, ToSql, Transaction, TransactionBehavior, params, types::Null,
};

use crate::{
    ResultsError, RunState,
    busy::wait_for_locks,
    checksum,
    explain::{explain, explain_io},
    schema,
};

/// Applies the settings of every connection that writes.
pub fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    // FULL flushes the log at every commit; WAL's default would lose the last ones in a power cut.
    connection.execute_batch("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON")
}

/// Creates the tables and the header of a new run, in one transaction.
pub fn begin(path: &Path, header: &RunHeader) -> Result<Connection, ResultsError> {
    let study = study_json(header, path)?;
    let begun = || -> rusqlite::Result<Connection> {
        let mut connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        wait_for_locks(&mut connection, path)?;
        prepare(&connection)?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        create_tables(&transaction, header, &study)?;
        transaction.commit()?;
        Ok(connection)
    };
    begun().map_err(|e| explain(e, "create", path))
}

/// Creates the tables and the header of a merged run.
pub fn create(
    transaction: &Transaction<'_>,
    header: &RunHeader,
    path: &Path,
) -> Result<(), ResultsError> {
    let study = study_json(header, path)?;
    create_tables(transaction, header, &study).map_err(|e| explain(e, "create", path))
}

fn study_json(header: &RunHeader, path: &Path) -> Result<String, ResultsError> {
    serde_json::to_string(&header.study)
        .map_err(|e| explain_io(e.into(), "write the study to", path))
}

fn create_tables(
    transaction: &Transaction<'_>,
    header: &RunHeader,
    study: &str,
) -> rusqlite::Result<()> {
    transaction.execute_batch(schema::TABLES)?;
    transaction.execute_batch(schema::SINCE_3)?;
    transaction.execute_batch(schema::SINCE_4)?;
    transaction.execute_batch(schema::SINCE_5)?;
    transaction.execute_batch(schema::SINCE_7)?;
    transaction.execute_batch(schema::SINCE_8)?;
    transaction.pragma_update(None, "application_id", schema::APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", schema::VERSION)?;
    put(
        transaction,
        "run",
        params![
            1,
            header.run_id,
            header.regatta_version,
            header.started_unix_ns,
            header.study.name,
            study,
            header.study_text,
            keep_phrase(transaction, &header.bed)?,
            "running",
            "",
            Null,
        ],
    )?;
    for (host, facts) in &header.hosts {
        put(transaction, "host", params![host])?;
        for (name, value) in &facts.0 {
            put(transaction, "host_fact", params![host, name, value])?;
        }
    }
    define_metrics(transaction)?;
    insert_parameters(transaction, &header.study.sweeps)?;
    if !header.part.is_unknown() {
        insert_part(
            transaction,
            1,
            &header.part,
            [
                &header.run_id,
                &header.regatta_version,
                &header.started_unix_ns,
                &header.bed.as_str(),
            ],
        )?;
        checksum::PART.seal(transaction, 1)?;
    }
    checksum::RUN.seal(transaction, 1)
}

/// Stores the state of the run.
pub fn set_state(transaction: &Transaction<'_>, state: &RunState) -> rusqlite::Result<()> {
    let reason = match state {
        RunState::Running | RunState::Complete => "",
        RunState::Interrupted { reason } => keep_phrase(transaction, reason)?,
    };
    let update = "UPDATE run SET state = ?1, state_reason = ?2";
    transaction.execute(update, params![state.name(), reason])?;
    checksum::RUN.seal(transaction, 1)
}

/// Stores the values of the sweeps for each entry that they made.
fn insert_parameters(transaction: &Transaction<'_>, sweeps: &Sweeps) -> rusqlite::Result<()> {
    let table = "parameter (part, name, key, value, unit, text)";
    for entry in &sweeps.entries {
        let part = entry.part.as_str();
        for (sweep, SweptValue { text, value }) in sweeps.parameters(entry) {
            let unit = sweep.unit.map(Unit::name);
            put(
                transaction,
                table,
                params![part, entry.name, sweep.key, value, unit, text],
            )?;
        }
    }
    checksum::PARAMETER.seal_all(transaction)
}

/// Stores a run as a part of its file, without its checksum. The last argument is
/// its identifier, version, start and bed.
pub fn insert_part(
    connection: &Connection,
    id: i64,
    part: &RunPart,
    [run_id, version, started_unix_ns, bed]: [&dyn ToSql; 4],
) -> rusqlite::Result<()> {
    put(
        connection,
        "part",
        params![
            id,
            run_id,
            part.plan_sha256,
            part.shard.map(|shard| shard.number),
            part.shard.map(|shard| shard.of),
            part.trials,
            part.node,
            version,
            started_unix_ns,
            bed,
            Null,
        ],
    )
}

fn define_metrics(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    for metric in metric::METRICS {
        transaction.execute(
            "INSERT OR IGNORE INTO metric_definition VALUES (?1, ?2, ?3, ?4)",
            params![
                metric.name,
                metric.unit.name(),
                metric.title,
                metric.definition
            ],
        )?;
    }
    Ok(())
}

pub fn insert_trial(transaction: &Transaction<'_>, trial: &TrialRecord) -> rusqlite::Result<()> {
    let index = trial.index;
    put(
        transaction,
        "trial",
        params![
            index,
            trial.round,
            trial.transport,
            trial.condition,
            trial.workload,
            trial.started_unix_ns,
            trial.seed.to_string(),
            trial.outcome.name(),
            keep_phrase(transaction, &trial.hint)?,
            trial.attempt,
            Null,
        ],
    )?;
    for (position, reason) in trial.reasons.iter().enumerate() {
        put(
            transaction,
            "reason",
            params![index, signed(position), keep_phrase(transaction, reason)?],
        )?;
    }
    let mut warnings = trial.measurements.warnings.clone();
    for (name, &value) in &trial.measurements.metrics {
        if metric::find(name).is_none() {
            warnings.push(warning::value_of_no_metric(name));
        } else if !value.is_finite() {
            warnings.push(warning::value_not_finite(name, &value.to_string()));
        } else {
            insert_metric(transaction, index, name, value)?;
        }
    }
    for (position, series) in trial.measurements.series.iter().enumerate() {
        let (samples, t_ns, values) = blobs(series);
        let (position, samples) = (signed(position), signed(samples));
        let Series { side, name, .. } = series;
        let row = params![index, position, side, name, samples, t_ns, values];
        put(transaction, "series", row)?;
    }
    for (position, histogram) in trial.measurements.histograms.iter().enumerate() {
        let Histogram {
            side,
            name,
            hdr_v2_base64,
        } = histogram;
        let row = params![index, signed(position), side, name, hdr_v2_base64];
        put(transaction, "histogram", row)?;
    }
    for (name, value) in &trial.measurements.facts {
        let value = keep_phrase(transaction, value)?;
        put(transaction, "fact", params![index, name, value])?;
    }
    for warning in &warnings {
        insert_warning(transaction, Some(index), warning)?;
    }
    checksum::TRIAL.seal(transaction, index.into())
}

/// Stores the phrase of a text, unless the same text was stored with one. Returns the text in English.
fn keep_phrase<'a>(connection: &Connection, text: &'a Text) -> rusqlite::Result<&'a str> {
    if let Some(phrase) = text.phrase() {
        let content = serde_json::to_string(phrase);
        let content =
            content.map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
        let insert = "INSERT OR IGNORE INTO phrase (text, content_json) VALUES (?1, ?2)";
        let mut insert = connection.prepare_cached(insert)?;
        if insert.execute(params![text.as_str(), content])? > 0 {
            checksum::PHRASE.seal(connection, connection.last_insert_rowid())?;
        }
    }
    Ok(text)
}

/// Stores a metric, with its definition if a run that an older Regatta began lacks it.
fn insert_metric(
    transaction: &Transaction<'_>,
    trial: u32,
    name: &str,
    value: f64,
) -> rusqlite::Result<()> {
    let insert = || put(transaction, "metric", params![trial, name, value]);
    match insert() {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
            define_metrics(transaction)?;
            insert()
        }
        other => other,
    }
}

pub fn insert_warning(
    transaction: &Transaction<'_>,
    trial: Option<u32>,
    warning: &Warning,
) -> rusqlite::Result<()> {
    let Warning {
        code,
        message,
        hint,
        content,
    } = warning;
    let content = content.as_ref().map(serde_json::to_string).transpose();
    let content = content.map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    put(
        transaction,
        "warning (trial, code, message, hint, content_json)",
        params![trial, code, message, hint, content],
    )
}

/// Returns the number of samples, and times and values of a series as they are stored.
fn blobs(series: &Series) -> (usize, Vec<u8>, Vec<u8>) {
    let samples = series.t_ns.iter().zip(&series.values);
    let finite = samples.filter(|(_, value)| value.is_finite());
    let times = finite.clone().flat_map(|(t, _)| t.to_le_bytes());
    let values = finite.clone().flat_map(|(_, value)| value.to_le_bytes());
    (finite.clone().count(), times.collect(), values.collect())
}

/// Stores one row with these values in a table, or in the columns of it that are named in parentheses.
pub fn put(connection: &Connection, table: &str, row: &[&dyn ToSql]) -> rusqlite::Result<()> {
    let placeholders = vec!["?"; row.len()].join(", ");
    let insert = format!("INSERT INTO {table} VALUES ({placeholders})");
    connection.prepare_cached(&insert)?.execute(row).map(|_| ())
}

/// Converts a position or a count to SQLite's integer; none comes near the limit.
pub fn signed(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
