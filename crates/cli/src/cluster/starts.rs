//! Progress of the shards of a submission, from the files that they write.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use regatta_results::FILE_NAME;

use crate::listen::{PROGRESS_FILE_NAME, ShardProgress};

/// Time without a change after which a shard that nobody else knows of counts as stopped, in seconds.
const SILENT_S: u64 = 900;

/// Start of a shard.
#[derive(Debug, Clone)]
pub struct Start {
    /// Progress, if it has begun.
    pub progress: Option<ShardProgress>,
    /// Exit status, if it has ended and could write it.
    pub exit_status: Option<i32>,
    /// Whether it ended on a full disk, on which it could not write its exit status.
    pub disk_was_full: bool,
    /// Whether it has left a results file.
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
        }
    }

    /// Whether it has run all trials of its shard that were left.
    pub fn is_complete(&self) -> bool {
        let complete = |it: &ShardProgress| it.state == "complete" && it.done >= it.trials;
        self.progress.as_ref().is_some_and(complete)
            // Without trials of its own it leaves no file.
            || (self.exit_status == Some(0) && !self.has_results)
    }

    /// Whether it seems to run, by its files alone.
    pub fn seems_to_run(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |since| since.as_secs());
        self.exit_status.is_none()
            && !self.disk_was_full
            && self
                .progress
                .as_ref()
                .is_some_and(|it| it.state == "running" && it.updated_unix_s + SILENT_S > now)
    }
}

/// Returns the starts of every shard, by its number, the first start first.
pub fn read(dir: &Path) -> BTreeMap<u32, Vec<Start>> {
    let mut numbered = BTreeMap::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let numbers = name.to_str().and_then(|name| name.split_once('.'));
        let numbers = numbers.and_then(|(shard, start)| {
            Some((shard.parse::<u32>().ok()?, start.parse::<u32>().ok()?))
        });
        if let Some(numbers) = numbers {
            numbered.insert(numbers, Start::read(&entry.path()));
        }
    }
    let mut starts: BTreeMap<u32, Vec<Start>> = BTreeMap::new();
    for ((shard, _), start) in numbered {
        starts.entry(shard).or_default().push(start);
    }
    starts
}
