//! Errors of a results file.

use std::{
    error::Error,
    fmt, io,
    path::{Path, PathBuf},
};

use nix::errno::Errno;
use regatta_model::{Phrase, Text, reason, reasons, shell::quoted};

use crate::{DEFAULT_DIRECTORY, FILE_NAME, LOCK_LIMIT, schema};

/// Error of SQLite without its source: the library repeats the message, with a number, as the source of its
/// own error.
#[derive(Debug)]
pub struct SqliteError(pub(crate) rusqlite::Error);

impl fmt::Display for SqliteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for SqliteError {}

/// Error of a results file. [`ResultsError::hint`] returns a suggestion for the user.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// Directory for a new run that already holds files of one.
    #[error("`{}` already holds {} (`{found}`)", dir.display(), if found == FILE_NAME { "a run" } else { "part of a run" })]
    AlreadyExists {
        /// Path of the result directory.
        dir: PathBuf,
        /// Name of the file that was found.
        found: String,
    },
    /// Results file that does not exist.
    #[error("{}", reason::no_results_file(&path.display().to_string()))]
    Missing {
        /// Path that was tried.
        path: PathBuf,
        /// Directories of runs in the directory that was named, the newest last.
        runs: Vec<PathBuf>,
    },
    /// The path does not exist.
    #[error("{}", reason::no_such_path(&path.display().to_string()))]
    NotFound {
        /// Path that was named.
        path: PathBuf,
    },
    /// The path is of another kind.
    #[error("{}", other_kind(path, .found, .wanted))]
    OtherKind {
        /// Path that was named.
        path: PathBuf,
        /// Kind of file that is there: `a directory`.
        found: Phrase,
        /// Kind of file that must be there: `a results file`.
        wanted: Phrase,
    },
    /// Run that was ended before its header was saved.
    #[error("{}", reason::holds_no_run(&path.display().to_string()))]
    Empty {
        /// Path of the results file.
        path: PathBuf,
    },
    /// File that is no results file, or whose beginning is destroyed.
    #[error("{}", reason::not_results(&path.display().to_string()))]
    NotResults {
        /// Path of the file.
        path: PathBuf,
    },
    /// File whose tables are of another version.
    #[error("{}", other_version(path, *.found, .writer.as_deref()))]
    OtherVersion {
        /// Path of the file.
        path: PathBuf,
        /// Version of the file's tables.
        found: i32,
        /// Version of the Regatta that wrote the file, if the file says it.
        writer: Option<String>,
    },
    /// Results file of which parts are lost or wrong.
    #[error("{}", reason::damaged_results(&path.display().to_string(), .what))]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Description of the damage.
        what: String,
    },
    /// Results file that lacks records which a run had committed.
    #[error("{}", reason::damaged_results(&path.display().to_string(), .what))]
    Incomplete {
        /// Path of the results file.
        path: PathBuf,
        /// Path of the list of the records.
        list: PathBuf,
        /// Description of what is missing.
        what: String,
    },
    /// Results file whose log and list are of different runs.
    #[error("{}", reason::damaged_results(&path.display().to_string(), &different_runs(list)))]
    OtherRun {
        /// Path of the results file.
        path: PathBuf,
        /// Path of the list of the records.
        list: PathBuf,
    },
    /// Run that another process writes.
    #[error("another process is writing the run in `{}`", dir.display())]
    InUse {
        /// Path of the result directory.
        dir: PathBuf,
    },
    /// File that another program has locked.
    #[error("another program has locked `{}` for more than {} s", path.display(), LOCK_LIMIT.as_secs())]
    Locked {
        /// Path of the results file.
        path: PathBuf,
    },
    /// Trial whose index is already stored.
    #[error("trial {index} is already stored")]
    DuplicateTrial {
        /// Position in the plan.
        index: u32,
    },
    /// Record that contradicts itself; nothing of it was stored.
    #[error("trial {index} cannot be stored: {what}")]
    UnusableTrial {
        /// Position in the plan.
        index: u32,
        /// Description of the contradiction.
        what: String,
    },
    /// No space left where the run is stored.
    #[error("no space is left on the device that holds `{}`; {}", path.display(), safe(*begun, *stored))]
    DiskFull {
        /// Path of the file that could not grow.
        path: PathBuf,
        /// Whether the run's header was stored before; there is no file otherwise.
        begun: bool,
        /// Number of trials that were stored before.
        stored: usize,
        /// Error of the system.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// Results file that is no longer where it was created.
    #[error("`{}` was {} during the run", path.display(), now.described())]
    Displaced {
        /// Path where the file was created.
        path: PathBuf,
        /// Place of the run's data now.
        now: Displaced,
    },
    /// Run whose file cannot be written, so that the run cannot continue there.
    #[error("`{}` cannot be written", path.display())]
    NotWritable {
        /// Path of the results file.
        path: PathBuf,
        /// Error of SQLite.
        #[source]
        source: SqliteError,
    },
    /// File made from the results that could not be written.
    #[error("cannot write `{}`", path.display())]
    Export {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
    /// Exported table that could not be written.
    #[error("cannot write `{}`", path.display())]
    Table {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
    /// Other error of SQLite.
    #[error("cannot {doing} `{}`", path.display())]
    Sqlite {
        /// Attempted operation: `read`, `write`, …
        doing: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Error of SQLite.
        #[source]
        source: SqliteError,
    },
    /// Other error of the system.
    #[error("cannot {doing} `{}`", path.display())]
    Io {
        /// Attempted operation: `create`, `open`, …
        doing: &'static str,
        /// Path of the file or directory.
        path: PathBuf,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
    /// CSV row that could not be formatted.
    #[error("cannot write CSV")]
    Csv(#[from] csv::Error),
}

/// Place of a run's data after its results file was removed while it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Displaced {
    /// Directory to which the results directory was moved or renamed.
    Moved(PathBuf),
    /// New directory to which the data were copied, since the file was deleted.
    Saved(PathBuf),
    /// None: the file was deleted, and its data could not be saved.
    Lost,
}

impl Displaced {
    /// Returns the directory that holds the run now.
    #[must_use]
    pub fn directory(&self) -> Option<&Path> {
        match self {
            Self::Moved(dir) | Self::Saved(dir) => Some(dir),
            Self::Lost => None,
        }
    }

    fn described(&self) -> String {
        match self {
            Self::Moved(dir) => format!("moved to `{}`", dir.display()),
            Self::Saved(dir) => format!("deleted (what it held was saved in `{}`)", dir.display()),
            Self::Lost => "deleted (what it held could not be saved)".to_owned(),
        }
    }
}

impl ResultsError {
    /// Returns the same error for a run with `trials` stored trials.
    pub(crate) fn with_stored_trials(mut self, trials: usize) -> Self {
        if let Self::DiskFull { begun, stored, .. } = &mut self {
            (*begun, *stored) = (true, trials);
        }
        self
    }

    /// Returns the causes, outermost first.
    #[must_use]
    pub fn reasons(&self) -> Vec<Text> {
        let shown = |path: &Path| path.display().to_string();
        vec![match self {
            Self::Missing { path, .. } => reason::no_results_file(&shown(path)).into(),
            Self::NotFound { path } => reason::no_such_path(&shown(path)).into(),
            Self::OtherKind {
                path,
                found,
                wanted,
            } => other_kind(path, found, wanted).into(),
            Self::Empty { path } => reason::holds_no_run(&shown(path)).into(),
            Self::NotResults { path } => reason::not_results(&shown(path)).into(),
            Self::OtherVersion {
                path,
                found,
                writer,
            } => other_version(path, *found, writer.as_deref()).into(),
            Self::Damaged { path, what } | Self::Incomplete { path, what, .. } => {
                reason::damaged_results(&shown(path), what).into()
            }
            Self::OtherRun { path, list } => {
                reason::damaged_results(&shown(path), &different_runs(list)).into()
            }
            _ => return reasons(self),
        }]
    }

    /// Returns a hint on what to type next; `None` if there is nothing to advise.
    #[must_use]
    pub fn hint(&self) -> Option<Text> {
        Some(match self {
            Self::AlreadyExists { dir, found } if found == FILE_NAME => {
                reason::resume_or_other_directory(&quoted(dir)).into()
            }
            Self::AlreadyExists { .. } => reason::other_directory_or_move().into(),
            Self::DiskFull { begun: false, .. } => reason::free_space_or_other_directory().into(),
            _ => self.hint_without_options()?.into(),
        })
    }

    /// Returns a hint that is the same in every command.
    fn hint_without_options(&self) -> Option<String> {
        Some(match self {
            Self::Missing { runs, .. } => match &runs[..] {
                [] => {
                    "give the directory that `regatta run` named at its end; a run that is still beginning, or that was ended before it had begun, has saved nothing: wait, or start it again".to_owned()
                }
                [run] => format!("name the run in it: `{}`", quoted(run)),
                [.., newest] => {
                    let (count, newest) = (runs.len(), quoted(newest));
                    format!("name one of the {count} runs in it; the newest is `{newest}`")
                }
            },
            Self::NotFound { .. } => format!(
                "give the directory that `regatta run` named at its end; without `--out` it is in \
                 `{DEFAULT_DIRECTORY}`, as seen from where the run was started"
            ),
            Self::Empty { .. } => "start the study again with `regatta run`".to_owned(),
            Self::NotResults { .. } | Self::OtherKind { .. } => {
                "give a directory or a `results.sqlite` made by `regatta run`".to_owned()
            }
            Self::OtherVersion { .. } => {
                "read it with the Regatta that wrote it, whose `regatta export` writes its tables as files; or run the study again with this one".to_owned()
            }
            Self::Damaged { path, .. } => {
                let path = quoted(path);
                format!("nothing was changed; copy the file and try `sqlite3 {path} .recover`")
            }
            Self::Incomplete { path, list, .. } => {
                let (dir, list) = (quoted(parent(path)), quoted(list));
                format!(
                    "nothing was changed; put the log that belongs to it beside it again, or, to use what is left, run \
                     `rm {list}`, after which `regatta resume {dir}` runs the missing trials"
                )
            }
            Self::OtherRun { path, .. } => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                format!(
                    "nothing was changed; `{name}`, `{name}-wal` and `{name}-commits` belong together: put those of one run beside \
                     one another again"
                )
            }
            Self::InUse { dir } => {
                format!("wait for it; `regatta report {}` works meanwhile", quoted(dir))
            }
            Self::DiskFull { path, .. } => {
                let dir = quoted(parent(path));
                format!("free some space, then run `regatta resume {dir}`")
            }
            Self::Displaced { now, .. } => {
                format!("run `regatta resume {}` to go on", quoted(now.directory()?))
            }
            Self::NotWritable { path, .. } => {
                let dir = quoted(parent(path));
                format!(
                    "get the right to write to {dir} and the files in it, or resume a copy: \
                     `cp -r {dir} COPY && regatta resume COPY`"
                )
            }
            Self::Export { path, source } => export_hint(path, source),
            Self::Table { source, .. } if is_full(source) => {
                "free some space, or choose another directory with `--out`; then run the same command again".to_owned()
            }
            Self::Table { path, .. } => {
                let dir = quoted(parent(path));
                format!("make sure that {dir} can be written, or choose another directory with `--out`")
            }
            Self::Locked { path } => {
                let path = quoted(path);
                format!("end that program, which `fuser {path}` names, then try again")
            }
            Self::Io { source, path, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                let path = quoted(path);
                format!("get the right to read it from its owner, whom `ls -ld {path}` names")
            }
            Self::Io { source, path, .. } if source.raw_os_error() == Some(Errno::ELOOP as i32) => {
                let path = quoted(path);
                format!("name the directory itself; `ls -l {path}` shows where the link leads")
            }
            // Only a copy of the file takes room for reading it.
            Self::Io { source, .. } if is_full(source) => {
                "free some space in the directory for temporary files, or set `TMPDIR` to another"
                    .to_owned()
            }
            Self::AlreadyExists { .. }
            | Self::DuplicateTrial { .. }
            | Self::UnusableTrial { .. }
            | Self::Sqlite { .. }
            | Self::Io { .. }
            | Self::Csv(_) => return None,
        })
    }
}

/// Returns the reason for a path of another kind.
fn other_kind(path: &Path, found: &Phrase, wanted: &Phrase) -> Phrase {
    reason::other_kind(&path.display().to_string(), found.clone(), wanted.clone())
}

/// Returns the reason for a file whose tables are of another version.
fn other_version(path: &Path, found: i32, writer: Option<&str>) -> Phrase {
    let path = path.display().to_string();
    let [found, only] = [found, schema::VERSION].map(|version| version.unsigned_abs().into());
    match writer {
        Some(writer) => reason::other_version(found, only, &path, writer),
        None => reason::other_version_unsigned(found, only, &path),
    }
}

/// Returns the hint for a file made from the results that could not be written.
#[must_use]
pub fn export_hint(path: &Path, source: &io::Error) -> String {
    let dir = quoted(parent(path));
    if is_full(source) {
        format!("free some space, then run `regatta report {dir}`")
    } else {
        format!("make sure that {dir} can be written, then run `regatta report {dir}`")
    }
}

/// Whether the error means that there is no space left.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// Returns the directory of a file.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}

fn safe(begun: bool, stored: usize) -> String {
    match stored {
        _ if !begun => "nothing was saved".to_owned(),
        1 => "1 trial is safe in it".to_owned(),
        stored => format!("{stored} trials are safe in it"),
    }
}

/// Says that the log and the list of a results file are of different runs.
fn different_runs(list: &Path) -> String {
    let name = list.file_name().unwrap_or_default().to_string_lossy();
    format!("its log, or its list `{name}`, is of another run")
}
