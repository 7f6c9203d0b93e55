//! Writer of a run.

use std::{
    fs::{self, File, TryLockError},
    io,
    ops::Deref,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use nix::fcntl::OFlag;
use regatta_model::{
    HostSamples, Measurements, PathCheck, RunHeader, Series, TrialRecord, Warning, reason,
};
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use crate::{
    FILE_NAME, ResultsError, RunState,
    checksum::{self, Sealed},
    commits::{self, CommitList},
    digest,
    explain::{explain, explain_io},
    exports, host_samples,
    hosts_csv::HOSTS_FILE_NAME,
    insert,
    moved_file::{self, FileIdentity},
    open::{beside, connect, has_log, missing},
    run_file::RunFile,
};

/// Run that is being written, by one process at a time; its lock ends with the process, however
/// that ends.
///
/// Dropping a store merges the write-ahead log into the file, if no reader has it open;
/// [`Store::close`] tells whether that was done.
#[derive(Debug)]
pub struct Store {
    file: RunFile,
    /// Identity of the file at its path when it was opened.
    identity: FileIdentity,
    /// Number of trials stored so far.
    stored: usize,
    commits: CommitList,
    /// The result directory, locked (`flock`). The directory rather than the file, because closing
    /// any descriptor of the file would drop the locks that SQLite holds on it in this process.
    _lock: File,
}

impl Store {
    /// Creates a result directory, with its parents, and a results file with the run's header in
    /// it.
    ///
    /// The directory may exist, and may hold other files, but none of a run. Nothing is ever
    /// overwritten.
    ///
    /// # Errors
    /// [`ResultsError::AlreadyExists`], [`ResultsError::InUse`], [`ResultsError::DiskFull`], or an
    /// error of the system; then no results file is left behind.
    pub fn create(dir: &Path, header: &RunHeader) -> Result<Self, ResultsError> {
        fs::create_dir_all(dir).map_err(|e| explain_io(e, "create", dir))?;
        let path = dir.join(FILE_NAME);
        // Looked at before the lock, so that a live run is called a run; and created exclusively
        // after it, so that of two processes one makes the run.
        if let Some(found) = leftover(dir) {
            return Err(ResultsError::AlreadyExists {
                dir: dir.to_owned(),
                found,
            });
        }
        let lock = lock(dir)?;
        File::create_new(&path).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => ResultsError::AlreadyExists {
                dir: dir.to_owned(),
                found: FILE_NAME.to_owned(),
            },
            _ => explain_io(source, "create", &path),
        })?;
        let begun = insert::begin(&path, header).and_then(|connection| {
            // The name of a new file is as much to be kept as what is in it.
            lock.sync_all().map_err(|e| explain_io(e, "write", dir))?;
            let commits = open_commits(&path, &header.run_id, true)?;
            Ok((connection, FileIdentity::of(&path)?, commits))
        });
        let (connection, identity, commits) = begun.inspect_err(|_| {
            for suffix in ["", "-wal", "-shm", commits::SUFFIX] {
                // What cannot be removed was never there, or the error at hand says why.
                let _ = fs::remove_file(beside(&path, suffix));
            }
        })?;
        Ok(Self {
            file: RunFile { connection, path },
            identity,
            stored: 0,
            commits,
            _lock: lock,
        })
    }

    /// Ends the writing and makes the run one plain file, readable on any medium. `false` if that
    /// was not possible, because another program is reading the file or the disk is full: then part
    /// of the run may still be in the log beside it.
    #[must_use]
    pub fn close(self) -> bool {
        self.checkpoint()
    }

    /// Calls [`checkpoint_file`], unless the name belongs to another file now: SQLite deletes a log by its
    /// name.
    fn checkpoint(&self) -> bool {
        let is_single_file =
            self.identity.is_at(&self.path) && checkpoint_file(&self.connection, &self.path);
        if is_single_file {
            // One that is left is of this file, and correct.
            let _ = commits::remove(&self.path);
        }
        if is_single_file && self.part().is_ok_and(|it| it.shard.is_some()) {
            // Without it the file is as good, and the merge checks the records alone.
            let _ = digest::write(&self.path);
        }
        is_single_file
    }

    /// Stores a trial as [`Store::add_trials`] stores several.
    ///
    /// # Errors
    /// As [`Store::add_trials`].
    pub fn add_trial(&mut self, trial: &TrialRecord) -> Result<(), ResultsError> {
        self.add_trials(std::slice::from_ref(trial))
    }

    /// Stores trials, all of them whole or none at all; when this returns they are on the disk.
    ///
    /// A metric that is not a finite number, or that no definition knows, is not a measurement: it
    /// is left out and a warning of the trial says so. Samples of a series that are not finite are
    /// left out.
    ///
    /// # Errors
    /// [`ResultsError::DuplicateTrial`] for an index that is stored already,
    /// [`ResultsError::UnusableTrial`] for a series with more times than values or the reverse,
    /// [`ResultsError::DiskFull`], or an error of SQLite.
    pub fn add_trials(&mut self, trials: &[TrialRecord]) -> Result<(), ResultsError> {
        for trial in trials {
            self.check_trial(trial)?;
        }
        self.write(|transaction| {
            let stored = trials.iter();
            let stored = stored.map(|trial| insert::insert_trial(transaction, trial));
            stored.collect()
        })?;
        self.stored += trials.len();
        Ok(())
    }

    /// Returns an error for a trial that cannot be stored.
    fn check_trial(&self, trial: &TrialRecord) -> Result<(), ResultsError> {
        let Measurements { series, .. } = &trial.measurements;
        let unequal = |series: &&Series| series.t_ns.len() != series.values.len();
        if let Some(Series {
            name, t_ns, values, ..
        }) = series.iter().find(unequal)
        {
            let (times, values) = (t_ns.len(), values.len());
            return Err(ResultsError::UnusableTrial {
                index: trial.index,
                what: format!("series `{name}` has {times} times and {values} values"),
            });
        }
        let duplicate = "SELECT EXISTS (SELECT 1 FROM trial WHERE trial = ?1)";
        let duplicate = (self.connection).query_row(duplicate, [trial.index], |row| row.get(0));
        if duplicate.map_err(|e| explain(e, "read", &self.path).with_stored_trials(self.stored))? {
            return Err(ResultsError::DuplicateTrial { index: trial.index });
        }
        Ok(())
    }

    /// Stores a self-check of the path.
    ///
    /// # Errors
    /// [`ResultsError::DiskFull`], or an error of SQLite.
    pub fn add_path_check(&mut self, check: &PathCheck) -> Result<(), ResultsError> {
        self.write(|transaction| Ok(vec![insert::insert_path_check(transaction, check)?]))
    }

    /// Stores a warning about the whole run.
    ///
    /// # Errors
    /// [`ResultsError::DiskFull`], or an error of SQLite.
    pub fn add_warning(&mut self, warning: &Warning) -> Result<(), ResultsError> {
        self.write(|transaction| {
            let number = insert::insert_warning(transaction, None, warning)?;
            Ok(vec![checksum::WARNING.seal(transaction, number)?])
        })
    }

    /// Stores samples of the hosts, all or none.
    ///
    /// # Errors
    /// [`ResultsError::DiskFull`], or an error of SQLite, such as for a host that the header does not
    /// have.
    pub fn add_host_samples(&mut self, batches: &[HostSamples]) -> Result<(), ResultsError> {
        self.write(|transaction| {
            let stored = batches.iter();
            let stored = stored.map(|batch| host_samples::insert(transaction, batch));
            stored.filter_map(Result::transpose).collect()
        })
    }

    /// Stores the state of the run.
    ///
    /// # Errors
    /// [`ResultsError::DiskFull`], or an error of SQLite.
    pub fn set_state(&mut self, state: &RunState) -> Result<(), ResultsError> {
        self.write(|transaction| insert::set_state(transaction, state).map(|()| Vec::new()))
    }

    /// Runs `change`, which returns the records that it stored, in a transaction of its own, if the file is still where it was
    /// created: data written to a deleted file would be lost when the process ends.
    fn write(
        &mut self,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<Vec<Sealed>>,
    ) -> Result<(), ResultsError> {
        let RunFile { connection, path } = &mut self.file;
        if !self.identity.is_at(path) {
            return Err(ResultsError::Displaced {
                path: path.clone(),
                now: moved_file::find(connection, path, self.identity),
            });
        }
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let written = transaction.and_then(|transaction| {
            let records = change(&transaction)?;
            transaction.commit().map(|()| records)
        });
        let records =
            written.map_err(|e| explain(e, "write", path).with_stored_trials(self.stored))?;
        self.commits.add(&records);
        Ok(())
    }
}

impl Deref for Store {
    type Target = RunFile;

    fn deref(&self) -> &RunFile {
        &self.file
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.checkpoint();
    }
}

/// Lock on a run that is to be continued, before anything in it is changed: its holder can check
/// whether the run can continue.
#[derive(Debug)]
pub struct RunLock {
    reader: crate::Reader,
    dir: PathBuf,
    run_id: String,
    stored: usize,
    lock: File,
}

impl RunLock {
    /// Locks the run in a directory for this process, and examines its file through a read-only
    /// connection.
    ///
    /// # Errors
    /// [`ResultsError::InUse`] if another process writes it, otherwise as [`crate::Reader::open`].
    pub fn new(dir: &Path) -> Result<Self, ResultsError> {
        let path = dir.join(FILE_NAME);
        if !path.exists() {
            return Err(missing(&path));
        }
        let lock = lock(dir)?;
        let reader = crate::Reader::open(&path)?;
        let stored = reader.trial_indices()?.len();
        let run_id = reader.one("SELECT run_id FROM run")?;
        Ok(Self {
            reader,
            dir: dir.to_owned(),
            run_id,
            stored,
            lock,
        })
    }

    /// Returns a reader of what the run has stored so far.
    #[must_use]
    pub fn reader(&self) -> &crate::Reader {
        &self.reader
    }

    /// Makes the run writable.
    ///
    /// # Errors
    /// [`ResultsError::NotWritable`], [`ResultsError::DiskFull`], or an error of SQLite.
    pub fn open(self) -> Result<Store, ResultsError> {
        let Self {
            reader,
            dir,
            run_id,
            stored,
            lock,
        } = self;
        // It holds a snapshot, which would keep the log from being begun.
        drop(reader);
        let path = dir.join(FILE_NAME);
        digest::remove(&path)?;
        let connection = connect(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        insert::prepare(&connection)
            .map_err(|e| explain(e, "open", &path).with_stored_trials(stored))?;
        Ok(Store {
            identity: FileIdentity::of(&path)?,
            commits: open_commits(&path, &run_id, false)?,
            file: RunFile { connection, path },
            stored,
            _lock: lock,
        })
    }
}

/// Makes one plain file of a run that ended in good order and whose log could not be merged then.
/// `false` if the run is under way, was killed, or still cannot be merged.
///
/// A damaged file is not changed.
pub fn checkpoint(dir: &Path) -> bool {
    let checkpointed = || -> Result<bool, ResultsError> {
        let claim = RunLock::new(dir)?;
        if claim.reader().state()? == RunState::Running {
            return Ok(false);
        }
        Ok(claim.open()?.close())
    };
    checkpointed().unwrap_or(false)
}

/// Makes one plain file of a run, or, if a reader has it open, merges as much as that reader
/// allows. Returns whether the log is empty.
fn checkpoint_file(connection: &Connection, path: &Path) -> bool {
    let _ = connection.busy_timeout(std::time::Duration::ZERO);
    let delete_log = "PRAGMA journal_mode = DELETE";
    let mode = connection.query_row(delete_log, [], |row| row.get::<_, String>(0));
    if mode.is_ok_and(|mode| mode == "delete") {
        return true;
    }
    // Whatever fails here is harmless: the log beside the file is read as well.
    let _ = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    !has_log(path)
}

/// Whether a process is writing the run in a directory. `None` where that cannot be found out, such as on a file
/// system without locks.
#[must_use]
pub fn is_being_written(dir: &Path) -> Option<bool> {
    is_locked(&open_directory(dir).ok()?)
}

/// Opens a directory, and nothing else that has its path.
///
/// # Errors
/// The error of `open`.
pub fn open_directory(dir: &Path) -> io::Result<File> {
    let flags = OFlag::O_DIRECTORY.bits();
    File::options().read(true).custom_flags(flags).open(dir)
}

/// Whether a process is writing the run in a directory that is open, as [`is_being_written`].
#[must_use]
pub fn is_locked(dir: &File) -> Option<bool> {
    // Only a writer excludes a shared lock.
    match dir.try_lock_shared() {
        Ok(()) => {
            // Fails for no file that is open.
            let _ = dir.unlock();
            Some(false)
        }
        Err(TryLockError::WouldBlock) => Some(true),
        Err(TryLockError::Error(_)) => None,
    }
}

/// Returns the state of the run in a directory whose file says `saved`: a run that no process writes is not under way.
#[must_use]
pub fn state_now(dir: &Path, saved: RunState) -> RunState {
    match saved {
        RunState::Running if is_being_written(dir) == Some(false) => RunState::Interrupted {
            reason: reason::ended_silently().into(),
        },
        saved => saved,
    }
}

/// Returns the name of the first file of a run in a directory, if there is any.
pub fn leftover(dir: &Path) -> Option<String> {
    [
        FILE_NAME,
        "results.sqlite-wal",
        "results.sqlite-journal",
        "results.sqlite-commits",
        exports::TRIALS_FILE_NAME,
        exports::SERIES_FILE_NAME,
        HOSTS_FILE_NAME,
        "summary.json",
        "report.html",
        "report.pdf",
        "brief.pdf",
    ]
    .into_iter()
    // A link that leads nowhere counts as well: something would be written through it.
    .find(|name| dir.join(name).symlink_metadata().is_ok())
    .map(str::to_owned)
}

/// Opens the commit list beside a results file, or creates it; empties the list if `is_new`.
fn open_commits(path: &Path, run_id: &str, is_new: bool) -> Result<CommitList, ResultsError> {
    CommitList::open(path, run_id, is_new)
        .map_err(|e| explain_io(e, "write", &beside(path, commits::SUFFIX)))
}

/// Locks the directory for this process.
pub(crate) fn lock(dir: &Path) -> Result<File, ResultsError> {
    let file = open_directory(dir).map_err(|e| explain_io(e, "open", dir))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(ResultsError::InUse {
            dir: dir.to_owned(),
        }),
        Err(TryLockError::Error(source)) => Err(explain_io(source, "lock", dir)),
    }
}
