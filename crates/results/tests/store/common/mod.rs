//! Records of one run that all tests of this crate use.

use std::{collections::BTreeMap, path::Path, time::Duration};

use regatta_model::{Facts, Ratio, Text, *};
use regatta_results::{ResultsError, RunLock, Store};

/// Opens a run to continue it, as `regatta resume` does: all of it is read before anything is written.
pub fn open_to_resume(dir: &Path) -> Result<Store, ResultsError> {
    let claim = RunLock::new(dir)?;
    claim.reader().header()?;
    claim.reader().state()?;
    claim.reader().trials()?;
    claim.open()
}

pub fn header() -> RunHeader {
    let link = Link {
        delay: Duration::from_millis(15),
        loss: Ratio(0.05),
        rate: Some(BitRate(100_000_000)),
        ..Link::default()
    };
    RunHeader {
        run_id: "0123456789abcdef".into(),
        regatta_version: "0.1.0".into(),
        started_unix_ns: 1_790_000_000_000_000_000,
        study: Study {
            name: "golden".into(),
            title: "One run to keep".into(),
            description: String::new(),
            source: None,
            rounds: 5,
            until: None,
            time_limit: None,
            cell_end: None,
            rank_by: None,
            equivalence: Study::EQUIVALENCE,
            every: None,
            scaled: None,
            seed: u64::MAX,
            bed: BedKind::Netns,
            hosts: Vec::new(),
            guest: regatta_model::GuestSetup::default(),
            path: PathSetup::USERSPACE,
            capture: None,
            deadline: Duration::from_secs(10),
            connect_deadline: Study::CONNECT_DEADLINE,
            sample_interval: Duration::from_millis(100),
            transports: vec![Transport {
                label: "tcp".into(),
                driver: "tcp".into(),
                options: BTreeMap::from([("cc".into(), OptionValue::Text("cubic".into()))]),
            }],
            conditions: vec![Condition {
                name: "loss-5".into(),
                forward: link.clone(),
                reverse: link,
                mtu_bytes: 1500,
                schedule: Vec::new(),
                tuning: HostTuning::default(),
            }],
            workloads: vec![Workload {
                name: "bulk".into(),
                kind: WorkloadKind::Bulk {
                    amount: Bytes(10_000_000).into(),
                    message: Bytes(10_000),
                    pattern: Pattern::Data,
                    options: regatta_model::BulkOptions::default(),
                },
                probe: Probe {
                    idle_messages: 10,
                    ..Probe::default()
                },
                transports: Vec::new(),
                conditions: Vec::new(),
                competition: None,
            }],
            published: Vec::new(),
            claims: Vec::new(),
            curves: Vec::new(),
            sweeps: regatta_model::Sweeps::default(),
        },
        study_text: "name = \"golden\"\n".into(),
        bed: "netns, user-space emulator".into(),
        hosts: BTreeMap::from([
            ("receiver".to_owned(), HostFacts::default()),
            (
                "sender".to_owned(),
                HostFacts(BTreeMap::from([("kernel.release".into(), "6.18".into())])),
            ),
        ]),
        part: RunPart::default(),
    }
}

pub fn trial(index: u32) -> TrialRecord {
    TrialRecord {
        index,
        attempt: 1,
        round: index,
        transport: "tcp".into(),
        condition: "loss-5".into(),
        workload: "bulk".into(),
        started_unix_ns: 1_790_000_001_000_000_000 + i64::from(index),
        seed: u64::MAX - u64::from(index),
        outcome: Outcome::Measured,
        reasons: Vec::new(),
        hint: Text::default(),
        measurements: Measurements {
            metrics: MetricValues::from([("goodput_bps", 0.1 + 82.8e6), ("messages_sent", 1000.0)]),
            series: vec![Series {
                name: "goodput_bps".into(),
                side: "receiver".into(),
                t_ns: vec![100_000_000, 200_000_000, -1],
                values: vec![1.0 / 3.0, 9.5e7, -0.0],
            }],
            histograms: vec![Histogram {
                name: "round_trip_delay_ns".into(),
                side: "sender".into(),
                hdr_v2_base64: "HISTFAAAAA==".into(),
            }],
            facts: Facts::from([("congestion_control.sender", "cubic")]),
            warnings: vec![Warning::of_texts(
                "deadline_reached",
                "the deadline stopped the transfer, \"early\"",
                "raise `deadline`",
            )],
        },
    }
}

pub fn failed(index: u32) -> TrialRecord {
    TrialRecord {
        outcome: Outcome::Failed,
        reasons: vec!["the agent at the sender ended".into(), "signal 9".into()],
        hint: "look, then try again".into(),
        measurements: Measurements::default(),
        ..trial(index)
    }
}

pub fn path_check() -> PathCheck {
    PathCheck {
        condition: "loss-5".into(),
        step_at_ns: 0,
        checked_unix_ns: 1_790_000_000_500_000_000,
        spoiled: None,
        within: true,
        quantities: vec![AskedAchieved {
            name: "forward_loss_ratio".into(),
            asked: 0.05,
            achieved: 0.0493,
            lowest: 0.045,
            highest: f64::INFINITY,
            n: 20_000,
            within: true,
        }],
    }
}

pub fn warning() -> Warning {
    Warning::of_texts(
        "cpu_governor",
        "the CPU changes its clock",
        "cpupower frequency-set -g performance",
    )
}
