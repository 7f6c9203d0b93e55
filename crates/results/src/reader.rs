//! Reader of a run.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use regatta_model::{HostSamples, PathCheck, RunHeader, TrialRecord, Warning};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use tempfile::TempDir;

use crate::{
    FILE_NAME, ResultsError, RunState,
    explain::explain,
    open::{beside, connect, examine, has_log},
    query::{ALL_TRIALS, Source},
};

/// Read-only run, as it was when it was opened: later additions of a live run are not visible.
#[derive(Debug)]
pub struct Reader {
    connection: Connection,
    path: PathBuf,
    /// Directory of a copy of the file, if it could not be read in place; removed with the reader.
    copy: Option<TempDir>,
}

impl Reader {
    /// Opens a result directory, or the results file itself.
    ///
    /// Works while a run goes on, without making it wait; after a crash, with all that was
    /// committed; and on a read-only medium. The file is checked whole, and never written to.
    ///
    /// # Errors
    /// [`ResultsError::Missing`], [`ResultsError::Empty`], [`ResultsError::NotResults`],
    /// [`ResultsError::Newer`], [`ResultsError::Damaged`], or an error of the system.
    pub fn open(dir_or_file: &Path) -> Result<Self, ResultsError> {
        let reader = Self::unexamined(dir_or_file)?;
        examine(&reader.connection, &reader.path)?;
        Ok(reader)
    }

    /// Opens a file as [`Reader::open`] does, without the check of its content, which the caller has made before.
    ///
    /// # Errors
    /// As [`Reader::open`], as far as they show without that check.
    pub fn unexamined(dir_or_file: &Path) -> Result<Self, ResultsError> {
        let path = match dir_or_file.is_dir() {
            true => dir_or_file.join(FILE_NAME),
            false => dir_or_file.to_owned(),
        };
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
            connection,
            path,
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
        let dir = TempDir::with_prefix("regatta-results-").map_err(&fail)?;
        let copy = dir.path().join(FILE_NAME);
        fs::copy(&path, &copy).map_err(&fail)?;
        if has_log(&path) {
            fs::copy(beside(&path, "-wal"), beside(&copy, "-wal")).map_err(&fail)?;
        }
        let connection = connect(&copy, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        snapshot(&connection).map_err(|e| explain(e, "read", &path))?;
        Ok(Self {
            connection,
            path,
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

    pub(crate) fn source(&self) -> Source<'_> {
        Source {
            connection: &self.connection,
            path: &self.path,
        }
    }

    /// Returns the path of the results file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the run is one plain file, without data in a log beside it. A run that is not may be
    /// under way, or have ended while a reader had it open; see [`crate::fold_ended`].
    ///
    /// # Errors
    /// As [`Reader::header`].
    pub fn is_plain(&self) -> Result<bool, ResultsError> {
        let mode = self
            .source()
            .one("PRAGMA journal_mode", |row| row.get::<_, String>(0))?;
        Ok(mode != "wal")
    }

    /// Returns the data that was known before the first trial.
    ///
    /// # Errors
    /// [`ResultsError::Damaged`] for a study that cannot be read; as for all functions here, errors
    /// of SQLite.
    pub fn header(&self) -> Result<RunHeader, ResultsError> {
        self.source().header()
    }

    /// Returns the state of the run.
    ///
    /// # Errors
    /// As [`Reader::header`].
    pub fn state(&self) -> Result<RunState, ResultsError> {
        self.source().state()
    }

    /// Returns all trials, with series and histograms, in the order of the plan.
    ///
    /// A value that is not finite was not stored by Regatta and is no measurement: it is left out,
    /// and a warning of the trial says so. Samples of a series that are not finite are left out.
    ///
    /// # Errors
    /// As [`Reader::header`].
    pub fn trials(&self) -> Result<Vec<TrialRecord>, ResultsError> {
        self.source().trials(ALL_TRIALS, true)
    }

    /// Returns all trials as [`Reader::trials`] does, without series and histograms.
    ///
    /// # Errors
    /// As [`Reader::header`].
    pub fn trials_without_series(&self) -> Result<Vec<TrialRecord>, ResultsError> {
        self.source().trials(ALL_TRIALS, false)
    }

    /// Returns the positions in the plan of the trials that are stored, in order.
    ///
    /// # Errors
    /// As [`Reader::header`].
    pub fn trial_indices(&self) -> Result<Vec<u32>, ResultsError> {
        self.source().trial_indices()
    }

    /// Returns the self-checks of the path, in the order in which they were made.
    ///
    /// # Errors
    /// As [`Reader::header`].
    pub fn path_checks(&self) -> Result<Vec<PathCheck>, ResultsError> {
        self.source().path_checks()
    }

    /// Returns the name of the machine on which each trial was run, by the number of its record; empty
    /// for a run that is not merged.
    ///
    /// # Errors
    /// As [`Reader::header`].
    pub fn nodes(&self) -> Result<BTreeMap<u32, Arc<str>>, ResultsError> {
        let source = self.source();
        if source.version()? < 5 {
            return Ok(BTreeMap::new());
        }
        let names = source.rows("SELECT id, node FROM part", |row| row.try_into())?;
        // The trials of a part share its name.
        let names: BTreeMap<i64, Arc<str>> = names.into_iter().collect();
        let sql = "SELECT trial, part FROM part_trial ORDER BY trial";
        let parts = source.rows(sql, |row| row.try_into())?;
        let named = |(trial, part): (u32, i64)| Some((trial, names.get(&part)?.clone()));
        Ok(parts.into_iter().filter_map(named).collect())
    }

    /// Passes the samples of the hosts to `take`, in the order in which they were stored.
    ///
    /// # Errors
    /// As [`Reader::header`].
    pub fn host_samples(&self, take: &mut dyn FnMut(HostSamples)) -> Result<(), ResultsError> {
        self.source().host_samples(|batch| {
            take(batch);
            Ok(())
        })
    }

    /// Returns the warnings about the whole run, in the order in which they came; a trial's own are
    /// in its record.
    ///
    /// # Errors
    /// As [`Reader::header`].
    pub fn warnings(&self) -> Result<Vec<Warning>, ResultsError> {
        self.source().warnings()
    }
}

/// Opens one read transaction that is never ended, so that all answers are of the same time.
fn snapshot(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("PRAGMA query_only = ON; BEGIN")?;
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
}
