//! Copying the records of parts into the merged file.

use std::{
    fs::{self, File},
    path::Path,
};

use regatta_model::{RunHeader, Warning, reason};
use rusqlite::{Connection, OpenFlags, ToSql, params};

use super::{Choices, Differing, Merge, MergeError, MergePart, MergePlan};
use crate::{
    FILE_NAME, Reader, ResultsError, RunState, checksum,
    explain::{explain, explain_io},
    insert::{self, put},
    open::has_log,
    schema,
    store::{leftover, lock},
};

/// Content of a merged file beside the trials.
pub(super) struct Content<'a> {
    pub header: &'a RunHeader,
    pub choices: &'a Choices,
    pub facts: &'a Differing,
    pub warnings: &'a [Warning],
    /// Number of trials that still have to be run.
    pub missing: usize,
    pub plan: MergePlan,
}

/// Name of the merged file until it is complete.
const UNFINISHED: &str = ".results.sqlite.tmp";

/// Writes the merged file beside its place, and puts it there when it is complete and on the disk.
pub(super) fn write(dir: &Path, merge: &Merge, content: &Content<'_>) -> Result<(), MergeError> {
    fs::create_dir_all(dir).map_err(|e| explain_io(e, "create", dir))?;
    check_target(dir, merge)?;
    let lock = lock(dir)?;
    let unfinished = dir.join(UNFINISHED);
    let written = fill(&unfinished, merge, content).and_then(|()| {
        let synced = File::open(&unfinished)
            .and_then(|file| file.sync_all())
            .and_then(|()| fs::rename(&unfinished, dir.join(FILE_NAME)))
            .and_then(|()| lock.sync_all());
        synced.map_err(|e| explain_io(e, "write", &dir.join(FILE_NAME)))
    });
    if written.is_err() {
        // What cannot be removed is overwritten by the next merge.
        let _ = fs::remove_file(&unfinished);
    }
    Ok(written?)
}

/// Refuses a directory that holds a run, unless that is a merged one of the same plan.
fn check_target(dir: &Path, merge: &Merge) -> Result<(), ResultsError> {
    let Some(found) = leftover(dir) else {
        return Ok(());
    };
    let exists = ResultsError::AlreadyExists {
        dir: dir.to_owned(),
        found,
    };
    let path = dir.join(FILE_NAME);
    let Ok(reader) = Reader::unexamined(&path) else {
        return Err(exists);
    };
    let same = "SELECT EXISTS (SELECT 1 FROM part_trial)
        AND NOT EXISTS (SELECT 1 FROM part WHERE plan_sha256 <> ?1)";
    let same = (reader.connection).query_row(same, [merge.plan_sha256()], |row| row.get(0));
    match same {
        Ok(true) if !has_log(&path) => Ok(()),
        _ => Err(exists),
    }
}

fn fill(path: &Path, merge: &Merge, content: &Content<'_>) -> Result<(), ResultsError> {
    let _ = fs::remove_file(path);
    File::create_new(path).map_err(|e| explain_io(e, "create", path))?;
    let fail = |e| explain(e, "write", path);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_URI;
    let mut merged = Connection::open_with_flags(path, flags).map_err(fail)?;
    // An unfinished file is thrown away, so that nothing must be undone in it.
    merged
        .execute_batch(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF",
        )
        .map_err(fail)?;
    let transaction = merged.transaction().map_err(fail)?;
    insert::create(&transaction, content.header, path)?;
    transaction
        .execute_batch(
            "CREATE TEMP TABLE taken (trial INTEGER PRIMARY KEY);
             CREATE INDEX path_check_of_condition ON path_check (condition)",
        )
        .map_err(fail)?;
    transaction.commit().map_err(fail)?;
    for (number, part) in merge.parts.iter().enumerate() {
        let reader = Reader::unexamined(&part.path)?;
        let copied = copy_part(&merged, &reader, number, part, content);
        copied.map_err(|e| explain(e, "merge", &part.path))?;
    }
    let finished = finish(&mut merged, content);
    finished.map_err(fail)?;
    merged.close().map_err(|(_, e)| fail(e))
}

/// Copies what is taken from one part.
fn copy_part(
    merged: &Connection,
    reader: &Reader,
    number: usize,
    part: &MergePart,
    content: &Content<'_>,
) -> rusqlite::Result<()> {
    let id = insert::signed(number + 1);
    merged.execute("ATTACH ?1 AS source", [reader.uri()])?;
    merged.execute_batch("BEGIN; DELETE FROM taken")?;
    let mut count = 0_usize;
    for index in content.choices.of_part(number, part, content.plan) {
        put(merged, "taken", params![index])?;
        count += 1;
    }
    let stored: i64 =
        merged.query_row("SELECT count(*) FROM source.trial", [], |row| row.get(0))?;
    let filter = match insert::signed(count) == stored {
        true => "",
        // Also where a run that goes on has stored more since it was read.
        false => "WHERE trial IN (SELECT trial FROM taken)",
    };
    for rows in checksum::TRIAL.rows {
        let summed = rows.columns(schema::VERSION);
        let (table, mut columns) = (rows.table, format!("trial, {summed}"));
        let (mut filter, mut order) = (filter, format!("trial, {}", rows.order));
        match table {
            "trial" => columns = format!("{summed}, checksum"),
            // Their order is part of a trial's checksum, their numbers are not.
            "warning" => {
                order = rows.order.to_owned();
                if filter.is_empty() {
                    filter = "WHERE trial IS NOT NULL";
                }
            }
            _ => {}
        }
        merged.execute_batch(&format!(
            "INSERT INTO main.{table} ({columns}) SELECT {columns} FROM source.{table} {filter} ORDER BY {order}"
        ))?;
    }
    insert_part(merged, id, part, &content.facts.0[number])?;
    merged.execute("INSERT INTO part_trial SELECT trial, ?1 FROM taken", [id])?;
    checksum::PART.seal(merged, id)?;
    copy_of_run(merged, id)?;
    merged.execute_batch("COMMIT; DETACH source")
}

fn insert_part(
    merged: &Connection,
    id: i64,
    part: &MergePart,
    facts: &[[String; 3]],
) -> rusqlite::Result<()> {
    let run: [&dyn ToSql; 4] = [
        &part.run_id,
        &part.regatta_version,
        &part.started_unix_ns,
        &part.bed,
    ];
    insert::insert_part(merged, id, &part.part, run)?;
    for [host, name, value] in facts {
        put(merged, "part_fact", params![id, host, name, value])?;
    }
    Ok(())
}

/// Copies what is no trial's. Warnings and path checks that are the same in every figure are taken once:
/// in virtual time every part makes the same ones.
fn copy_of_run(merged: &Connection, part: i64) -> rusqlite::Result<()> {
    merged.execute_batch(
        "INSERT OR IGNORE INTO main.metric_definition SELECT * FROM source.metric_definition;
         INSERT OR IGNORE INTO main.phrase (text, content_json)
             SELECT text, content_json FROM source.phrase ORDER BY id;
         INSERT INTO main.warning (code, message, hint, content_json)
             SELECT code, message, hint, content_json FROM source.warning AS new WHERE trial IS NULL AND NOT EXISTS (
                 SELECT 1 FROM main.warning AS known WHERE known.trial IS NULL
                 AND (known.code, known.message, known.hint) = (new.code, new.message, new.hint))
             ORDER BY id;",
    )?;
    copy_path_checks(merged)?;
    copy_host_samples(merged, part)
}

fn copy_path_checks(merged: &Connection) -> rusqlite::Result<()> {
    let mut checks = merged.prepare_cached("SELECT id FROM source.path_check ORDER BY id")?;
    let ids = checks.query_map([], |row| row.get(0))?;
    let ids: Vec<i64> = ids.collect::<Result<_, _>>()?;
    for id in ids {
        let same = "SELECT EXISTS (
            SELECT 1 FROM main.path_check AS known, source.path_check AS new
            WHERE new.id = ?1 AND known.condition = new.condition AND known.step_at_ns = new.step_at_ns
            AND known.spoiled IS new.spoiled
            AND NOT EXISTS (
                SELECT position, name, asked, achieved, n FROM source.path_quantity WHERE path_check = new.id
                EXCEPT
                SELECT position, name, asked, achieved, n FROM main.path_quantity WHERE path_check = known.id))";
        let mut same = merged.prepare_cached(same)?;
        if same.query_row([id], |row| row.get(0))? {
            continue;
        }
        let check =
            "INSERT INTO main.path_check (condition, checked_unix_ns, within, step_at_ns, spoiled)
             SELECT condition, checked_unix_ns, within, step_at_ns, spoiled
             FROM source.path_check WHERE id = ?1";
        merged.prepare_cached(check)?.execute([id])?;
        let new = merged.last_insert_rowid();
        let quantities = "INSERT INTO main.path_quantity
             SELECT ?2, position, name, asked, achieved, lowest, highest, n, within
             FROM source.path_quantity WHERE path_check = ?1";
        merged.prepare_cached(quantities)?.execute([id, new])?;
        checksum::PATH_CHECK.seal(merged, new)?;
    }
    Ok(())
}

/// Copies samples of the hosts of the part's trials, and of the times between trials.
fn copy_host_samples(merged: &Connection, part: i64) -> rusqlite::Result<()> {
    merged.execute_batch(
        "INSERT INTO main.host_sample_names (names)
             SELECT names FROM source.host_sample_names AS new
             WHERE NOT EXISTS (SELECT 1 FROM main.host_sample_names WHERE names = new.names)",
    )?;
    merged.execute(
        "INSERT INTO main.host_samples (host, trial, names, samples, unix_ns, monotonic_ns, value_zlib)
         SELECT host, trial, (
             SELECT known.id FROM main.host_sample_names AS known, source.host_sample_names AS new
             WHERE new.id = samples_of_part.names AND known.names = new.names
         ), samples, unix_ns, monotonic_ns, value_zlib
         FROM source.host_samples AS samples_of_part
         WHERE trial IS NULL OR trial IN (SELECT trial FROM part_trial WHERE part = ?1) ORDER BY id",
        [part],
    )?;
    Ok(())
}

/// Stores the state and the warnings of the merged run, and the missing checksums.
fn finish(merged: &mut Connection, content: &Content<'_>) -> rusqlite::Result<()> {
    let transaction = merged.transaction()?;
    for warning in content.warnings {
        insert::insert_warning(&transaction, None, warning)?;
    }
    let state = match content.missing {
        0 => RunState::Complete,
        missing => {
            let trials = u64::from(content.plan.trials);
            let reason = reason::trials_missing(missing as u64, trials).into();
            RunState::Interrupted { reason }
        }
    };
    insert::set_state(&transaction, &state)?;
    transaction.execute_batch("DROP INDEX path_check_of_condition")?;
    checksum::WARNING.seal_all(&transaction)?;
    checksum::PHRASE.seal_all(&transaction)?;
    checksum::HOST_SAMPLES.seal_all(&transaction)?;
    checksum::HOST_SAMPLE_NAMES.seal_all(&transaction)?;
    transaction.commit()
}
