//! Large synthetic runs: a long series, and a sweep of many cells.

use std::{path::Path, time::Duration};

use hdrhistogram::serialization::{Serializer, V2Serializer};
use regatta_model::{Histogram, Measurements, Outcome, Series, Study, TrialRecord};
use regatta_report::RunData;
use regatta_results::{RunState, Store};

use super::{Draws, MS, START_NS, header};

/// Series of each trial: name and end.
const SERIES: [(&str, &str); 10] = [
    ("goodput_bps", "receiver"),
    ("received_bps", "receiver"),
    ("round_trip_delay_ns", "sender"),
    ("cpu_ratio", "sender"),
    ("cpu_ratio", "receiver"),
    ("congestion_window_bytes", "sender"),
    ("retransmitted_packets", "sender"),
    ("packets_sent_per_second", "sender"),
    ("memory_bytes", "sender"),
    ("cpu_host_ratio", "sender"),
];

const PARTS: &str = "\
[[transport]]\ndriver = \"tcp\"\n[[transport]]\ndriver = \"quic-quinn\"\n\
[[workload]]\nkind = \"bulk\"\nsize = \"10MB\"\n\
[[condition]]\nname = \"wan\"\nrate = \"50Mbit/s\"\n";

/// Returns a study of two transports under one condition, in ten trials.
pub fn long_study() -> Study {
    let head = "name = \"long\"\nrounds = 5\ndeadline = \"30min\"\n";
    Study::parse(&format!("{head}{PARTS}rtt = \"30ms\"\n"), "long.toml").expect("a sound study")
}

/// Returns a study of two transports under `losses` × `delays` conditions.
pub fn swept_study(losses: u32, delays: u32, rounds: u32) -> Study {
    let sweeps = format!(
        "[[sweep]]\nkey = \"condition.loss\"\nfrom = \"0%\"\nto = \"9%\"\npoints = {losses}\n\
         [[sweep]]\nkey = \"condition.rtt\"\nfrom = \"10ms\"\nto = \"100ms\"\npoints = {delays}\n"
    );
    let head = format!("name = \"swept\"\nrounds = {rounds}\ndeadline = \"10s\"\n");
    Study::parse(&format!("{head}{PARTS}{sweeps}"), "swept.toml").expect("a sound study")
}

/// Returns the measurements of a trial with `samples` samples of each of ten series.
///
/// One sample of the goodput of each trial is 400 Mbit/s, far above all others.
fn measurements(draws: &mut Draws, goodput: f64, samples: usize, step: Duration) -> Measurements {
    let step = step.as_nanos() as i64;
    let spike = (draws.unit() * samples as f64) as usize;
    let series = SERIES.map(|(name, side)| Series {
        name: name.to_owned(),
        side: side.to_owned(),
        t_ns: (1..=samples as i64).map(|n| n * step).collect(),
        values: (0..samples)
            .map(|sample| match (name, sample == spike) {
                ("goodput_bps", true) => 4e8,
                _ => goodput * (0.9 + 0.2 * draws.unit()),
            })
            .collect(),
    });
    let mut delays = hdrhistogram::Histogram::<u64>::new(3).expect("3 digits");
    for _ in 0..50 {
        delays
            .record(((30.0 + 5.0 * draws.unit()) * MS) as u64)
            .expect("it grows");
    }
    let mut bytes = Vec::new();
    V2Serializer::new()
        .serialize(&delays, &mut bytes)
        .expect("memory");
    let names = [
        "goodput_bps",
        "receiver_goodput_bps",
        "transfer_time_ns",
        "set_up_time_mean_ns",
        "round_trip_delay_idle_p50_ns",
        "round_trip_delay_p50_ns",
        "round_trip_delay_p99_ns",
        "bytes_sent",
        "bytes_delivered",
        "messages_sent",
        "messages_delivered",
        "cpu_sender_ratio",
        "cpu_receiver_ratio",
        "cpu_host_ratio",
        "goodput_per_core_percent_bps",
        "peak_memory_sender_bytes",
        "packets_per_second",
        "packets_sent",
        "mean_packet_bytes",
        "path_packets",
        "path_loss_ratio",
        "path_queue_drops",
        "retransmitted_packets",
        "retransmit_ratio",
        "congestion_window_mean_bytes",
    ];
    let mut metrics: regatta_model::MetricValues = names
        .iter()
        .map(|name| ((*name).to_owned(), goodput * (0.95 + 0.1 * draws.unit())))
        .collect();
    metrics.insert("goodput_bps".to_owned(), goodput);
    Measurements {
        metrics,
        series: series.into(),
        histograms: vec![Histogram {
            name: "round_trip_delay_ns".to_owned(),
            side: "sender".to_owned(),
            hdr_v2_base64: base64::Engine::encode(
                &base64::engine::general_purpose::STANDARD,
                bytes,
            ),
        }],
        facts: [("congestion_control.sender".to_owned(), "cubic".to_owned())].into(),
        warnings: Vec::new(),
    }
}

/// Creates a run of a study with `samples` samples of each series in each trial.
pub fn run(study: Study, samples: usize) -> RunData {
    let mut draws = Draws::new(7);
    let mut trials = Vec::new();
    let step = study.sample_interval;
    for round in 0..study.rounds {
        for condition in &study.conditions {
            let loss = condition.forward.loss.0;
            let delay = condition.forward.delay.as_secs_f64();
            for (number, transport) in study.transports.iter().enumerate() {
                // One transport is better above 1 % loss, the other below.
                let exponent = [-0.5, -0.2][number.min(1)];
                let rate = 12e6 * ((loss + 1e-4) / 0.01).powf(exponent) / (0.5 + 10.0 * delay);
                let goodput = rate * (0.95 + 0.1 * draws.unit());
                let index = trials.len() as u32;
                trials.push(TrialRecord {
                    index,
                    attempt: 1,
                    round,
                    transport: (&transport.label).into(),
                    condition: (&condition.name).into(),
                    workload: (&study.workloads[0].name).into(),
                    started_unix_ns: START_NS + i64::from(index) * 1_000_000_000,
                    seed: u64::from(index),
                    outcome: Outcome::Measured,
                    reasons: Vec::new(),
                    hint: regatta_model::Text::default(),
                    measurements: measurements(&mut draws, goodput, samples, step),
                });
            }
        }
    }
    RunData {
        header: header(study),
        trials,
        repeated: Vec::new(),
        path_checks: Vec::new(),
        warnings: Vec::new(),
        hosts: Vec::new(),
        nodes: std::collections::BTreeMap::new(),
        state: RunState::Complete,
    }
}

/// Stores a run.
pub fn store(data: &RunData, dir: &Path) {
    let mut store = Store::create(dir, &data.header).expect("a new directory");
    for trial in &data.trials {
        store.add_trial(trial).expect("a new trial");
    }
    store.set_state(&data.state).expect("a state");
}

/// Returns the largest resident memory of this process so far, in MB.
pub fn peak_megabytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("procfs");
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kibibytes.expect("VmHWM in kB") * 1024 / 1_000_000
}
