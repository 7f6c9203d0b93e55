//! Tests of the clocks of hosts that have one each: that of host b is an hour ahead.

use regatta_model::TrialRecord;

use super::*;
use crate::help::trials;

impl Lab {
    /// Gives the data path this rate in each direction, by a token bucket on each host's interface.
    pub(super) fn limit_rate(&self, rate: &str) {
        for host in ["a", "b"] {
            let pid = fs::read_to_string(self.bench.path(host).join("pid")).expect("a file");
            // The number is that of the fixture's process namespace.
            let limited = Command::new("nsenter")
                .args(["--target", &self.controller.to_string()])
                .args(["--net", "--pid", "--mount", "--", "nsenter"])
                .args(["--target", pid.trim(), "--net", "--"])
                .args(["tc", "qdisc", "add", "dev", "data", "root"])
                .args(["tbf", "rate", rate, "burst", "10k", "limit", "1m"])
                .status()
                .expect("nsenter");
            assert!(limited.success());
        }
    }

    /// Runs a study on both hosts and returns its trials, which are measured.
    fn measures(&self, study: &str) -> Vec<TrialRecord> {
        self.bench.write("study.toml", study);
        let run = self.regatta(&["run", "study.toml", "--hosts", "a,b", "--out", "out"]);
        let run = { run }.arg("--no-progress").output().expect("a run");
        succeeds(&run);
        let trials = trials(&self.bench.path("out"));
        for trial in &trials {
            assert_eq!(trial.outcome.name(), "measured", "{trial:#?}");
            let method = &trial.measurements.facts["clock.method"];
            assert!(
                method.contains("over the data path before and after"),
                "{method}"
            );
            for side in ["sender", "receiver"] {
                let name = format!("clock.synchronisation.{side}");
                assert!(trial.measurements.facts.contains_key(&name), "{trial:#?}");
            }
            let drift = trial.measurements.metrics["clock_drift_ratio"];
            let bound = trial.measurements.metrics["clock_drift_bound_ratio"];
            // One machine keeps both clocks.
            assert!(drift.abs() <= bound, "{drift} {bound}");
        }
        trials
    }
}

/// Messages of 100 kB, each of which takes 36 ms and more at 20 Mbit/s.
const MULTI_STREAM: &str = r#"
name = "messages"
rounds = 2
[[transport]]
driver = "tcp"
cc = "reno"
[[condition]]
name = "as it is"
[[workload]]
kind = "multi-stream"
messages = 15
message = "100kB"
messages_per_second = 15
streams = 3
spread = "connections"
"#;

const DATAGRAMS: &str = r#"
name = "datagrams"
rounds = 1
[[transport]]
driver = "udp"
rate = "5Mbit/s"
[[condition]]
name = "as it is"
[[workload]]
kind = "bulk"
size = "1MB"
message = "1kB"
"#;

/// Tests of the rule by which delays are stated or left out. The bound of the clocks is larger on a busy machine.
mod real_time {
    use super::*;

    #[test]
    fn multi_stream_over_hosts_has_delays_with_a_bound() {
        let Some(lab) = Lab::start() else { return };
        lab.add_both();
        lab.limit_rate("20mbit");
        for trial in lab.measures(MULTI_STREAM) {
            let metrics = &trial.measurements.metrics;
            // Without the offset of the clocks it would be an hour.
            let delay = metrics["message_delay_p50_ns"];
            let bound = metrics["clock_offset_bound_ns"];
            assert!(bound > 0.0 && bound <= 0.1 * delay, "{delay} {bound}");
            assert!((36e6 - bound..1000e6).contains(&delay), "{delay} {bound}");
            assert!(metrics["message_delay_max_ns"] >= delay);
        }
        let report = lab.run(&["report", "out", "--details"]);
        succeeds(&report);
        // The legend may be broken anywhere.
        let output = text(&report);
        let output = Vec::from_iter(output.split_whitespace()).join(" ");
        assert!(
            output.contains("± largest error from the offset"),
            "{output}"
        );
    }

    #[test]
    fn one_way_delay_below_ten_times_the_bound_is_omitted_with_the_reason() {
        let Some(lab) = Lab::start() else { return };
        lab.add_both();
        // A datagram takes some microseconds from one namespace to the other.
        for trial in lab.measures(DATAGRAMS) {
            let measured = &trial.measurements;
            assert!(!measured.metrics.contains_key("one_way_delay_p50_ns"));
            let reason = &measured.facts["one_way_delay"];
            assert!(
                reason.starts_with("left out: the clocks of the hosts are known to ± "),
                "{reason}"
            );
            let histograms = &measured.histograms;
            assert!(
                histograms
                    .iter()
                    .all(|found| found.name != "one_way_delay_ns")
            );
        }
    }
}
