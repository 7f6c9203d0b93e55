//! Runs that were killed, and whose write-ahead log was cut afterwards: what is missing is told by whatever shows them.

use std::{
    fs,
    io::{BufReader, Read as _},
    path::Path,
    process::Stdio,
};

use nix::sys::signal::Signal;
use regatta_results::Reader;
use serde_json::json;

use crate::{
    help::{Bench, signal},
    large::{plan, store_killed},
    live::{after, events},
};

const MISSING: &str = "of the 8 trials that were stored are missing";

fn cut_log(dir: &Path) {
    let path = dir.join("results.sqlite-wal");
    let log = fs::read(&path).expect("a log");
    fs::write(path, &log[..log.len() / 2]).expect("written");
}

/// Makes the directory of a plan whose first shard was killed.
fn killed_shard() -> Bench {
    let bench = Bench::new();
    let dir = bench.path("parts/one");
    store_killed(&plan(2, 2), 1, &dir);
    let header = Reader::open(&dir)
        .expect("a run")
        .header()
        .expect("a header");
    let node = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let progress = json!({
        "shard": header.part.shard, "plan_sha256": header.part.plan_sha256, "node": node.trim(),
        "state": "running", "trials": 8, "done": 8, "of_this_run": 8, "failed": 0,
        "started_unix_s": 1, "updated_unix_s": 1,
    });
    fs::write(dir.join("progress.json"), progress.to_string()).expect("written");
    bench
}

#[test]
fn attach_tells_of_a_cut_log() {
    let bench = Bench::new();
    store_killed(&plan(2, 2), 1, &bench.path("out"));
    cut_log(&bench.path("out"));
    let done = bench.run(&["attach", "out", "--web"]);
    done.assert_code(2);
    done.assert_stderr_contains(MISSING);
    done.assert_stderr_contains("run `rm out/results.sqlite-commits`");
}

#[test]
fn attach_tells_of_no_loss_where_the_log_is_whole() {
    let bench = Bench::new();
    store_killed(&plan(2, 2), 1, &bench.path("out"));
    let done = bench.run(&["attach", "out", "--web"]);
    done.assert_code(2);
    done.assert_stderr_contains("the run was interrupted");
}

#[test]
fn status_tells_of_a_cut_log() {
    let bench = Bench::new();
    store_killed(&plan(2, 2), 1, &bench.path("out"));
    cut_log(&bench.path("out"));
    let done = bench.run(&["status", "out"]);
    done.assert_code(2);
    done.assert_stderr_contains(MISSING);
}

#[test]
fn status_of_shards_tells_of_a_cut_log() {
    let bench = killed_shard();
    cut_log(&bench.path("parts/one"));
    let done = bench.run(&["status", "parts"]);
    done.assert_code(3);
    done.assert_stderr_contains(MISSING);
    done.assert_stderr_contains("run `rm parts/one/results.sqlite-commits`");
}

#[test]
fn status_of_shards_tells_of_no_loss_where_the_log_is_whole() {
    let done = killed_shard().run(&["status", "parts"]);
    assert_eq!(done.stderr, "");
}

/// A shard that is under way, which writes the log at the moment.
#[test]
fn status_of_shards_examines_no_shard_under_way() {
    let bench = killed_shard();
    let dir = bench.path("parts/one");
    cut_log(&dir);
    let lock = fs::File::open(&dir).expect("a directory");
    lock.lock().expect("its lock");
    let done = bench.run(&["status", "parts"]);
    assert_eq!(done.stderr, "");
}

#[test]
fn attach_to_shards_tells_of_a_cut_log() {
    let bench = killed_shard();
    cut_log(&bench.path("parts/one"));
    let mut attached = bench
        .regatta(&["attach", "parts", "--web"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("attach starts");
    let mut stderr = BufReader::new(attached.stderr.take().expect("its messages"));
    let url = after(&mut stderr, "web page of the run: http://");
    after(&mut events(&url), MISSING);
    signal(attached.id().cast_signed(), Signal::SIGINT);
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).expect("its messages");
    assert!(attached.wait().expect("it ends").success(), "{rest}");
    assert!(rest.contains(MISSING), "{rest}");
}
