//! Hosts with a kernel of their own, which has netem, and on which the user is root: guests on one Ethernet with the
//! controller.

use std::time::{SystemTime, UNIX_EPOCH};

use regatta_test_support::cases::{cases_below, judge_case, record_case};
use serde_json::Value;

use super::{
    live::{interrupt, with_page},
    *,
};
use crate::help::{Watched, is};

/// Environment variable of a case: process in whose network the controller is, and directory of the guests.
const SHARED_LAB: &str = "REGATTA_TEST_LAB";

/// Module with the modules of tests that share two guests.
const GUESTS: &str = "hosts::guests";

/// SSH destinations and data addresses of the guests.
const WAYS: [(&str, &str); 2] = [
    ("root@10.98.0.1", "10.98.0.1"),
    ("root@10.98.0.2", "10.98.0.2"),
];

impl Lab {
    /// Starts two guests, to which Regatta was sent before, and adds both as hosts with these keys of their `shaping`;
    /// `None` without the rights for it.
    pub(super) fn shaped(shaping: [&str; 2]) -> Option<Self> {
        has_rights().then(|| {
            let lab = Self::guests();
            lab.set_shaping(shaping);
            lab
        })
    }

    fn guests() -> Self {
        let bench = Bench::new();
        place_program(&bench.path("a/program"));
        place_program(&bench.path("b/program"));
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/guest-hosts.sh");
        let lab = Self::of(script, bench, WAYS);
        // A key that outlives the guests, which forget all that is written.
        let key = format!(
            "--ssh-option=-oIdentityFile={}",
            lab.bench.path("key").display()
        );
        for name in ["a", "b"] {
            succeeds(&lab.add(name, "", &["--accept-new", &key]));
        }
        let [a, b] = ["a", "b"].map(|host| lab.state(host).expect("an answer"));
        assert_eq!(a, b);
        lab.bench.write("booted", &a);
        lab
    }

    /// Returns two guests for the test `MODULE::NAME` below [`GUESTS`], with these keys of their `shaping`. The first
    /// process of a test run that needs them runs all tests of the module; the others return `None` when theirs has
    /// succeeded.
    ///
    /// After a test that failed the next one has guests of its own.
    #[track_caller]
    fn shared(case: &str, shaping: [&str; 2]) -> Option<Self> {
        if let Ok(lab) = std::env::var(SHARED_LAB) {
            let (controller, directory) = lab.split_once(' ').expect("two words");
            return Some(Self::of_other_process(controller, directory, shaping));
        }
        if test_run_directory().is_none() || !has_rights() {
            return Self::shaped(shaping);
        }
        let (module, _) = case.split_once("::").expect("a module and a name");
        once_per_test_run(
            &format!("cli-hosts-guests-{module}"),
            |directory| record_cases(module, directory),
            |directory| judge_case(directory, &format!("{GUESTS}::{case}")),
        );
        None
    }

    /// Returns a lab in which another process has added both hosts, with a home of its own for the controller.
    fn of_other_process(controller: &str, directory: &str, shaping: [&str; 2]) -> Self {
        let lab = Self {
            bench: Bench::new(),
            password: String::new(),
            directory: directory.into(),
            machines: None,
            controller: controller.parse().expect("a number"),
            ways: WAYS,
        };
        let copied = Command::new("cp")
            .arg("-a")
            .args([&lab.directory.join("home"), &lab.bench.path("home")])
            .status();
        assert!(copied.expect("cp").success());
        lab.set_shaping(shaping);
        lab
    }

    /// Adds these keys to the `shaping` of both hosts.
    fn set_shaping(&self, shaping: [&str; 2]) {
        let file = self.bench.path("home/.config/regatta/hosts.toml");
        let mut hosts = fs::read_to_string(&file).expect("a file");
        for (name, keys) in ["a", "b"].into_iter().zip(shaping) {
            hosts.push_str(&format!("[{name}.shaping]\nparent = \"vec0\"\n{keys}\n"));
        }
        fs::write(&file, hosts).expect("a file");
    }

    /// Returns the output of a command in a guest, which may be booting.
    pub(super) fn in_guest(&self, host: &str, command: &str) -> Option<String> {
        let key = self.directory.join("key");
        let output = Command::new("nsenter")
            .args(["--target", &self.controller.to_string(), "--net", "--"])
            .args(["ssh", "-F", "none", "-o", "StrictHostKeyChecking=no"])
            .args([
                "-o",
                "UserKnownHostsFile=/dev/null",
                "-o",
                "ConnectTimeout=2",
            ])
            .args(["-o", "BatchMode=yes", "-i"])
            .arg(key)
            .args([self.ways[usize::from(host == "b")].0, command])
            .output()
            .expect("nsenter");
        (output.status.success()).then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Returns the output of a command in a guest that runs: a connection to it may fail on a busy machine, and the
    /// command is repeated then.
    #[track_caller]
    fn in_running_guest(&self, host: &str, command: &str) -> String {
        let until = Instant::now() + TIMEOUT;
        loop {
            let is_last = Instant::now() >= until;
            if let Some(output) = self.in_guest(host, command) {
                return output;
            }
            assert!(!is_last, "`{host}` does not answer: {command}");
        }
    }

    /// Returns the queueing discipline of a guest's interface, the interfaces that a run makes and its processes.
    fn state(&self, host: &str) -> Option<String> {
        // The brackets keep the pattern from the command line that looks for it.
        let command = "tc qdisc show dev vec0; ip -o link show type macvlan; \
                       ps ax -o args | grep 'cache/[r]egatta' || true";
        self.in_guest(host, command)
    }

    /// Asserts that guests are as they were booted, soon.
    fn assert_restored(&self) {
        let booted = fs::read_to_string(self.directory.join("booted")).expect("a file");
        for host in ["a", "b"] {
            // Connections take seconds of it where the machine is busy.
            eventually(2 * CLEANUP_TIMEOUT, "the guest is as it was booted", || {
                self.state(host).as_ref() == Some(&booted)
            });
        }
    }
}

pub(super) const MACVLANS: [&str; 2] =
    ["address = \"198.18.0.1/24\"", "address = \"198.18.0.2/24\""];
pub(super) const INTERFACES: [&str; 2] = ["attach = \"interface\""; 2];

/// Runs the tests of a module that share guests, and writes their outputs and verdicts to a directory.
fn record_cases(module: &str, directory: &Path) -> Result<(), String> {
    let mut unused = None;
    for case in cases_below(&format!("{GUESTS}::{module}")) {
        let lab = unused.take().unwrap_or_else(Lab::guests);
        let shared = format!("{} {}", lab.controller, lab.directory.display());
        let passed = record_case(directory, &case, &[(SHARED_LAB, &shared)]);
        if passed.map_err(|error| error.to_string())? {
            unused = Some(lab);
        }
    }
    Ok(())
}

/// Makes the directory of the program that a guest has when it boots.
fn place_program(directory: &Path) {
    if let Some(program) = program_on_hosts() {
        fs::create_dir_all(directory).expect("a directory");
        let name = program.file_name().expect("a name");
        fs::hard_link(&program, directory.join(name)).expect("a file");
    }
}

/// Runs TCP of the guests' kernels over a shaped path, and asserts that it was as asked and is gone.
fn check_shaped_path(case: &str, shaping: [&str; 2]) {
    let Some(lab) = Lab::shared(case, shaping) else {
        return;
    };
    // A machine without a battery begins long ago.
    lab.in_running_guest("b", "date -s 2001-01-01");
    let mut run = lab.regatta(&["run", "--hosts", "a,b", "--out", "out", "--no-progress"]);
    run.args(["--transport", "tcp:cc=cubic,tcp-tls:cc=cubic"]);
    run.args(["--size", "1MB"]);
    run.args(["--rtt", "60ms", "--rate", "10Mbit/s", "--rounds", "1"]);
    let run = run.output().expect("a run");
    succeeds(&run);
    let csv = fs::read_to_string(lab.bench.path("out/trials.csv")).expect("trials");
    assert_eq!(csv.matches(",measured,").count(), 2, "{csv}");
    let (_, fields) = csv.split_once(",outcome,").expect("a column");
    let column = fields
        .split(',')
        .position(|name| name == "transfer_time_ns");
    for trial in csv.lines().filter_map(|line| line.split_once(",measured,")) {
        // 8 Mbit at 10 Mbit/s take 0.8 s: without the shaping it would be a twentieth of it.
        let nanoseconds = trial.1.split(',').nth(column.expect("a column"));
        let nanoseconds = nanoseconds.expect("a field").parse::<f64>();
        let seconds = nanoseconds.expect("a time") / 1e9;
        assert!((0.8..8.0).contains(&seconds), "{csv}");
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.expect("a clock after 1970").as_secs();
    lab.in_running_guest("b", &format!("date -s @{now}"));
    lab.assert_restored();
}

/// Tests that find two guests as they were booted, and leave them so.
mod shared {
    use super::*;

    #[test]
    fn a_path_is_shaped_on_interfaces() {
        check_shaped_path("shared::a_path_is_shaped_on_interfaces", INTERFACES);
    }

    #[test]
    fn interfaces_are_restored_when_the_controller_is_killed() {
        let Some(lab) = Lab::shared(
            "shared::interfaces_are_restored_when_the_controller_is_killed",
            INTERFACES,
        ) else {
            return;
        };
        let run = lab.race("out", &["--rtt", "60ms", "--rounds", "1000", "--json"]);
        let mut run = Watched::start(run);
        run.until(|event| is(event, "trial_started"));
        for host in ["a", "b"] {
            eventually(TIMEOUT, "the interface is shaped", || {
                lab.state(host).is_some_and(|now| now.contains("netem"))
            });
        }
        run.child.kill().expect("a signal");
        run.child.wait().expect("an end");
        lab.assert_restored();
    }

    #[test]
    fn the_drops_of_a_shaped_path_are_shown_while_it_runs() {
        let Some(lab) = Lab::shared(
            "shared::the_drops_of_a_shaped_path_are_shown_while_it_runs",
            MACVLANS,
        ) else {
            return;
        };
        // More rounds than it runs: it is interrupted when the drops were seen.
        let mut run = lab.regatta(&["run", "--hosts", "a,b", "--out", "out", "--rounds", "99"]);
        run.args(["--transport", "udp:rate=4Mbit/s", "--duration", "10s"]);
        run.args(["--rtt", "20ms", "--rate", "2Mbit/s"]);
        let (run, _stderr, url) = with_page(run);
        let trial = lab.trial_with(&url, &["goodput_bps", "dropped"]);
        let of_path = |trial: &Value| trial["dropped"][0].as_u64().expect("a number");
        let mut dropped = of_path(&trial);
        while dropped == 0 {
            dropped = of_path(&lab.trial_with(&url, &["dropped"]));
        }
        interrupt(&run);
        let run = run.wait_with_output().expect("an end");
        assert_eq!(run.status.code(), Some(1));
        lab.assert_restored();
    }

    #[test]
    fn check_reports_an_interface_that_is_still_shaped() {
        let Some(lab) = Lab::shared(
            "shared::check_reports_an_interface_that_is_still_shaped",
            INTERFACES,
        ) else {
            return;
        };
        // As a run leaves it whose processes are all killed at once.
        lab.in_running_guest("a", "tc qdisc replace dev vec0 root handle 7e9a: prio");
        let check = lab.run(&["hosts", "check", "a"]);
        succeeds(&check);
        let output = text(&check);
        assert!(
            output.contains("`vec0` has a queueing discipline of Regatta's"),
            "{output}"
        );
        assert!(
            output.contains("sudo tc qdisc del dev vec0 root"),
            "{output}"
        );
        assert!(
            output.contains("SCTP from `a`") || !output.contains("SCTP from"),
            "{output}"
        );
        lab.in_running_guest("a", "tc qdisc del dev vec0 root");
        lab.assert_restored();
    }
}

/// Tests like those of [`shared`] that take longest.
mod long_forms {
    use super::*;

    #[test]
    fn a_path_is_shaped_on_macvlans() {
        check_shaped_path("long_forms::a_path_is_shaped_on_macvlans", MACVLANS);
    }

    /// SCTP of the guests' kernels, over one path and over two: macvlans of 198.18.0.0/15 have two addresses.
    #[test]
    fn sctp_of_the_kernel_uses_the_second_addresses() {
        let Some(lab) = Lab::shared(
            "long_forms::sctp_of_the_kernel_uses_the_second_addresses",
            MACVLANS,
        ) else {
            return;
        };
        let mut run = lab.regatta(&["run", "--hosts", "a,b", "--out", "out", "--no-progress"]);
        run.args(["--transport", "sctp,sctp:multihoming=true"]);
        run.args(["--size", "300kB", "--message-size", "1kB"]);
        run.args(["--rtt", "20ms", "--rate", "10Mbit/s", "--rounds", "1"]);
        succeeds(&run.output().expect("a run"));
        let trials = crate::help::trials(&lab.bench.path("out"));
        assert_eq!(trials.len(), 2);
        for trial in trials {
            let measured = &trial.measurements;
            assert_eq!(
                trial.outcome,
                regatta_model::Outcome::Measured,
                "{trial:#?}"
            );
            assert_eq!(measured.metrics["bytes_delivered"], 300_000.0);
            let warnings: Vec<&str> = measured.warnings.iter().map(|it| &*it.code).collect();
            assert!(!warnings.contains(&"sctp_one_path"), "{warnings:?}");
        }
        lab.assert_restored();
    }

    #[test]
    fn check_reports_ports_blocked_for_sctp() {
        let Some(lab) = Lab::shared(
            "long_forms::check_reports_ports_blocked_for_sctp",
            INTERFACES,
        ) else {
            return;
        };
        let file = lab.bench.path("home/.config/regatta/hosts.toml");
        let hosts = fs::read_to_string(&file).expect("a file");
        let hosts = hosts.replace("[b]\n", "[b]\nports = \"5200-5203\"\n");
        fs::write(&file, hosts).expect("a file");
        let wall = "modprobe -d /mnt -a iptable_filter xt_sctp \
             && iptables-legacy -A INPUT -p sctp --dport 5200:5201 -j DROP";
        // A second rule does no harm.
        lab.in_running_guest("b", wall);
        let check = lab.run(&["hosts", "check", "a,b"]);
        for expected in [
            "TCP from `a` to `b`, port 5200-5203: open",
            "UDP from `a` to `b`, port 5200-5203: open",
            "SCTP from `a` to `b`, port 5202-5203: open\nSCTP from `a` to `b`, port 5200-5201: blocked: nothing arrives",
            "Open these ports in the firewalls of both hosts",
        ] {
            assert_fails(&check, expected);
        }
        let output = text(&check);
        let back = output
            .lines()
            .find(|line| line.starts_with("SCTP from `b` to `a`"));
        assert!(
            back.is_some_and(|line| line.ends_with(": open")),
            "{output}"
        );
        let rules = lab.in_running_guest("b", "iptables-legacy -F INPUT; iptables-legacy -S");
        assert!(!rules.contains("-A "), "{rules}");
        lab.assert_restored();
    }

    #[test]
    fn machine_that_boots_again_fails_one_trial_and_the_run_continues() {
        let Some(lab) = Lab::shared(
            "long_forms::machine_that_boots_again_fails_one_trial_and_the_run_continues",
            MACVLANS,
        ) else {
            return;
        };
        let mut run = lab
            .race("out", &["--rtt", "60ms", "--rounds", "4", "--json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a run");
        let kernel = lab.directory.join("b/kernel").display().to_string();
        let programs = lab.directory.join("b/program");
        let mut trials = 0;
        let mut invalid = 0;
        let mut ended = String::new();
        for line in BufReader::new(run.stdout.take().expect("a pipe")).lines() {
            let line = line.expect("a line");
            if line.contains("\"trial_ended\"") {
                trials += 1;
                invalid += u32::from(line.contains("\"invalid\""));
                ended += &format!("{line}\n");
                if trials == 2 {
                    // It is sent again to the machine, which forgets it.
                    if programs.exists() {
                        fs::remove_dir_all(&programs).expect("a directory");
                    }
                    for pid in running_with(&kernel) {
                        let _ = nix::sys::signal::kill(
                            nix::unistd::Pid::from_raw(pid),
                            nix::sys::signal::Signal::SIGKILL,
                        );
                    }
                }
            }
        }
        let run = run.wait_with_output().expect("an end");
        assert!(run.status.success(), "{ended}{}", text(&run));
        assert!(trials > 4 && invalid >= 1, "{ended}");
        place_program(&programs);
        lab.assert_restored();
    }
}

/// A machine that is busy makes the clocks of guests jump.
mod real_time {
    mod long_forms {
        use super::super::*;

        /// Shortest one-way delay of the path, in nanoseconds.
        const ONE_WAY_NS: f64 = 150e6;

        /// Checks that a delay is stated exactly if the clocks are known to a tenth of it: a guest that pauses makes the
        /// bound larger.
        #[test]
        fn delays_from_one_kernel_to_another_have_a_bound() {
            let Some(lab) = Lab::shaped(MACVLANS) else {
                return;
            };
            let mut run = lab.regatta(&["run", "--hosts", "a,b", "--out", "out", "--no-progress"]);
            run.args(["--transport", "udp:rate=2Mbit/s", "--size", "200kB"]);
            run.args(["--rtt", "300ms", "--rate", "10Mbit/s", "--rounds", "3"]);
            run.args(["--probe", "idle_messages=0:under_load=false"]);
            succeeds(&run.output().expect("a run"));
            let trials = crate::help::trials(&lab.bench.path("out"));
            assert_eq!(trials.len(), 3);
            let mut stated = 0;
            for trial in &trials {
                let measured = &trial.measurements;
                let bound = measured.metrics["clock_offset_bound_ns"];
                assert!(bound > 0.0, "{bound}");
                let Some(&delay) = measured.metrics.get("one_way_delay_p50_ns") else {
                    let reason = &measured.facts["one_way_delay"];
                    assert!(
                        reason.starts_with("left out: the clocks of the hosts are known to ± "),
                        "{reason}"
                    );
                    assert!(bound > 0.1 * (ONE_WAY_NS - bound), "{bound}: {reason}");
                    continue;
                };
                stated += 1;
                assert!(bound <= 0.1 * delay, "{delay} {bound}");
                assert!(
                    (ONE_WAY_NS - bound..550e6).contains(&delay),
                    "{delay} {bound}"
                );
            }
            assert!(stated > 0, "{trials:#?}");
        }
    }
}
