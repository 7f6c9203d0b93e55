//! Trials and workloads for the unit tests of the analysis.

use std::collections::BTreeMap;

use regatta_model::{
    BulkOptions, Bytes, Measurements, Name, Outcome, Pattern, Probe, RunHeader, RunPart, Spread,
    Study, Text, TrialRecord, Warning, Workload, WorkloadKind, metric::id, warning_code,
};
use regatta_results::RunState;

use crate::RunData;

/// Returns a complete run of a study, given in TOML. `trial` makes the trial of a transport, condition and workload in a
/// round, but for these names.
pub fn run(study: &str, trial: impl Fn([&str; 3], u32) -> TrialRecord) -> RunData {
    let study = Study::parse(study, "study.toml").unwrap_or_else(|error| panic!("{error}"));
    let mut trials = Vec::new();
    for round in 0..study.rounds {
        for workload in &study.workloads {
            for condition in &study.conditions {
                for transport in &study.transports {
                    let cell = [&*transport.label, &*condition.name, &*workload.name];
                    let [transport, condition, workload] = cell.map(Name::from);
                    trials.push(TrialRecord {
                        transport,
                        condition,
                        workload,
                        ..trial(cell, round)
                    });
                }
            }
        }
    }
    RunData {
        header: RunHeader {
            run_id: String::new(),
            regatta_version: String::new(),
            started_unix_ns: 0,
            study,
            study_text: String::new(),
            bed: Text::default(),
            hosts: BTreeMap::new(),
            part: RunPart::default(),
        },
        trials,
        repeated: Vec::new(),
        path_checks: Vec::new(),
        warnings: Vec::new(),
        hosts: Vec::new(),
        nodes: BTreeMap::new(),
        state: RunState::Complete,
    }
}

/// Returns a study of these transports and conditions with one bulk transfer, in TOML; `keys` are the keys of the study itself.
pub fn study(keys: &str, transports: &[&str], conditions: &[&str]) -> String {
    let transports = transports.iter();
    let transports =
        transports.map(|it| format!("[[transport]]\nlabel = '{it}'\ndriver = 'tcp'\n"));
    let conditions = conditions.iter();
    let conditions = conditions.map(|it| format!("[[condition]]\nname = '{it}'\n"));
    format!(
        "{keys}\n[[workload]]\nkind = 'bulk'\nname = 'work'\n{}{}",
        transports.collect::<String>(),
        conditions.collect::<String>()
    )
}

/// Returns a measured trial with this goodput, in bits per second.
pub fn goodput(round: u32, value: f64) -> TrialRecord {
    trial(round, Outcome::Measured, &[(id::GOODPUT_BPS, value)])
}

/// Returns a run of `a` and `b` in which the values of `a` grow from round to round, so that they vary too much for any
/// number.
pub fn too_varied(rounds: u32) -> RunData {
    let study = study(&format!("rounds = {rounds}"), &["a", "b"], &["p"]);
    run(&study, |[transport, ..], round| {
        let of_a = 10e6 * f64::from(1 + round * round);
        goodput(round, if transport == "a" { of_a } else { 20e6 })
    })
}

/// Factors of the values of five rounds around one, from another round on for each `shift`: ratios of values with different
/// shifts vary by less than a percent.
pub fn noise(round: u32, shift: usize) -> f64 {
    const NOISE: [f64; 5] = [-0.004, 0.003, 0.0, -0.003, 0.004];
    1.0 + NOISE[(round as usize + shift) % 5]
}

/// Returns a trial of a round with these metrics.
pub fn trial(round: u32, outcome: Outcome, metrics: &[(&str, f64)]) -> TrialRecord {
    TrialRecord {
        index: round,
        attempt: 1,
        round,
        transport: "tcp".into(),
        condition: "path".into(),
        workload: "work".into(),
        started_unix_ns: 0,
        seed: 0,
        outcome,
        reasons: Vec::new(),
        hint: Text::default(),
        measurements: Measurements {
            metrics: metrics.iter().copied().collect(),
            ..Measurements::default()
        },
    }
}

/// Returns a measured trial that the deadline stopped.
pub fn stopped(round: u32, metrics: &[(&str, f64)]) -> TrialRecord {
    let mut trial = trial(round, Outcome::Measured, metrics);
    let warning = Warning::of_texts(warning_code::DEADLINE_REACHED, "", "");
    trial.measurements.warnings.push(warning);
    trial
}

fn workload(kind: WorkloadKind) -> Workload {
    Workload {
        name: "work".into(),
        kind,
        probe: Probe::default(),
        transports: Vec::new(),
        conditions: Vec::new(),
        competition: None,
    }
}

/// Returns a workload that is ranked by goodput.
pub fn bulk() -> Workload {
    workload(WorkloadKind::Bulk {
        amount: Bytes(1000).into(),
        message: Bytes(100),
        pattern: Pattern::Data,
        options: BulkOptions::default(),
    })
}

/// Returns a workload that is ranked by the delay of messages.
pub fn messages() -> Workload {
    workload(WorkloadKind::MultiStream {
        messages: 100,
        message: Bytes(100),
        messages_per_second: 10.0,
        streams: 1,
        spread: Spread::Streams,
    })
}
