//! Writing of records: the header of a run, its trials, path checks and warnings.

use std::path::Path;

use regatta_model::{
    MetricDefinition, Named as _, PathCheck, RunHeader, RunPart, Series, Sweeps, SweptValue,
    TrialRecord, Unit, Warning, metric, warning,
};
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior, params};

use crate::{
    ResultsError, RunState,
    busy::wait_for_locks,
    checksum::{self, Sealed},
    explain::{explain, explain_io},
    schema::{
        self, CheckNumber, FactRow, FactTable, HistogramTable, HostFactRow, HostFactTable, HostRow,
        HostTable, MetricDefinitionRow, MetricDefinitionTable, MetricRow, MetricTable, OfPathCheck,
        OfTrial, ParameterRow, ParameterTable, PartNumber, PartRow, PartTable, PathCheckTable,
        PathQuantityTable, Position, ReasonRow, ReasonTable, RowNumber, RunRow, RunTable,
        SeriesRow, SeriesTable, TrialTable, WarningTable, WarningTrial,
    },
    write_row::{Insert, insert, insert_new, keep_phrase},
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
        // The file knows its run whatever becomes of the log.
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
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
    transaction.execute_batch(&schema::create())?;
    transaction.pragma_update(None, "application_id", schema::APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", schema::VERSION)?;
    let run = RunRow {
        run_id: &header.run_id,
        regatta_version: &header.regatta_version,
        started_unix_ns: header.started_unix_ns,
        study: &header.study.name,
        study_json: study,
        study_text: &header.study_text,
        bed: header.bed.clone(),
        state: RunState::Running.name(),
        state_reason: "".into(),
    };
    insert::<RunTable>(transaction, &(RowNumber { id: Some(RUN) }, run))?;
    for (host, facts) in &header.hosts {
        insert::<HostTable>(transaction, &HostRow { host })?;
        for (name, value) in &facts.0 {
            insert::<HostFactTable>(transaction, &HostFactRow { host, name, value })?;
        }
    }
    define_metrics(transaction)?;
    insert_parameters(transaction, &header.study.sweeps)?;
    if !header.part.is_unknown() {
        let of_run = PartOfRun {
            run_id: &header.run_id,
            regatta_version: &header.regatta_version,
            started_unix_ns: header.started_unix_ns,
            bed: &header.bed,
        };
        insert_part(transaction, 1, &header.part, of_run)?;
        checksum::PART.seal(transaction, 1)?;
    }
    checksum::RUN.seal(transaction, RUN).map(drop)
}

/// Number of the only row of `run`.
const RUN: i64 = 1;

/// Stores the state of the run.
pub fn set_state(transaction: &Transaction<'_>, state: &RunState) -> rusqlite::Result<()> {
    let reason = match state {
        RunState::Running | RunState::Complete => "",
        RunState::Interrupted { reason } => {
            keep_phrase(transaction, reason)?;
            reason
        }
    };
    let update = "UPDATE run SET state = ?1, state_reason = ?2";
    transaction.execute(update, params![state.name(), reason])?;
    checksum::RUN.seal(transaction, RUN).map(drop)
}

/// Stores the values of the sweeps for each entry that they made.
fn insert_parameters(transaction: &Transaction<'_>, sweeps: &Sweeps) -> rusqlite::Result<()> {
    for entry in &sweeps.entries {
        for (sweep, SweptValue { text, value }) in sweeps.parameters(entry) {
            let row = ParameterRow {
                part: entry.part.as_str(),
                name: &entry.name,
                key: &sweep.key,
                value: *value,
                unit: sweep.unit.map(Unit::name),
                text,
            };
            insert::<ParameterTable>(transaction, &(RowNumber::NEXT, row))?;
        }
    }
    checksum::PARAMETER.seal_all(transaction)
}

/// Data about a run that its part repeats.
pub struct PartOfRun<'a> {
    pub run_id: &'a str,
    pub regatta_version: &'a str,
    pub started_unix_ns: i64,
    pub bed: &'a str,
}

/// Stores a run as a part of its file, without its checksum.
pub fn insert_part(
    connection: &Connection,
    id: i64,
    part: &RunPart,
    run: PartOfRun<'_>,
) -> rusqlite::Result<()> {
    let row = PartRow {
        run_id: run.run_id,
        plan_sha256: &part.plan_sha256,
        shard: part.shard.map(|shard| shard.number),
        shards: part.shard.map(|shard| shard.of),
        trials: part.trials,
        node: &part.node,
        regatta_version: run.regatta_version,
        started_unix_ns: run.started_unix_ns,
        bed: run.bed,
    };
    insert::<PartTable>(connection, &(PartNumber { id: Some(id) }, row)).map(drop)
}

fn define_metrics(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    for MetricDefinition {
        name,
        unit,
        title,
        definition,
        ..
    } in metric::METRICS
    {
        let row = MetricDefinitionRow {
            name,
            unit: unit.name(),
            title,
            definition,
        };
        insert_new::<MetricDefinitionTable>(transaction, &row)?;
    }
    Ok(())
}

pub fn insert_trial(
    transaction: &Transaction<'_>,
    trial: &TrialRecord,
) -> rusqlite::Result<Sealed> {
    insert::<TrialTable>(transaction, trial)?;
    let of = OfTrial { trial: trial.index };
    for (position, reason) in (0..).zip(&trial.reasons) {
        let reason = reason.clone();
        insert::<ReasonTable>(transaction, &(of, ReasonRow { position, reason }))?;
    }
    let measurements = &trial.measurements;
    let mut warnings = measurements.warnings.clone();
    let mut metrics = Insert::<MetricTable>::new(transaction, "INSERT")?;
    for (name, &value) in &measurements.metrics {
        if metric::find(name).is_none() {
            warnings.push(warning::value_of_no_metric(name));
        } else if !value.is_finite() {
            warnings.push(warning::value_not_finite(name, &value.to_string()));
        } else {
            let row = (of, MetricRow { name, value });
            insert_metric(transaction, &mut metrics, &row)?;
        }
    }
    for (position, series) in (0..).zip(&measurements.series) {
        let (t_ns, value) = blobs(series);
        let row = SeriesRow {
            side: &series.side,
            name: &series.name,
            samples: signed(t_ns.len() / size_of::<i64>()),
            t_ns: &t_ns,
            value: &value,
        };
        insert::<SeriesTable>(transaction, &(of, (Position { position }, row)))?;
    }
    for (position, histogram) in (0..).zip(&measurements.histograms) {
        let row = (of, (Position { position }, histogram.clone()));
        insert::<HistogramTable>(transaction, &row)?;
    }
    let mut facts = Insert::<FactTable>::new(transaction, "INSERT")?;
    for (name, value) in &measurements.facts {
        let value = value.clone();
        facts.put(&(of, FactRow { name, value }))?;
    }
    for warning in &warnings {
        insert_warning(transaction, Some(trial.index), warning)?;
    }
    checksum::TRIAL.seal(transaction, trial.index.into())
}

/// Stores a metric, with its definition if a run that another build of Regatta began lacks it.
fn insert_metric(
    transaction: &Transaction<'_>,
    metrics: &mut Insert<'_, MetricTable>,
    row: &(OfTrial, MetricRow<'_>),
) -> rusqlite::Result<()> {
    let stored = match metrics.put(row) {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
            define_metrics(transaction)?;
            metrics.put(row)
        }
        other => other,
    };
    stored.map(drop)
}

/// Stores a warning without its checksum; returns the number of its row.
pub fn insert_warning(
    transaction: &Transaction<'_>,
    trial: Option<u32>,
    warning: &Warning,
) -> rusqlite::Result<i64> {
    let row = (WarningTrial { trial }, warning.clone());
    insert::<WarningTable>(transaction, &(RowNumber::NEXT, row))
}

pub fn insert_path_check(
    transaction: &Transaction<'_>,
    check: &PathCheck,
) -> rusqlite::Result<Sealed> {
    let row = (CheckNumber { id: None }, check.clone());
    let path_check = insert::<PathCheckTable>(transaction, &row)?;
    for (position, quantity) in (0..).zip(&check.quantities) {
        let of = OfPathCheck {
            path_check,
            position,
        };
        insert::<PathQuantityTable>(transaction, &(of, quantity.clone()))?;
    }
    checksum::PATH_CHECK.seal(transaction, path_check)
}

/// Returns times and values of a series as they are stored.
fn blobs(series: &Series) -> (Vec<u8>, Vec<u8>) {
    let samples = series.t_ns.iter().zip(&series.values);
    let finite = samples.filter(|(_, value)| value.is_finite());
    let times = finite.clone().flat_map(|(t, _)| t.to_le_bytes());
    let values = finite.clone().flat_map(|(_, value)| value.to_le_bytes());
    (times.collect(), values.collect())
}

/// Converts a number of samples to SQLite's integer; none comes near the limit.
pub fn signed(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
