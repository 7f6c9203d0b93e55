//! Every driver with every workload over the emulated path, without loss, with 1 % and with 5 %: in
//! virtual time, so that no pause of the machine makes a trial invalid, and on a kernel with SCTP.

use regatta_model::Outcome;
use regatta_transport::Carries;

use crate::help::{Bench, trials};

/// Bytes of the bulk transfer: some dozens of packets, so that loss strikes.
const BULK_BYTES: f64 = 300_000.0;

/// Messages and connections of the exchanges.
const MESSAGES: f64 = 40.0;
const CONNECTIONS: f64 = 4.0;

/// One round of everything. The deadline is far above what a lossy trial takes: a reliable
/// transport that reaches it has lost its way, and the test says so.
fn study() -> String {
    let mut text = String::from(
        r#"
name = "matrix"
rounds = 1
seed = 11
bed = "uml"
clock = "virtual"
emulator = "userspace"
deadline = "60s"

[[condition]]
name = "loss-0"
rtt = "10ms"
rate = "50Mbit/s"

[[condition]]
name = "loss-1"
rtt = "10ms"
rate = "50Mbit/s"
loss = "1%"

[[condition]]
name = "loss-5"
rtt = "10ms"
rate = "50Mbit/s"
loss = "5%"
"#,
    );
    for driver in regatta_agent::registry() {
        let descriptor = driver.descriptor();
        // The one that stands for any program needs to be told which.
        if descriptor.name != "external" {
            text += &format!("\n[[transport]]\ndriver = \"{}\"\n", descriptor.name);
            // As fast as it can it would only fill the queue of the path.
            if descriptor.name == "udp" {
                text += "rate = \"40Mbit/s\"\n";
            }
            // The published second for each loss would make minutes of this.
            if descriptor.name == "udp-reliable" {
                text += "max_wait = \"100ms\"\n";
            }
        }
    }
    for workload in [
        "name = \"digest\"\nkind = \"bulk\"\nsize = \"300kB\"\nmessage = \"1000B\"\npattern = \"random\"\nverify = \"digest\"",
        "name = \"bulk\"\nkind = \"bulk\"\nsize = \"300kB\"\nmessage = \"1000B\"",
        "kind = \"stop-and-wait\"\nsize = \"20kB\"\nmessage = \"1000B\"\ntimeout = \"100ms\"",
        "kind = \"request-response\"\nrequests = 20\noutstanding = 4",
        "kind = \"short-connections\"\nconnections = 4",
        "kind = \"multi-stream\"\nmessages = 40\nmessage = \"2kB\"\nmessages_per_second = 200\nstreams = 4\nspread = \"connections\"",
    ] {
        text += &format!(
            "\n[[workload]]\n{workload}\n[workload.probe]\nidle_messages = 0\nunder_load = false\n"
        );
    }
    text
}

#[test]
fn every_driver_carries_every_workload_through_loss() {
    let bench = Bench::new();
    bench.write("matrix.toml", &study());
    let _ = bench.run(&["run", "matrix.toml", "--out", "out"]);
    let mut wrong = Vec::new();
    let mut measured = 0;
    for trial in trials(&bench.path("out")) {
        let what = format!(
            "{} with {} under {}",
            trial.transport, trial.workload, trial.condition
        );
        let driver = regatta_agent::find_driver(&trial.transport).expect("a driver");
        let descriptor = driver.descriptor();
        match trial.outcome {
            Outcome::Measured => measured += 1,
            Outcome::Unsupported => {
                let streams = descriptor.carries == Carries::Streams;
                // Programs of their own carry out one workload.
                let external = trial.reasons.concat().contains("external programs");
                if streams && !external {
                    wrong.push(format!("{what}: unsupported: {:?}", trial.reasons));
                }
                continue;
            }
            other => {
                wrong.push(format!("{what}: {other:?}: {:?}", trial.reasons));
                continue;
            }
        }
        let metric = |name: &str| trial.metrics.get(name).copied();
        let mut expect = |name: &str, value: f64| {
            if metric(name) != Some(value) {
                wrong.push(format!(
                    "{what}: `{name}` is {:?}, not {value}",
                    metric(name)
                ));
            }
        };
        match trial.workload.as_str() {
            "digest" | "bulk" if descriptor.reliable => {
                expect("bytes_delivered", BULK_BYTES);
                expect("messages_corrupted", 0.0);
                // Programs of their own are held to a digest by their agents.
                let external = trial.facts.keys().any(|name| name.starts_with("external."));
                if trial.workload == "digest" && !external {
                    let digest = |end: &str| trial.facts.get(&format!("digest.{end}"));
                    if digest("sent").is_none() || digest("sent") != digest("delivered") {
                        wrong.push(format!(
                            "{what}: digests {:?} and {:?}",
                            digest("sent"),
                            digest("delivered")
                        ));
                    }
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
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(measured >= 100, "only {measured} trials were measured");
}
