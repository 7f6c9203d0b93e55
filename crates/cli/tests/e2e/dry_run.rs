//! Refusals before anything starts, by a run and by `--dry-run` alike.

use std::io::{BufRead as _, BufReader};

use regatta_telemetry::has_congestion_control;

use crate::help::{Bench, Done, SMALL};

/// The end of a run and of a dry run that are refused alike.
#[track_caller]
fn both_refused(bench: &Bench, args: &[&str], code: i32) -> Done {
    let run = bench.run(&[&["run"], args].concat());
    let dry = bench.run(&[&["run", "--dry-run"], args].concat());
    run.assert_code(code);
    dry.assert_code(code);
    assert_eq!(run.stderr, dry.stderr);
    assert!(dry.stdout.is_empty(), "{}", dry.stdout);
    dry.assert_stderr_contains("hint: ");
    dry
}

#[test]
fn unknown_congestion_control_is_refused_with_the_available_ones() {
    let bench = Bench::new();
    let typed = ["--transport", "udp,tcp:cc=renno", "--out", "out"];
    let done = both_refused(&bench, &typed, 2);
    done.assert_stderr_contains(
        "the transport `tcp:cc=renno` asks for the congestion control `renno`",
    );
    done.assert_stderr_contains("this host's kernel does not have");
    done.assert_stderr_contains("did you mean `reno`? the kernel has: ");
    assert!(!bench.path("out").exists(), "nothing is begun");
}

#[test]
fn unknown_congestion_control_is_reported_in_the_study() {
    let bench = Bench::new();
    let driver = "driver = \"tcp\"\n";
    let named = format!("{driver}label = \"mine\"\ncc = \"nosuchcc\"\n");
    bench.write("study.toml", &SMALL.replacen(driver, &named, 1));
    let done = both_refused(&bench, &["study.toml"], 2);
    done.assert_stderr_contains("study.toml:9:1");
    done.assert_stderr_contains("the transport `mine` asks for the congestion control `nosuchcc`");
    done.assert_stderr_contains("choose one that the kernel has: ");
}

#[test]
fn series_is_refused_if_its_rounds_exceed_the_period() {
    let bench = Bench::new();
    let with = |every: &str| {
        SMALL.replace(
            "rounds = 2\n",
            &format!("every = \"{every}\"\nfor = \"1h\"\n"),
        )
    };
    bench.write("study.toml", &with("10ms"));
    let done = both_refused(&bench, &["study.toml"], 2);
    done.assert_stderr_contains("and the next one begins after");
    bench.write("study.toml", &with("2min"));
    let done = bench.run(&["run", "study.toml", "--dry-run"]);
    done.assert_code(0);
    let shown = |text: &str| assert!(done.stdout.contains(text), "{text}: {}", done.stdout);
    shown("a series: a round begins every 2 min, 60 min in all");
    shown("estimate: 58 min ");
    let tenth = bench.run(&["run", "study.toml", "--dry-run", "--scale", "10%"]);
    tenth.assert_code(0);
    assert!(tenth.stdout.contains("3 rounds"), "{}", tenth.stdout);
    bench
        .run(&["run", "study.toml", "--dry-run", "--scale", "150%"])
        .assert_code(2);
    let factor = bench.run(&["run", "study.toml", "--dry-run", "--scale", "0.1"]);
    assert_eq!(factor.stdout, tenth.stdout);
}

/// Its names are not the user's, who shall have what can be had.
#[test]
fn builtin_study_is_planned_without_its_congestion_controls() {
    let bench = Bench::new();
    let done = bench.run(&["run", "--dry-run"]);
    done.assert_code(0);
    assert!(done.stdout.contains("tcp-bbr: driver tcp cc=bbr"));
    let named = ["run", "--dry-run", "--transport", "tcp,tcp:cc=nosuchcc"];
    bench.run(&named).assert_code(2);
}

#[test]
fn congestion_controls_of_user_space_stacks_need_no_kernel_support() {
    let bench = Bench::new();
    assert_ne!(has_congestion_control("bbr3"), Some(true));
    let done = bench.run(&["run", "--dry-run", "--transport", "quic-noq:cc=bbr3"]);
    done.assert_code(0);
}

#[test]
fn directory_of_another_run_is_refused() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("out")).expect("made");
    bench.write("out/results.sqlite", "");
    let done = both_refused(&bench, &["--transport", "tcp", "--out", "out"], 2);
    done.assert_stderr_contains("`out` holds the results of a run already");
}

#[test]
fn a_directory_that_cannot_be_made_is_refused() {
    let bench = Bench::new();
    bench.write("file", "");
    for out in ["file", "file/below"] {
        let done = both_refused(&bench, &["--transport", "tcp", "--out", out], 2);
        done.assert_stderr_contains("cannot make the result directory `");
    }
}

#[test]
fn a_kernel_that_is_not_there_is_refused() {
    let bench = Bench::new();
    let guest = ["--transport", "tcp", "--bed", "uml", "--kernel", "./none"];
    let done = both_refused(&bench, &guest, 2);
    done.assert_stderr_contains("cannot run the kernel `./none`");
}

#[test]
fn netem_that_cannot_do_a_condition_is_refused() {
    let bench = Bench::new();
    bench.write("bad.trace", "1\n2\n");
    let path = ["--emulator", "netem", "--trace", "bad.trace"];
    let args = [&["--transport", "tcp"], path.as_slice()].concat();
    let done = both_refused(&bench, &args, 77);
    done.assert_stderr_contains("is not supported by netem");
}

#[test]
fn guest_kernel_is_found_in_cache_and_package() {
    let bench = Bench::new();
    let args = ["--transport", "tcp", "--bed", "uml", "--clock", "virtual"];
    let mut command = bench.regatta(&[&["run", "--dry-run"], args.as_slice()].concat());
    for name in ["REGATTA_LAB_KERNELS", "REGATTA_UML_KERNEL"] {
        command.env_remove(name);
    }
    let cache = tempfile::tempdir().expect("a directory");
    command.env("XDG_CACHE_HOME", cache.path());
    let done = Done::from(command.output().expect("the binary starts"));
    done.assert_code(77);
    let cache = cache.path().join("regatta/lab-kernel");
    let cache = cache.display();
    done.assert_stderr_contains(&format!("in `{cache}` and `/usr/lib/regatta/lab-kernel`"));
}

#[test]
fn long_plan_is_streamed_and_ends_with_its_reader() {
    let bench = Bench::new();
    let args = ["--transport", "tcp", "--rounds", "1000000"];
    let mut command = bench.regatta(&[&["run", "--dry-run"], args.as_slice()].concat());
    command.stdout(std::process::Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    let stdout = child.stdout.take().expect("a pipe");
    let lines = BufReader::new(stdout).lines().map_while(Result::ok);
    let order: Vec<String> = lines.skip_while(|line| line != "order").take(2).collect();
    assert!(order[1].starts_with("     1  round 1  tcp · "), "{order:?}");
    // Its output has nobody to read it any more.
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn plan_of_one_trial_is_printed_in_the_singular() {
    let bench = Bench::new();
    let done = bench.run(&["run", "--dry-run", "--transport", "tcp", "--rounds", "1"]);
    done.assert_code(0);
    let head = "1 trial: 1 round of 1 cell, at most";
    assert!(done.stdout.contains(head), "{}", done.stdout);
}

#[test]
fn netem_features_are_refused_with_another_emulator() {
    let bench = Bench::new();
    let done = both_refused(&bench, &["--placement", "ends"], 2);
    done.assert_stderr_contains("`emulator` is the study's: add `--emulator netem`");
    let ends = SMALL.replacen("rounds = 2", "rounds = 2\nplacement = \"ends\"", 1);
    bench.write("ends.toml", &ends);
    let done = both_refused(&bench, &["ends.toml", "--emulator", "userspace"], 2);
    done.assert_stderr_contains("add `--placement between`, or leave `--emulator` out");
}

#[test]
fn an_emulator_that_shapes_nothing_is_the_option_that_is_refused() {
    let bench = Bench::new();
    for emulator in ["loopback", "none"] {
        let done = bench.run(&["run", "--dry-run", "--emulator", emulator, "--loss", "1%"]);
        done.assert_code(2);
        done.assert_stderr_contains(&format!("error: `--emulator {emulator}`: "));
    }
}

#[test]
fn netem_between_two_machines_is_refused_before_one_is_reached() {
    let bench = Bench::new();
    bench.write("small.toml", SMALL);
    let between = SMALL.replacen("rounds = 2", "rounds = 2\nplacement = \"between\"", 1);
    bench.write("between.toml", &between);
    let hosts = ["--hosts", "lab1,lab2"];
    for (args, hint) in [
        (
            &["between.toml"][..],
            "leave `placement` out, or write `placement = \"ends\"`",
        ),
        (
            &["small.toml", "--placement", "between"],
            "leave `--placement` out",
        ),
        (
            &["--rtt", "10ms", "--placement", "between"],
            "leave `--placement` out",
        ),
    ] {
        let done = both_refused(&bench, &[args, &hosts].concat(), 2);
        done.assert_stderr_contains("between two hosts there is only their network");
        done.assert_stderr_contains(hint);
    }
}

#[test]
fn a_program_that_cannot_be_executed_is_refused() {
    let bench = Bench::new();
    bench.write("program", "#!/bin/sh\nexit 1\n");
    let typed = ["--transport", "tcp,external:program=./program"];
    let done = both_refused(&bench, &typed, 2);
    done.assert_stderr_contains("hint: it cannot be executed; run `chmod +x ./program`");
}

/// Checks a workload that programs do not carry out: no setting of its keys would change that, and the hint leads to none.
#[test]
fn a_program_is_unsupported_by_a_dry_run_as_by_a_run() {
    let bench = Bench::new();
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../external/example/driver");
    let transport = format!("external:program={program}");
    for work in [
        &["--workload", "multi-stream"][..],
        &["--workload", "multi-stream", "--streams", "1"],
        &["--workload", "short-connections", "--handshake", "0-rtt"],
    ] {
        let typed = [&["run", "--transport", &transport, "--rounds", "1"], work].concat();
        let dry = bench.run(&[&typed[..], &["--dry-run"]].concat());
        dry.assert_code(77);
        let hint = "choose one of these, or a transport that is no external program";
        assert!(dry.stdout.contains(hint), "{}", dry.stdout);
        assert!(!dry.stdout.contains("streams = 1"), "{}", dry.stdout);
        if work.len() == 2 {
            let run = bench.run(&[&typed[..], &["--no-progress", "--out", "out"]].concat());
            run.assert_code(77);
            assert!(run.stdout.contains(hint), "{}", run.stdout);
        }
    }
}
