//! One synthetic run, always the same: the default study in short, with trials that failed, a
//! transport that is not supported, and trials that reached their deadline.

#![allow(dead_code, reason = "each test uses a part of this")]

pub mod paper;
pub mod scale;
mod trial;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use regatta_model::study::{Bounds, Relation, StudyClaim};
use regatta_model::{
    AskedAchieved, BedKind, BitRate, Bytes, Condition, HostFacts, HostSample, HostSamples, Link,
    Measurements, OptionValue, Outcome, PathCheck, PathSetup, Pattern, Probe, Published, Ratio,
    RunHeader, RunPart, Source, Study, Transport, TrialRecord, Workload, WorkloadKind, phrase,
    warning,
};
use regatta_report::{RunData, timeline};
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
        tuning: regatta_model::HostTuning::default(),
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
                ("round_trip_delay_p50_ns", delay * MS),
                ("cpu_host_ratio", cpu),
            ]
            .map(|(metric, value)| Published {
                workload: None,
                transport: transport.to_owned(),
                condition: condition.to_owned(),
                metric: metric.to_owned(),
                value,
                path_permits: None,
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
            kernel: None,
            kernel_of: None,
            differences: vec![
                "the published listing stops the clock when the last send returns, not at the acknowledgement".into(),
                "published delay is elapsed time over the number of blocks".into(),
                "published CPU is that of the whole machine".into(),
            ],
        }),
        rounds: 5,
        until: None,
        time_limit: None,
        cell_end: None,
        rank_by: None,
        equivalence: Study::EQUIVALENCE,
        every: None,
        scaled: None,
        seed: 20_260_101,
        bed: BedKind::Netns,
        hosts: Vec::new(),
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
                amount: Bytes(10_000_000).into(),
                message: Bytes(10_000),
                pattern: Pattern::Data, options: regatta_model::BulkOptions::default()
            },
            probe: Probe::default(),
            transports: Vec::new(),
            conditions: Vec::new(),
            competition: None,
        }],
        published: published(),
        claims: Vec::new(),
        curves: Vec::new(),
        sweeps: regatta_model::Sweeps::default(),
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
        part: RunPart::default(),
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
                        transport: (&transport.label).into(),
                        condition: (&condition.name).into(),
                        workload: (&workload.name).into(),
                        started_unix_ns: clock,
                        seed: 1000 + u64::from(index),
                        outcome: Outcome::Measured,
                        reasons: Vec::new(),
                        hint: regatta_model::Text::default(),
                        measurements: Measurements::default(),
                    };
                    if let Some((outcome, reason, hint)) = outcome(&record) {
                        record.outcome = outcome;
                        record.reasons = vec![reason.into()];
                        record.hint = hint.into();
                        clock += 100_000_000;
                    } else {
                        trial::measured(&mut record, deadline);
                        let cc = if record.transport == "tcp-bbr" {
                            "bbr"
                        } else {
                            "cubic"
                        };
                        if record.transport != "udp" {
                            record
                                .measurements
                                .facts
                                .insert("congestion_control.sender", cc);
                        }
                        record
                            .measurements
                            .facts
                            .extend(trial::stack_facts(&record.transport));
                        clock +=
                            1_000_000_000 + record.measurements.metrics["transfer_time_ns"] as i64;
                    }
                    trials.push(record);
                }
            }
        }
    }
    let path_checks = study.conditions.iter().map(path_check).collect();
    RunData {
        nodes: BTreeMap::new(),
        header: header(study),
        trials,
        repeated: Vec::new(),
        path_checks,
        warnings: Vec::new(),
        hosts: Vec::new(),
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
            "round_trip_delay_mean_ns",
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

/// Returns the whole run with claims: two that come out, one that does not, one that is not in the run and one that no run
/// shows.
pub fn stated() -> RunData {
    let mut data = full();
    let cell =
        |transport: &str, condition: &str| [transport, condition, "bulk-10MB"].map(str::to_owned);
    let order = |better: &str, worse: &str| Relation::Order {
        places: vec![vec![
            vec![cell(better, "baseline")],
            vec![cell(worse, "baseline")],
        ]],
    };
    let claim = |text: &str, relation| StudyClaim {
        text: text.to_owned(),
        place: Some("table 1".to_owned()),
        note: None,
        metric: "goodput_bps".to_owned(),
        in_most: false,
        relation,
    };
    let losses_cost = Relation::Ratio {
        places: vec![[cell("tcp", "loss-5"), cell("tcp", "baseline")]],
        bounds: Bounds {
            at_least: None,
            at_most: Some(0.9),
        },
    };
    let why = "a judgement".to_owned();
    data.header.study.claims = vec![
        claim("BBR is faster than CUBIC", order("tcp-bbr", "tcp")),
        StudyClaim {
            note: Some("`cc` decides".to_owned()),
            ..claim("CUBIC is faster than BBR", order("tcp", "tcp-bbr"))
        },
        claim("losses cost a tenth", losses_cost),
        claim("DCCP is faster", order("dccp", "tcp")),
        StudyClaim {
            metric: String::new(),
            ..claim("security is worth it", Relation::NotSeen { why })
        },
    ];
    data
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
    let controls = [
        ("quic-quinn", "cubic"),
        ("tcp", "cubic"),
        ("tcp-bbr", "bbr"),
    ];
    let controls = controls.map(|(label, control)| phrase::congestion_control_of(label, control));
    let warning = warning::different_congestion_controls(controls.into());
    data.warnings.push(warning);
    data
}

/// Creates the fixed result, with hosts that were sampled for the whole run.
pub fn on_hosts() -> RunData {
    const STEP_NS: i64 = 250_000_000;
    let mut data = full();
    let names = [
        "sample.elapsed_ns",
        "cpu.0.busy_ratio",
        "cpu.1.busy_ratio",
        "cpu.0.softirq_ratio",
        "load.average_1min",
        "load.runnable_tasks",
        "memory.total_bytes",
        "memory.available_bytes",
        "interface.eth0.received_bytes",
        "interface.eth0.received_packets",
        "interface.eth0.receive_drops",
        "interface.eth0.sent_bytes",
        "interface.eth0.sent_packets",
        "interface.eth0.collisions",
        "ip.receive_discards",
        "tcp.retransmitted_segments",
        "tcp.receive_errors",
        "udp.receive_errors",
        "sctp.checksum_errors",
    ];
    let mut draws = Draws::new(7);
    for (host, [received, sent]) in [("sender", [0.04, 1.0]), ("receiver", [1.0, 0.04])] {
        for trial in &data.trials {
            let time = trial.measurements.metrics.get("transfer_time_ns");
            let samples = time.map_or(1, |time| (*time as i64 / STEP_NS).max(1));
            let rate = trial
                .measurements
                .metrics
                .get("goodput_bps")
                .unwrap_or(&0.0)
                / 8.0
                * 0.25;
            let lossy = f64::from(u8::from(trial.condition == "loss-5"));
            let samples = (1..=samples).map(|number| {
                let bytes = rate * draws.around_one(0.2);
                let values = [
                    STEP_NS as f64,
                    0.4 * draws.unit(),
                    0.2 * draws.unit(),
                    0.1 * draws.unit(),
                    1.5,
                    (3.0 * draws.unit()).round(),
                    8e9,
                    6e9 - 1e8 * draws.unit(),
                    bytes * received,
                    bytes / 1448.0 * (received + 0.5 * sent),
                    lossy * (2.0 * draws.unit()).round(),
                    bytes * sent,
                    bytes / 1448.0 * (sent + 0.5 * received),
                    0.0,
                    0.0,
                    lossy * (20.0 * draws.unit()).round(),
                    0.0,
                    lossy * (5.0 * draws.unit()).round(),
                    0.0,
                ];
                HostSample {
                    unix_ns: trial.started_unix_ns + number * STEP_NS,
                    monotonic_ns: 0,
                    values: values.map(|value| Some(value as f32)).to_vec(),
                }
            });
            let batch = HostSamples {
                host: host.to_owned(),
                trial: Some(trial.index),
                names: names.map(str::to_owned).to_vec(),
                samples: samples.collect(),
            };
            timeline::add(&mut data.hosts, &batch);
        }
    }
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
    trial.transport = (&data.header.study.transports[0].label).into();
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

/// Creates a run with labels that try to break out of every context they are put into.
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

/// Returns the report as a terminal of this width shows it, without colour.
pub fn shown(
    data: &regatta_report::RunData,
    summary: &regatta_report::Summary,
    width: u16,
) -> String {
    let options = regatta_report::terminal::TerminalOptions {
        width,
        color: false,
        details: true,
    };
    regatta_report::terminal::render(summary, data, &options)
}
