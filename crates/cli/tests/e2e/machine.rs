//! Differences between machines: users, kernels, devices, disks.

use std::path::Path;

use regatta_model::{Outcome, shell::quoted};

use crate::help::{Bench, Done, SMALL, assert_ran, root, trials};

/// Runs a shell script in a mount namespace of its own, as root of it; `$REGATTA` is the binary.
pub fn apart(bench: &Bench, script: &str) -> Done {
    let mut command = bench.command("unshare");
    command.arg("--mount");
    if !root() {
        command.arg("--map-root-user");
    }
    command
        .args(["bash", "-euc", script])
        .env("REGATTA", env!("CARGO_BIN_EXE_regatta"));
    Done::from(command.output().expect("unshare is there"))
}

/// SMALL with a workload that `udp` cannot run, and these keys of it.
fn short_connections(keys: &str) -> String {
    let bulk = "kind = \"bulk\"\nsize = \"1MB\"\nmessage = \"10kB\"\n";
    let short = format!("kind = \"short-connections\"\nconnections = 3\n{keys}");
    SMALL.replacen(bulk, &short, 1)
}

#[test]
fn a_transport_that_cannot_do_the_work_is_unsupported_and_the_others_run() {
    let bench = Bench::new();
    bench.write("study.toml", &short_connections(""));
    let done = bench.run(&["run", "study.toml", "--out", "out"]);
    let trials = trials(&bench.path("out"));
    for trial in &trials {
        if trial.transport == "udp" {
            assert_eq!(trial.outcome, Outcome::Unsupported);
            assert!(
                trial.reasons.concat().contains("without connections"),
                "{:?}",
                trial.reasons
            );
            assert!(
                trial.measurements.metrics.is_empty(),
                "unsupported is not zero"
            );
        } else {
            assert_ran(trial);
        }
    }
    assert_eq!(trials.len(), 4, "{done:#?}");
    assert!(done.stdout.contains("unsupported"), "{}", done.stdout);
    assert_ne!(done.code(), 77);
}

#[test]
fn nothing_supported_is_exit_code_77() {
    let bench = Bench::new();
    bench.write("study.toml", &short_connections("handshake = \"retry\"\n"));
    let done = bench.run(&["run", "study.toml", "--rounds", "1", "--out", "out"]);
    done.assert_code(77);
    assert_eq!(trials(&bench.path("out"))[0].outcome, Outcome::Unsupported);
}

#[test]
fn missing_tun_is_reported_with_a_hint() {
    let bench = Bench::new();
    let done = apart(
        &bench,
        "mount -t tmpfs none /dev/net && exec \"$REGATTA\" run --transport tcp --out out",
    );
    done.assert_code(77);
    done.assert_stderr_contains("/dev/net/tun");
    done.assert_stderr_contains("hint: ");
    assert!(!bench.path("out").exists(), "nothing is left behind");
}

#[test]
fn full_disk_stops_the_run_and_keeps_finished_trials() {
    let bench = Bench::new();
    bench.write("study.toml", &SMALL.replace("rounds = 2", "rounds = 40"));
    let done = apart(
        &bench,
        "mkdir small; mount -t tmpfs -o size=512k none small
         \"$REGATTA\" run study.toml --out small/out --no-progress && exit 99
         echo \"code $?\"
         \"$REGATTA\" report small/out --json",
    );
    done.assert_stderr_contains(
        "no space is left on the device that holds `small/out/results.sqlite`",
    );
    done.assert_stderr_contains("regatta resume small/out");
    let (code, summary) = done.stdout.split_once('\n').expect("two lines");
    assert_eq!(code, "code 1", "{done:#?}");
    let summary: serde_json::Value = serde_json::from_str(summary).expect("JSON");
    let finished: u64 = summary["cells"]
        .as_array()
        .expect("cells")
        .iter()
        .flat_map(|cell| cell["outcomes"].as_object().expect("outcomes").values())
        .map(|count| count.as_u64().expect("a number"))
        .sum();
    assert!(
        (1..80).contains(&finished),
        "{finished} trials have finished"
    );
    bench.assert_nothing_left();
}

/// Runs a line of `bash`; `$REGATTA` is the binary.
fn shell(bench: &Bench, line: &str) -> Done {
    let mut command = bench.command("bash");
    command
        .args(["-uc", line])
        .env("REGATTA", env!("CARGO_BIN_EXE_regatta"));
    Done::from(command.output().expect("bash is there"))
}

#[test]
fn shell_limits_are_reported_as_such() {
    let bench = Bench::new();
    // Wherever it strikes: in the program itself, in the process of the path, in an agent.
    let files = ["-n 3", "-n 4", "-n 12", "-n 16", "-n 20", "-n 21"]
        .map(|limit| (limit, "`ulimit -n 1024`"));
    // So little that the stack of a thread has no room.
    let others = [
        ("-f 8", "`ulimit -f "),
        ("-v 90000", "`ulimit -v unlimited`"),
    ];
    for (limit, hint) in files.into_iter().chain(others) {
        let done = shell(
            &bench,
            &format!("ulimit {limit}; exec \"$REGATTA\" run --transport tcp --out out"),
        );
        done.assert_code(1);
        done.assert_stderr_contains(hint);
        // Of files it depends on the machine how far a run comes.
        let is_kept = done.stderr.contains("is kept in `out`");
        assert_eq!(
            bench.path("out").exists(),
            is_kept,
            "`ulimit {limit}`: {}",
            done.stderr
        );
        if is_kept {
            std::fs::remove_dir_all(bench.path("out")).expect("results");
        }
    }
}

#[test]
fn full_stdout_is_reported_with_the_results_directory() {
    let bench = Bench::new();
    bench.write("study.toml", &SMALL.replace("rounds = 2", "rounds = 1"));
    for (command, expected) in [
        (
            "run study.toml --out 'my run' --no-progress",
            "`regatta report 'my run'`",
        ),
        ("report 'my run'", "the results are in `my run`"),
        ("list", "No space left on device"),
        (
            "run study.toml --out lines --json",
            "`regatta resume lines`",
        ),
        ("--help", "No space left on device"),
    ] {
        let done = shell(&bench, &format!("exec \"$REGATTA\" {command} > /dev/full"));
        done.assert_code(1);
        done.assert_stderr_contains("cannot write to standard output");
        done.assert_stderr_contains(expected);
        assert!(!done.stderr.contains("cannot keep"), "{done:#?}");
        if command.starts_with("report") {
            assert!(bench.path("my run/report.html").exists(), "{done:#?}");
        } else {
            let _ = std::fs::remove_file(bench.path("my run/report.html"));
        }
    }
}

#[test]
fn a_directory_that_cannot_be_written_is_refused_before_anything_starts() {
    let bench = Bench::new();
    let done = apart(
        &bench,
        "mkdir locked; mount -t tmpfs -o ro none locked
         exec \"$REGATTA\" run --transport tcp --out locked",
    );
    done.assert_code(2);
    done.assert_stderr_contains("cannot write to the directory `locked`");
    done.assert_stderr_contains("--out");
}

/// Lets bash run a line as the user with this number, who may write to the directory `user`; as the
/// user of the tests, unless that is root. `./regatta` is the binary.
fn as_user(bench: &Bench, number: u32, line: &str) -> Done {
    let copy = bench.path("regatta");
    std::fs::copy(env!("CARGO_BIN_EXE_regatta"), &copy).expect("copied");
    std::fs::create_dir(bench.path("user")).expect("a directory");
    if !root() {
        return shell(bench, line);
    }
    // The machine's own device stays as it is: another one is mounted over it, for this process alone.
    apart(
        bench,
        &format!(
            "mkdir dev; mount -t tmpfs none dev; mknod -m 666 dev/tun c 10 200
             mount --bind dev/tun /dev/net/tun
             chmod 755 .; chown {number}:{number} user
             exec setpriv --reuid {number} --regid {number} --clear-groups bash -uc {}",
            quoted(Path::new(line))
        ),
    )
}

/// Checks the error for threads that cannot be started, as another user, since root is not limited.
#[test]
fn failed_thread_starts_are_reported() {
    let bench = Bench::new();
    // A user without any other process.
    let done = as_user(
        &bench,
        61_012,
        "for limit in 3 12 18; do \
           (ulimit -u $limit; exec ./regatta run --transport tcp --size 100kB --rounds 1 \
             --out user/out-$limit) > user/output-$limit 2>&1; \
           echo $? > user/code-$limit; \
         done",
    );
    done.assert_code(0);
    let read = |name: String| std::fs::read_to_string(bench.path(&name)).expect("written");
    for limit in [3, 12, 18] {
        // Reports break their lines.
        let output = read(format!("user/output-{limit}"));
        let output = output.split_whitespace().collect::<Vec<_>>().join(" ");
        let code = read(format!("user/code-{limit}"));
        assert!(!output.contains("panicked"), "{limit}: {output}");
        assert!(!output.contains("mistake"), "{limit}: {output}");
        // With more than three some machines make it.
        if limit == 3 || code != "0\n" {
            assert_eq!(code, "1\n", "{limit}: {output}");
            assert!(output.contains("`ulimit -u 4096`"), "{limit}: {output}");
        }
    }
    bench.assert_nothing_left();
}

#[test]
fn an_ordinary_user_runs_a_study() {
    let bench = Bench::new();
    bench.write("study.toml", &SMALL.replace("rounds = 2", "rounds = 1"));
    let done = as_user(
        &bench,
        65_534,
        "exec ./regatta run study.toml --out user/out --no-progress",
    );
    assert!(bench.path("user/out/report.html").exists(), "{done:#?}");
    let trials = trials(&bench.path("user/out"));
    assert_eq!(trials.len(), 2, "{done:#?}");
    for trial in &trials {
        assert_ran(trial);
    }
    bench.assert_nothing_left();
}
