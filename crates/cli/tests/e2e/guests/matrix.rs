//! Every driver with every workload over the emulated path, with 1 % of loss, and in the long form without loss and with
//! 5 %: in virtual time, so that no pause of the machine makes a trial invalid, and on a kernel with SCTP.
//!
//! A case is `matrix::WORKLOAD::LOSS::DRIVER`, or `matrix::long_forms::…`. All cases of a group of drivers look at one run
//! of these drivers, which the first of them makes; the drivers of a group are not neighbours in the list, so that cases
//! that run at the same time make runs of different groups. A case that is run without a test run's directory runs a
//! study of its own cell.

use regatta_model::{Outcome, STACK_FACTS, TrialRecord};
use regatta_test_support::machine::MachineLoad;
use regatta_test_support::test_run::{TEST_RUN_DIR, once_per_test_run};
use regatta_transport::{Carries, DriverDescriptor};

use crate::help::{cell, run_study, trials};

/// Size of the bulk transfer, in bytes: some dozens of packets, so that losses occur.
const BULK_BYTES: f64 = 300_000.0;

/// Number of messages and connections of the exchanges.
const MESSAGES: f64 = 40.0;
const CONNECTIONS: f64 = 4.0;

/// Names of the workloads, with the rest of their tables.
pub const WORKLOADS: &[(&str, &str)] = &[
    (
        "digest",
        "kind = \"bulk\"\nsize = \"300kB\"\nmessage = \"1000B\"\npattern = \"random\"\nverify = \"digest\"",
    ),
    (
        "bulk",
        "kind = \"bulk\"\nsize = \"300kB\"\nmessage = \"1000B\"",
    ),
    (
        "stop-and-wait",
        "kind = \"stop-and-wait\"\nsize = \"20kB\"\nmessage = \"1000B\"\ntimeout = \"100ms\"",
    ),
    (
        "request-response",
        "kind = \"request-response\"\nrequests = 20\noutstanding = 4",
    ),
    (
        "short-connections",
        "kind = \"short-connections\"\nconnections = 4",
    ),
    (
        "multi-stream",
        "kind = \"multi-stream\"\nmessages = 40\nmessage = \"2kB\"\nmessages_per_second = 200\nstreams = 4\nspread = \"connections\"",
    ),
];

/// Losses whose cases share runs.
struct Part {
    /// Beginning of the names of its runs.
    name: &'static str,
    losses: &'static [&'static str],
}

/// Number of runs among which the drivers are divided: a run is one guest as long as the estimate of its work is below
/// 40 s, and the start of a guest with the checks of its paths costs as much as the trials of a driver.
const RUNS: usize = 2;

/// Returns a study of one round of these drivers with those workloads and losses. The deadline is far
/// above the time of a lossy trial: a reliable transport that reaches it has failed, and the case
/// fails.
fn study<'a>(
    drivers: impl Iterator<Item = &'a str>,
    workloads: &[(&str, &str)],
    losses: &[&str],
) -> String {
    let mut text = "name = \"matrix\"\nrounds = 1\nseed = 11\nbed = \"uml\"\nclock = \"virtual\"\n\
         emulator = \"userspace\"\ndeadline = \"60s\"\n"
        .to_owned();
    for driver in drivers {
        text += &format!("\n[[transport]]\ndriver = \"{driver}\"\n");
        match driver {
            // As fast as it can it would only fill the queue of the path.
            "udp" => text += "rate = \"16Mbit/s\"\n",
            // The published second for each loss would make minutes of this.
            "udp-reliable" => text += "rto_max = \"100ms\"\n",
            _ => {}
        }
    }
    for name in losses {
        let loss = name.replace("loss-", "");
        text += &format!(
            "\n[[condition]]\nname = \"{name}\"\nrtt = \"10ms\"\nrate = \"20Mbit/s\"\nloss = \"{loss}%\"\n"
        );
    }
    for (name, keys) in workloads {
        text += &format!(
            "\n[[workload]]\nname = \"{name}\"\n{keys}\n\
             [workload.probe]\nidle_messages = 0\nunder_load = false\n"
        );
    }
    text
}

fn descriptor(driver: &str) -> &'static DriverDescriptor {
    let driver = regatta_agent::find_driver(driver).unwrap_or_else(|| panic!("no `{driver}`"));
    driver.descriptor()
}

/// Returns a part of the reason for which a driver must call a workload unsupported; `None` where
/// the case must be measured.
pub fn unsupported(driver: &str, workload: &str) -> Option<&'static str> {
    let bulk = matches!(workload, "bulk" | "digest");
    let exchange = matches!(workload, "stop-and-wait" | "request-response");
    match (driver, descriptor(driver).carries) {
        ("quic-aioquic" | "quic-go" | "sctp-pysctp", _) if !bulk && !exchange => {
            Some("external programs")
        }
        (_, Carries::Files) if !bulk => Some("moves whole files one way"),
        (_, Carries::Messages) => match workload {
            "digest" => Some("over messages a bulk transfer has no `finish`"),
            "short-connections" => Some("messages without connections"),
            "multi-stream" => Some("messages without streams"),
            _ => None,
        },
        _ => None,
    }
}

/// Runs a cell of the matrix.
#[track_caller]
fn case(part: &Part, workload: &str, loss: &str, driver: &str) {
    let _load = MachineLoad::watch();
    let shared = std::env::var_os(TEST_RUN_DIR).is_some_and(|directory| !directory.is_empty());
    let position = DRIVERS.iter().position(|other| *other == driver);
    let run = position.expect("a driver of the list") % RUNS;
    let study = if shared {
        let drivers = DRIVERS.iter().copied().skip(run).step_by(RUNS);
        study(drivers, WORKLOADS, part.losses)
    } else {
        let named = |row: &&(&str, &str)| row.0 == workload;
        let workload = WORKLOADS.iter().find(named).expect("a workload");
        study([driver].into_iter(), &[*workload], &[loss])
    };
    once_per_test_run(
        &format!("cli-matrix-{}-{run}", part.name),
        |dir| run_study(dir, &study),
        |dir| {
            let trials = trials(&dir.join("out"));
            check(cell(&trials, driver, workload, loss));
        },
    );
}

/// Checks the requirements of a trial.
#[track_caller]
pub fn check(trial: &TrialRecord) {
    let descriptor = descriptor(&trial.transport);
    if let Some(reason) = unsupported(&trial.transport, &trial.workload) {
        assert_eq!(trial.outcome, Outcome::Unsupported, "{trial:#?}");
        assert!(trial.reasons.concat().contains(reason), "{trial:#?}");
        assert!(
            trial.measurements.metrics.is_empty(),
            "unsupported is not zero"
        );
        return;
    }
    assert_eq!(trial.outcome, Outcome::Measured, "{trial:#?}");
    let expect = |name: &str, value: f64| {
        let found = trial.measurements.metrics.get(name).copied();
        assert_eq!(found, Some(value), "`{name}` of {trial:#?}");
    };
    for fact in STACK_FACTS {
        let value = trial.measurements.facts.get(fact.name);
        let is_stated = value.is_some_and(|value| {
            !value.contains("the driver does not state it")
                && !value.contains("the program does not tell")
        });
        assert!(is_stated, "`{}` is {value:?} in {trial:#?}", fact.name);
    }
    match trial.workload.as_str() {
        "digest" | "bulk" if descriptor.reliable => {
            expect("bytes_delivered", BULK_BYTES);
            expect("messages_corrupted", 0.0);
            // Programs of their own are held to a digest by their agents.
            let external = trial
                .measurements
                .facts
                .keys()
                .any(|name| name.starts_with("external."));
            if trial.workload == "digest" && !external {
                let digest = |end: &str| trial.measurements.facts.get(&format!("digest.{end}"));
                assert!(digest("sent").is_some(), "{trial:#?}");
                assert_eq!(digest("sent"), digest("delivered"));
            }
        }
        "stop-and-wait" if descriptor.reliable => expect("bytes_delivered", 20_000.0),
        "request-response" if descriptor.reliable => expect("requests_unanswered", 0.0),
        "short-connections" => expect("connections_completed", CONNECTIONS),
        "multi-stream" => expect("messages_delivered", MESSAGES),
        // Without loss an unreliable transport loses nothing either.
        "bulk" if trial.condition == "loss-0" => expect("bytes_delivered", BULK_BYTES),
        _ => {}
    }
}

/// Makes a test for each workload, loss and driver, in modules of these names.
macro_rules! matrix {
    (
        [$($workload:ident = $name:literal),+ $(,)?]
        $losses:tt
        long_forms: $long:tt
        $drivers:tt
    ) => {
        const PART: Part = Part { name: "short", losses: matrix!(@names $losses) };

        $(mod $workload {
            use super::PART;

            matrix!(@losses $name $losses $drivers);
        })+

        mod long_forms {
            use super::Part;

            const PART: Part = Part { name: "long", losses: matrix!(@names $long) };

            $(mod $workload {
                use super::PART;

                matrix!(@losses $name $long $drivers);
            })+
        }

        pub const DRIVERS: &[&str] = matrix!(@names $drivers);
        const CASES: &[&str] = &[$($name),+];
    };
    (@losses $workload:literal [$($loss:ident = $name:literal),+ $(,)?] $drivers:tt) => {
        $(mod $loss {
            use super::PART;

            matrix!(@drivers $workload $name $drivers);
        })+
    };
    (@drivers $workload:literal $loss:literal [$($driver:ident = $name:literal),+ $(,)?]) => {
        $(#[test]
        fn $driver() {
            crate::guests::matrix::case(&PART, $workload, $loss, $name);
        })+
    };
    (@names [$($name:ident = $value:literal),+ $(,)?]) => {
        &[$($value),+]
    };
}

matrix! {
    [
        digest = "digest",
        bulk = "bulk",
        stop_and_wait = "stop-and-wait",
        request_response = "request-response",
        short_connections = "short-connections",
        multi_stream = "multi-stream",
    ]
    [loss_1 = "loss-1"]
    long_forms: [loss_0 = "loss-0", loss_5 = "loss-5"]
    [
        tcp = "tcp",
        tcp_tls = "tcp-tls",
        mptcp = "mptcp",
        udp = "udp",
        udp_reliable = "udp-reliable",
        quic_quinn = "quic-quinn",
        quic_noq = "quic-noq",
        quic_quiche = "quic-quiche",
        quic_s2n = "quic-s2n",
        quic_go = "quic-go",
        quic_aioquic = "quic-aioquic",
        sctp = "sctp",
        sctp_userspace = "sctp-userspace",
        sctp_pysctp = "sctp-pysctp",
        wdt = "wdt",
    ]
}

/// Checks the list of drivers, without the driver for any program, which needs to know the program.
#[test]
fn every_driver_of_the_registry_has_its_cases_and_most_are_measured() {
    let mut registered: Vec<&str> = regatta_agent::registry()
        .iter()
        .map(|driver| driver.descriptor().name)
        .filter(|name| *name != "external")
        .collect();
    let mut listed = DRIVERS.to_vec();
    registered.sort_unstable();
    listed.sort_unstable();
    assert_eq!(listed, registered);
    let named: Vec<&str> = WORKLOADS.iter().map(|workload| workload.0).collect();
    assert_eq!(CASES, named);
    let measured = DRIVERS
        .iter()
        .flat_map(|driver| {
            CASES
                .iter()
                .map(move |workload| unsupported(driver, workload))
        })
        .filter(Option::is_none)
        .count();
    // Ten drivers carry out everything, `udp` three workloads, the three external programs four, and `wdt` two.
    assert_eq!(measured, 10 * 6 + 3 + 3 * 4 + 2);
}
