//! Comparisons of congestion controls and streams in virtual time, without the influence of a busy
//! machine.

use std::{collections::BTreeSet, path::Path};

use nix::{
    sched::{CpuSet, sched_getaffinity},
    sys::signal::Signal,
    unistd::Pid,
};
use regatta_model::{Outcome, TrialRecord};
use regatta_results::Reader;
use regatta_test_support::test_run::once_per_test_run;

use crate::help::{
    Bench, Watched, assert_ran, cell, is, root, run_study, shared_trials, signal, trials,
};

/// Returns the first lines of a study in virtual time.
pub fn head(name: &str) -> String {
    format!(
        "name = \"{name}\"\nrounds = 1\nseed = 7\nbed = \"uml\"\nclock = \"virtual\"\ndeadline = \"60s\"\n"
    )
}

/// Returns trials of a transfer over a long path, one for each of [`controls::CONTROLS`].
fn controlled() -> Vec<TrialRecord> {
    let mut study = head("controls");
    for control in controls::CONTROLS {
        study += &format!(
            "[[transport]]\nlabel = \"{control}\"\ndriver = \"tcp\"\ncc = \"{control}\"\n"
        );
    }
    study += "[[condition]]\nname = \"far\"\nrtt = \"300ms\"\nrate = \"20Mbit/s\"\n\
        [[workload]]\nname = \"bulk\"\nkind = \"bulk\"\nsize = \"500kB\"\nmessage = \"10kB\"\n\
        [workload.probe]\nidle_messages = 0\nunder_load = false\n";
    let trials = shared_trials("cli-controls", &study);
    assert_eq!(trials.len(), controls::CONTROLS.len());
    trials
}

/// Checks that a trial had the congestion control that it asked for.
#[track_caller]
fn can_be_chosen(control: &str) {
    let trials = controlled();
    let trial = cell(&trials, control, "bulk", "far");
    assert_eq!(trial.outcome, Outcome::Measured, "{trial:#?}");
    assert_eq!(
        trial.measurements.facts["congestion_control.sender"], control,
        "{:?}",
        trial.measurements.facts
    );
}

/// Makes a test for each congestion control.
macro_rules! controls {
    ($($control:ident),+ $(,)?) => {
        /// Congestion controls of the lab's kernel.
        pub const CONTROLS: &[&str] = &[$(stringify!($control)),+];

        $(#[test]
        fn $control() {
            super::can_be_chosen(stringify!($control));
        })+
    };
}

mod controls {
    controls! {
        bbr, bic, cdg, cubic, dctcp, highspeed, htcp, hybla, illinois, lp, nv, reno, scalable, vegas,
        veno, westwood, yeah,
    }
}

#[test]
fn hybla_is_fastest_over_a_long_path() {
    let trials = controlled();
    let took_ms = |control: &str| {
        let trial = cell(&trials, control, "bulk", "far");
        trial.measurements.metrics["transfer_time_ns"] / 1e6
    };
    let [hybla, cubic, bbr] = ["hybla", "cubic", "bbr"].map(took_ms);
    // Slow start from ten segments doubles each 300 ms. Hybla grows as a connection of 25 ms would, so
    // that the window which the receiver opens, itself doubling, is what limits it: it saves about the
    // first round trip of the six.
    assert!(
        hybla + 250.0 < cubic,
        "nearly a round trip earlier: {hybla}, {cubic}"
    );
    // BBR's start doubles as slow start does.
    assert!(bbr > hybla, "{bbr}, {hybla}");
}

/// Checks that streams keep losses apart, with one message in fifty lost. Over one stream those
/// behind it wait for about a round trip and three messages, so that more than one in twenty is
/// late; over eight streams few but the lost ones are late, and the 95th percentile is on time.
#[track_caller]
fn streams_keep_losses_apart(transport: &str) {
    let mut study = head("streams");
    // By default SCTP waits at least a second before it sends again what nothing comes behind.
    study += "[[transport]]\ndriver = \"sctp\"\nrto_min = \"200ms\"\n\
        [[transport]]\ndriver = \"quic-quinn\"\n\
        [[condition]]\nname = \"lossy\"\nrtt = \"40ms\"\nrate = \"100Mbit/s\"\nloss = \"2%\"\n";
    for (name, streams) in [("one", 1), ("many", 8)] {
        study += &format!(
            "[[workload]]\nname = \"{name}\"\nkind = \"multi-stream\"\nmessages = 1000\n\
             message = \"200B\"\nmessages_per_second = 125\nstreams = {streams}\n\
             [workload.probe]\nidle_messages = 0\n"
        );
    }
    let trials = shared_trials("cli-streams-in-the-kernel", &study);
    let [one, many] = ["one", "many"].map(|workload| {
        let trial = cell(&trials, transport, workload, "lossy");
        assert_eq!(trial.outcome, Outcome::Measured, "{trial:#?}");
        assert_eq!(trial.measurements.metrics["messages_delivered"], 1000.0);
        trial.measurements.metrics["message_delay_p95_ns"] / 1e6
    });
    println!("95th percentile {one:.1} ms over one stream, {many:.1} over eight");
    assert!(many < one, "{many} ms over 8, {one} over one");
    assert!(one > 40.0, "{one} ms, hardly any was held up");
}

#[test]
fn kernel_sctp_streams_avoid_head_of_line_blocking() {
    streams_keep_losses_apart("sctp");
}

#[test]
fn quic_streams_avoid_head_of_line_blocking() {
    streams_keep_losses_apart("quic-quinn");
}

/// Checks the study on the page about SCTP, as it stands there, and with another time-out: the
/// primary path is lost in the middle of a transfer, which goes on over the other path once the
/// data in flight has timed out. In real time a pause of the machine would time out healthy paths.
#[track_caller]
fn sctp_fails_over_after(rto: &str, rto_ms: f64) {
    let page = include_str!("../../../../../docs/transports/sctp.md");
    let written = page.split("```toml\n").nth(1).expect("a study");
    let written = written.split("```").next().expect("its end");
    // From the loss of the path to the first data after it pass the time-out, which runs from the last
    // acknowledgement, and what that and the data sent again take over the path with its queue.
    const PATH_MS: f64 = 110.0;
    let bench = Bench::new();
    let study = written.replace("\"200ms\"", &format!("\"{rto}\""));
    assert!(study.contains(&format!("rto_min = \"{rto}\"")), "{study}");
    bench.write("failover.toml", &study);
    let how = ["--bed", "uml", "--clock", "virtual", "--rounds", "1"];
    bench.run(&[&["run", "failover.toml", "--out", rto], &how[..]].concat());
    let trials = trials(&bench.path(rto));
    assert_eq!(trials.len(), 1);
    let trial = &trials[0];
    assert_ran(trial);
    assert_eq!(trial.measurements.metrics["bytes_delivered"], 20e6);
    for side in ["sender", "receiver"] {
        let outcome = &trial.measurements.facts[&format!("sctp.primary_path.{side}")];
        assert!(outcome.starts_with("taken down"), "{outcome}");
    }
    let paths: Vec<&str> = trial.measurements.facts["sctp.paths.sender"]
        .split(", ")
        .collect();
    assert_eq!(paths.len(), 2, "{paths:?}");
    assert!(paths[1].ends_with(" active"), "{paths:?}");
    assert!(!paths[0].ends_with(" active"), "{paths:?}");
    let took_ms = trial.measurements.metrics["fail_over_time_ns"] / 1e6;
    println!("rto_min {rto}: {took_ms:.1} ms, {paths:?}");
    assert!((rto_ms..rto_ms + PATH_MS).contains(&took_ms), "{took_ms}");
    bench.assert_nothing_left();
}

#[test]
fn sctp_fails_over_after_a_time_out_of_200_ms() {
    sctp_fails_over_after("200ms", 200.0);
}

#[test]
fn sctp_fails_over_after_a_time_out_of_one_second() {
    sctp_fails_over_after("1s", 1000.0);
}

/// Checks that data after the warm-up is counted between deliveries, up to the last byte, whatever the transport does
/// then: closing many connections over a lossy path takes time-outs. So it is never more than the path carries, although
/// what waits behind a lost packet at the end of the warm-up is delivered after it, all at once.
#[test]
fn goodput_after_a_warm_up_ends_with_the_last_byte() {
    let bench = Bench::new();
    let study = head("warm").replace("rounds = 1", "rounds = 3")
        + "[[transport]]\ndriver = \"tcp\"\n[[transport]]\ndriver = \"wdt\"\n\
        [[condition]]\nname = \"clean\"\nrtt = \"20ms\"\nrate = \"50Mbit/s\"\n\
        [[condition]]\nname = \"lossy\"\nrtt = \"20ms\"\nrate = \"50Mbit/s\"\nloss = \"0.5%\"\n\
        [[workload]]\nname = \"bulk\"\nkind = \"bulk\"\nsize = \"4MB\"\nwarm_up = \"200ms\"\n\
        [workload.probe]\nidle_messages = 0\nunder_load = false\n";
    bench.write("study.toml", &study);
    bench.run(&["run", "study.toml", "--out", "out"]);
    let trials = trials(&bench.path("out"));
    assert_eq!(trials.len(), 12);
    for trial in &trials {
        assert_ran(trial);
        let metric = |name: &str| trial.measurements.metrics[name];
        let bits = (metric("bytes_delivered") - metric("warm_up_bytes")) * 8.0;
        let counted_ms = bits / metric("goodput_bps") * 1e3;
        assert!((counted_ms - metric("goodput_time_ns") / 1e6).abs() < 1e-6);
        let rest_ms = (metric("transfer_time_ns") - metric("warm_up_ns")) / 1e6;
        let context = format!("{} under {}", trial.transport, trial.condition);
        let goodput = metric("goodput_bps") / 1e6;
        println!("{context}: {counted_ms:.1} ms of {rest_ms:.1}, {goodput:.4} Mbit/s");
        // The receiver begins when the connection has come, half a round trip or more after the
        // sender, and has all half a round trip before the sender knows it. Nothing comes meanwhile behind a lost packet.
        let gap_ms = if trial.condition == "clean" {
            0.0
        } else {
            40.0
        };
        assert!(
            counted_ms < rest_ms - 15.0 + gap_ms,
            "{context}: {counted_ms}, {rest_ms}"
        );
        assert!(goodput <= 50.0 * 1448.0 / 1500.0, "{context}: {goodput}");
    }
    bench.assert_nothing_left();
}

/// Returns the trials of a result directory by their position in the plan, as two runs that are divided differently report
/// them in another order.
fn sorted(dir: &Path) -> Vec<TrialRecord> {
    let mut all = trials(dir);
    all.sort_by_key(|trial| trial.index);
    all
}

/// Returns a study that is divided in different ways. By the estimate it is 9 s of work: two chunks.
fn divided() -> String {
    divided_with(&["tcp", "sctp", "quic-quinn"])
}

/// Returns [`divided`] with other transports.
fn divided_with(transports: &[&str]) -> String {
    let mut study = head("divided").replace("rounds = 1", "rounds = 4");
    for transport in transports {
        study += &format!("[[transport]]\ndriver = \"{transport}\"\n");
    }
    study
        + "[[condition]]\nname = \"lossy\"\nrtt = \"20ms\"\nrate = \"50Mbit/s\"\nloss = \"1%\"\n\
        [[condition]]\nname = \"far\"\nrtt = \"60ms\"\nrate = \"20Mbit/s\"\n\
        [[workload]]\nname = \"bulk\"\nkind = \"bulk\"\nsize = \"300kB\"\nmessage = \"10kB\"\n"
}

/// Number of trials of [`divided`].
const DIVIDED_TRIALS: usize = 24;

/// Returns the result of `read` on the directory of a run of [`divided`] by one guest after another.
fn with_serial_run<T>(read: impl FnOnce(&Path) -> T) -> T {
    let make = |dir: &Path| run_study(dir, &divided());
    once_per_test_run("cli-divided", make, read)
}

/// Compares trials alone with trials beside those of other transports. Random losses amplify what differs: another random
/// number in an agent changes the goodput by per cents.
#[test]
fn trials_begin_afresh() {
    let of_quinn = |mut trials: Vec<TrialRecord>| {
        trials.retain(|trial| trial.transport == "quic-quinn");
        trials.sort_by_key(|trial| (trial.round, trial.condition.clone()));
        trials
    };
    let beside = with_serial_run(|dir| of_quinn(trials(&dir.join("out"))));
    let bench = Bench::new();
    bench.write("study.toml", &divided_with(&["quic-quinn"]));
    bench.run(&["run", "study.toml", "--out", "alone"]);
    let reader = Reader::open(&bench.path("alone")).expect("results");
    let hosts = reader.header().expect("a header").hosts;
    assert_eq!(hosts["sender"].0["guest.state"], "afresh with each trial");
    let alone = of_quinn(trials(&bench.path("alone")));
    assert_eq!((alone.len(), beside.len()), (8, 8));
    for (alone, beside) in alone.iter().zip(&beside) {
        let [alone, beside] = [alone, beside].map(|it| it.measurements.metrics["goodput_bps"]);
        println!("{alone} alone, {beside} beside others");
        assert!((alone / beside - 1.0).abs() < 1e-3, "{alone}, {beside}");
    }
}

#[test]
fn rounds_of_a_series_begin_on_time() {
    let bench = Bench::new();
    let study = head("series").replace("rounds = 1", "rounds = 3\nevery = \"30s\"")
        + "[[transport]]\ndriver = \"tcp\"\n\
        [[condition]]\nname = \"near\"\nrtt = \"20ms\"\nrate = \"20Mbit/s\"\n\
        [[workload]]\nkind = \"bulk\"\nsize = \"100kB\"\n";
    bench.write("study.toml", &study);
    let done = bench.run(&["run", "study.toml", "--out", "out"]);
    done.assert_code(0);
    assert!(
        !done.stderr.contains("passed without a round"),
        "{}",
        done.stderr
    );
}

/// Two guests share a processor only if there is no other one.
#[test]
fn concurrent_guests_have_a_processor_each() {
    let bench = Bench::new();
    // More rounds than it runs: it is interrupted when all was seen.
    let study = head("pinned").replace("rounds = 1", "rounds = 99")
        + "[[transport]]\ndriver = \"tcp\"\n\
        [[condition]]\nname = \"plain\"\nrtt = \"20ms\"\nrate = \"50Mbit/s\"\n\
        [[workload]]\nname = \"bulk\"\nkind = \"bulk\"\nsize = \"5MB\"\nmessage = \"10kB\"\n";
    bench.write("study.toml", &study);
    // In a network namespace without the guests of other tests.
    let mut command = bench.command("unshare");
    command.arg("--net");
    if !root() {
        command.arg("--map-root-user");
    }
    command.arg(env!("CARGO_BIN_EXE_regatta"));
    command.args(["run", "study.toml", "--jobs", "2", "--json", "--out", "out"]);
    let mut run = Watched::start(command);
    let processors = |pid: i32| -> Option<Vec<usize>> {
        let set = sched_getaffinity(Pid::from_raw(pid)).ok()?;
        let all = 0..CpuSet::count();
        Some(all.filter(|&n| set.is_set(n).unwrap_or(false)).collect())
    };
    let available = processors(0).expect("this process").len();
    let mut used = BTreeSet::new();
    // The first guest may be over when the second one begins, so that both had the same processor.
    while used.len() < available.min(2) {
        run.until(|event| is(event, "trial_started"));
        // The guest of this trial runs now, and has claimed its processor. One that begins may not have.
        let daemons = bench.running("guest-daemon");
        used.extend((daemons.into_iter().filter_map(processors)).filter(|of| of.len() == 1));
    }
    signal(run.pid(), Signal::SIGINT);
    run.finish().assert_code(1);
}

/// Returns the summary in a result directory without what differs from run to run: identifiers, times of the clock,
/// and how long the guest took to start.
fn summary(dir: &Path) -> serde_json::Value {
    let text = std::fs::read_to_string(dir.join("summary.json")).expect("a summary");
    let mut summary: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let map = summary.as_object_mut().expect("an object");
    map.remove("run_id");
    map.remove("started_unix_ns");
    for check in map["path_checks"].as_array_mut().expect("checks") {
        check
            .as_object_mut()
            .expect("a check")
            .remove("checked_unix_ns");
    }
    summary
}

/// Compares shards, of which one was stopped and resumed and one stopped and continued in another directory,
/// with a serial run.
#[test]
fn merged_shards_are_identical_to_the_serial_run() {
    let bench = Bench::new();
    bench.write("study.toml", &divided());
    let strip = |mut trials: Vec<TrialRecord>| {
        for trial in &mut trials {
            assert_ran(trial);
            trial.started_unix_ns = 0;
        }
        trials
    };
    let (serial, serial_summary) = with_serial_run(|dir| {
        let out = dir.join("out");
        (strip(sorted(&out)), summary(&out))
    });
    assert_eq!(serial.len(), DIVIDED_TRIALS);
    let refused = bench.run(&["run", "study.toml", "--shard", "1/3", "--dry-run"]);
    refused.assert_code(2);
    refused.assert_stderr_contains("ask for at most 2 shards");

    let shard = |shard: &'static str, out: &'static str| {
        ["run", "study.toml", "--shard", shard, "--out", out]
    };
    let stopped_within_its_chunk = |args: &[&str]| {
        let mut run = Watched::start(bench.regatta(&[args, &["--json"]].concat()));
        run.until(|event| is(event, "trial_ended"));
        run.until(|event| is(event, "trial_ended"));
        signal(run.pid(), nix::sys::signal::Signal::SIGTERM);
        run.finish().assert_code(1);
    };
    stopped_within_its_chunk(&shard("1/2", "part-1"));
    bench.run(&["resume", "part-1"]).assert_code(0);
    stopped_within_its_chunk(&shard("2/2", "part-2"));
    let again = [
        &shard("2/2", "part-2-again")[..],
        &["--done", "part-2", "--jobs", "2"],
    ];
    bench.run(&again.concat()).assert_code(0);
    let merged = bench.run(&["merge", "merged", "part-1", "part-2", "part-2-again"]);
    merged.assert_code(0);
    // Trials that had records were run again, and not stored again.
    merged.assert_stderr_contains("24 of 24 trials are merged, from 3 files\n");
    let merged = bench.path("merged");
    assert_eq!(strip(sorted(&merged)), serial);
    assert_eq!(summary(&merged), serial_summary);
    bench.assert_nothing_left();
}

/// Makes a test for each driver. TLS and QUIC use random numbers, all of which come from the
/// guest's seeded kernel: the same packets in the same order, of which the path loses the same.
macro_rules! again {
    ($($driver:ident = $name:literal),+ $(,)?) => {
        const DRIVERS: &[&str] = &[$($name),+];

        $(#[test]
        fn $driver() {
            runs_are_identical($name);
        })+
    };
}

pub mod again {
    use super::*;

    again! {
        tcp_tls = "tcp-tls",
        quic_quinn = "quic-quinn",
        quic_quiche = "quic-quiche",
        quic_s2n = "quic-s2n",
        quic_noq = "quic-noq",
    }

    /// Drivers without random numbers, of which [`crate::guests::one`] compares all that is recorded.
    pub const PLAIN: &[&str] = &["tcp", "udp", "sctp"];

    /// Returns the results of `read` on the directories of two runs of the same study with all these drivers.
    pub fn with_both<T>(mut read: impl FnMut(&Path) -> T) -> [T; 2] {
        let mut study = head("again");
        for driver in PLAIN.iter().chain(DRIVERS) {
            study += &format!("[[transport]]\ndriver = \"{driver}\"\n");
            if *driver == "udp" {
                study += "rate = \"40Mbit/s\"\n";
            }
        }
        study += "[[condition]]\nname = \"lossy\"\nrtt = \"20ms\"\nrate = \"50Mbit/s\"\nloss = \"1%\"\n\
            [[workload]]\nname = \"bulk\"\nkind = \"bulk\"\nsize = \"1MB\"\nmessage = \"10kB\"\n";
        ["cli-again-one", "cli-again-two"]
            .map(|key| once_per_test_run(key, |dir| run_study(dir, &study), &mut read))
    }

    #[track_caller]
    fn runs_are_identical(driver: &str) {
        let [one, two] = with_both(|dir| {
            let trials = trials(&dir.join("out"));
            assert_eq!(trials.len(), PLAIN.len() + DRIVERS.len());
            cell(&trials, driver, "bulk", "lossy").clone()
        });
        assert_eq!(one.outcome, Outcome::Measured, "{one:#?}");
        assert_eq!(one.measurements.metrics, two.measurements.metrics);
    }
}

mod long_forms {
    use super::*;

    /// Checks that a sender that never waits loses nothing before the path: the kernel runs it before the emulator after a
    /// wait of a second, as for a probe message that was lost.
    #[test]
    fn udp_flood_loss_equals_path_loss() {
        let bench = Bench::new();
        let study = head("flood").replace("rounds = 1", "rounds = 8")
            + "emulator = \"userspace\"\n[[transport]]\ndriver = \"udp\"\nframe = \"conn\"\n\
            [[condition]]\nname = \"lossy\"\nrate = \"1Gbit/s\"\nqueue = \"120MB\"\nloss = \"5%\"\n\
            [[workload]]\nname = \"bulk\"\nkind = \"bulk\"\nsize = \"4MB\"\nmessage = \"1000B\"\n\
            [workload.probe]\nidle_messages = 5\nunder_load = false\n";
        bench.write("study.toml", &study);
        bench.run(&["run", "study.toml", "--out", "out"]);
        for trial in &trials(&bench.path("out")) {
            assert_ran(trial);
            let metrics = &trial.measurements.metrics;
            assert_eq!(metrics["path_other_drops"], 0.0, "{metrics:?}");
            // 4000 messages: 200 ± 5 standard deviations, exceeded once in a million trials.
            assert!(
                (130.0..270.0).contains(&metrics["messages_lost"]),
                "{metrics:?}"
            );
        }
        bench.assert_nothing_left();
    }

    /// Checks the memory of a guest. With its default limits, the guest's kernel closes TCP's window
    /// when all sockets together have a small part of its memory, which one connection over such a path
    /// has in flight.
    #[test]
    fn memory_of_a_guest_is_enough_for_a_long_fat_path() {
        let bench = Bench::new();
        let study = head("fat")
            + "[[transport]]\ndriver = \"tcp\"\ncc = \"cubic\"\n\
            [[condition]]\nname = \"fat\"\nrtt = \"300ms\"\nrate = \"1Gbit/s\"\n\
            [[workload]]\nname = \"bulk\"\nkind = \"bulk\"\nsize = \"200MB\"\nmessage = \"64kB\"\n\
            [workload.probe]\nidle_messages = 0\nunder_load = false\n";
        bench.write("study.toml", &study);
        bench.run(&["run", "study.toml", "--out", "out"]);
        let trials = trials(&bench.path("out"));
        let trial = &trials[0];
        assert_ran(trial);
        let limited =
            (trial.measurements.warnings.iter()).find(|warning| warning.code == "window_limited");
        assert_eq!(limited, None);
        // Slow start from ten segments takes twelve round trips to a full path, the rest two seconds.
        let took_ms = trial.measurements.metrics["transfer_time_ns"] / 1e6;
        assert!((3000.0..6000.0).contains(&took_ms), "{took_ms}");
        bench.assert_nothing_left();
    }

    /// Compares one guest after another with two at once.
    #[test]
    fn figures_do_not_depend_on_the_number_of_guests() {
        let bench = Bench::new();
        bench.write("study.toml", &divided());
        let one = with_serial_run(|dir| {
            let stderr = std::fs::read_to_string(dir.join("stderr")).expect("standard error");
            assert!(stderr.contains("the run took "), "{stderr}");
            sorted(&dir.join("out"))
        });
        bench.run(&["run", "study.toml", "--jobs", "2", "--out", "two"]);
        let two = sorted(&bench.path("two"));
        assert_eq!((one.len(), two.len()), (DIVIDED_TRIALS, DIVIDED_TRIALS));
        for (index, (one, two)) in one.iter().zip(&two).enumerate() {
            assert_ran(one);
            assert_eq!(one.index as usize, index, "each trial once");
            assert_eq!(
                one.measurements.metrics, two.measurements.metrics,
                "{} under {}",
                one.transport, one.condition
            );
        }
        bench.assert_nothing_left();
        let real = bench.run(&[
            "run",
            "study.toml",
            "--clock",
            "real",
            "--jobs",
            "2",
            "--out",
            "three",
        ]);
        real.assert_code(2);
        real.assert_stderr_contains("leave `--jobs` out");
    }
}
