//! Archive of a run.

use std::{fs, path::PathBuf, process::Command};

use crate::{
    export,
    help::{Bench, Done},
};

/// Runs a shell command in the directory of the archive `name`, unpacked.
fn unpacked(bench: &Bench, archive: &str) -> PathBuf {
    let dir = bench.path("unpacked");
    fs::create_dir(&dir).expect("a new directory");
    let mut tar = Command::new("tar");
    tar.args(["xzf"])
        .arg(bench.path(archive))
        .arg("-C")
        .arg(&dir);
    assert!(tar.status().expect("tar").success());
    let mut entries = fs::read_dir(dir).expect("a directory");
    let only = entries.next().expect("one directory").expect("an entry");
    assert!(entries.next().is_none(), "one directory");
    only.path()
}

fn names(dir: &PathBuf) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("a directory");
    let mut names: Vec<String> = entries
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("UTF-8")
        })
        .collect();
    names.sort();
    names
}

#[test]
fn archive_has_run_and_digests_and_is_reproducible() {
    let bench = Bench::new();
    export::store(&bench);
    fs::create_dir(bench.path("results/files")).expect("a new directory");
    bench.write("results/files/0-sender.pcapng", "packets");
    bench.write("results/notes.txt", "mine");
    let done = bench.run(&["bundle", "results", "--out", "run.tar.gz"]);
    done.assert_code(0);
    for expected in [
        "left out: files: 1 files of the trials, 0.0 MB",
        "add `--captures`",
        "left out: notes.txt: it is not of the run",
    ] {
        assert!(
            done.stdout.contains(expected),
            "{expected}: {}",
            done.stdout
        );
    }
    bench.run(&["bundle", "results"]).assert_code(0);
    let first = fs::read(bench.path("run.tar.gz")).expect("an archive");
    assert!(first == fs::read(bench.path("results.tar.gz")).expect("an archive"));

    let dir = unpacked(&bench, "run.tar.gz");
    assert_eq!(
        names(&dir),
        [
            "README.md",
            "SHA256SUMS",
            "environment.json",
            "report.html",
            "results.sqlite",
            "study.toml",
            "summary.json",
            "trials.csv"
        ]
    );
    let mut check = Command::new("sha256sum");
    check
        .args(["--check", "--strict", "SHA256SUMS"])
        .current_dir(&dir);
    let checked = Done::from(check.output().expect("sha256sum"));
    checked.assert_code(0);
    assert_eq!(
        checked.stdout.matches(": OK\n").count(),
        7,
        "{}",
        checked.stdout
    );
    // The run can be read where it was unpacked.
    let dir = dir.to_str().expect("UTF-8");
    bench.run(&["report", dir]).assert_code(1);
    let page = fs::read_to_string(format!("{dir}/README.md")).expect("a page");
    assert!(page.contains("## Left out"), "{page}");
    assert!(page.contains("kernel.release 6.18.0"), "{page}");
}

#[test]
fn captures_are_included_on_request() {
    let bench = Bench::new();
    export::store(&bench);
    fs::create_dir_all(bench.path("results/files/keys")).expect("a new directory");
    bench.write("results/files/0-sender.pcapng", "packets");
    bench.write("results/files/keys/0.log", "keys");
    bench
        .run(&["bundle", "results", "--out", "run.tgz", "--captures"])
        .assert_code(0);
    let dir = unpacked(&bench, "run.tgz");
    let keys = fs::read_to_string(dir.join("files/keys/0.log")).expect("a file");
    assert_eq!(keys, "keys");
    let digests = fs::read_to_string(dir.join("SHA256SUMS")).expect("a file");
    assert!(digests.contains("  files/0-sender.pcapng\n"), "{digests}");
}

/// Label of a transport that is a formula and has markup, and its condition.
const LABEL: &str = "=cmd()|`x` <img src=y> ![a](http://b/)";
const CONDITION: &str = "+1,\"lan\"|[c](http://d/)</td>";

/// Returns the cells of a file in CSV.
fn cells(text: &str) -> Vec<String> {
    let (mut cells, mut is_quoted) = (vec![String::new()], false);
    for part in text.split_inclusive([',', '\n', '"']) {
        let (content, end) = part.split_at(part.len() - 1);
        let cell = cells.last_mut().expect("a cell");
        match end {
            "\"" => {
                is_quoted = !is_quoted;
                cell.push_str(content);
            }
            "," | "\n" if !is_quoted => {
                cell.push_str(content);
                cells.push(String::new());
            }
            _ => cell.push_str(part),
        }
    }
    cells
}

/// Asserts that no cell is a formula, and that one begins with the label of the transport.
#[track_caller]
fn assert_harmless_csv(name: &str, text: &str) {
    let cells = cells(text);
    let is_formula = |cell: &&String| {
        cell.starts_with(['=', '+', '-', '@', '\t', '\r']) && cell.parse::<f64>().is_err()
    };
    let formulas: Vec<&String> = cells.iter().filter(is_formula).collect();
    assert!(formulas.is_empty(), "{name}: {formulas:?}");
    let has_label = cells.iter().any(|cell| cell.starts_with("'=cmd()|"));
    assert!(has_label, "{name}: {text}");
}

/// Asserts that the page has no markup but its own: in no paragraph, and in no cell of a table.
#[track_caller]
fn assert_harmless_markdown(page: &str) {
    let (mut is_code, mut named) = (false, 0);
    for line in page.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
        } else if !is_code && line.contains("cmd()") {
            named += 1;
            let mut shown = line.split('\\').map(|it| it.to_owned());
            let first = shown.next().unwrap_or_default();
            let rest = shown.map(|it| it.chars().skip(1).collect::<String>());
            let unescaped = first + &rest.collect::<String>();
            assert!(!unescaped.contains(['<', '|', '[', '!', '`']), "{line}");
            assert!(!unescaped.contains("://"), "{line}");
        } else if !is_code && line.starts_with('|') {
            assert_eq!(line.matches('|').count(), 3, "{line}");
        }
    }
    assert!(named > 1, "the title and the answer: {page}");
    assert!(!is_code, "{page}");
}

/// The command of the page asks for the study of the run, with the options of its command line. No name of the study is
/// markup or a formula anywhere.
#[test]
fn readme_has_a_command_that_reruns_the_study() {
    let bench = Bench::new();
    let study = format!(
        "name = \"two\"\ntitle = \"\"\"a\n# {LABEL}\n| b |\"\"\"\n[[transport]]\ndriver = \"tcp\"\nlabel = '{LABEL}'\n\
         [[condition]]\nname = '{CONDITION}'\nrtt = \"1ms\"\n[[workload]]\nkind = \"bulk\"\nsize = \"20kB\"\n"
    );
    bench.write("two.toml", &study);
    let ran = bench.run(&[
        "run",
        "two.toml",
        "--rounds",
        "1",
        "--seed",
        "7",
        "--rate",
        "8 Mbit/s",
        "--out",
        "two",
        "--no-progress",
    ]);
    // On a busy machine the path may miss its tolerance.
    assert!([0, 1].contains(&ran.code()), "{}", ran.stderr);
    bench.run(&["bundle", "two"]).assert_code(0);
    let dir = unpacked(&bench, "two.tar.gz");
    let read = |path: PathBuf| fs::read_to_string(path).expect("a file");
    let page = read(dir.join("README.md"));
    assert_harmless_markdown(&page);
    assert_harmless_csv("trials.csv", &read(dir.join("trials.csv")));
    // Without a typesetter the figures are not all of the files.
    let unpacked = dir.to_str().expect("UTF-8");
    let figures = bench.run(&["report", unpacked, "--figures", "figures"]);
    figures.assert_code(1);
    for name in names(&bench.path("figures")) {
        if name.ends_with(".csv") && name != "figures.csv" {
            assert_harmless_csv(&name, &read(bench.path("figures").join(&name)));
        }
    }
    assert!(page.contains("This command was checked"), "{page}");
    let line = page.lines().find(|line| line.starts_with("regatta run "));
    let line = line.expect("a command");
    assert!(line.contains("--seed 7"), "{line}");
    let line = line.replacen("regatta", env!("CARGO_BIN_EXE_regatta"), 1) + " --dry-run";
    let mut shell = bench.command("sh");
    shell.args(["-c", &line]).current_dir(&dir);
    let done = Done::from(shell.output().expect("a shell"));
    done.assert_code(0);
}

#[test]
fn damaged_runs_and_existing_archives_are_refused() {
    let bench = Bench::new();
    export::store(&bench);
    let done = bench.run(&["bundle", "results", "--out", "results/results.sqlite"]);
    done.assert_code(2);
    done.assert_stderr_contains("ends in `.tar.gz`");
    let path = bench.path("results/results.sqlite");
    let mut bytes = fs::read(&path).expect("a results file");
    let position = bytes.len() / 2;
    bytes[position] ^= 1;
    fs::write(&path, bytes).expect("a writable file");
    let done = bench.run(&["bundle", "results"]);
    done.assert_code(2);
    done.assert_stderr_contains("is damaged");
    assert!(!bench.path("results.tar.gz").exists());
}
