//! Progress of the shards of a submission, from the files that they write.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use regatta_results::{FILE_NAME, Reader, ResultsError, is_being_written};

use crate::{
    listen::{PROGRESS_FILE_NAME, ShardProgress, unix_s},
    provenance::node,
};

/// Time without a change after which a shard that nobody else knows of counts as stopped, in seconds.
const SILENT_S: u64 = 900;

/// Start of a shard.
#[derive(Debug, Clone)]
pub struct Start {
    /// Directory of the start.
    pub dir: PathBuf,
    /// Progress, if it has begun.
    pub progress: Option<ShardProgress>,
    /// Exit status, if it has ended and could write it.
    pub exit_status: Option<i32>,
    /// Whether the disk was full at the end of the start: its exit status is an empty file.
    pub disk_was_full: bool,
    /// Whether the start has left a results file.
    pub has_results: bool,
}

impl Start {
    fn read(dir: &Path) -> Self {
        let progress = fs::read_to_string(dir.join(PROGRESS_FILE_NAME)).ok();
        let exit_status = fs::read_to_string(dir.join("exit-status")).ok();
        Self {
            disk_was_full: exit_status.as_ref().is_some_and(String::is_empty),
            progress: progress.and_then(|text| serde_json::from_str(&text).ok()),
            exit_status: exit_status.and_then(|text| text.trim().parse().ok()),
            has_results: dir.join(FILE_NAME).exists(),
            dir: dir.to_owned(),
        }
    }

    /// Whether the start has run all remaining trials of its shard.
    pub fn is_complete(&self) -> bool {
        let complete = |it: &ShardProgress| it.state == "complete" && it.done >= it.trials;
        self.progress.as_ref().is_some_and(complete)
            // Without trials of its own it leaves no file.
            || (self.exit_status == Some(0) && !self.has_results)
    }

    /// Whether the start seems to be running, judged by its files alone.
    pub fn seems_to_run(&self) -> bool {
        let Some(progress) = &self.progress else {
            return false;
        };
        progress.state == "running"
            && self.exit_status.is_none()
            && !self.disk_was_full
            && match is_being_written(&self.dir) {
                Some(is_written) if self.is_of_this_machine() => is_written,
                _ => progress.updated_unix_s + SILENT_S > unix_s(),
            }
    }

    /// Checks that its results have all that it has committed, if it has certainly ended.
    ///
    /// # Errors
    /// As [`Reader::check_commits`].
    pub fn check_results(&self) -> Result<(), ResultsError> {
        let has_ended = (self.exit_status.is_some() || self.is_of_this_machine())
            && is_being_written(&self.dir) == Some(false);
        match has_ended {
            true => Reader::check_commits(&self.dir),
            false => Ok(()),
        }
    }

    /// Whether the start ran on this machine, by the name of the node.
    pub fn is_of_this_machine(&self) -> bool {
        (self.progress.as_ref()).is_some_and(|it| !it.node.is_empty() && it.node == node())
    }

    /// Returns the number of the shard, and a number by which the starts of a shard are ordered. `None` if neither the
    /// name of the directory nor a progress file tells.
    fn numbers(&self) -> Option<(u32, u64)> {
        let name = self.dir.file_name()?.to_str()?;
        let numbers = name.split_once('.').and_then(|(shard, start)| {
            Some((shard.parse::<u32>().ok()?, start.parse::<u64>().ok()?))
        });
        let progress_key = |it: &ShardProgress| (it.shard.number, it.started_unix_s);
        numbers.or_else(|| self.progress.as_ref().map(progress_key))
    }
}

/// Returns all starts of shards in a directory: directories that are called `SHARD.START`, and those that hold the
/// progress of a shard.
pub fn read(dir: &Path) -> Vec<Start> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let dirs = entries.map(|entry| entry.path());
    let starts = dirs.map(|dir| Start::read(&dir));
    starts.filter(|start| start.numbers().is_some()).collect()
}

/// Returns the starts of every shard, by its number, the first start first.
pub fn by_shard(mut starts: Vec<Start>) -> BTreeMap<u32, Vec<Start>> {
    starts.sort_by(|a, b| (a.numbers(), &a.dir).cmp(&(b.numbers(), &b.dir)));
    let mut shards: BTreeMap<u32, Vec<Start>> = BTreeMap::new();
    for start in starts {
        let number = start.numbers().map_or(0, |(shard, _)| shard);
        shards.entry(number).or_default().push(start);
    }
    shards
}
