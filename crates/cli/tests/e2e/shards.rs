//! Shards of a plan, their merge, and the scripts that submit them.

use std::{
    fs,
    io::{BufReader, Read as _},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::Stdio,
};

use nix::sys::signal::Signal;
use regatta_model::{Outcome, TrialRecord};

use crate::{
    happy::expected_code,
    help::{Bench, Done, SLOW, SMALL, Watched, is, signal, trials},
    live::{after, events, get},
};

/// Study without a rate, which cannot run in virtual time, of two conditions and two rounds.
const TWO: &str = r#"
name = "two"
rounds = 2
deadline = "5s"

[[transport]]
driver = "tcp"

[[transport]]
driver = "udp"
rate = "20Mbit/s"

[[condition]]
name = "near"
rtt = "4ms"

[[condition]]
name = "far"
rtt = "12ms"

[[workload]]
name = "bulk"
kind = "bulk"
size = "100kB"
message = "10kB"

[workload.probe]
idle_messages = 2
under_load = false
"#;

fn run_shard(bench: &Bench, shard: &str, out: &str) -> Done {
    let done = bench.run(&[
        "run",
        "study.toml",
        "--shard",
        shard,
        "--out",
        out,
        "--no-progress",
    ]);
    done.assert_code(0);
    done
}

/// Number of trials in the plan of [`TWO`].
const TRIALS: u32 = 8;

/// Returns what a trial is by the plan. A trial that the machine spoiled is repeated with an index above those of the
/// plan.
fn planned(trial: &TrialRecord) -> (u32, u32, u64, &str, &str) {
    let TrialRecord {
        index,
        round,
        seed,
        transport,
        condition,
        ..
    } = trial;
    (*index % TRIALS, *round, *seed, transport, condition)
}

#[test]
fn shards_cover_the_plan_and_merge_reports_missing_ones() {
    let bench = Bench::new();
    bench.write("study.toml", TWO);
    bench.run(&["run", "study.toml", "--out", "whole", "--no-progress"]);
    for number in 1..=3 {
        let done = run_shard(&bench, &format!("{number}/3"), &format!("part-{number}"));
        assert!(
            done.stdout.contains(&format!("shard {number}/3")),
            "{done:#?}"
        );
        // Reports are those of the merged run.
        assert!(!bench.path(&format!("part-{number}/report.html")).exists());
    }
    let progress = fs::read_to_string(bench.path("part-1/progress.json")).expect("progress");
    assert!(progress.contains("\"state\":\"complete\""), "{progress}");

    let done = bench.run(&["merge", "merged", "part-1", "part-3"]);
    done.assert_code(3);
    done.assert_stderr_contains("of these shards: 2/3");
    let list = fs::read_to_string(bench.path("merged/missing-shards.txt")).expect("a list");
    assert_eq!(list, "2/3\n");
    let done = bench.run(&["merge", "merged", "part-1", "part-2", "part-3"]);
    // On a busy machine every attempt at a trial may leave the path out of its tolerance.
    let summary = fs::read_to_string(bench.path("merged/summary.json")).expect("a summary");
    done.assert_code(expected_code(
        &serde_json::from_str(&summary).expect("JSON"),
    ));
    done.assert_stderr_contains("8 of 8 trials are merged, from 3 files");
    assert!(!bench.path("merged/missing-shards.txt").exists());
    assert!(bench.path("merged/report.html").exists());
    let (whole, merged) = (trials(&bench.path("whole")), trials(&bench.path("merged")));
    let of = |all: &[TrialRecord]| {
        all.iter()
            .map(|it| format!("{:?}", planned(it)))
            .collect::<Vec<_>>()
    };
    assert_eq!(of(&whole), of(&merged));
    bench.assert_nothing_left();
}

#[test]
fn stopped_shard_is_resumed_in_its_directory_or_another() {
    let bench = Bench::new();
    bench.write("study.toml", &SLOW.replace("rounds = 2", "rounds = 4"));
    let start = [
        "run",
        "study.toml",
        "--shard",
        "2/2",
        "--out",
        "one",
        "--json",
    ];
    let mut run = Watched::start(bench.regatta(&start));
    run.until(|event| is(event, "trial_ended"));
    signal(run.pid(), Signal::SIGTERM);
    run.finish().assert_code(1);
    let stopped = trials(&bench.path("one"));
    assert!((1..4).contains(&stopped.len()), "{}", stopped.len());
    assert!(stopped.iter().all(|trial| trial.round >= 2));
    // A trial that the machine spoiled is run again.
    let finished = (stopped.iter())
        .filter(|trial| trial.outcome != Outcome::Invalid)
        .count();

    let again = [
        "run",
        "study.toml",
        "--shard",
        "2/2",
        "--out",
        "two",
        "--done",
        "one",
        "--no-progress",
    ];
    bench.run(&again).assert_code(0);
    assert_eq!(trials(&bench.path("two")).len(), 4 - finished);
    let done = bench.run(&[&again[..5], &["three", "--done", "one", "--done", "two"]].concat());
    done.assert_code(0);
    done.assert_stderr_contains("nothing is left to do");
    assert!(!bench.path("three").exists());

    bench
        .run(&["resume", "one", "--no-progress"])
        .assert_code(0);
    assert_eq!(trials(&bench.path("one")).len(), 4);
    let done = bench.run(&["merge", "merged", "one", "two", "--no-report"]);
    done.assert_code(3);
    done.assert_stderr_contains("were in several files, and were taken once");
    done.assert_stderr_contains("of these shards: 1/2");
    assert_eq!(trials(&bench.path("merged")).len(), 4);
    bench.assert_nothing_left();
}

#[test]
fn invalid_shards_and_merges_are_refused_with_the_reason() {
    let bench = Bench::new();
    bench.write("study.toml", TWO);
    for (shard, expected) in [
        (
            "5/5",
            "more than the `4` that this plan can be divided into",
        ),
        ("0/4", "the first is `1/100`"),
        ("x", "such as `3/100`"),
    ] {
        let done = bench.run(&["run", "study.toml", "--shard", shard, "--dry-run"]);
        done.assert_code(2);
        done.assert_stderr_contains(expected);
    }
    let done = bench.run(&["run", "study.toml", "--shard", "3/4", "--dry-run"]);
    done.assert_code(0);
    assert!(done.stdout.contains("shard 3/4 has 2 trials"), "{done:#?}");

    run_shard(&bench, "1/2", "part-1");
    run_shard(&bench, "2/2", "part-2");
    bench.write("study.toml", &TWO.replace("100kB", "101kB"));
    run_shard(&bench, "2/2", "foreign");
    let file = fs::read(bench.path("part-2/results.sqlite")).expect("results");
    fs::create_dir(bench.path("damaged")).expect("a directory");
    fs::write(
        bench.path("damaged/results.sqlite"),
        &file[..file.len() / 2],
    )
    .expect("written");
    let parts = ["merge", "merged", "part-1", "foreign", "damaged", "nothing"];
    let done = bench.run(&parts);
    done.assert_code(2);
    done.assert_stderr_contains("3 files cannot be merged, and nothing was written");
    done.assert_stderr_contains("`foreign` cannot be merged: it is of another plan");
    done.assert_stderr_contains("`damaged` cannot be merged: ");
    done.assert_stderr_contains("`nothing`");
    assert!(!bench.path("merged").exists());
    let done = bench.run(&[&parts[..], &["--skip-bad", "--no-report"]].concat());
    done.assert_code(3);
    done.assert_stderr_contains("of these shards: 2/2");
}

/// The page and `status` of a directory in which one shard is complete and one runs, and then was killed.
#[test]
fn attach_shows_shards_of_a_directory() {
    let bench = Bench::new();
    bench.write("study.toml", &TWO.replace("rounds = 2", "rounds = 10"));
    run_shard(&bench, "1/2", "parts/one");
    let second = [
        "run",
        "study.toml",
        "--shard",
        "2/2",
        "--out",
        "parts/two",
        "--json",
    ];
    let mut second = Watched::start(bench.regatta(&second));
    second.until(|event| is(event, "trial_ended"));
    signal(second.pid(), Signal::SIGSTOP);

    let mut attached = bench
        .regatta(&["attach", "parts", "--web"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("attach starts");
    let mut stderr = BufReader::new(attached.stderr.take().expect("its messages"));
    let url = after(&mut stderr, "web page of the run: http://");
    let (address, path) = url.split_once('/').expect("a path");
    let counts = after(&mut events(&url), "\"activity\":{\"shards\":");
    let expected = "{\"complete\":1,\"running\":1,\"waiting\":0,\"missing\":0}";
    assert!(counts.starts_with(expected), "{counts}");
    // The cells of the complete shard's trials.
    after(&mut events(&url), "\"outcomes\":{\"measured\":");
    let report = get(address, &format!("/{path}report"), "text/html");
    assert!(
        report.contains("200 OK") && report.contains("</html>"),
        "{report}"
    );
    let done = bench.run(&["status", "parts"]);
    done.assert_code(0);
    let counts = "two: 1 of 2 shards complete, 1 running, 0 waiting, 0 missing\n";
    assert!(done.stdout.starts_with(counts), "{done:#?}");

    second.child.kill().expect("a signal");
    second.finish();
    // The page's server ends with the shards.
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).expect("its messages");
    assert!(attached.wait().expect("it ends").success(), "{rest}");
    let counts = "nothing runs any longer: 2 shards: 1 complete, 0 running, 0 waiting, 1 missing";
    assert!(rest.contains(counts), "{rest}");
    let done = bench.run(&["status", "parts"]);
    done.assert_code(3);
    let next = "missing  2/2, ";
    assert!(done.stdout.contains(next), "{done:#?}");
    let next = "`regatta resume parts/two` goes on with it";
    assert!(done.stdout.contains(next), "{done:#?}");
    bench
        .run(&["resume", "parts/two", "--no-progress"])
        .assert_code(0);
    let done = bench.run(&["status", "parts"]);
    let next = "`regatta merge parts/merged parts/one parts/two` merges them";
    assert!(done.stdout.contains(next), "{done:#?}");
    bench.assert_nothing_left();
}

/// Puts programs in the place of Slurm's, which note their arguments.
fn slurm(bench: &Bench) -> String {
    let bin = bench.path("bin");
    fs::create_dir(&bin).expect("a directory");
    let program = |name: &str, text: &str| {
        let path = bin.join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
    };
    let log = bench.path("sbatch.log");
    program(
        "sbatch",
        &format!(
            "echo \"$@\" >>{0}; echo $((100 + $(wc -l <{0})))",
            log.display()
        ),
    );
    program(
        "scontrol",
        &format!(
            "case $1 in requeue) echo \"$@\" >>{};; *) echo 'MaxArraySize            = 4';; esac",
            bench.path("scontrol.log").display()
        ),
    );
    // The third shard was submitted by hand, beside an array of another study.
    program(
        "squeue",
        &format!(
            "case \"$*\" in\n\
             *--me*) echo '3|PENDING||Resources|{0}/shards.sbatch'; echo '2|PENDING||Priority|/other/shards.sbatch';;\n\
             *%A*) cat {1} 2>/dev/null;;\n\
             *) echo '2|RUNNING|n7|None|{0}/shards.sbatch';;\nesac",
            bench.path("big").display(),
            bench.path("jobs").display()
        ),
    );
    program("sacct", "exit 1");
    format!(
        "{}:{}",
        bin.display(),
        std::env::var("PATH").expect("a path")
    )
}

fn with_slurm(bench: &Bench, path: &str, args: &[&str]) -> Done {
    let output = bench.regatta(args).env("PATH", path).output();
    Done::from(output.expect("the binary starts"))
}

/// Checks a script by bash, without running it.
fn check_script(path: &Path) -> String {
    let checked = std::process::Command::new("bash")
        .arg("-n")
        .arg(path)
        .status();
    assert!(
        checked.expect("bash starts").success(),
        "{}",
        path.display()
    );
    fs::read_to_string(path).expect("a script")
}

#[test]
fn study_is_submitted_as_an_array_and_its_status_is_printed() {
    let bench = Bench::new();
    let path = slurm(&bench);
    bench.write("study.toml", TWO);
    let submit = [
        "submit",
        "study.toml",
        "--slurm",
        "--out",
        "big",
        "--shards",
        "3",
        "--at-once",
        "2",
        "--slurm-arg=--partition=long",
    ];
    let done = with_slurm(&bench, &path, &submit);
    done.assert_code(0);
    // The paths have no rate.
    done.assert_stderr_contains("it runs in real time, each shard alone on its node");
    let script = check_script(&bench.path("big/shards.sbatch"));
    for line in [
        "--array=1-3%2",
        "--exclusive",
        "--requeue",
        "--signal=B:USR1@120",
        "--partition=long",
    ] {
        assert!(
            script.contains(&format!("#SBATCH {line}\n")),
            "{line}: {script}"
        );
    }
    check_script(&bench.path("big/preflight.sbatch"));
    check_script(&bench.path("big/merge.sbatch"));
    let calls = fs::read_to_string(bench.path("sbatch.log")).expect("calls");
    let calls: Vec<&str> = calls.lines().collect();
    assert!(calls[1].contains("--dependency=afterok:101"), "{calls:?}");
    assert!(calls[2].contains("--dependency=afterany:102"), "{calls:?}");
    let done = with_slurm(&bench, &path, &submit);
    done.assert_code(2);
    done.assert_stderr_contains("holds a submission already");

    // A shard by hand, as an array task runs it.
    let shard = bench
        .command("bash")
        .arg("big/shards.sbatch")
        .env("PATH", &path)
        .env("SLURM_ARRAY_TASK_ID", "1")
        .env("SLURM_JOB_ID", "7")
        .output();
    let shard = Done::from(shard.expect("bash starts"));
    shard.assert_code(0);
    assert!(
        bench.path("big/shards/1.0/results.sqlite").exists(),
        "{shard:#?}"
    );
    let done = with_slurm(&bench, &path, &["status", "big"]);
    done.assert_code(0);
    let stdout = &done.stdout;
    assert!(
        stdout.contains("1 of 3 shards complete, 1 running, 1 waiting, 0 missing"),
        "{stdout}"
    );
    assert!(stdout.contains("running  2/3: on n7"), "{stdout}");
    assert!(stdout.contains("waiting  3/3: Resources"), "{stdout}");
    bench.assert_nothing_left();
}

#[test]
fn scripts_and_status_from_files_work_without_slurm() {
    let bench = Bench::new();
    bench.write("study.toml", SMALL);
    let submit = [
        "submit",
        "study.toml",
        "--slurm",
        "--out",
        "big",
        "--bed",
        "netns",
        "--shards",
        "2",
    ];
    let done = with_slurm(&bench, "/nowhere", &submit);
    done.assert_code(1);
    done.assert_stderr_contains("`sbatch` is not on this machine");
    fs::remove_dir_all(bench.path("big")).expect("removed");
    let done = with_slurm(
        &bench,
        "/nowhere",
        &[&submit[..], &["--write-only"]].concat(),
    );
    done.assert_code(0);
    let done = with_slurm(&bench, "/nowhere", &["status", "big"]);
    done.assert_stderr_contains("what runs is told by the files alone");
    assert!(done.stdout.contains("0 of 2 shards complete"), "{done:#?}");
    for (option, value) in [("--shard", "1/2"), ("--out", "a b")] {
        let done = bench.run(&[&submit[..5], &[option, value]].concat());
        done.assert_code(2);
    }
}

/// Submits the study [`TWO`] in three shards.
fn submitted(bench: &Bench) -> String {
    let path = slurm(bench);
    bench.write("study.toml", TWO);
    let submit = [
        "submit",
        "study.toml",
        "--slurm",
        "--out",
        "big",
        "--shards",
        "3",
    ];
    with_slurm(bench, &path, &submit).assert_code(0);
    path
}

/// Has the script of the shards get the signal before the time limit while a program in place of Regatta runs, which then
/// leaves this state and exit code. Returns what was requeued.
fn requeued(state: &str, code: i32) -> String {
    let bench = Bench::new();
    let path = submitted(&bench);
    let program = format!(
        "#!/bin/sh\nwhile [ $# -gt 0 ]; do [ \"$1\" = --out ] && out=$2; shift; done\n\
         trap 'echo \"{{\\\"state\\\":\\\"{state}\\\"}}\" >$out/progress.json; kill $!; exit {code}' TERM\n\
         sleep 600 &\necho runs >{started}\nwait\n",
        started = bench.path("started").display()
    );
    fs::write(bench.path("big/regatta"), program).expect("written");
    let made = std::process::Command::new("mkfifo")
        .arg(bench.path("started"))
        .status();
    assert!(made.expect("mkfifo").success());
    let mut script = bench
        .command("bash")
        .arg("big/shards.sbatch")
        .env("PATH", &path)
        .env("SLURM_ARRAY_JOB_ID", "100")
        .env("SLURM_ARRAY_TASK_ID", "2")
        // Of the last task of an array it is the number of the array.
        .env("SLURM_JOB_ID", "100")
        .spawn()
        .expect("bash starts");
    let started = fs::read_to_string(bench.path("started")).expect("a line");
    assert_eq!(started, "runs\n");
    // The trap is set after the program has been started.
    let traps = |pid: u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a status");
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = u64::from_str_radix(caught.expect("signals").trim(), 16).expect("signals");
        caught & (1 << (Signal::SIGTERM as u64 - 1)) != 0
    };
    while !traps(script.id()) {
        std::thread::yield_now();
    }
    signal(script.id().cast_signed(), Signal::SIGUSR1);
    assert_eq!(script.wait().expect("an end").code(), Some(code));
    fs::read_to_string(bench.path("scontrol.log")).unwrap_or_default()
}

#[test]
fn a_time_limit_requeues_the_task_and_not_its_array() {
    assert_eq!(requeued("running", 1), "requeue 100_2\n");
}

#[test]
fn a_complete_shard_is_not_requeued() {
    assert_eq!(requeued("complete", 0), "");
    assert_eq!(requeued("complete", 1), "");
}

#[test]
fn status_names_a_check_of_a_node_that_failed() {
    let bench = Bench::new();
    let path = submitted(&bench);
    let preflight = check_script(&bench.path("big/preflight.sbatch"));
    assert!(
        preflight.contains("doctor --fix-hints --study"),
        "{preflight}"
    );
    // A node without the program.
    fs::remove_file(bench.path("big/regatta")).expect("removed");
    let log = fs::File::create(bench.path("big/logs/preflight.log")).expect("a log");
    let status = bench
        .command("bash")
        .arg("big/preflight.sbatch")
        .stdout(log.try_clone().expect("a descriptor"))
        .stderr(log)
        .status();
    assert_eq!(status.expect("bash starts").code(), Some(127));
    fs::write(bench.path("bin/squeue"), "#!/bin/sh\n").expect("written");
    let done = with_slurm(&bench, &path, &["status", "big"]);
    done.assert_code(3);
    for expected in [
        "0 of 3 shards complete, 0 running, 0 waiting, 3 missing",
        "the check of a node failed with exit status 127, so that no shard is started:",
        "No such file or directory",
        "its output is in `big/logs/preflight.log`",
    ] {
        assert!(done.stdout.contains(expected), "{expected}: {done:#?}");
    }
}

#[test]
fn status_says_why_check_and_merge_wait_and_what_has_become_of_them() {
    let bench = Bench::new();
    let path = submitted(&bench);
    let status = |jobs: &str, code: i32, expected: &str| {
        bench.write("jobs", jobs);
        let done = with_slurm(&bench, &path, &["status", "big"]);
        done.assert_code(code);
        assert!(done.stdout.contains(expected), "{expected}: {done:#?}");
    };
    fs::write(bench.path("bin/squeue"), format!(
        "#!/bin/sh\ncase \"$*\" in *%A*) cat {};; *--me*) :;; *) for n in 1 2 3; do echo \"$n|PENDING||Dependency|x\"; done;; esac\n",
        bench.path("jobs").display()
    )).expect("written");
    let waits = "the check of a node (job 101) waits: PartitionDown";
    status(
        "101|PENDING||PartitionDown\n103|PENDING||Dependency\n",
        0,
        waits,
    );
    status(
        "101|RUNNING|n7|None\n",
        0,
        "the check of a node (job 101) is running on n7",
    );
    status(
        "",
        3,
        "the check of a node (job 101) is not in the queue and has not come to its end",
    );

    fs::write(
        bench.path("bin/squeue"),
        format!(
            "#!/bin/sh\ncase \"$*\" in *%A*) cat {};; esac\n",
            bench.path("jobs").display()
        ),
    )
    .expect("written");
    for shard in 1..=3 {
        let dir = bench.path(&format!("big/shards/{shard}.0"));
        fs::create_dir_all(&dir).expect("a directory");
        fs::write(dir.join("exit-status"), "0\n").expect("written");
    }
    let here = "all shards are complete: `regatta merge big/merged big/shards/*/results.sqlite` merges them here";
    status(
        "103|PENDING||ReqNodeNotAvail, UnavailableNodes:n1\n",
        0,
        here,
    );
    let waits = "the merge (job 103) waits: ReqNodeNotAvail, UnavailableNodes:n1";
    status(
        "103|PENDING||ReqNodeNotAvail, UnavailableNodes:n1\n",
        0,
        waits,
    );
    status(
        "",
        3,
        "the merge (job 103) is not in the queue and has not come to its end",
    );
    // The merge of no files.
    let merge = bench
        .command("bash")
        .arg("big/merge.sbatch")
        .env("PATH", &path)
        .output();
    assert_eq!(merge.expect("bash starts").status.code(), Some(2));
    status("", 3, "the merge failed with exit status 2");
}

#[test]
fn a_copy_of_a_shard_is_refused_without_missing_trials() {
    let bench = Bench::new();
    bench.write("study.toml", TWO);
    run_shard(&bench, "1/2", "part-1");
    run_shard(&bench, "2/2", "part-2");
    fs::create_dir(bench.path("copy")).expect("a directory");
    fs::copy(
        bench.path("part-1/results.sqlite"),
        bench.path("copy/results.sqlite"),
    )
    .expect("a copy");
    let parts = ["merge", "merged", "part-1", "part-2", "copy"];
    let done = bench.run(&parts);
    done.assert_code(2);
    done.assert_stderr_contains("its trials are in the other file, and none is missing then");
    let done = bench.run(&[&parts[..], &["--skip-bad", "--no-report"]].concat());
    done.assert_code(0);
    assert!(!done.stderr.contains("are missing"), "{done:#?}");
}
