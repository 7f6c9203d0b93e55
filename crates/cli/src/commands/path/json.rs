//! Summary of a path as JSON.

use std::{
    convert::identity, fs::File, io::Write as _, os::unix::fs::OpenOptionsExt as _, path::Path,
};

use nix::fcntl::OFlag;
use regatta_bed::{Bed, Host, LinkCounters, PathCounters, TestBed as _};
use regatta_engine::unix_ns;
use regatta_model::{Condition, Link};
use regatta_results::{check_replaceable, replace};
use serde_json::{Map, Value, json};

use crate::exit::{OrFailure as _, Result, refuse};

/// Path whose command has ended.
pub struct PathSummary<'a> {
    pub condition: &'a Condition,
    pub bed: &'a Bed,
    pub seed: u64,
    /// Time at which the path was ready.
    pub started_unix_ns: i64,
    /// Exit code of the command.
    pub exit_code: u8,
}

impl PathSummary<'_> {
    /// Returns the summary, as `schemas/path.schema.json` describes it. Without an emulator there are no `counters`.
    ///
    /// # Errors
    /// Counters that have no form in JSON.
    pub fn value(&self, counters: Option<&PathCounters>) -> Result<Value> {
        let condition = self.condition;
        let link_summary = |counters: Option<&LinkCounters>, link: &Link| -> Result<Value> {
            let mut known = counters.map(known).transpose()?.unwrap_or_default();
            if link.has_bottleneck() {
                let limit = condition.queue_limit(link).0;
                known.insert("queue_limit_bytes".to_owned(), limit.into());
            }
            Ok(known.into())
        };
        Ok(json!({
            "condition": condition,
            "bed": self.bed.description().to_string(),
            "seed": self.seed,
            "client": self.bed.address(Host::Client),
            "server": self.bed.address(Host::Server),
            "started_unix_ns": self.started_unix_ns,
            "ended_unix_ns": unix_ns(),
            "exit_code": self.exit_code,
            "forward": link_summary(counters.map(|it| &it.forward), &condition.forward)?,
            "reverse": link_summary(counters.map(|it| &it.reverse), &condition.reverse)?,
        }))
    }
}

/// Returns the counters of one direction without those that the emulator cannot provide.
fn known(counters: &LinkCounters) -> Result<Map<String, Value>> {
    let Value::Object(mut known) = serde_json::to_value(counters)? else {
        return Ok(Map::new());
    };
    let Some(Value::Object(unsupported)) = known.remove("unsupported") else {
        return Ok(known);
    };
    known.retain(|name, _| {
        let counter = match &**name {
            "late_packets" | "lateness_mean_ns" | "lateness_max_ns" => "lateness",
            name => name,
        };
        unsupported.get(counter) != Some(&Value::Bool(true))
    });
    Ok(known)
}

/// Hint about a place that cannot be written.
const NAME_A_FILE: &str = "name a file that may be written, or a pipe that a process reads";

/// Place of the summary.
pub struct SummaryFile<'a> {
    path: &'a Path,
    /// Pipe or device, which is written to and not replaced.
    stream: Option<File>,
}

impl<'a> SummaryFile<'a> {
    /// Examines the place before the path is made. A pipe or a device is opened without waiting for its other end.
    ///
    /// # Errors
    /// A pipe that no process reads; a path that cannot name a file; a link to a file, or a directory that may not be written.
    pub fn new(path: &'a Path) -> Result<Self> {
        let shown = path.display();
        let parent = path.parent().filter(|it| !it.as_os_str().is_empty());
        refuse! {
            path.is_dir() => "cannot write `{shown}`: it is a directory";
                "name a file";
            !parent.is_none_or(Path::is_dir) => "cannot write `{shown}`: there is no such directory";
                "name a file in a directory that exists";
        }
        let is_stream = path.metadata().is_ok_and(|it| !it.is_file());
        let open = || {
            let mut options = File::options();
            let flags = OFlag::O_NONBLOCK.bits();
            let stream = options.write(true).custom_flags(flags).open(path);
            (stream.bad())
                .cannot("write", path)
                .hint("name a file, or a pipe that a process reads")
        };
        let stream = is_stream.then(open).transpose()?;
        if stream.is_none() {
            let checked = check_replaceable(path).bad();
            checked.cannot("write", path).hint(NAME_A_FILE)?;
        }
        Ok(Self { path, stream })
    }

    /// Writes a value.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(self, value: &Value) -> Result<()> {
        let text = format!("{value:#}\n");
        let written = match self.stream {
            Some(mut stream) => stream.write_all(text.as_bytes()),
            None => replace(self.path, identity, |out| out.write_all(text.as_bytes())),
        };
        written.cannot("write", self.path).hint(NAME_A_FILE)
    }
}

#[cfg(test)]
mod tests {
    use regatta_bed::UnsupportedCounters;

    use super::*;

    #[test]
    fn unsupported_counters_are_absent_and_not_zero() {
        let counters = LinkCounters {
            offered: 10,
            unsupported: UnsupportedCounters {
                queue_max_bytes: true,
                lateness: true,
                ..UnsupportedCounters::default()
            },
            ..LinkCounters::default()
        };
        let known = known(&counters).expect("counters");
        assert_eq!(known["offered"], 10);
        assert_eq!(known["loss_drops"], 0);
        for absent in [
            "queue_max_bytes",
            "late_packets",
            "lateness_max_ns",
            "unsupported",
        ] {
            assert!(!known.contains_key(absent), "{absent}");
        }
    }
}
