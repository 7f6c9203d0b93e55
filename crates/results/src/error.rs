//! What can go wrong with a results file.

use std::{io, path::PathBuf};

use crate::schema;

/// What can go wrong with a results file. [`ResultsError::hint`] says what to type next.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// The directory for a new run already holds something of one.
    #[error("`{}` already holds a run (`{found}`)", dir.display())]
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
    #[error("no space is left on the device that holds `{}`; {kept} trials are safe in it", path.display())]
    DiskFull {
        /// The file that could not grow.
        path: PathBuf,
        /// Number of trials that were stored before.
        kept: usize,
        /// What the system said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
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
        source: rusqlite::Error,
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

impl ResultsError {
    /// What to type next; `None` if there is nothing to advise.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::AlreadyExists { dir, .. } => Some(format!(
                "run `regatta resume {}` to go on with it, or choose another directory with `--out`",
                dir.display()
            )),
            Self::Missing { .. } => {
                Some("give the directory that `regatta run` named at its end".to_owned())
            }
            Self::Empty { .. } => Some("start the study again with `regatta run`".to_owned()),
            Self::NotResults { .. } => {
                Some("give a directory or a `results.sqlite` made by `regatta run`".to_owned())
            }
            Self::Newer { .. } => Some("use that version, or a later one, to read it".to_owned()),
            Self::Damaged { path, .. } => Some(format!(
                "nothing was changed; copy the file and try `sqlite3 {} .recover`",
                path.display()
            )),
            Self::InUse { dir } => Some(format!(
                "wait for it; `regatta report {}` works meanwhile",
                dir.display()
            )),
            Self::DiskFull { path, .. } => {
                let dir = path.parent().unwrap_or(path);
                Some(format!(
                    "free some space, then run `regatta resume {}`",
                    dir.display()
                ))
            }
            Self::DuplicateTrial { .. }
            | Self::UnusableTrial { .. }
            | Self::Sqlite { .. }
            | Self::Io { .. }
            | Self::Csv(_) => None,
        }
    }
}
