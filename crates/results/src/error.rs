//! What can go wrong with a results file.

use std::{
    error::Error,
    fmt, io,
    path::{Path, PathBuf},
};

use nix::errno::Errno;
use regatta_model::shell::quoted;

use crate::{DEFAULT_DIRECTORY, FILE_NAME, LOCK_LIMIT, schema};

/// What SQLite said, once: its library tells the same again, with a number, as the source of its
/// own error.
#[derive(Debug)]
pub struct SqliteError(pub(crate) rusqlite::Error);

impl fmt::Display for SqliteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for SqliteError {}

/// What can go wrong with a results file. [`ResultsError::hint`] says what to type next.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// The directory for a new run already holds something of one.
    #[error("`{}` already holds {} (`{found}`)", dir.display(), if found == FILE_NAME { "a run" } else { "something of a run" })]
    AlreadyExists {
        /// The result directory.
        dir: PathBuf,
        /// The file that was found.
        found: String,
    },
    /// There is no results file.
    #[error("there is no results file at `{}`", path.display())]
    Missing {
        /// Where it was looked for.
        path: PathBuf,
        /// Directories of runs in the directory that was named, the newest last.
        runs: Vec<PathBuf>,
    },
    /// What was named does not exist.
    #[error("there is no file or directory `{}`", path.display())]
    NotFound {
        /// What was named.
        path: PathBuf,
    },
    /// What was named is of another kind.
    #[error("`{}` is {found}, not {wanted}", path.display())]
    OtherKind {
        /// What was named.
        path: PathBuf,
        /// What is there: `a directory`.
        found: &'static str,
        /// What must be there: `a results file`.
        wanted: &'static str,
    },
    /// The run was ended before its header was saved.
    #[error("`{}` holds no run: it was ended before anything was saved", path.display())]
    Empty {
        /// The results file.
        path: PathBuf,
    },
    /// Something else, or a file whose beginning is destroyed.
    #[error("`{}` is not a results file of Regatta, or its beginning is damaged", path.display())]
    NotResults {
        /// The file.
        path: PathBuf,
    },
    /// The file comes from a later version.
    #[error(
        "this file was written by a newer Regatta (schema {found}, this one reads up to {}): `{}`",
        schema::VERSION,
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Version of its tables.
        found: i32,
    },
    /// The file is a results file, but parts of it are lost or wrong.
    #[error("`{}` is damaged: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found, in words.
        what: String,
    },
    /// Another process writes this run.
    #[error("another process is writing the run in `{}`", dir.display())]
    InUse {
        /// The result directory.
        dir: PathBuf,
    },
    /// Another program holds a lock on the file.
    #[error("another program has locked `{}` for more than {} s", path.display(), LOCK_LIMIT.as_secs())]
    Locked {
        /// The results file.
        path: PathBuf,
    },
    /// A trial of this index is already stored.
    #[error("trial {index} is already stored")]
    DuplicateTrial {
        /// Position in the plan.
        index: u32,
    },
    /// A record contradicts itself; nothing of it was stored.
    #[error("trial {index} cannot be stored: {what}")]
    UnusableTrial {
        /// Position in the plan.
        index: u32,
        /// What is wrong.
        what: String,
    },
    /// No space left where the run is stored.
    #[error("no space is left on the device that holds `{}`; {}", path.display(), safe(*begun, *kept))]
    DiskFull {
        /// The file that could not grow.
        path: PathBuf,
        /// Whether the run's header was stored before; there is no file otherwise.
        begun: bool,
        /// Number of trials that were stored before.
        kept: usize,
        /// What the system said.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The results file is not where it was made any more.
    #[error("`{}` was {} during the run", path.display(), now.described())]
    Displaced {
        /// Where it was.
        path: PathBuf,
        /// Where the run's data are now.
        now: Displaced,
    },
    /// The run cannot go on where it is.
    #[error("`{}` cannot be written", path.display())]
    NotWritable {
        /// The results file.
        path: PathBuf,
        /// What SQLite said.
        #[source]
        source: SqliteError,
    },
    /// A file that is made from the results could not be written.
    #[error("cannot write `{}`", path.display())]
    Export {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// SQLite reports something else.
    #[error("cannot {doing} `{}`", path.display())]
    Sqlite {
        /// `read`, `write`, …
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        #[source]
        source: SqliteError,
    },
    /// The system reports something else.
    #[error("cannot {doing} `{}`", path.display())]
    Io {
        /// `create`, `open`, …
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A row of CSV could not be made.
    #[error("cannot write CSV")]
    Csv(#[from] csv::Error),
}

/// Where the data of a run are whose results file was taken away while it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Displaced {
    /// In this directory, which was moved or renamed.
    Moved(PathBuf),
    /// The file was deleted, and its data copied to this new directory.
    Saved(PathBuf),
    /// The file was deleted, and its data could be saved nowhere.
    Lost,
}

impl Displaced {
    /// The directory that holds the run now.
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
    /// The same about a run that is stored with so many trials.
    pub(crate) fn keeping(self, trials: usize) -> Self {
        match self {
            Self::DiskFull { path, source, .. } => Self::DiskFull {
                path,
                begun: true,
                kept: trials,
                source,
            },
            error => error,
        }
    }

    /// What to type next; `None` if there is nothing to advise.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::AlreadyExists { dir, found } if found == FILE_NAME => Some(format!(
                "run `regatta resume {}` to go on with it, or choose another directory with `--out`",
                quoted(dir)
            )),
            Self::AlreadyExists { .. } => {
                Some("choose another directory with `--out`, or move that file away".to_owned())
            }
            Self::Missing { runs, .. } if !runs.is_empty() => {
                let newest = runs.last().map_or_else(String::new, |dir| quoted(dir));
                Some(match runs.len() {
                    1 => format!("name the run in it: `{newest}`"),
                    count => format!("name one of the {count} runs in it; the newest is `{newest}`"),
                })
            }
            Self::NotFound { .. } => Some(format!(
                "give the directory that `regatta run` named at its end; without `--out` it is in \
                 `{DEFAULT_DIRECTORY}`, as seen from where the run was started"
            )),
            Self::Missing { .. } => {
                Some("give the directory that `regatta run` named at its end; a run that is still beginning, or that was ended before it had begun, has saved nothing: wait, or start it again".to_owned())
            }
            Self::Empty { .. } => Some("start the study again with `regatta run`".to_owned()),
            Self::NotResults { .. } | Self::OtherKind { .. } => {
                Some("give a directory or a `results.sqlite` made by `regatta run`".to_owned())
            }
            Self::Newer { .. } => Some("use that version, or a later one, to read it".to_owned()),
            Self::Damaged { path, .. } => Some(format!(
                "nothing was changed; copy the file and try `sqlite3 {} .recover`",
                quoted(path)
            )),
            Self::InUse { dir } => Some(format!(
                "wait for it; `regatta report {}` works meanwhile",
                quoted(dir)
            )),
            Self::DiskFull { begun: false, .. } => Some(
                "free some space and run the study again, or choose another directory with `--out`"
                    .to_owned(),
            ),
            Self::DiskFull { path, .. } => Some(format!(
                "free some space, then run `regatta resume {}`",
                quoted(parent(path))
            )),
            Self::Displaced { now, .. } => now
                .directory()
                .map(|dir| format!("run `regatta resume {}` to go on", quoted(dir))),
            Self::NotWritable { path, .. } => {
                let dir = quoted(parent(path));
                Some(format!(
                    "get the right to write to {dir} and the files in it, or resume a copy: \
                     `cp -r {dir} COPY && regatta resume COPY`"
                ))
            }
            Self::Export { path, source } => Some(export_hint(path, source)),
            Self::Locked { path } => Some(format!(
                "end that program, which `fuser {}` names, then try again",
                quoted(path)
            )),
            Self::Io { source, path, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                let path = quoted(path);
                Some(format!(
                    "get the right to read it from its owner, whom `ls -ld {path}` names"
                ))
            }
            Self::Io { source, path, .. } if source.raw_os_error() == Some(Errno::ELOOP as i32) => {
                let path = quoted(path);
                Some(format!(
                    "name the directory itself; `ls -l {path}` shows where the link leads"
                ))
            }
            // Only a copy of the file takes room for reading it.
            Self::Io { source, .. } if is_full(source) => Some(
                "free some space in the directory for temporary files, or set `TMPDIR` to another"
                    .to_owned(),
            ),
            Self::DuplicateTrial { .. }
            | Self::UnusableTrial { .. }
            | Self::Sqlite { .. }
            | Self::Io { .. }
            | Self::Csv(_) => None,
        }
    }
}

/// What to do about a file made from the results that could not be written.
#[must_use]
pub fn export_hint(path: &Path, source: &io::Error) -> String {
    let dir = quoted(parent(path));
    if is_full(source) {
        format!("free some space, then run `regatta report {dir}`")
    } else {
        format!("make sure that {dir} can be written, then run `regatta report {dir}`")
    }
}

/// Whether the system says that there is no room.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// The directory of a file.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}

fn safe(begun: bool, kept: usize) -> String {
    match kept {
        _ if !begun => "nothing was saved".to_owned(),
        1 => "1 trial is safe in it".to_owned(),
        kept => format!("{kept} trials are safe in it"),
    }
}
