//! One synthetic run, always the same: the default study in short, with trials that failed, a
//! transport that is not supported, and trials that reached their deadline.

#![allow(dead_code, reason = "each test uses a part of this")]

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use hdrhistogram::serialization::{Serializer, V2Serializer};
use regatta_model::{
    AskedAchieved, BedKind, BitRate, Bytes, Condition, Histogram, HostFacts, Link, OptionValue,
    Outcome, PathCheck, PathSetup, Pattern, Probe, Published, Ratio, RunHeader, Series, Source,
    Study, Transport, TrialRecord, Warning, Workload, WorkloadKind,
};
use regatta_report::RunData;
use regatta_results::RunState;

/// Start of the run: 2026-11-21 00:00:00 UTC.
const START_NS: i64 = 1_795_219_200_000_000_000;
const MS: f64 = 1e6;

/// Small generator with a fixed seed, so that the fixture never changes with a library.
pub struct Draws(u64);

impl Draws {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number of SplitMix64, scaled to 0..1.
    pub fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a number around one, within about ± `spread`.
    fn around_one(&mut self, spread: f64) -> f64 {
        1.0 + spread * (self.unit() + self.unit() + self.unit() - 1.5) / 1.5
    }
}

fn transport(label: &str, driver: &str, options: &[(&str, &str)]) -> Transport {
    Transport {
        label: label.to_owned(),
        driver: driver.to_owned(),
        options: options
            .iter()
            .map(|(name, value)| ((*name).to_owned(), OptionValue::Text((*value).to_owned())))
            .collect(),
    }
}

fn condition(name: &str, loss: f64) -> Condition {
    let link = Link {
        delay: Duration::from_millis(15),
        rate: Some(BitRate(100_000_000)),
        loss: Ratio(loss),
        ..Link::default()
    };
    Condition {
        name: name.to_owned(),
        forward: link.clone(),
        reverse: link,
        mtu_bytes: Condition::DEFAULT_MTU_BYTES,
        schedule: Vec::new(),
    }
}

fn published() -> Vec<Published> {
    let rows = [
        ("tcp", "baseline", 91.8, 52.6, 0.204),
        ("udp", "baseline", 99.4, 39.1, 0.123),
        ("SCTP", "baseline", 88.9, 47.8, 0.279),
        ("quic-quinn", "baseline", 87.2, 45.9, 0.338),
        ("tcp", "loss-5", 82.8, 56.9, 0.218),
        ("udp", "loss-5", 93.3, 44.0, 0.135),
        ("SCTP", "loss-5", 78.8, 51.9, 0.301),
        ("quic-quinn", "loss-5", 81.8, 50.2, 0.367),
    ];
    rows.into_iter()
        .flat_map(|(transport, condition, rate, delay, cpu)| {
            [
                ("goodput_bps", rate * 1e6),
                ("round_trip_delay_ns", delay * MS),
                ("cpu_host_ratio", cpu),
            ]
            .map(|(metric, value)| Published {
                workload: None,
                transport: transport.to_owned(),
                condition: condition.to_owned(),
                metric: metric.to_owned(),
                value,
                note: (transport == "udp" && metric == "goodput_bps" && condition == "loss-5")
                    .then(|| {
                        "the listed server would wait for ever for the bytes that were lost"
                            .to_owned()
                    }),
            })
        })
        .collect()
}

pub fn study() -> Study {
    Study {
        name: "gadasin-2026-short".into(),
        title: "TCP, TLS, UDP and QUIC over a 30 ms path".into(),
        description: "The published experiment in short: 10 MB over a path of 100 Mbit/s and 30 ms, without loss and with 5 % each way.".into(),
        source: Some(Source {
            citation: "Gadasin, Galitsky, Tsygankov: Comparison of transport protocols, 2026".into(),
            doi: Some("10.35330/1991-6639-2026-28-1-117-134".into()),
            differences: vec![
                "the published listing stops the clock when the last send returns, not at the acknowledgement".into(),
                "published delay is elapsed time over the number of blocks".into(),
                "published CPU is that of the whole machine".into(),
            ],
        }),
        rounds: 5,
        until: None,
        seed: 20_260_101,
        bed: BedKind::Netns,
        guest: regatta_model::GuestSetup::default(),
        path: PathSetup::USERSPACE,
        capture: None,
        deadline: Duration::from_secs(4),
        connect_deadline: Study::CONNECT_DEADLINE,
        sample_interval: Duration::from_millis(100),
        transports: vec![
            transport("tcp", "tcp", &[("cc", "cubic")]),
            transport("tcp-bbr", "tcp", &[("cc", "bbr")]),
            transport("tcp-hybla", "tcp", &[("cc", "hybla")]),
            transport("tcp-tls", "tcp-tls", &[("cc", "cubic")]),
            transport("udp", "udp", &[("rate", "95Mbit/s")]),
            transport("quic-quinn", "quic-quinn", &[]),
        ],
        conditions: vec![condition("baseline", 0.0), condition("loss-5", 0.05)],
        workloads: vec![Workload {
            name: "bulk-10MB".into(),
            kind: WorkloadKind::Bulk {
                size: Bytes(10_000_000),
                message: Bytes(10_000),
                pattern: Pattern::Data, options: regatta_model::BulkOptions::default()
            },
            probe: Probe::default(),
        }],
        published: published(),
    }
}

fn header(study: Study) -> RunHeader {
    let facts: BTreeMap<String, String> = [
        ("kernel.release", "6.18.0"),
        ("cpu.model", "Example CPU @ 2.50GHz"),
        ("cpu.cores", "2"),
        ("cpu.governor", "performance"),
        ("sysctl.net.core.rmem_max", "212992"),
        ("sysctl.net.ipv4.tcp_congestion_control", "bbr"),
        ("version.quinn", "0.11.12"),
        ("version.rustls", "0.23.46"),
        ("build.commit", "0123456789abcdef0123456789abcdef01234567"),
        ("build.dirty", "no"),
        ("build.profile", "release"),
        ("build.opt_level", "3"),
        ("build.debug_assertions", "off"),
        ("build.lockfile_sha256", "5feceb66ffc86f38d952786c6d696c79"),
        ("build.compiler", "rustc 1.95.0 (59807616e 2026-04-14)"),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .collect();
    RunHeader {
        run_id: "01hzx5fixture".into(),
        regatta_version: "0.1.0".into(),
        started_unix_ns: START_NS,
        study,
        study_text:
            "name = \"gadasin-2026-short\"\nrounds = 5\n\n[[transport]]\ndriver = \"tcp\"\n".into(),
        bed: "netns, user-space emulator".into(),
        hosts: ["receiver", "sender"]
            .into_iter()
            .map(|host| (host.to_owned(), HostFacts(facts.clone())))
            .collect(),
    }
}

/// Returns the facts that a driver states about its stack, as far as the tests use them.
fn stack_facts(transport: &str) -> Vec<(String, String)> {
    let is_quic = transport.starts_with("quic-");
    let values = [
        ("initial_window.sender", "10 packets"),
        (
            "pacing.sender",
            if is_quic || transport == "tcp-bbr" {
                "by the stack"
            } else {
                "none"
            },
        ),
        (
            "cipher.sender",
            if is_quic || transport == "tcp-tls" {
                "AES-128-GCM"
            } else {
                "none"
            },
        ),
        (
            "flow_control.receiver",
            if is_quic {
                "stream 4 MiB"
            } else {
                "not known: not read"
            },
        ),
        ("probe.placement", "own connection"),
    ];
    (values.into_iter())
        .filter(|_| transport != "udp")
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// Typical values of a cell: Mbit/s, ms, CPU of sender and receiver, share of lost messages.
struct Shape {
    rate: f64,
    delay: f64,
    cpu: [f64; 2],
    lost: f64,
    spread: f64,
    window: f64,
    retransmit: f64,
}

fn shape(transport: &str, condition: &str) -> Shape {
    let lossy = condition == "loss-5";
    let (rate, delay, cpu) = match (transport, lossy) {
        ("tcp", false) => (69.4, 46.0, [0.031, 0.048]),
        ("tcp", true) => (1.31, 61.0, [0.004, 0.003]),
        ("tcp-bbr", false) => (73.8, 41.0, [0.035, 0.052]),
        ("tcp-bbr", true) => (58.2, 49.0, [0.041, 0.050]),
        ("tcp-tls", false) => (68.9, 46.5, [0.060, 0.081]),
        ("tcp-tls", true) => (1.29, 62.0, [0.005, 0.004]),
        ("udp", false) => (91.6, 30.6, [0.028, 0.044]),
        ("udp", true) => (87.0, 31.0, [0.028, 0.042]),
        ("quic-quinn", false) => (66.3, 44.0, [0.098, 0.112]),
        _ => (1.12, 58.0, [0.006, 0.006]),
    };
    Shape {
        rate,
        delay,
        cpu,
        lost: if transport == "udp" && lossy {
            0.0495
        } else {
            0.0
        },
        spread: if lossy && transport != "udp" {
            0.12
        } else {
            0.015
        },
        window: if lossy && transport != "tcp-bbr" {
            9_000.0
        } else {
            480_000.0
        },
        retransmit: if lossy && transport != "udp" {
            0.051
        } else {
            0.0
        },
    }
}

fn histogram(name: &str, draws: &mut Draws, floor: f64, mean: f64, n: u32) -> Histogram {
    let mut histogram = hdrhistogram::Histogram::<u64>::new(3).expect("three digits are allowed");
    for _ in 0..n {
        let extra = -(1.0 - draws.unit()).ln() * (mean - floor);
        histogram
            .record(((floor + extra) * MS) as u64)
            .expect("a growing histogram takes any value");
    }
    let mut bytes = Vec::new();
    V2Serializer::new()
        .serialize(&histogram, &mut bytes)
        .expect("a vector takes all bytes");
    Histogram {
        name: name.to_owned(),
        side: "sender".to_owned(),
        hdr_v2_base64: STANDARD.encode(bytes),
    }
}

fn series(name: &str, side: &str, t: &[i64], value: impl FnMut(&i64) -> f64) -> Series {
    Series {
        name: name.to_owned(),
        side: side.to_owned(),
        t_ns: t.to_vec(),
        values: t.iter().map(value).collect(),
    }
}

fn measured(record: &mut TrialRecord, deadline: Duration) {
    let shape = shape(&record.transport, &record.condition);
    let mut draws = Draws::new(record.seed);
    let rate = shape.rate * 1e6 * draws.around_one(shape.spread);
    let delay = shape.delay * draws.around_one(shape.spread.min(0.04));
    let needed = 80e6 * (1.0 - shape.lost) / rate;
    let stopped = needed > deadline.as_secs_f64();
    let seconds = needed.min(deadline.as_secs_f64());
    let delivered = (rate * seconds / 8.0 / 10_000.0).round() * 10_000.0;
    let cpu = shape.cpu.map(|share| share * draws.around_one(0.06));
    let packets = delivered / 1448.0 * (1.0 + shape.retransmit) / (1.0 - shape.lost);
    let lossy = record.condition == "loss-5";
    let mut metrics: Vec<(&str, f64)> = vec![
        ("goodput_bps", rate),
        ("receiver_goodput_bps", rate * 1.03),
        ("transfer_time_ns", seconds * 1e9),
        ("set_up_time_ns", 30.4 * MS * draws.around_one(0.01)),
        (
            "round_trip_delay_idle_ns",
            30.3 * MS * draws.around_one(0.004),
        ),
        ("round_trip_delay_ns", delay * MS),
        ("round_trip_delay_p99_ns", delay * 1.9 * MS),
        ("bytes_sent", if stopped { delivered } else { 1e7 }),
        ("bytes_delivered", delivered),
        ("messages_sent", 1000.0),
        ("messages_delivered", (delivered / 10_000.0).round()),
        ("message_loss_ratio", shape.lost * draws.around_one(0.1)),
        ("messages_corrupted", 0.0),
        ("cpu_sender_ratio", cpu[0]),
        ("cpu_receiver_ratio", cpu[1]),
        ("cpu_host_ratio", (cpu[0] + cpu[1]) / 2.0 + 0.09),
        (
            "goodput_per_core_percent_bps",
            rate / ((cpu[0] + cpu[1]) * 100.0),
        ),
        ("peak_memory_sender_bytes", 14.2e6),
        ("packets_per_second", packets / seconds),
        ("packets_sent", packets.round()),
        ("mean_packet_bytes", 1451.0),
        ("path_packets", packets.round()),
        (
            "path_loss_ratio",
            if lossy {
                0.05 * draws.around_one(0.05)
            } else {
                0.0
            },
        ),
        ("path_queue_drops", 0.0),
    ];
    if record.transport != "udp" {
        metrics.push((
            "retransmitted_packets",
            (packets * shape.retransmit).round(),
        ));
        metrics.push(("retransmit_ratio", shape.retransmit));
        metrics.push(("congestion_window_mean_bytes", shape.window));
    }
    record.metrics = metrics
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();

    let t: Vec<i64> = (1..=(seconds * 10.0).ceil().max(1.0) as i64)
        .map(|i| i * 100_000_000)
        .collect();
    let rise = |t: &i64| (1.0 - (-(*t as f64) / 1.6e8).exp()) * 1.12;
    record.series = vec![series("goodput_bps", "receiver", &t, |t| {
        (rate * rise(t) * draws.around_one(0.08)).min(97e6)
    })];
    record
        .series
        .push(series("received_bps", "receiver", &t, |t| {
            (rate * rise(t) * 1.05).min(100e6)
        }));
    record.series.push(series("cpu_ratio", "sender", &t, |_| {
        cpu[0] * draws.around_one(0.2)
    }));
    record.series.push(series("cpu_ratio", "receiver", &t, |_| {
        cpu[1] * draws.around_one(0.2)
    }));
    record
        .series
        .push(series("packets_sent_per_second", "sender", &t, |t| {
            packets / seconds * rise(t) * draws.around_one(0.05)
        }));
    let probes: Vec<i64> = (0..(seconds * 50.0) as i64)
        .map(|i| i * 20_000_000)
        .collect();
    record
        .series
        .push(series("round_trip_delay_ns", "sender", &probes, |t| {
            (30.2 + (delay - 30.2) * rise(t) * draws.around_one(0.3)) * MS
        }));
    if record.transport != "udp" {
        record
            .series
            .push(series("congestion_window_bytes", "sender", &t, |t| {
                shape.window * rise(t) * draws.around_one(0.1)
            }));
        record
            .series
            .push(series("retransmitted_packets", "sender", &t, |_| {
                (packets / seconds / 10.0 * shape.retransmit * draws.around_one(0.5)).round()
            }));
    }
    record.histograms = vec![
        histogram("round_trip_delay_idle_ns", &mut draws, 30.1, 30.3, 10),
        histogram(
            "round_trip_delay_ns",
            &mut draws,
            30.1,
            delay,
            probes.len() as u32,
        ),
    ];
    if stopped {
        record.warnings.push(Warning {
            code: "deadline_reached".into(),
            message: format!(
                "the deadline of 4 s was reached after {:.2} MB of 10 MB",
                delivered / 1e6
            ),
            hint: "give more time with `deadline`, or send less with `--size`".into(),
        });
    }
}

/// Creates a run of a study; the outcome of each trial may be overridden.
pub fn run(
    study: Study,
    outcome: impl Fn(&TrialRecord) -> Option<(Outcome, &'static str, &'static str)>,
) -> RunData {
    let deadline = study.deadline;
    let mut trials = Vec::new();
    let mut clock = START_NS + 2_000_000_000;
    for round in 0..study.rounds {
        for workload in &study.workloads {
            for condition in &study.conditions {
                // The order within a round changes from round to round, as in a real run.
                let count = study.transports.len();
                for position in 0..count {
                    let transport = &study.transports[(position + round as usize * 2 + 1) % count];
                    let index = trials.len() as u32;
                    let mut record = TrialRecord {
                        index,
                        attempt: 1,
                        round,
                        transport: transport.label.clone(),
                        condition: condition.name.clone(),
                        workload: workload.name.clone(),
                        started_unix_ns: clock,
                        seed: 1000 + u64::from(index),
                        outcome: Outcome::Measured,
                        reasons: Vec::new(),
                        hint: String::new(),
                        metrics: BTreeMap::new(),
                        series: Vec::new(),
                        histograms: Vec::new(),
                        facts: BTreeMap::new(),
                        warnings: Vec::new(),
                    };
                    if let Some((outcome, reason, hint)) = outcome(&record) {
                        record.outcome = outcome;
                        record.reasons = vec![reason.to_owned()];
                        record.hint = hint.to_owned();
                        clock += 100_000_000;
                    } else {
                        measured(&mut record, deadline);
                        let cc = if record.transport == "tcp-bbr" {
                            "bbr"
                        } else {
                            "cubic"
                        };
                        if record.transport != "udp" {
                            record
                                .facts
                                .insert("congestion_control.sender".into(), cc.into());
                        }
                        record.facts.extend(stack_facts(&record.transport));
                        clock += 1_000_000_000 + record.metrics["transfer_time_ns"] as i64;
                    }
                    trials.push(record);
                }
            }
        }
    }
    let path_checks = study.conditions.iter().map(path_check).collect();
    RunData {
        header: header(study),
        trials,
        repeated: Vec::new(),
        path_checks,
        warnings: Vec::new(),
        state: RunState::Complete,
    }
}

fn path_check(condition: &Condition) -> PathCheck {
    let loss = condition.forward.loss.0;
    let quantity =
        |name: &str, asked: f64, achieved: f64, lowest: f64, highest: f64, n: u64| AskedAchieved {
            name: name.to_owned(),
            asked,
            achieved,
            lowest,
            highest,
            n,
            within: (lowest..=highest).contains(&achieved),
        };
    let quantities = vec![
        quantity(
            "round_trip_delay_ns",
            30.0 * MS,
            30.09 * MS,
            29.5 * MS,
            30.5 * MS,
            200,
        ),
        quantity("round_trip_delay_near_ratio", 0.99, 1.0, 0.99, 1.0, 200),
        quantity(
            "forward_loss_ratio",
            loss,
            loss * 1.02,
            loss * 0.8,
            loss * 1.2,
            2000,
        ),
        quantity(
            "reverse_loss_ratio",
            loss,
            loss * 0.97,
            loss * 0.8,
            loss * 1.2,
            2000,
        ),
        quantity("forward_link_rate_bps", 100e6, 99.4e6, 98e6, 102e6, 1000),
    ];
    PathCheck {
        condition: condition.name.clone(),
        step_at_ns: 0,
        checked_unix_ns: START_NS,
        spoiled: None,
        within: quantities.iter().all(|q| q.within),
        quantities,
    }
}

/// Creates the fixed result of the snapshots.
pub fn full() -> RunData {
    let mut data = run(study(), |trial| {
        if trial.transport == "tcp-hybla" {
            Some((
                Outcome::Unsupported,
                "congestion control `hybla` is not available on host `a`",
                "run `modprobe tcp_hybla`",
            ))
        } else if trial.transport == "quic-quinn" && trial.condition == "loss-5" && trial.round == 3
        {
            Some((
                Outcome::Failed,
                "connection lost: aborted by peer: INTERNAL_ERROR",
                "",
            ))
        } else {
            None
        }
    });
    data.warnings.push(Warning {
        code: "congestion_controls_differ".into(),
        message: "`tcp-bbr` runs BBR beside transports that run CUBIC".into(),
        hint: "compare transports with the same congestion control, or read the difference as one of both".into(),
    });
    data
}

/// Creates a run with one trial of each transport, which has no intervals.
pub fn one_round() -> RunData {
    let mut study = study();
    study.rounds = 1;
    study
        .transports
        .retain(|t| t.label == "tcp" || t.label == "udp");
    study.published.clear();
    run(study, |_| None)
}

/// Creates a run with one single trial.
pub fn one_trial() -> RunData {
    let mut data = one_round();
    data.header.study.transports.truncate(1);
    data.header.study.conditions.truncate(1);
    data.header.study.source = None;
    data.trials.truncate(1);
    let trial = &mut data.trials[0];
    trial.transport = data.header.study.transports[0].label.clone();
    data.path_checks.truncate(1);
    data
}

/// Creates an interrupted run without saved trials.
pub fn empty() -> RunData {
    let mut data = full();
    data.trials.clear();
    data.path_checks.clear();
    data.warnings.clear();
    data.state = RunState::Interrupted {
        reason: "interrupted by the user".into(),
    };
    data
}

/// Creates a run whose trials are all unsupported.
pub fn unsupported() -> RunData {
    run(study(), |_| {
        Some((
            Outcome::Unsupported,
            "no socket of this kind",
            "use another machine",
        ))
    })
}

/// Creates a run with labels that try to break out of every place they are put into.
pub fn hostile() -> RunData {
    let mut study = study();
    study.rounds = 2;
    let labels = [
        "<script>alert(1)</script>",
        "a \"quoted\" & 'single' `tick` label",
        "ein sehr langer Name für einen Transport, der nirgends hineinpasst und dennoch vorkommt 🚣",
        "</style></svg>]]>",
    ];
    study.transports.truncate(labels.len());
    for (transport, label) in study.transports.iter_mut().zip(labels) {
        transport.label = label.to_owned();
    }
    study.title = "<img src=x onerror=alert(2)> {{ 7 * 7 }}".into();
    study.conditions[0].name = "<b>path</b> \u{1b}[31m".into();
    study.published.clear();
    let mut data = run(study, |_| None);
    data.header.study_text = "</pre><script>alert(3)</script>".into();
    data
}

/// Returns all names in a summary of a run, for lookups.
pub fn labels(data: &RunData) -> BTreeSet<String> {
    data.header
        .study
        .transports
        .iter()
        .map(|t| t.label.clone())
        .collect()
}
