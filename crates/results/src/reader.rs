//! Reader of a run.

use std::{
    fs,
    ops::Deref,
    path::{Path, PathBuf},
};

use regatta_process::TemporaryDirectory;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::{
    FILE_NAME, ResultsError, commits,
    explain::explain,
    open::{beside, connect, examine, has_log},
    run_file::RunFile,
};

/// Read-only run, as it was when it was opened: later additions of a live run are not visible.
#[derive(Debug)]
pub struct Reader {
    file: RunFile,
    /// Directory of a copy of the file, if it could not be read in place; removed with the reader.
    copy: Option<TemporaryDirectory>,
}

impl Reader {
    /// Opens a result directory, or the results file itself.
    ///
    /// Works while a run goes on, without making it wait; after a crash, with all that was
    /// committed; and on a read-only medium. The file is checked whole, and never written to.
    ///
    /// # Errors
    /// [`ResultsError::Missing`], [`ResultsError::Empty`], [`ResultsError::NotResults`],
    /// [`ResultsError::OtherVersion`], [`ResultsError::Damaged`], [`ResultsError::Incomplete`], or an error of the
    /// system.
    pub fn open(dir_or_file: &Path) -> Result<Self, ResultsError> {
        let path = results_file(dir_or_file);
        // Before the snapshot, which has then all that the list names.
        let committed = commits::read(&path)?;
        let reader = Self::of_file(path)?;
        examine(&reader)?;
        commits::check(&reader, &committed)?;
        Ok(reader)
    }

    /// Opens a file as [`Reader::open`] does, without the check of its content, which the caller has made before.
    ///
    /// # Errors
    /// As [`Reader::open`], as far as they show without that check.
    pub fn unexamined(dir_or_file: &Path) -> Result<Self, ResultsError> {
        Self::of_file(results_file(dir_or_file))
    }

    /// Checks that the file of a run has all records which the run has committed. That costs nothing for a run that was closed, or
    /// without a file.
    ///
    /// # Errors
    /// [`ResultsError::Incomplete`], [`ResultsError::OtherRun`], or an error of the system.
    pub fn check_commits(dir_or_file: &Path) -> Result<(), ResultsError> {
        let path = results_file(dir_or_file);
        let committed = commits::read(&path)?;
        if committed.is_empty() {
            return Ok(());
        }
        let reader = Self::of_file(path)?;
        commits::check(&reader, &committed)
    }

    fn of_file(path: PathBuf) -> Result<Self, ResultsError> {
        let connection = connect(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        if let Err(error) = snapshot(&connection) {
            return match error.sqlite_error_code() {
                // A log, or the index to it, would have to be written beside the file.
                Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly) => {
                    drop(connection);
                    Self::from_copy(path)
                }
                _ => Err(explain(error, "read", &path)),
            };
        }
        Ok(Self {
            file: RunFile { connection, path },
            copy: None,
        })
    }

    /// Opens a copy in the directory for temporary files.
    fn from_copy(path: PathBuf) -> Result<Self, ResultsError> {
        let fail = |source| ResultsError::Io {
            doing: "make a temporary copy of",
            path: path.clone(),
            source,
        };
        let dir = TemporaryDirectory::new("regatta-results-").map_err(&fail)?;
        let copy = dir.path().join(FILE_NAME);
        fs::copy(&path, &copy).map_err(&fail)?;
        if has_log(&path) {
            fs::copy(beside(&path, "-wal"), beside(&copy, "-wal")).map_err(&fail)?;
        }
        let connection = connect(&copy, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        snapshot(&connection).map_err(|e| explain(e, "read", &path))?;
        Ok(Self {
            file: RunFile { connection, path },
            copy: Some(dir),
        })
    }

    /// Returns the address of the file, or of its copy, by which another connection can attach it
    /// read-only.
    pub(crate) fn uri(&self) -> String {
        let copy = self.copy.as_ref().map(|dir| dir.path().join(FILE_NAME));
        let path = copy.as_deref().unwrap_or(&self.path);
        let mut uri = "file:".to_owned();
        for byte in path.as_os_str().as_encoded_bytes() {
            match byte {
                b'%' | b'?' | b'#' | 0..=0x20 | 0x7f.. => uri.push_str(&format!("%{byte:02x}")),
                _ => uri.push(char::from(*byte)),
            }
        }
        uri + "?mode=ro"
    }

    /// Whether the run is one plain file, without data in a log beside it. A run that is not may be
    /// under way, or have ended while a reader had it open; see [`crate::checkpoint`].
    ///
    /// # Errors
    /// As [`RunFile::header`].
    pub fn is_single_file(&self) -> Result<bool, ResultsError> {
        Ok(self.one::<String>("PRAGMA journal_mode")? != "wal")
    }
}

impl Deref for Reader {
    type Target = RunFile;

    fn deref(&self) -> &RunFile {
        &self.file
    }
}

/// Returns the path of the results file in a directory, or of this file itself.
fn results_file(dir_or_file: &Path) -> PathBuf {
    match dir_or_file.is_dir() {
        true => dir_or_file.join(FILE_NAME),
        false => dir_or_file.to_owned(),
    }
}

/// Opens one read transaction that is never ended, so that all answers are of the same time.
fn snapshot(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("PRAGMA query_only = ON; BEGIN")?;
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
}
