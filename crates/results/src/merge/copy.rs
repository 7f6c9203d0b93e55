//! Copying the records of parts into the merged file.

use std::{fs, path::Path};

use regatta_model::{RunHeader, Warning, reason, table::Column};
use rusqlite::{Connection, OpenFlags};

use super::{Choices, Differing, Merge, MergeError, MergePart, MergePlan};
use crate::{
    FILE_NAME, Reader, ResultsError, RunState, checksum, commits,
    explain::{explain, explain_io},
    insert::{self, PartOfRun},
    open::has_log,
    replace::{PUBLIC, create_unfinished},
    schema::{
        HostSampleNamesTable, HostSamplesTable, MetricDefinitionTable, OfPart, PartFactRow,
        PartFactTable, PathCheckTable, PathQuantityTable, PhraseTable, TrialTable, WarningTable,
    },
    store::{leftover, lock},
    stored::{Stored as _, Table},
    write_row,
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

/// Writes the merged file beside its place, and puts it there when it is complete and on the disk.
pub(super) fn write(dir: &Path, merge: &Merge, content: &Content<'_>) -> Result<(), MergeError> {
    fs::create_dir_all(dir).map_err(|e| explain_io(e, "create", dir))?;
    check_target(dir, merge)?;
    let lock = lock(dir)?;
    let path = dir.join(FILE_NAME);
    let unfinished = create_unfinished(dir, PUBLIC).map_err(|e| explain_io(e, "create", &path))?;
    fill(unfinished.path(), merge, content)?;
    let synced = (unfinished.as_file().sync_all())
        // Of the run that was there before.
        .and_then(|()| commits::remove(&path))
        .and_then(|()| unfinished.persist(&path).map_err(|e| e.error))
        .and_then(|_| lock.sync_all());
    Ok(synced.map_err(|e| explain_io(e, "write", &path))?)
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
        let mut take = merged.prepare_cached("INSERT INTO taken (trial) VALUES (?1)")?;
        take.execute([index])?;
        count += 1;
    }
    let stored: i64 =
        merged.query_row("SELECT count(*) FROM source.trial", [], |row| row.get(0))?;
    let is_whole = insert::signed(count) == stored;
    copy_trials(merged, is_whole)?;
    insert_part(merged, id, part, &content.facts.0[number])?;
    merged.execute(
        "INSERT INTO part_trial (trial, part) SELECT trial, ?1 FROM taken",
        [id],
    )?;
    checksum::PART.seal(merged, id)?;
    copy_of_run(merged, id)?;
    merged.execute_batch("COMMIT; DETACH source")
}

/// Copies the rows of trials with their checksums: those of all trials of the part, or those of trials in `taken`.
fn copy_trials(merged: &Connection, all: bool) -> rusqlite::Result<()> {
    let table = TrialTable::TABLE;
    let columns = table.copied_columns() + ", checksum";
    let rows = checksum::TRIAL.rows.iter();
    let rows = rows.map(|rows| (rows.table, rows.table.copied_columns()));
    for (table, columns) in std::iter::once((table, columns)).chain(rows) {
        let (name, key) = (table.name, table.key);
        let filter = match all {
            // Warnings also have rows of no trial.
            true => "trial IS NOT NULL",
            // Also where a run that goes on has stored more since it was read.
            false => "trial IN (SELECT trial FROM taken)",
        };
        merged.execute_batch(&format!(
            "INSERT INTO main.{name} ({columns}) SELECT {columns} FROM source.{name} WHERE {filter} ORDER BY {key}"
        ))?;
    }
    Ok(())
}

fn insert_part(
    merged: &Connection,
    id: i64,
    part: &MergePart,
    facts: &[[String; 3]],
) -> rusqlite::Result<()> {
    let of_run = PartOfRun {
        run_id: &part.run_id,
        regatta_version: &part.regatta_version,
        started_unix_ns: part.started_unix_ns,
        bed: &part.bed,
    };
    insert::insert_part(merged, id, &part.part, of_run)?;
    for [host, name, value] in facts {
        let row = PartFactRow { host, name, value };
        write_row::insert::<PartFactTable>(merged, &(OfPart { part: id }, row))?;
    }
    Ok(())
}

/// Copies what is no trial's. Warnings and path checks that are the same in every figure are taken once:
/// in virtual time every part makes the same ones.
fn copy_of_run(merged: &Connection, part: i64) -> rusqlite::Result<()> {
    for table in [MetricDefinitionTable::TABLE, PhraseTable::TABLE] {
        let (name, key, columns) = (table.name, table.key, table.copied_columns());
        merged.execute_batch(&format!(
            "INSERT OR IGNORE INTO main.{name} ({columns}) SELECT {columns} FROM source.{name} ORDER BY {key}"
        ))?;
    }
    let warnings = WarningTable::TABLE;
    let (columns, same) = (
        warnings.copied_columns(),
        same(&warnings, ["known", "new"], &[]),
    );
    merged.execute_batch(&format!(
        "INSERT INTO main.warning ({columns})
             SELECT {columns} FROM source.warning AS new WHERE trial IS NULL AND NOT EXISTS (
                 SELECT 1 FROM main.warning AS known WHERE {same})
             ORDER BY id",
    ))?;
    copy_path_checks(merged)?;
    copy_host_samples(merged, part)
}

/// Returns the condition that two rows of a table, by their aliases, are the same but for some columns.
fn same(table: &Table, [one, other]: [&str; 2], but: &[&str]) -> String {
    let columns = table.columns().into_iter();
    let compared = columns.filter(|it| !it.is_row_number && !but.contains(&&*it.name));
    let terms = compared.map(|Column { name, .. }| format!("{one}.{name} IS {other}.{name}"));
    terms.collect::<Vec<_>>().join(" AND ")
}

/// Returns the columns of a table, with commas between, and the same with other expressions for some.
fn replaced(table: &Table, replacements: &[(&str, &str)]) -> [String; 2] {
    let columns = table.copied_columns();
    let expressions = columns.split(", ").map(|name| {
        let mut replacements = replacements.iter();
        let replacement = replacements.find(|(column, _)| *column == name);
        replacement.map_or(name, |(_, expression)| expression)
    });
    let expressions = expressions.collect::<Vec<_>>().join(", ");
    [columns, expressions]
}

fn copy_path_checks(merged: &Connection) -> rusqlite::Result<()> {
    let (checks, quantities) = (PathCheckTable::TABLE, PathQuantityTable::TABLE);
    let same_check = same(&checks, ["known", "new"], &["checked_unix_ns"]);
    let same_quantity = same(
        &quantities,
        ["known_quantity", "new_quantity"],
        &["path_check"],
    );
    let same = format!(
        "SELECT EXISTS (
            SELECT 1 FROM main.path_check AS known, source.path_check AS new
            WHERE new.id = ?1 AND {same_check} AND NOT EXISTS (
                SELECT 1 FROM source.path_quantity AS new_quantity
                WHERE new_quantity.path_check = new.id AND NOT EXISTS (
                    SELECT 1 FROM main.path_quantity AS known_quantity
                    WHERE known_quantity.path_check = known.id AND {same_quantity})))"
    );
    let check_columns = checks.copied_columns();
    let insert_check = format!(
        "INSERT INTO main.path_check ({check_columns}) SELECT {check_columns} FROM source.path_check WHERE id = ?1"
    );
    let [columns, of_copy] = replaced(&quantities, &[("path_check", "?2")]);
    let insert_quantities = format!(
        "INSERT INTO main.path_quantity ({columns}) SELECT {of_copy} FROM source.path_quantity WHERE path_check = ?1"
    );
    let mut ids = merged.prepare_cached("SELECT id FROM source.path_check ORDER BY id")?;
    let ids = ids.query_map([], |row| row.get("id"))?;
    let ids: Vec<i64> = ids.collect::<Result<_, _>>()?;
    for id in ids {
        let mut same = merged.prepare_cached(&same)?;
        if same.query_row([id], |row| row.get(0))? {
            continue;
        }
        merged.prepare_cached(&insert_check)?.execute([id])?;
        let copy = merged.last_insert_rowid();
        merged
            .prepare_cached(&insert_quantities)?
            .execute([id, copy])?;
        checksum::PATH_CHECK.seal(merged, copy)?;
    }
    Ok(())
}

/// Copies samples of the hosts of the part's trials, and of the times between trials.
fn copy_host_samples(merged: &Connection, part: i64) -> rusqlite::Result<()> {
    let lists = HostSampleNamesTable::TABLE;
    let (columns, same) = (lists.copied_columns(), same(&lists, ["known", "new"], &[]));
    merged.execute_batch(&format!(
        "INSERT INTO main.host_sample_names ({columns}) SELECT {columns} FROM source.host_sample_names AS new
             WHERE NOT EXISTS (SELECT 1 FROM main.host_sample_names AS known WHERE {same}) ORDER BY id"
    ))?;
    let names = format!(
        "(SELECT known.id FROM main.host_sample_names AS known, source.host_sample_names AS new
          WHERE new.id = samples_of_part.names AND {same})"
    );
    let [columns, of_copy] = replaced(&HostSamplesTable::TABLE, &[("names", &names)]);
    merged.execute(
        &format!(
            "INSERT INTO main.host_samples ({columns}) SELECT {of_copy} FROM source.host_samples AS samples_of_part
             WHERE trial IS NULL OR trial IN (SELECT trial FROM part_trial WHERE part = ?1) ORDER BY id"
        ),
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
