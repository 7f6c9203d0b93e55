//! Ratios of earlier benches by commit, in a CSV file: by them a slow drift is seen, and the table of the README is made.

use std::{
    fmt::Write as _,
    fs::{self, OpenOptions},
    io,
    path::Path,
    process::Command,
};

use serde::{Deserialize, Serialize};

use crate::{
    error::BenchError,
    report::Report,
    rounds::{Comparison, Gate, Spread},
};

/// Most recorded benches with whose median ratio a new one is compared, and the least number of them that makes a bound.
const COMPARED: usize = 5;
const ENOUGH: usize = 3;

/// Part of the median recorded ratio by which a new one may be worse.
const DRIFT: f64 = 0.08;

/// Lines around the table of the README.
const BEGIN: &str = "<!-- generated: bench -->";
const END: &str = "<!-- end -->";

/// Ratio of one comparison in one bench.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Day, in UTC.
    date: String,
    commit: String,
    processor: String,
    processors: usize,
    rounds: u32,
    /// Versions of the reference programs.
    references: String,
    /// Name of the comparison.
    name: String,
    /// Unit of `ours` and `theirs`, which are medians.
    unit: String,
    ours: f64,
    theirs: f64,
    /// Median, least and largest ratio of a round.
    ratio: f64,
    ratio_min: f64,
    ratio_max: f64,
}

/// Recorded ratios, the oldest first.
#[derive(Debug, Default)]
pub struct History(Vec<Entry>);

impl History {
    /// Reads a file; one that does not exist yet has no ratios.
    ///
    /// # Errors
    /// [`BenchError::History`] for a file that cannot be read.
    pub fn read(path: &Path) -> Result<Self, BenchError> {
        if !path.exists() {
            return Ok(Self::default());
        }
        let entries =
            csv::Reader::from_path(path).and_then(|mut reader| reader.deserialize().collect());
        entries.map(Self).map_err(|source| BenchError::History {
            path: path.to_owned(),
            source,
        })
    }

    /// Adds the ratios of a bench, also to the file.
    ///
    /// # Errors
    /// [`BenchError::History`] for a file that cannot be written.
    pub fn record(&mut self, path: &Path, report: &Report) -> Result<(), BenchError> {
        let failed = |source: csv::Error| BenchError::History {
            path: path.to_owned(),
            source,
        };
        let first = Entry {
            date: said(Command::new("date").args(["--utc", "+%F"])),
            commit: said(Command::new("git").args([
                "describe",
                "--always",
                "--dirty",
                "--abbrev=8",
            ])),
            processor: processor(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            rounds: report.rounds,
            references: report.references.join("; "),
            name: String::new(),
            unit: String::new(),
            ours: 0.0,
            theirs: 0.0,
            ratio: 0.0,
            ratio_min: 0.0,
            ratio_max: 0.0,
        };
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = file.map_err(|error| failed(error.into()))?;
        let mut writer = csv::WriterBuilder::new()
            .has_headers(self.0.is_empty())
            .from_writer(file);
        for compared in &report.comparisons {
            let entry = Entry {
                name: compared.name.clone(),
                unit: compared.unit.to_owned(),
                ours: digits(compared.ours.median),
                theirs: digits(compared.theirs.median),
                ratio: digits(compared.ratio.median),
                ratio_min: digits(compared.ratio.min),
                ratio_max: digits(compared.ratio.max),
                ..first.clone()
            };
            writer.serialize(&entry).map_err(failed)?;
            self.0.push(entry);
        }
        writer.flush().map_err(|error| failed(error.into()))
    }

    /// Returns the bound that earlier benches on this kind of processor set on the median ratio of a comparison: that it is
    /// not worse than theirs by more than [`DRIFT`]. A ratio of times is better where it is lower.
    fn bound(&self, compared: &Comparison, processor: &str) -> Option<Gate> {
        let of_it = |entry: &&Entry| entry.name == compared.name && entry.processor == processor;
        let latest = self.0.iter().rev().filter(of_it).take(COMPARED);
        let ratios: Vec<f64> = latest.map(|entry| entry.ratio).collect();
        if ratios.len() < ENOUGH {
            return None;
        }
        let median = Spread::of(ratios)?.median;
        Some(match compared.unit {
            "bit/s" => Gate::AtLeast(median * (1.0 - DRIFT)),
            _ => Gate::AtMost(median * (1.0 + DRIFT)),
        })
    }

    /// Returns the names of the comparisons that are worse than earlier benches on this kind of processor, each with the
    /// bound that it misses.
    pub fn drifted(&self, comparisons: &[Comparison]) -> Vec<String> {
        let processor = processor();
        let missed = |compared: &Comparison| {
            let bound = self.bound(compared, &processor)?;
            let median = compared.ratio.median;
            (!bound.passes(median)).then(|| {
                let (Gate::AtLeast(bound) | Gate::AtMost(bound)) = bound;
                let name = &compared.name;
                format!("{name} ({median:.2}; {bound:.2} by the benches before)")
            })
        };
        comparisons.iter().filter_map(missed).collect()
    }

    /// Returns the table of the latest bench, in Markdown.
    fn table(&self) -> String {
        let mut text = String::new();
        let Some(last) = self.0.last() else {
            return text;
        };
        let is_last = |entry: &&Entry| entry.commit == last.commit && entry.date == last.date;
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "Commit `{}` on {}, {} × {}, beside {}: medians of {} rounds, ratios of ours to theirs by round, \
             [least, largest].\n\n| compared on loopback | ours | theirs | ratio |\n|---|---|---|---|",
            last.commit, last.date, last.processors, last.processor, last.references, last.rounds
        );
        for entry in self.0.iter().filter(is_last) {
            let value = |value: f64| crate::report::scaled(value, &entry.unit);
            let _ = writeln!(
                text,
                "| {} | {} | {} | {:.2} [{:.2}, {:.2}] |",
                entry.name,
                value(entry.ours),
                value(entry.theirs),
                entry.ratio,
                entry.ratio_min,
                entry.ratio_max
            );
        }
        text
    }

    /// Returns a page with the table of the latest bench between its lines for it.
    fn in_page(&self, page: &str) -> Option<String> {
        let (before, rest) = page.split_once(BEGIN)?;
        let (_, after) = rest.split_once(END)?;
        Some(format!("{before}{BEGIN}\n{}{END}{after}", self.table()))
    }

    /// Writes the table of the latest bench into a page.
    ///
    /// # Errors
    /// An error of the system, or [`io::ErrorKind::InvalidData`] for a page without lines for the table.
    pub fn write_table(&self, path: &Path) -> io::Result<()> {
        let page = self.in_page(&fs::read_to_string(path)?);
        let no_place = || {
            let message = format!("`{}` has no lines `{BEGIN}` and `{END}`", path.display());
            io::Error::new(io::ErrorKind::InvalidData, message)
        };
        fs::write(path, page.ok_or_else(no_place)?)
    }
}

/// Rounds to four significant digits.
fn digits(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

/// Returns what a program says in one line, `unknown` if it fails.
fn said(command: &mut Command) -> String {
    let output = command
        .output()
        .ok()
        .filter(|output| output.status.success());
    let text = output.and_then(|output| String::from_utf8(output.stdout).ok());
    text.map_or_else(|| "unknown".to_owned(), |text| text.trim().to_owned())
}

/// Returns the name of this machine's processor.
fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut names = text.lines().filter(|line| line.starts_with("model name"));
    let name = names.next().and_then(|line| line.split_once(": "));
    name.map_or_else(|| "unknown".to_owned(), |(_, name)| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, processor: &str, ratio: f64) -> Entry {
        Entry {
            date: "2026-12-01".to_owned(),
            commit: "abc".to_owned(),
            processor: processor.to_owned(),
            processors: 2,
            rounds: 5,
            references: "iperf 3".to_owned(),
            name: name.to_owned(),
            unit: "bit/s".to_owned(),
            ours: 2e9,
            theirs: 1e9,
            ratio,
            ratio_min: ratio,
            ratio_max: ratio,
        }
    }

    fn compared(unit: &'static str, ratio: f64) -> Comparison {
        let of = |value| Spread::of([value]).expect("a value");
        Comparison {
            name: "tcp".to_owned(),
            unit,
            ours: of(ratio),
            theirs: of(1.0),
            ratio: of(ratio),
            gate: None,
            passed: true,
        }
    }

    #[test]
    fn the_bound_is_of_the_latest_benches_on_the_same_processor() {
        let old = [0.5, 0.5, 0.5].map(|ratio| entry("tcp", "a", ratio));
        let new = [1.0, 1.0, 0.9, 1.1, 1.0].map(|ratio| entry("tcp", "a", ratio));
        let other = [entry("tcp", "b", 0.1), entry("udp", "a", 0.1)];
        let history = History([&old[..], &new, &other].concat());
        let of = |unit, processor| history.bound(&compared(unit, 1.0), processor);
        assert_eq!(of("bit/s", "a"), Some(Gate::AtLeast(0.92)));
        assert_eq!(of("s/GiB", "a"), Some(Gate::AtMost(1.08)));
        assert_eq!(of("bit/s", "b"), None);
    }

    #[test]
    fn a_worse_ratio_is_named_with_its_bound() {
        let history = History(vec![entry("tcp", &processor(), 1.0); 3]);
        let drifted = |ratio| history.drifted(&[compared("bit/s", ratio)]);
        assert_eq!(drifted(0.93), [""; 0]);
        assert_eq!(drifted(0.9), ["tcp (0.90; 0.92 by the benches before)"]);
    }

    #[test]
    fn what_is_recorded_is_read_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("history.csv");
        let mut report = Report::new(5, false);
        report.comparisons.push(compared("bit/s", 1.23456));
        for count in 1..=2 {
            let mut history = History::read(&path).expect("a history");
            history.record(&path, &report).expect("recorded");
            let again = History::read(&path).expect("a history");
            assert_eq!(again.0, history.0);
            assert_eq!((again.0.len(), again.0[0].ratio), (count, 1.235));
        }
    }

    #[test]
    fn the_readme_has_the_latest_bench() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let history = History::read(&root.join("bench/history.csv")).expect("a history");
        let page = fs::read_to_string(root.join("README.md")).expect("a page");
        assert_eq!(history.in_page(&page), Some(page.clone()));
    }
}
