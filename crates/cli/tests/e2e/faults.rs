//! Failures during a run: no data is lost, no process is left behind, and all is reported.

use std::{
    collections::BTreeSet,
    iter,
    os::unix::process::CommandExt,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use regatta_results::{Reader, RunState};
use serde_json::Value;

use crate::help::{Bench, SLOW, SMALL, Watched, assert_ran, is, signal, trials};

#[test]
fn a_killed_run_is_resumed_without_losing_or_repeating_a_trial() {
    let bench = Bench::new();
    // Far more trials than end before the kill.
    bench.write("study.toml", &SMALL.replace("rounds = 2", "rounds = 8"));
    let mut run = Watched::start(bench.regatta(&["run", "study.toml", "--out", "out", "--json"]));
    for _ in 0..3 {
        run.until(|event| is(event, "trial_ended"));
    }
    run.until(|event| is(event, "trial_started"));
    assert_eq!(bench.running("agent").len(), 2);
    assert_eq!(bench.running("path-daemon").len(), 1);
    signal(run.pid(), Signal::SIGKILL);
    let killed = run.finish();
    assert!(!killed.status.success());
    bench.assert_nothing_left();

    let out = bench.path("out");
    let stored = || {
        let reader = Reader::open(&out);
        reader.and_then(|it| it.trials()).expect("results")
    };
    let before = stored();
    assert!(before.len() >= 3, "{}", before.len());
    // What was measured can be looked at before it is resumed.
    bench.run(&["report", "out"]).assert_code(1);

    let resumed = bench.run(&["resume", "out", "--json"]);
    let ran: BTreeSet<u64> = resumed
        .events()
        .iter()
        .filter(|event| is(event, "trial_ended"))
        .map(|event| event["trial"]["index"].as_u64().expect("an index"))
        .collect();
    let after = stored();
    // A trial that the machine spoiled is repeated, with an index above those of the plan.
    let places: BTreeSet<u32> = after.iter().map(|trial| trial.index % 16).collect();
    let planned: BTreeSet<u32> = (0..16).collect();
    assert_eq!(places, planned, "{resumed:#?}");
    for trial in &before {
        assert!(after.contains(trial), "what was there is as it was");
    }
    assert_eq!(
        before.len() + ran.len(),
        after.len(),
        "nothing is run twice"
    );
    let reader = Reader::open(&out).expect("results");
    assert_eq!(reader.state().expect("a state"), RunState::Complete);
    bench.assert_nothing_left();
}

#[test]
fn killed_agent_makes_its_trial_invalid_which_is_repeated() {
    let bench = Bench::new();
    bench.write("study.toml", SLOW);
    let mut run = Watched::start(bench.regatta(&["run", "study.toml", "--out", "out", "--json"]));
    run.until(|event| is(event, "trial_started"));
    let agents = bench.running("agent");
    assert_eq!(agents.len(), 2);
    bench.until_transferring();
    signal(agents[0], Signal::SIGKILL);
    let first = run.until(|event| is(event, "trial_ended"));
    assert_eq!(first["trial"]["outcome"], "invalid", "{first:#}");
    let reasons = first["trial"]["reasons"].to_string();
    assert!(reasons.contains("died during the trial"), "{reasons}");
    assert!(reasons.contains("signal: 9"), "{reasons}");
    let done = run.finish();
    done.assert_code(0);
    let all = trials(&bench.path("out"));
    assert_eq!(all.len(), 4, "the last attempts: {done:#?}");
    all.iter().for_each(assert_ran);
    bench.assert_nothing_left();
}

#[test]
fn agents_that_die_before_the_first_trial_fail_no_trial() {
    let bench = Bench::new();
    // Steps that no trial reaches, each of which is checked before the first trial: it is far away when the agents die.
    let steps: String = (1..=6)
        .map(|step| {
            format!(
                "[[condition.step]]\nat = \"{step}h\"\nrtt = \"{}ms\"\n",
                10 + step
            )
        })
        .collect();
    bench.write(
        "study.toml",
        &SMALL.replace("[[workload]]", &(steps + "[[workload]]")),
    );
    let mut run = Watched::start(bench.regatta(&["run", "study.toml", "--out", "out", "--json"]));
    // The path is checked now.
    run.until(|event| is(event, "run_started"));
    for agent in bench.running("agent") {
        signal(agent, Signal::SIGKILL);
    }
    let done = run.finish();
    let all = trials(&bench.path("out"));
    assert_eq!(all.len(), 4, "{done:#?}");
    all.iter().for_each(assert_ran);
    bench.assert_nothing_left();
}

#[test]
fn a_trial_whose_path_ended_is_run_again_by_resume() {
    let bench = Bench::new();
    bench.write("study.toml", SLOW);
    let mut run = Watched::start(bench.regatta(&["run", "study.toml", "--out", "out", "--json"]));
    run.until(|event| is(event, "trial_ended"));
    run.until(|event| is(event, "trial_started"));
    bench.until_transferring();
    signal(bench.running("path-daemon")[0], Signal::SIGKILL);
    let done = run.finish();
    done.assert_code(1);
    done.assert_stderr_contains("the path daemon ended");
    done.assert_stderr_contains("regatta resume out");
    assert_eq!(trials(&bench.path("out")).len(), 1, "{done:#?}");
    bench.run(&["resume", "out", "--json"]);
    let all = trials(&bench.path("out"));
    assert_eq!(all.len(), 4);
    all.iter().for_each(assert_ran);
    bench.assert_nothing_left();
}

/// Checks that signals ignored at the start do not end a run: `nohup` ignores SIGHUP, a shell's `&`
/// without job control SIGINT.
#[test]
fn signals_ignored_at_the_start_do_not_end_a_run() {
    let bench = Bench::new();
    bench.write("study.toml", SMALL);
    let regatta = env!("CARGO_BIN_EXE_regatta");
    let line = format!("trap '' INT HUP; exec {regatta} run study.toml --out out --json");
    let mut command = bench.command("sh");
    command.args(["-c", &line]).process_group(0);
    let mut run = Watched::start(command);
    run.until(|event| is(event, "trial_started"));
    for ignored in [Signal::SIGINT, Signal::SIGHUP] {
        signal(-run.pid(), ignored);
    }
    let done = run.finish();
    assert!(!done.stderr.contains("stopping"), "{done:#?}");
    let state = Reader::open(&bench.path("out")).and_then(|reader| reader.state());
    assert!(matches!(state, Ok(RunState::Complete)), "{state:?}");
    bench.assert_nothing_left();
}

/// Returns the number of trials that ended according to these events. Attempts at one trial count once.
fn ended<'a>(events: impl IntoIterator<Item = &'a Value>) -> usize {
    let key = |event: &Value| {
        let trial = &event["trial"];
        format!("{} {}", trial["round"], trial["transport"])
    };
    let ended = events.into_iter().filter(|event| is(event, "trial_ended"));
    ended.map(key).collect::<BTreeSet<_>>().len()
}

/// A check of a path takes several of its round trips, which nobody waits for after Ctrl-C.
#[test]
fn ctrl_c_ends_a_path_check() {
    let bench = Bench::new();
    let path = ["--rtt", "4s", "--rate", "10Mbit/s"];
    let run = ["run", "--transport", "tcp", "--rounds", "1", "--json"];
    let mut run = Watched::start(bench.regatta(&[&run[..], &path, &["--out", "out"]].concat()));
    run.until(|event| is(event, "run_started"));
    bench.until_checking();
    signal(run.pid(), Signal::SIGINT);
    let done = run.finish();
    done.assert_code(1);
    done.assert_stderr_contains("stopping");
    let events = done.events();
    let is_checked = |event: &Value| is(event, "path_checked");
    assert!(!events.iter().any(is_checked), "{done:#?}");
    bench.assert_nothing_left();
}

#[test]
fn ctrl_c_keeps_finished_trials_and_reports_a_partial_run() {
    let bench = Bench::new();
    bench.write("study.toml", SLOW);
    let mut command = bench.regatta(&["run", "study.toml", "--out", "out", "--json"]);
    // A terminal sends Ctrl-C to the whole group of processes in front.
    command.process_group(0);
    let mut run = Watched::start(command);
    let first = run.until(|event| is(event, "trial_ended"));
    run.until(|event| is(event, "trial_started"));
    signal(-run.pid(), Signal::SIGINT);
    let done = run.finish();
    done.assert_code(1);
    done.assert_stderr_contains("the run is partial");
    done.assert_stderr_contains("regatta resume out");
    bench.assert_nothing_left();

    let out = bench.path("out");
    let finished = trials(&out);
    // The signal may come after the end of the trial that it was meant for.
    let events = done.events();
    let ended = ended(iter::once(&first).chain(&events));
    assert_eq!(finished.len(), ended, "{done:#?}");
    finished.iter().for_each(assert_ran);
    let state = Reader::open(&out).and_then(|reader| reader.state());
    assert!(
        matches!(state, Ok(RunState::Interrupted { .. })),
        "{state:?}"
    );
    assert!(out.join("report.html").exists());
    let report = bench.run(&["report", "out"]);
    report.assert_code(1);
    assert!(report.stdout.contains("interrupted"), "{}", report.stdout);

    bench.run(&["resume", "out", "--no-progress"]);
    assert_eq!(trials(&out).len(), 4);
}

#[test]
fn closed_terminal_keeps_finished_trials() {
    let bench = Bench::new();
    bench.write("study.toml", SLOW);
    let mut run = Watched::start(bench.regatta(&["run", "study.toml", "--out", "out", "--json"]));
    let first = run.until(|event| is(event, "trial_ended"));
    run.until(|event| is(event, "trial_started"));
    // An agent that cannot answer keeps the run from ending while the signals come.
    signal(bench.running("agent")[0], Signal::SIGSTOP);
    // The shell says it, then the kernel.
    for _ in 0..4 {
        signal(run.pid(), Signal::SIGHUP);
        std::thread::sleep(Duration::from_millis(150));
    }
    let done = run.finish();
    done.assert_code(1);
    done.assert_stderr_contains("the run is partial");
    bench.assert_nothing_left();
    let out = bench.path("out");
    // The agent may be stopped after the end of the trial that it was meant for.
    let events = done.events();
    let ended = ended(iter::once(&first).chain(&events));
    assert_eq!(trials(&out).len(), ended, "{done:#?}");
    let state = Reader::open(&out).and_then(|reader| reader.state());
    assert!(
        matches!(state, Ok(RunState::Interrupted { .. })),
        "{state:?}"
    );
    assert!(out.join("report.html").exists());
}

#[test]
fn an_agent_that_hangs_is_replaced() {
    let bench = Bench::new();
    // The limit of a trial follows from its deadline; this one is as short as can be.
    bench.write("study.toml", &SLOW.replace("\"10s\"", "\"1s\""));
    let mut run = Watched::start(bench.regatta(&["run", "study.toml", "--out", "out", "--json"]));
    run.until(|event| is(event, "trial_started"));
    bench.until_transferring();
    signal(bench.running("agent")[0], Signal::SIGSTOP);
    let first = run.until(|event| is(event, "trial_ended"));
    // Somebody else stopped it, so the trial says nothing about its transport and is repeated.
    assert_eq!(first["trial"]["outcome"], "invalid", "{first:#}");
    let done = run.finish();
    done.assert_code(0);
    let all = trials(&bench.path("out"));
    assert_eq!(all.len(), 4, "the last attempts: {done:#?}");
    all.iter().for_each(assert_ran);
    bench.assert_nothing_left();
}

#[test]
fn directory_with_a_run_is_refused_and_unchanged() {
    let bench = Bench::new();
    bench.write("study.toml", &SMALL.replace("rounds = 2", "rounds = 1"));
    bench.run(&["run", "study.toml", "--out", "out"]);
    let file = bench.path("out/results.sqlite");
    let before = std::fs::read(&file).expect("results");
    let done = bench.run(&["run", "study.toml", "--out", "out"]);
    done.assert_code(2);
    done.assert_stderr_contains("holds the results of a run already");
    done.assert_stderr_contains("regatta resume out");
    assert_eq!(std::fs::read(&file).expect("results"), before);
    assert_eq!(trials(&bench.path("out")).len(), 2);
}

#[test]
fn a_results_file_that_is_damaged_or_of_another_version_is_refused_and_not_touched() {
    let bench = Bench::new();
    bench.write("study.toml", &SMALL.replace("rounds = 2", "rounds = 1"));
    bench.run(&["run", "study.toml", "--out", "out"]);
    let file = bench.path("out/results.sqlite");
    let good = std::fs::read(&file).expect("results");

    let refused = |bytes: &[u8], expected: &str| {
        std::fs::write(&file, bytes).expect("written");
        for command in ["report", "resume"] {
            let done = bench.run(&[command, "out"]);
            done.assert_code(2);
            done.assert_stderr_contains(expected);
            done.assert_stderr_contains("hint: ");
        }
        assert_eq!(std::fs::read(&file).expect("results"), bytes, "not touched");
    };
    // SQLite keeps the version of the schema at byte 60 (<https://sqlite.org/fileformat.html>).
    let mut other = good.clone();
    other[60..64].copy_from_slice(&9999_u32.to_be_bytes());
    refused(&other, "with tables of version 9999");
    refused(
        b"this was never a database, but it is long enough to be looked at",
        "results.sqlite",
    );
    refused(&good[..good.len() / 2], "damaged");
    std::fs::remove_file(&file).expect("removed");
    let done = bench.run(&["report", "out"]);
    done.assert_code(2);
    done.assert_stderr_contains("out");
    assert!(!file.exists(), "looking makes no file");
}

#[test]
fn deleted_results_directory_stops_the_run_and_data_are_saved_elsewhere() {
    let bench = Bench::new();
    bench.write("study.toml", SLOW);
    let mut run = Watched::start(bench.regatta(&["run", "study.toml", "--out", "out", "--json"]));
    run.until(|event| is(event, "trial_ended"));
    std::fs::remove_dir_all(bench.path("out")).expect("deleted");
    let done = run.finish();
    done.assert_code(1);
    done.assert_stderr_contains("what was measured is kept in `out-saved-1`");
    let ended = (done.events().iter())
        .filter(|event| is(event, "trial_ended"))
        .count();
    assert!(ended <= 2, "the run went on: {done:#?}");
    assert_eq!(trials(&bench.path("out-saved-1")).len(), 1);
    bench.assert_nothing_left();
}

/// An end at once, within less than the first Ctrl-C may take.
mod real_time {
    use super::*;

    #[test]
    fn a_second_ctrl_c_ends_at_once() {
        let bench = Bench::new();
        bench.write("study.toml", SLOW);
        let mut run =
            Watched::start(bench.regatta(&["run", "study.toml", "--out", "out", "--json"]));
        run.until(|event| is(event, "trial_started"));
        // Agents that cannot answer keep the first one from ending the run within three seconds.
        for agent in bench.running("agent") {
            signal(agent, Signal::SIGSTOP);
        }
        let start = Instant::now();
        signal(run.pid(), Signal::SIGINT);
        // One that comes together with the first may be the same wish. Somebody who is impatient asks
        // until it ends.
        while run.child.try_wait().expect("a child").is_none() {
            std::thread::sleep(Duration::from_millis(50));
            signal(run.pid(), Signal::SIGTERM);
        }
        let done = run.finish();
        assert!(start.elapsed() < Duration::from_secs(2), "{done:#?}");
        done.assert_code(1);
        // A stop that waits for the agents says that the run is partial.
        assert!(!done.stderr.contains("the run is partial"), "{done:#?}");
        done.assert_stderr_contains("ended at once: the trials that had ended are kept in `out`");
        done.assert_stderr_contains("run `regatta resume out` to go on");
        bench.assert_nothing_left();
        assert_eq!(trials(&bench.path("out")).len(), 0);
    }
}
