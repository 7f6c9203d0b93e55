//! Trials and workloads for the unit tests of the analysis.

use regatta_model::{
    BulkOptions, Bytes, Measurements, Outcome, Pattern, Probe, Spread, Text, TrialRecord, Warning,
    Workload, WorkloadKind, warning_code,
};

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
    }
}

/// Returns a workload that is ranked by goodput.
pub fn bulk() -> Workload {
    workload(WorkloadKind::Bulk {
        size: Bytes(1000),
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
