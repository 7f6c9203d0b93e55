//! Report of the bench: JSON and tables.

use std::fmt::Write;

use serde::Serialize;

use crate::{
    emulator::Emulation,
    error::BenchError,
    rounds::{Comparison, Figures, Gate, Spread},
    small_trials::SmallTrial,
};

/// Shares of datagrams lost, by Regatta's driver and by the reference.
#[derive(Debug, Serialize)]
struct Lost {
    ours: Option<Spread>,
    theirs: Option<Spread>,
}

/// Part of the bench that has no figures, because a program failed. Its gates count as missed.
#[derive(Debug, Serialize)]
struct Failure {
    name: String,
    /// The error, its causes, and a command that helps if one is known, each in a line.
    reason: String,
}

/// Results of one bench run.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    schema_version: u32,
    regatta_version: &'static str,
    /// Number of rounds.
    pub rounds: u32,
    quick: bool,
    /// Versions of the reference programs.
    pub references: Vec<String>,
    /// Comparisons, in the order of their rows.
    pub comparisons: Vec<Comparison>,
    failures: Vec<Failure>,
    /// Comparisons that are worse than in earlier benches, with the bounds that these set.
    pub drifted: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    datagrams_lost_ratio: Option<Lost>,
    /// Times of the transports' small trials.
    pub small_trials: Vec<SmallTrial>,
    /// Figures of the emulator.
    pub emulation: Vec<Emulation>,
    /// Warnings for the reader of the report.
    pub warnings: Vec<String>,
}

impl Report {
    /// Creates an empty report.
    pub fn new(rounds: u32, quick: bool) -> Self {
        Self {
            schema_version: 1,
            regatta_version: env!("CARGO_PKG_VERSION"),
            rounds,
            quick,
            ..Self::default()
        }
    }

    /// Adds a part that failed, and prints it on standard error at once.
    pub fn failed(&mut self, name: &str, error: &BenchError) {
        let (name, reason) = (name.to_owned(), error.in_full());
        eprintln!("error: {name} failed: {reason}");
        self.failures.push(Failure { name, reason });
    }

    /// Adds the datagrams lost in a comparison.
    pub fn lost(&mut self, pairs: &[(Figures, Figures)]) {
        self.datagrams_lost_ratio = Some(Lost {
            ours: Spread::of(pairs.iter().filter_map(|(ours, _)| ours.lost_ratio)),
            theirs: Spread::of(pairs.iter().filter_map(|(_, theirs)| theirs.lost_ratio)),
        });
    }

    /// Names of the comparisons and small trials that missed their gates, and of the parts that failed.
    fn missed(&self) -> Vec<String> {
        let missed = self.comparisons.iter().filter(|one| !one.passed);
        let slow = self.small_trials.iter().filter(|one| !one.passed);
        let failed = self.failures.iter().map(|failure| failure.name.clone());
        (missed.map(|one| one.name.clone()))
            .chain(slow.map(SmallTrial::name))
            .chain(failed)
            .chain(self.drifted.iter().cloned())
            .collect()
    }

    /// Whether every gate is passed.
    pub fn passed(&self) -> bool {
        self.missed().is_empty()
    }

    /// Returns the report as tables.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        writeln!(
            out,
            "Medians of {} rounds, [least to largest]; ratios are ours over theirs, paired by round; \
             95 %: where the median of many rounds lies.",
            self.rounds
        )?;
        for reference in &self.references {
            writeln!(out, "Compared with {reference}.")?;
        }
        if !self.comparisons.is_empty() || !self.failures.is_empty() {
            writeln!(
                out,
                "\n{:<44} {:>12} {:>12} {:>22}   gate",
                "", "ours", "theirs", "ratio"
            )?;
        }
        for comparison in &self.comparisons {
            let Spread {
                median, min, max, ..
            } = comparison.ratio;
            writeln!(
                out,
                "{:<44} {:>12} {:>12} {:>22}   {}",
                comparison.name,
                scaled(comparison.ours.median, comparison.unit),
                scaled(comparison.theirs.median, comparison.unit),
                format!("{median:.3} [{min:.3} to {max:.3}]"),
                verdict(comparison)
            )?;
        }
        for Failure { name, reason } in &self.failures {
            writeln!(out, "{name:<44} FAILED: {reason}")?;
        }
        if let Some(lost) = &self.datagrams_lost_ratio {
            let percent = |spread: Option<Spread>| match spread {
                Some(spread) => format!("{:.2} %", spread.median * 100.0),
                None => "unknown".to_owned(),
            };
            let (ours, theirs) = (percent(lost.ours), percent(lost.theirs));
            writeln!(out, "Datagrams lost: ours {ours}, theirs {theirs}.")?;
        }
        self.write_small_trials(out)?;
        if !self.emulation.is_empty() {
            writeln!(
                out,
                "\n{:<44} {:>22} {:>28}",
                "emulator", "packets per second", "CPU for each packet"
            )?;
        }
        for emulation in &self.emulation {
            let Spread {
                median, min, max, ..
            } = emulation.packet_ns;
            writeln!(
                out,
                "{:<44} {:>22} {:>28}",
                emulation.link,
                format!("{:.2} million", emulation.packets_per_second.median / 1e6),
                format!("{median:.0} ns [{min:.0} to {max:.0}]")
            )?;
        }
        for warning in &self.warnings {
            writeln!(out, "\nwarning: {warning}")?;
        }
        let missed = self.missed();
        if missed.is_empty() {
            writeln!(out, "\nEvery gate was passed.")
        } else {
            writeln!(out, "\nGates missed: {}.", missed.join("; "))
        }
    }
}

impl Report {
    fn write_small_trials(&self, out: &mut String) -> std::fmt::Result {
        if let Some(first) = self.small_trials.first() {
            let title = format!("beside the work of a trial, of {} each", first.trials);
            writeln!(
                out,
                "\n{title:<44} {:>26} {:>12}   gate",
                "time", "round trips"
            )?;
        }
        for trial in &self.small_trials {
            let Spread {
                median, min, max, ..
            } = trial.beside_ms;
            let gate = format!(
                "at most {:.0} ms: {}",
                trial.at_most_ms,
                passed(trial.passed)
            );
            writeln!(
                out,
                "{:<44} {:>26} {:>12.1}   {gate}",
                trial.name(),
                format!("{median:.1} ms [{min:.1} to {max:.1}]"),
                trial.round_trips(),
            )?;
        }
        Ok(())
    }
}

/// Formats a value with its unit; rates below 100 Mbit/s in Mbit/s.
pub fn scaled(value: f64, unit: &str) -> String {
    match unit {
        "bit/s" if value < 1e8 => format!("{:.2} Mbit/s", value / 1e6),
        "bit/s" => format!("{:.2} Gbit/s", value / 1e9),
        unit => format!("{value:.3} {unit}"),
    }
}

fn verdict(comparison: &Comparison) -> String {
    let Some(gate) = comparison.gate else {
        return "none".to_owned();
    };
    let passed = passed(comparison.passed);
    let interval = comparison
        .ratio
        .median_interval
        .map_or_else(String::new, |[from, to]| {
            format!(" (95 %: {from:.2} to {to:.2})")
        });
    match gate {
        Gate::AtLeast(bound) => format!("at least {bound:.2}: {passed}{interval}"),
        Gate::AtMost(bound) => format!("at most {bound:.2}: {passed}{interval}"),
    }
}

fn passed(passed: bool) -> &'static str {
    if passed { "passed" } else { "MISSED" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_gate_is_reported_by_name() {
        let run = |bytes: f64| Figures {
            delivered_bytes: bytes,
            seconds: 1.0,
            cpu_seconds: 1.0,
            lost_ratio: None,
        };
        let mut report = Report::new(1, true);
        assert!(report.passed());
        report.comparisons.extend(Comparison::new(
            "ours / theirs",
            "bit/s",
            &[(run(1e9), run(2e9))],
            Figures::goodput_bps,
            Some(Gate::AtLeast(1.0)),
        ));
        assert!(!report.passed());
        let text = report.text();
        assert!(text.contains("8.00 Gbit/s 16.00 Gbit/s"), "{text}");
        assert!(
            text.contains("0.500 [0.500 to 0.500]   at least 1.00: MISSED"),
            "{text}"
        );
        assert!(text.ends_with("Gates missed: ours / theirs.\n"), "{text}");
    }

    #[test]
    fn a_part_that_failed_is_a_row_and_misses_its_gate() {
        let mut report = Report::new(1, true);
        report.failed("ours / theirs", &BenchError::reference("too many gaps"));
        assert!(!report.passed());
        let text = report.text();
        let row = "FAILED: the reference program failed\n  caused by: too many gaps\n";
        assert!(text.contains(row), "{text}");
        assert!(text.ends_with("Gates missed: ours / theirs.\n"), "{text}");
    }
}
