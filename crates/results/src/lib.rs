//! The results file of a run, `results.sqlite`, and its exports to CSV.
//!
//! [`Store`] writes a run, trial by trial, each in a transaction of its own; [`Reader`] reads one,
//! also while it is being written, on a read-only medium, and after a crash; [`exports`] makes the
//! CSV files beside a report, [`tables`] exports all tables as Parquet or CSV. The tables are described in [`schema`] and in `docs/results-file.md`.
//!
//! The file is kept in SQLite's write-ahead-log mode while a run goes on, with every commit
//! flushed to the disk: a power cut loses at most the trial under way, and a reader never makes the
//! run wait. When the run's [`Store`] is closed, the log is folded in and the file becomes a plain
//! single one, which can be read on any medium; if a reader is at the file just then, [`checkpoint`]
//! does it later.

mod busy;
mod cell;
mod checksum;
mod commits;
mod digest;
mod error;
mod explain;
pub mod exports;
mod host_samples;
pub mod hosts_csv;
mod insert;
pub mod merge;
mod moved_file;
mod open;
mod query;
mod reader;
mod replace;
mod run_file;
pub mod schema;
mod store;
mod stored;
pub mod tables;
mod write_row;

use regatta_model::Text;

pub use busy::{LOCK_LIMIT, on_locked};
pub use cell::cell;
pub use error::{Displaced, ResultsError, SqliteError, export_hint};
pub use open::has_log;
pub use reader::Reader;
pub use replace::{check_replaceable, replace, replace_private, replace_unflushed};
pub use run_file::RunFile;
pub use store::{
    RunLock, Store, checkpoint, is_being_written, is_locked, leftover, open_directory, state_now,
};

/// Name of the results file in a result directory.
pub const FILE_NAME: &str = "results.sqlite";

/// Directory in which runs leave their results, each in one of its own, unless another is asked for.
pub const DEFAULT_DIRECTORY: &str = "regatta-results";

/// State of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunState {
    /// Under way; or its process was killed, if none is running it.
    Running,
    /// Complete: every trial of the plan was run.
    Complete,
    /// Ended in good order before the end of its plan; measured trials are kept.
    Interrupted {
        /// Reason, one sentence without a full stop.
        reason: Text,
    },
}

impl RunState {
    /// Returns the name in the file.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Complete => "complete",
            Self::Interrupted { .. } => "interrupted",
        }
    }
}
