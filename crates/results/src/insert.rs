//! Rows of the results file: the header of a run, its trials and warnings.

use std::path::Path;

use regatta_model::{RunHeader, Series, Sweeps, TrialRecord, Unit, Warning, Words as _, metric};
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior, params};

use crate::{
    ResultsError, RunState,
    busy::wait_for_locks,
    checksum,
    open::{explain, explain_io},
    query::value_not_kept,
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
    transaction.pragma_update(None, "application_id", schema::APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", schema::VERSION)?;
    transaction.execute(
        "INSERT INTO run VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, 'running', '', NULL)",
        params![
            header.run_id,
            header.regatta_version,
            header.started_unix_ns,
            header.study.name,
            study,
            header.study_text,
            header.bed,
        ],
    )?;
    for (host, facts) in &header.hosts {
        transaction.execute("INSERT INTO host VALUES (?1)", [host])?;
        for (name, value) in &facts.0 {
            transaction.execute(
                "INSERT INTO host_fact VALUES (?1, ?2, ?3)",
                params![host, name, value],
            )?;
        }
    }
    define_metrics(transaction)?;
    insert_parameters(transaction, &header.study.sweeps)?;
    if !header.part.is_unknown() {
        insert_part(transaction, header)?;
    }
    checksum::RUN.seal(transaction, 1)
}

/// Stores the state of the run.
pub fn set_state(transaction: &Transaction<'_>, state: &RunState) -> rusqlite::Result<()> {
    let reason = match state {
        RunState::Running | RunState::Complete => "",
        RunState::Interrupted { reason } => reason,
    };
    transaction
        .execute(
            "UPDATE run SET state = ?1, state_reason = ?2",
            params![state.name(), reason],
        )
        .and_then(|_| checksum::RUN.seal(transaction, 1))
}

/// Stores the values of the sweeps for each entry that they made.
fn insert_parameters(transaction: &Transaction<'_>, sweeps: &Sweeps) -> rusqlite::Result<()> {
    let mut insert = transaction.prepare(
        "INSERT INTO parameter (part, name, key, value, unit, text) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    for entry in &sweeps.entries {
        for (sweep, value) in sweeps.parameters(entry) {
            insert.execute(params![
                entry.part.word(),
                entry.name,
                sweep.key,
                value.value,
                sweep.unit.map(Unit::name),
                value.text,
            ])?;
        }
    }
    checksum::PARAMETER.seal_all(transaction)
}

/// Stores the run as the only part of its file.
fn insert_part(transaction: &Transaction<'_>, header: &RunHeader) -> rusqlite::Result<()> {
    let part = &header.part;
    transaction.execute(
        "INSERT INTO part VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, NULL)",
        params![
            header.run_id,
            part.plan_sha256,
            part.shard.map(|shard| shard.number),
            part.shard.map(|shard| shard.of),
            part.trials,
            part.node,
            header.regatta_version,
            header.started_unix_ns,
            header.bed,
        ],
    )?;
    checksum::PART.seal(transaction, 1)
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
    transaction.execute(
        "INSERT INTO trial VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, NULL)",
        params![
            trial.index,
            trial.round,
            trial.transport,
            trial.condition,
            trial.workload,
            trial.started_unix_ns,
            trial.seed.to_string(),
            trial.outcome.name(),
            trial.hint,
            trial.attempt,
        ],
    )?;
    for (position, reason) in trial.reasons.iter().enumerate() {
        transaction.execute(
            "INSERT INTO reason VALUES (?1, ?2, ?3)",
            params![trial.index, signed(position), reason],
        )?;
    }
    let mut warnings = trial.measurements.warnings.clone();
    for (name, &value) in &trial.measurements.metrics {
        let refusal = if metric::find(name).is_none() {
            Some(format!("`{name}` is not a metric and was not kept"))
        } else if !value.is_finite() {
            Some(format!("`{name}` came out as {value} and was not kept"))
        } else {
            None
        };
        if let Some(message) = refusal {
            warnings.push(value_not_kept(message));
            continue;
        }
        insert_metric(transaction, trial.index, name, value)?;
    }
    for (position, series) in trial.measurements.series.iter().enumerate() {
        let (samples, t_ns, values) = blobs(series);
        transaction.execute(
            "INSERT INTO series VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![
                trial.index,
                signed(position),
                series.side,
                series.name,
                signed(samples),
                t_ns,
                values,
            ],
        )?;
    }
    for (position, histogram) in trial.measurements.histograms.iter().enumerate() {
        transaction.execute(
            "INSERT INTO histogram VALUES (?1, ?2, ?3, ?4, ?5)",
            params![
                trial.index,
                signed(position),
                histogram.side,
                histogram.name,
                histogram.hdr_v2_base64,
            ],
        )?;
    }
    for (name, value) in &trial.measurements.facts {
        transaction.execute(
            "INSERT INTO fact VALUES (?1, ?2, ?3)",
            params![trial.index, name, value],
        )?;
    }
    for warning in &warnings {
        insert_warning(transaction, Some(trial.index), warning)?;
    }
    checksum::TRIAL.seal(transaction, trial.index.into())
}

/// Stores a metric, with its definition if a run that an older Regatta began lacks it.
fn insert_metric(
    transaction: &Transaction<'_>,
    trial: u32,
    name: &str,
    value: f64,
) -> rusqlite::Result<()> {
    let insert = || {
        transaction
            .execute(
                "INSERT INTO metric VALUES (?1, ?2, ?3)",
                params![trial, name, value],
            )
            .map(|_| ())
    };
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
    transaction
        .execute(
            "INSERT INTO warning (trial, code, message, hint) VALUES (?1, ?2, ?3, ?4)",
            params![trial, warning.code, warning.message, warning.hint],
        )
        .map(|_| ())
}

/// Returns the number of samples, and times and values of a series as they are stored.
fn blobs(series: &Series) -> (usize, Vec<u8>, Vec<u8>) {
    let finite = || {
        series
            .t_ns
            .iter()
            .zip(&series.values)
            .filter(|(_, value)| value.is_finite())
    };
    (
        finite().count(),
        finite().flat_map(|(t, _)| t.to_le_bytes()).collect(),
        finite()
            .flat_map(|(_, value)| value.to_le_bytes())
            .collect(),
    )
}

/// Converts a position or a count to SQLite's integer; none comes near the limit.
pub fn signed(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
