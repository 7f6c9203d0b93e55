//! A run for the tests of the views.

use std::collections::BTreeMap;

use regatta_control::{Host, Progress};
use regatta_engine::{Event, TrialProgress};
use regatta_model::{Measurements, Outcome, RunHeader, RunPart, Study, TrialRecord, metric::id};

use crate::state_builder::StateBuilder;

const STUDY: &str = r#"
name = "two"
title = "Two transports"
rounds = 3

[[transport]]
driver = "tcp"

[[transport]]
label = "a \"quoted\" name"
driver = "udp"
rate = "40Mbit/s"

[[condition]]
name = "near"
rtt = "10ms"
rate = "50Mbit/s"

[[workload]]
name = "bulk"
kind = "bulk"
size = "1MB"
"#;

/// Label of the second transport.
pub const QUOTED: &str = "a \"quoted\" name";

/// Returns the first event of the run.
pub fn started() -> Event {
    let study = Study::parse(STUDY, "study.toml").expect("a sound study");
    Event::RunStarted {
        header: Box::new(RunHeader {
            run_id: "0".into(),
            regatta_version: "0.1.0".into(),
            started_unix_ns: 1_790_000_000_000_000_000,
            study,
            study_text: STUDY.into(),
            part: RunPart::default(),
            bed: "netns, user-space emulator".into(),
            hosts: BTreeMap::new(),
        }),
        trials: 6,
        done: 0,
    }
}

/// Returns the event of a trial that begins.
pub fn trial_started(round: u32, transport: &str) -> Event {
    Event::TrialStarted {
        index: 2 * round,
        attempt: 1,
        round,
        transport: transport.to_owned(),
        condition: "near".into(),
        workload: "bulk".into(),
    }
}

/// Returns the record of a trial with this goodput, or of one that was invalid.
pub fn trial(round: u32, attempt: u32, transport: &str, goodput_bps: Option<f64>) -> TrialRecord {
    let metrics = goodput_bps.map(|rate| (id::GOODPUT_BPS.to_owned(), rate));
    TrialRecord {
        index: 2 * round,
        attempt,
        round,
        transport: transport.into(),
        condition: "near".into(),
        workload: "bulk".into(),
        started_unix_ns: 0,
        seed: 0,
        outcome: if metrics.is_some() {
            Outcome::Measured
        } else {
            Outcome::Invalid
        },
        reasons: Vec::new(),
        hint: regatta_model::Text::default(),
        measurements: Measurements {
            metrics: metrics.into_iter().collect(),
            ..Measurements::default()
        },
    }
}

/// Returns the report of an end.
pub fn report(host: Host, progress: Progress) -> TrialProgress {
    TrialProgress {
        trial: 0,
        host,
        progress,
        dropped: (host == Host::Server).then_some([7, 1]),
    }
}

/// Returns a run of two rounds that are done and a third under way.
pub fn under_way() -> StateBuilder {
    let mut builder = StateBuilder::new("regatta-results/two".into(), Vec::new());
    builder.on_event(&started());
    for (round, rates) in [[40e6, 30e6], [44e6, 31e6]].iter().enumerate() {
        for (transport, rate) in ["tcp", QUOTED].iter().zip(rates) {
            let round = round as u32;
            builder.on_event(&trial_started(round, transport));
            let trial = Box::new(trial(round, 1, transport, Some(*rate)));
            builder.on_event(&Event::TrialEnded { trial, more: false });
        }
    }
    builder.on_event(&trial_started(2, "tcp"));
    for step in 1..=3 {
        let sender = Progress {
            elapsed_ns: step * 250_000_000,
            congestion_window_bytes: Some(120_000),
            smoothed_rtt_ns: Some(11_000_000),
            retransmitted_packets: Some(3),
            cpu_ns: Some(step * 50_000_000),
            ..Progress::default()
        };
        let receiver = Progress {
            elapsed_ns: step * 250_000_000,
            bytes_delivered: step * 1_250_000,
            ..Progress::default()
        };
        builder.on_progress(&report(Host::Client, sender));
        builder.on_progress(&report(Host::Server, receiver));
    }
    builder
}
