//! `regatta report --pdf` and `--figures` with a typesetter that fails, hangs or writes more than the disk holds.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use nix::{
    sys::{
        signal::Signal::{SIGINT, SIGTERM},
        stat::Mode,
    },
    unistd::mkfifo,
};

use crate::{
    help::{Bench, Done, SMALL, signal},
    machine::apart,
};

/// Makes a run in `out`, and an earlier `report.pdf` in it.
fn run(bench: &Bench) {
    bench.write("study.toml", &SMALL.replace("rounds = 2", "rounds = 1"));
    let args = ["run", "study.toml", "--no-progress", "--out", "out"];
    let done = bench.run(&args);
    // On a busy machine the path may miss its tolerance.
    assert!([0, 1].contains(&done.code()), "{done:#?}");
    bench.write("out/report.pdf", "earlier");
}

/// Writes a package `typst` whose compiler runs these lines, and returns its directory.
fn typesetter(bench: &Bench, lines: &str) -> PathBuf {
    let packages = bench.path("packages");
    fs::create_dir_all(packages.join("typst")).expect("made");
    fs::create_dir_all(packages.join("fontpkg_noto_sans/files")).expect("made");
    let lines = lines.replace('\n', "\n        ");
    let source = format!(
        "import sys, time\n\
         class TypstError(Exception):\n    diagnostic = 'error: out of ink\\n'\n\
         class Fonts:\n    def __init__(self, **options): pass\n\
         class Compiler:\n    def __init__(self, files, **options): pass\n    \
         def compile(self, format, **options):\n        {lines}\n"
    );
    fs::write(packages.join("typst/__init__.py"), source).expect("written");
    packages
}

/// Checks that `report.pdf` is the earlier one, and that nothing else is left of a new one.
fn assert_untouched(bench: &Bench) {
    let report = fs::read_to_string(bench.path("out/report.pdf")).expect("it is there");
    assert_eq!(report, "earlier");
    assert!(!bench.path("out/.report.pdf.tmp").exists());
}

#[test]
fn signal_ends_typesetting_and_keeps_the_earlier_report() {
    let bench = Bench::new();
    run(&bench);
    let fifo = bench.path("started");
    mkfifo(&fifo, Mode::S_IRWXU).expect("a pipe with a name");
    let lines = format!(
        "sys.stdout.write('half')\nsys.stdout.flush()\nopen('{}', 'w').close()\ntime.sleep(600)",
        fifo.display()
    );
    let packages = typesetter(&bench, &lines);
    for ending in [SIGINT, SIGTERM] {
        let report = bench
            .regatta(&["report", "out", "--pdf"])
            .env("REGATTA_PDF", &packages)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        // It has the whole job and has written a part of its output.
        fs::read_to_string(&fifo).expect("the typesetter has started");
        signal(i32::try_from(report.id()).expect("a process"), ending);
        let done = Done::from(report.wait_with_output().expect("an end"));
        done.assert_code(1);
        done.assert_stderr_contains("stopping: no `report.pdf` is written");
        done.assert_stderr_contains(
            "stopped before `report.pdf` was made; an earlier one is as it was",
        );
        assert_untouched(&bench);
    }
}

#[test]
fn failed_typesetter_keeps_the_earlier_report() {
    let bench = Bench::new();
    run(&bench);
    let packages = typesetter(&bench, "raise TypstError");
    let done = bench
        .regatta(&["report", "out", "--pdf"])
        .env("REGATTA_PDF", packages)
        .output()
        .expect("the binary starts");
    let done = Done::from(done);
    done.assert_code(1);
    done.assert_stderr_contains(
        "no `report.pdf`: exit status: 1: the document could not be typeset: out of ink",
    );
    assert_untouched(&bench);
}

#[test]
fn reports_and_figures_replace_files_alone() {
    let bench = Bench::new();
    run(&bench);
    let packages = typesetter(&bench, "return b'made'");
    let elsewhere = bench.write("elsewhere", "of somebody else");
    let plant = |name: &str| {
        let path = bench.path(name);
        let _ = fs::remove_file(&path);
        std::os::unix::fs::symlink(&elsewhere, &path).expect("a link");
    };
    let refused = |args: &[&str], name: &str, found: &str| {
        let mut report = bench.regatta(&[&["report", "out"], args].concat());
        report.env("REGATTA_PDF", &packages);
        let done = Done::from(report.output().expect("the binary starts"));
        done.assert_code(1);
        done.assert_stderr_contains(&format!("cannot write `{name}`"));
        done.assert_stderr_contains(&format!("it is {found}, and only a file is replaced"));
        let text = fs::read_to_string(&elsewhere).expect("it is there");
        assert_eq!(text, "of somebody else", "{name}");
    };
    let link = "a symbolic link";
    plant("out/report.pdf");
    refused(&["--pdf"], "out/report.pdf", link);
    fs::remove_file(bench.path("out/report.pdf")).expect("a link");
    mkfifo(&bench.path("out/report.pdf"), Mode::S_IRWXU).expect("a pipe");
    refused(&["--pdf"], "out/report.pdf", "a device, a pipe or a socket");
    fs::create_dir(bench.path("figures")).expect("a directory");
    plant("figures/figures.csv");
    refused(&["--figures", "figures"], "figures/figures.csv", link);
    plant("out/report.html");
    refused(&[], "out/report.html", link);
}

#[test]
fn without_python_the_earlier_report_is_kept() {
    let bench = Bench::new();
    run(&bench);
    let packages = typesetter(&bench, "return b'made'");
    let mut command = bench.regatta(&["report", "out", "--pdf"]);
    command
        .env("REGATTA_PDF", packages)
        .env("PATH", "/nonexistent");
    let done = Done::from(command.output().expect("the binary starts"));
    done.assert_code(1);
    done.assert_stderr_contains("cannot run `python3`: No such file or directory");
    done.assert_stderr_contains("hint: install Python");
    assert_untouched(&bench);
}

/// Returns a command with the typesetter of `make pdf`, unless the tests name another.
fn with_typesetter(mut command: Command) -> Command {
    match std::env::var_os("REGATTA_PDF") {
        Some(named) => command.env("REGATTA_PDF", named),
        None => command.env_remove("REGATTA_PDF"),
    };
    command
}

#[test]
fn run_and_report_write_the_same_short_pdf() {
    let bench = Bench::new();
    bench.write("study.toml", &SMALL.replace("rounds = 2", "rounds = 1"));
    let written = |args: &[&str]| {
        let output = with_typesetter(bench.regatta(args)).output();
        let done = Done::from(output.expect("the binary starts"));
        assert!([0, 1].contains(&done.code()), "{done:#?}");
        fs::read(bench.path("out/brief.pdf")).expect("`brief.pdf`: run `make pdf`")
    };
    let first = written(&["run", "study.toml", "--no-progress", "--out", "out"]);
    assert!(first.starts_with(b"%PDF-"));
    fs::remove_file(bench.path("out/brief.pdf")).expect("it was there");
    assert_eq!(first, written(&["report", "out", "--pdf=brief"]));
}

/// A node has neither the submitter's home nor what `make pdf` has put there.
#[test]
fn shards_that_a_node_merges_have_a_short_pdf() {
    let bench = Bench::new();
    bench.write("study.toml", SMALL);
    let submit = ["submit", "study.toml", "--slurm", "--write-only", "--out"];
    let submit = [&submit[..], &["big", "--bed", "netns", "--shards", "2"]].concat();
    let submitted = with_typesetter(bench.regatta(&submit)).output();
    Done::from(submitted.expect("the binary starts")).assert_code(0);
    let on_node = |script: &str, task: &str| {
        let mut command = bench.command("bash");
        command.arg(script).env("HOME", bench.path("nobody"));
        for variable in ["REGATTA_PDF", "XDG_CACHE_HOME"] {
            command.env_remove(variable);
        }
        command.env("SLURM_ARRAY_TASK_ID", task);
        command
            .env("SLURM_JOB_ID", "1")
            .env("SLURM_ARRAY_JOB_ID", "1");
        let status = command.status().expect("bash starts");
        assert!(
            [Some(0), Some(1)].contains(&status.code()),
            "{script}: {status}"
        );
    };
    on_node("big/shards.sbatch", "1");
    on_node("big/shards.sbatch", "2");
    on_node("big/merge.sbatch", "");
    let brief = fs::read(bench.path("big/merged/brief.pdf")).expect("`brief.pdf`");
    assert!(brief.starts_with(b"%PDF-"));
    let status = bench.run(&["status", "big"]);
    assert!(
        status.stdout.contains("merged in `big/merged`"),
        "{status:#?}"
    );
    assert!(!status.stdout.contains("brief.pdf"), "{status:#?}");
}

#[test]
fn figures_are_written_with_their_values_and_captions() {
    let bench = Bench::new();
    run(&bench);
    let packages = typesetter(&bench, "return f'made {format}'.encode()");
    let report = |packages: &Path| {
        let done = bench
            .regatta(&["report", "out", "--figures", "figures"])
            .env("REGATTA_PDF", packages)
            .output();
        Done::from(done.expect("the binary starts"))
    };
    let without = report("/nonexistent".as_ref());
    without.assert_code(1);
    without.assert_stderr_contains("SVG, values and captions are in `figures`");
    without.assert_stderr_contains("hint: run `make pdf` in Regatta's clone");
    let code = report(&packages).code();
    assert!([0, 1].contains(&code), "{code}");
    let read = |name: &str| fs::read_to_string(bench.path(&format!("figures/{name}")));
    let list = read("figures.csv").expect("the list");
    assert!(list.contains("\nmean-goodput-bps,85,"), "{list}");
    for figure in list.lines().skip(1) {
        let name = figure.split(',').next().expect("a name");
        for (kind, begins) in [
            ("svg", "<?xml"),
            ("csv", "panel,"),
            ("pdf", "made pdf"),
            ("png", "made png"),
        ] {
            let text = read(&format!("{name}.{kind}")).expect("a file of the figure");
            assert!(text.starts_with(begins), "{name}.{kind}");
        }
        assert!(
            read(&format!("{name}.txt"))
                .expect("a caption")
                .contains("value, low, high: ")
        );
    }
}

#[test]
fn full_disk_is_reported_and_keeps_the_earlier_report() {
    let bench = Bench::new();
    run(&bench);
    typesetter(&bench, "return bytes(4_000_000)");
    let done = apart(
        &bench,
        "mkdir small; mount -t tmpfs -o size=2m none small; cp -a out small
         REGATTA_PDF=$PWD/packages \"$REGATTA\" report small/out --pdf && exit 99
         echo \"code $?\"; cat small/out/report.pdf; echo; ls -A small/out",
    );
    assert!(done.stdout.starts_with("code 1\nearlier\n"), "{done:#?}");
    assert!(!done.stdout.contains(".tmp"), "{done:#?}");
    done.assert_stderr_contains("cannot write `small/out/report.pdf`");
    done.assert_stderr_contains("No space left on device");
    done.assert_stderr_contains("hint: free some space");
}

#[test]
fn reports_are_made_in_russian() {
    let bench = Bench::new();
    run(&bench);
    let done = bench.run(&["report", "out", "--details", "--lang", "ru"]);
    assert!(done.stdout.contains("прогоны измерены"), "{}", done.stdout);
    let page = fs::read_to_string(bench.path("out/report.html")).expect("the page");
    assert!(page.contains("<html lang=\"ru\">"));
    let summary = fs::read_to_string(bench.path("out/summary.json")).expect("the summary");
    assert!(!summary.contains('ж'), "summary.json is for machines");
    let done = bench.run(&["report", "out", "--lang", "de"]);
    done.assert_code(2);
    done.assert_stderr_contains("[possible values: en, ru]");
}
