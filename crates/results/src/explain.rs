//! Errors of SQLite and of the system, with a meaning for the user.

use std::{
    error::Error,
    fs::File,
    io,
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    unistd::{AccessFlags, access},
};
use rusqlite::ErrorCode;

use crate::{
    ResultsError, SqliteError,
    error::{is_full, parent},
};

/// Converts a failure of SQLite to an error with a meaning for the user. If a run is stored
/// already, the caller adds that with [`ResultsError::with_stored_trials`].
pub(crate) fn explain(source: rusqlite::Error, doing: &'static str, path: &Path) -> ResultsError {
    let is_read = doing == "read";
    let what = source.to_string();
    let code = source.sqlite_error_code();
    if let Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) = code
        && let Some(source) = no_more_files()
    {
        return explain_io(source, doing, path);
    }
    let (path, source) = (path.to_owned(), SqliteError(source));
    match (code, &source.0) {
        (Some(ErrorCode::NotADatabase), _) => ResultsError::NotResults { path },
        (Some(ErrorCode::DatabaseCorrupt), _) => ResultsError::Damaged { path, what },
        (Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked), _) => {
            ResultsError::Locked { path }
        }
        // A statement of ours is wrong only where the file lacks a table or a column.
        (Some(ErrorCode::Unknown), _) if what.starts_with("no such ") => {
            ResultsError::Damaged { path, what }
        }
        (Some(ErrorCode::DiskFull), _) => disk_full(path, source),
        // A shared-memory index or a flush that finds no space is an I/O error to SQLite.
        (Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen), _)
            if !is_read && no_space(&path) =>
        {
            disk_full(path, source)
        }
        (Some(ErrorCode::ReadOnly), _) => ResultsError::NotWritable { path, source },
        // The log and its index are made beside the file.
        (Some(ErrorCode::CannotOpen), _) if !is_read && !writable(&path) => {
            ResultsError::NotWritable { path, source }
        }
        // A row that SQLite can read and we cannot: the types are ours, so the file is wrong.
        (
            None,
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::IntegralValueOutOfRange(..),
        ) => ResultsError::Damaged { path, what },
        _ => ResultsError::Sqlite {
            doing,
            path,
            source,
        },
    }
}

/// Converts a failure of the system to an error with a meaning for the user; see [`explain`].
pub(crate) fn explain_io(source: io::Error, doing: &'static str, path: &Path) -> ResultsError {
    let path = path.to_owned();
    if is_full(&source) {
        return disk_full(path, source);
    }
    ResultsError::Io {
        doing,
        path,
        source,
    }
}

/// Returns the error of a process that has as many files open as it may have, which SQLite does not tell from others. It
/// may have closed up to three since: file, log and index.
fn no_more_files() -> Option<io::Error> {
    let opened: io::Result<Vec<File>> = (0..4).map(|_| File::open("/dev/null")).collect();
    opened
        .err()
        .filter(|error| error.raw_os_error() == Some(Errno::EMFILE as i32))
}

fn disk_full(path: PathBuf, source: impl Error + Send + Sync + 'static) -> ResultsError {
    ResultsError::DiskFull {
        path,
        begun: false,
        stored: 0,
        source: Box::new(source),
    }
}

/// Whether files may be created in the directory of a file.
fn writable(path: &Path) -> bool {
    access(parent(path), AccessFlags::W_OK).is_ok()
}

fn no_space(path: &Path) -> bool {
    nix::sys::statvfs::statvfs(parent(path)).is_ok_and(|fs| fs.blocks_available() == 0)
}
