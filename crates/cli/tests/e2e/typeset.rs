//! `regatta report --pdf` and `--figures` with a typesetter that fails, hangs or writes more than the disk holds.

use std::{fs, os::unix::fs::PermissionsExt as _, process::Stdio};

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
    let done = bench
        .regatta(&args)
        .env("REGATTA_TYPESET", "/nonexistent")
        .output()
        .expect("the binary starts");
    // On a busy machine the path may miss its tolerance.
    let code = Done::from(done).code();
    assert!([0, 1].contains(&code), "{code}");
    bench.write("out/report.pdf", "earlier");
}

/// Writes a typesetter as a program of the shell.
fn typesetter(bench: &Bench, script: &str) -> std::path::PathBuf {
    let program = bench.write("typesetter", &format!("#!/bin/sh\n{script}\n"));
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(&program, mode).expect("a file of ours");
    program
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
    let script = format!(
        "cat > /dev/null\nprintf half\necho > {}\nexec tail -f /dev/null",
        fifo.display()
    );
    let program = typesetter(&bench, &script);
    for ending in [SIGINT, SIGTERM] {
        let report = bench
            .regatta(&["report", "out", "--pdf"])
            .env("REGATTA_TYPESET", &program)
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
    let program = typesetter(&bench, "cat > /dev/null; echo out of ink >&2; exit 3");
    let done = bench
        .regatta(&["report", "out", "--pdf"])
        .env("REGATTA_TYPESET", program)
        .output()
        .expect("the binary starts");
    let done = Done::from(done);
    done.assert_code(1);
    done.assert_stderr_contains("no `report.pdf`: exit status: 3: out of ink");
    assert_untouched(&bench);
}

#[test]
fn figures_are_written_with_their_values_and_captions() {
    let bench = Bench::new();
    run(&bench);
    let program = typesetter(&bench, "cat > /dev/null; echo \"made $1\"");
    let report = |program: &std::path::Path| {
        let done = bench
            .regatta(&["report", "out", "--figures", "figures"])
            .env("REGATTA_TYPESET", program)
            .output();
        Done::from(done.expect("the binary starts"))
    };
    let without = report("/nonexistent".as_ref());
    without.assert_code(1);
    without.assert_stderr_contains("SVG, values and captions are in `figures`");
    without.assert_stderr_contains("hint: run `make build` in Regatta's clone");
    let code = report(&program).code();
    assert!([0, 1].contains(&code), "{code}");
    let read = |name: &str| fs::read_to_string(bench.path(&format!("figures/{name}")));
    let list = read("figures.csv").expect("the list");
    assert!(list.contains("\nmean-goodput-bps,85,"), "{list}");
    for figure in list.lines().skip(1) {
        let name = figure.split(',').next().expect("a name");
        for (kind, begins) in [
            ("svg", "<?xml"),
            ("csv", "panel,"),
            ("pdf", "made \n"),
            ("png", "made --png"),
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
    typesetter(&bench, "cat > /dev/null; head -c 4000000 /dev/zero");
    let done = apart(
        &bench,
        "mkdir small; mount -t tmpfs -o size=2m none small; cp -a out small
         REGATTA_TYPESET=$PWD/typesetter \"$REGATTA\" report small/out --pdf && exit 99
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
    let done = bench.run(&["report", "out", "--lang", "ru"]);
    assert!(done.stdout.contains("прогоны измерены"), "{}", done.stdout);
    let page = fs::read_to_string(bench.path("out/report.html")).expect("the page");
    assert!(page.contains("<html lang=\"ru\">"));
    let summary = fs::read_to_string(bench.path("out/summary.json")).expect("the summary");
    assert!(!summary.contains('ж'), "summary.json is for machines");
    let done = bench.run(&["report", "out", "--lang", "de"]);
    done.assert_code(2);
    done.assert_stderr_contains("[possible values: en, ru]");
}
