//! Summary of a path as JSON.

use std::{fs, path::Path};

use regatta_bed::{Bed, Host, LinkCounters, PathCounters, TestBed as _};
use regatta_engine::unix_ns;
use regatta_model::{Condition, Link};
use serde_json::{Map, Value, json};

use crate::exit::{OrFailure as _, Result};

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

/// Writes a value to a file.
///
/// # Errors
/// The file cannot be written.
pub fn write(file: &Path, value: &Value) -> Result<()> {
    fs::write(file, format!("{value:#}\n")).cannot("write", file)
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
