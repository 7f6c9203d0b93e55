//! Every driver with every workload over two hosts that are reached by SSH: programs of their own are sent there.
//!
//! All cases look at one run, which the first of them makes.

use regatta_model::Outcome;
use regatta_test_support::test_run::once_per_test_run;

use super::*;
use crate::{
    guests::matrix::{DRIVERS, WORKLOADS, check, unsupported},
    help::{cell, trials},
};

/// Name of the condition, which asks for nothing.
const CONDITION: &str = "loss-0";

fn study() -> String {
    let mut text = "name = \"matrix\"\nhosts = [\"a\", \"b\"]\nrounds = 1\nseed = 11\n".to_owned();
    for driver in DRIVERS {
        text += &format!("\n[[transport]]\ndriver = \"{driver}\"\n");
        text += match *driver {
            // The controls that every user of a host may choose.
            "tcp" | "tcp-tls" | "mptcp" | "wdt" => "cc = \"reno\"\n",
            "udp" => "rate = \"16Mbit/s\"\n",
            _ => "",
        };
    }
    text += &format!("\n[[condition]]\nname = \"{CONDITION}\"\n");
    for (name, keys) in WORKLOADS {
        text += &format!(
            "\n[[workload]]\nname = \"{name}\"\n{keys}\n\
             [workload.probe]\nidle_messages = 0\nunder_load = false\n"
        );
    }
    text
}

/// Runs the study with its results in `dir/out`.
fn make(dir: &Path) -> Result<(), String> {
    let Some(lab) = Lab::start() else {
        return Ok(());
    };
    lab.add_both();
    let study = lab.bench.write("study.toml", &study());
    let out = dir.join("out");
    let mut run = lab.regatta(&["run", "--no-progress"]);
    run.arg(study).arg("--out").arg(&out);
    let cache = std::env::home_dir().unwrap_or_default().join(".cache");
    run.env("REGATTA_EXTERNAL_DIR", cache.join("regatta/external"));
    let run = run.output().map_err(|error| error.to_string())?;
    // A trial that failed is judged by the test that reads it.
    match (run.status.code(), out.join("results.sqlite").exists()) {
        (Some(0 | 1), true) => Ok(()),
        _ => Err(text(&run)),
    }
}

/// Checks a cell of the matrix.
#[track_caller]
fn case(workload: &str, driver: &str) {
    once_per_test_run("cli-hosts-matrix", make, |dir| {
        let out = dir.join("out");
        if !out.exists() {
            return;
        }
        let trials = trials(&out);
        let trial = cell(&trials, driver, workload, CONDITION);
        let reasons = trial.reasons.concat();
        let is_unsupported = trial.outcome == Outcome::Unsupported;
        // The hosts have the kernel of this machine, which need not have SCTP, and clocks of their own.
        let needs_kernel = matches!(driver, "sctp" | "sctp-pysctp") && reasons.contains("SCTP");
        // Its environment is where its user's cannot read it.
        let needs_python = reasons.contains("the Python of its environment");
        let needs_clock = workload == "multi-stream" && reasons.contains("a clock of its own");
        if unsupported(driver, workload).is_none() && is_unsupported {
            assert!(needs_kernel || needs_python || needs_clock, "{trial:#?}");
            return;
        }
        if is_unsupported && (needs_kernel || needs_python) {
            return;
        }
        check(trial);
    });
}

/// Makes a test for each driver and workload, in modules of the drivers' names.
macro_rules! matrix {
    ($($driver:ident = $name:literal),+ $(,)?) => {
        $(mod $driver {
            #[test]
            fn digest() { super::case("digest", $name); }
            #[test]
            fn bulk() { super::case("bulk", $name); }
            #[test]
            fn stop_and_wait() { super::case("stop-and-wait", $name); }
            #[test]
            fn request_response() { super::case("request-response", $name); }
            #[test]
            fn short_connections() { super::case("short-connections", $name); }
            #[test]
            fn multi_stream() { super::case("multi-stream", $name); }
        })+
    };
}

matrix! {
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
}
