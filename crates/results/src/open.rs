//! Opening a file and identifying it, before anything in it is trusted or written.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use nix::{
    fcntl::{AT_FDCWD, AtFlags},
    unistd::{AccessFlags, faccessat},
};
use regatta_model::{METRICS, reason};
use rusqlite::{Connection, OpenFlags};

use crate::{
    FILE_NAME, ResultsError,
    busy::wait_for_locks,
    checksum,
    error::parent,
    explain::{explain, explain_io},
    run_file::{RowError, RunFile},
    schema,
};

/// Opens a file that must exist already; nothing is created. SQLite takes no locks between threads: a connection is used
/// by one at a time.
pub(crate) fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, ResultsError> {
    let metadata = fs::metadata(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => missing(path),
        _ => explain_io(source, "open", path),
    })?;
    if !metadata.is_file() {
        return Err(ResultsError::OtherKind {
            path: path.to_owned(),
            wanted: reason::a_results_file(),
            found: match metadata.is_dir() {
                true => reason::a_directory(),
                false => reason::a_device(),
            },
        });
    }
    if metadata.len() == 0 && !has_log(path) {
        return Err(ResultsError::Empty {
            path: path.to_owned(),
        });
    }
    // SQLite would only say that it cannot open the file.
    faccessat(AT_FDCWD, path, AccessFlags::R_OK, AtFlags::AT_EACCESS)
        .map_err(|errno| explain_io(errno.into(), "read", path))?;
    let mut connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .map_err(|e| explain(e, "open", path))?;
    wait_for_locks(&mut connection, path).map_err(|e| explain(e, "open", path))?;
    Ok(connection)
}

/// Says why there is no results file at a place.
pub(crate) fn missing(path: &Path) -> ResultsError {
    let dir = match path.ends_with(FILE_NAME) {
        true => parent(path),
        false => path,
    };
    match fs::metadata(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return ResultsError::NotFound {
                path: dir.to_owned(),
            };
        }
        Err(error) => return explain_io(error, "open", dir),
        Ok(metadata) if !metadata.is_dir() => {
            return ResultsError::OtherKind {
                path: dir.to_owned(),
                found: reason::a_file(),
                wanted: reason::directory_of_run(),
            };
        }
        Ok(_) => {}
    }
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut runs: Vec<_> = entries
        .filter_map(|entry| {
            let run = entry.path();
            let written = run.join(FILE_NAME).metadata().ok()?.modified().ok()?;
            Some((written, run))
        })
        .collect();
    runs.sort();
    ResultsError::Missing {
        path: path.to_owned(),
        runs: runs.into_iter().map(|(_, run)| run).collect(),
    }
}

/// Name of a file that SQLite keeps beside another: `-wal`, `-shm`, `-journal`.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Whether a results file has a write-ahead log with data beside it, which is then part of the run.
#[must_use]
pub fn has_log(path: &Path) -> bool {
    fs::metadata(beside(path, "-wal")).is_ok_and(|metadata| metadata.len() > 0)
}

/// Refuses a file that is no results file, one of another version, or a damaged one.
pub(crate) fn examine(file: &RunFile) -> Result<(), ResultsError> {
    let (connection, path) = (&file.connection, &*file.path);
    let number = |sql: &str| file.one::<i64>(sql);
    let application = number("PRAGMA application_id")?;
    if application != i64::from(schema::APPLICATION_ID) {
        // Before its first commit a file of ours is an empty database.
        let tables = number("SELECT count(*) FROM sqlite_schema")?;
        let path = path.to_owned();
        return Err(match (application, tables) {
            (0, 0) => ResultsError::Empty { path },
            _ => ResultsError::NotResults { path },
        });
    }
    let version: i32 = file.one("PRAGMA user_version")?;
    if version != schema::VERSION {
        return Err(ResultsError::OtherVersion {
            path: path.to_owned(),
            found: version,
            writer: writer(file),
        });
    }
    // SQLite takes the missing end of a last page for zeros. While a log lies beside the file its
    // last page may be under way; without one a file has whole pages only.
    let length = fs::metadata(path)
        .map_err(|e| explain_io(e, "read", path))?
        .len();
    let page = u64::try_from(number("PRAGMA page_size")?).unwrap_or_default();
    if !has_log(path) && page > 0 && length % page != 0 {
        return Err(file.damaged("its end is missing"));
    }
    let found: String = connection
        .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
        .map_err(|e| explain(e, "check", path))?;
    if found != "ok" {
        // SQLite's report opens with a line about the tree; the reader wants one line.
        return Err(file.damaged(found.replace('\n', " ")));
    }
    let foreign = "SELECT max(type || ' `' || name || '`') FROM sqlite_schema
        WHERE type NOT IN ('table', 'index') OR sql LIKE 'CREATE VIRTUAL%'";
    if let Some(what) = file.one::<Option<String>>(foreign)? {
        return Err(file.damaged(format!("Regatta made no {what}")));
    }
    for (kind, name) in checksum::ALL {
        let changed = kind.changed(connection);
        if let Some(key) = changed.map_err(|e| explain(e, "read", path))? {
            return Err(file.damaged(format!(
                "{name} {key} is not what was stored (its checksum differs or is missing)"
            )));
        }
    }
    // The checksum of the run covers the facts, and not the table of the hosts.
    if number("SELECT count(*) FROM pragma_foreign_key_check('host_fact')")? > 0 {
        return Err(file.damaged("it has facts about a host that is none of its hosts"));
    }
    check_definitions(file)?;
    match number("SELECT count(*) FROM run")? {
        1 => Ok(()),
        _ => Err(file.damaged("it holds no run")),
    }
}

/// Refuses a file whose metrics have lost their definition, or have another unit: nothing sums these rows. A file of another
/// Regatta can define metrics that this one does not know, and describe them in other words.
fn check_definitions(file: &RunFile) -> Result<(), ResultsError> {
    let mut all_known = true;
    let mut changed = None;
    let definitions = "SELECT name, unit, title, definition FROM metric_definition";
    file.each(definitions, [], |row| {
        // Texts that are none are found here, as they are in an export.
        let text = |column: &str| {
            let text = row.get::<_, String>(column);
            text.map_err(|_| RowError::OtherType(column.to_owned()))
        };
        let (name, unit) = (text("name")?, text("unit")?);
        text("title")?;
        text("definition")?;
        match METRICS.iter().find(|metric| metric.name == name) {
            Some(metric) if metric.unit.name() != unit => changed = Some(name),
            Some(_) => {}
            None => all_known = false,
        }
        Ok(())
    })?;
    if let Some(name) = changed {
        return Err(file.damaged(format!(
            "the unit of the metric `{name}` is not what was stored"
        )));
    }
    let lost =
        "SELECT max(name) FROM metric WHERE name NOT IN (SELECT name FROM metric_definition)";
    if !all_known && let Some(name) = file.one::<Option<String>>(lost)? {
        return Err(file.damaged(format!("it has no definition of the metric `{name}`")));
    }
    Ok(())
}

/// Returns the version of the Regatta that wrote a file of any version, as far as the file says it, with the commit that it was
/// built of.
fn writer(file: &RunFile) -> Option<String> {
    let version: String = file.one("SELECT regatta_version FROM run").ok()?;
    let commit = "SELECT max(value) FROM host_fact WHERE name = 'build.commit'";
    Some(match file.one::<Option<String>>(commit) {
        Ok(Some(commit)) => format!("{version} (commit {commit})"),
        _ => version,
    })
}
