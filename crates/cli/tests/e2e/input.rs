//! Bad input: file, line, caret, hint, exit code 2; and nothing was started or written.

use crate::help::{Bench, Done, SMALL};

/// Runs a changed copy of the small study.
#[track_caller]
fn refused(old: &str, new: &str) -> Done {
    let bench = Bench::new();
    assert!(SMALL.contains(old), "{old}");
    bench.write("bad.toml", &SMALL.replacen(old, new, 1));
    let done = bench.run(&["run", "bad.toml", "--out", "out"]);
    done.assert_code(2);
    done.assert_says("error: ");
    done.assert_says("hint: ");
    assert!(done.stdout.is_empty());
    assert!(!bench.path("out").exists(), "nothing is begun");
    done
}

#[track_caller]
fn refused_at(old: &str, new: &str, line: usize, says: &[&str]) {
    let done = refused(old, new);
    done.assert_says(&format!("bad.toml:{line}:"));
    done.assert_says("^");
    for text in says {
        done.assert_says(text);
    }
}

#[test]
fn an_unknown_key_is_shown_with_the_nearest_known_one() {
    refused_at("rounds = 2", "ronds = 2", 3, &["`ronds`", "`rounds`"]);
}

#[test]
fn a_wrong_unit_is_shown() {
    refused_at("\"10ms\"", "\"10MB\"", 15, &["`MB` is not a unit of time"]);
}

#[test]
fn a_loss_above_all_is_shown() {
    refused_at("rtt = \"10ms\"", "loss = \"120%\"", 15, &["120%"]);
}

#[test]
fn zero_rounds_are_refused() {
    refused_at("rounds = 2", "rounds = 0", 3, &["rounds"]);
}

#[test]
fn two_equal_labels_are_refused() {
    refused_at("driver = \"udp\"", "driver = \"tcp\"", 10, &["label `tcp`"]);
}

#[test]
fn what_is_no_toml_is_shown() {
    refused_at("rounds = 2", "rounds = = 2", 3, &["not TOML"]);
}

#[test]
fn an_unknown_driver_is_shown_with_the_list() {
    refused_at(
        "driver = \"udp\"",
        "driver = \"upd\"",
        10,
        &["no transport `upd`", "did you mean `udp`", "quic-quinn"],
    );
}

#[test]
fn an_unknown_option_of_a_driver_is_shown() {
    refused_at(
        "rate = \"40Mbit/s\"",
        "rat = \"40Mbit/s\"",
        11,
        &["`rat`", "`rate`"],
    );
}

#[test]
fn a_study_without_transports_is_refused() {
    let bench = Bench::new();
    bench.write(
        "bad.toml",
        "[[condition]]\nname = \"x\"\n[[workload]]\nkind = \"bulk\"\n",
    );
    let done = bench.run(&["run", "bad.toml"]);
    done.assert_code(2);
    done.assert_says("no transport");
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let bench = Bench::new();
    let done = bench.run(&["run", "none.toml"]);
    done.assert_code(2);
    done.assert_says("cannot read the study file `none.toml`");
    done.assert_says("No such file");

    bench.write("binary.toml", "");
    std::fs::write(bench.path("binary.toml"), [0xff, 0xfe, 0x00]).expect("written");
    let done = bench.run(&["run", "binary.toml"]);
    done.assert_code(2);
    done.assert_says("not UTF-8");

    let done = bench.run(&["run", "gadasin-2026-shrt"]);
    done.assert_code(2);
    done.assert_says("did you mean `gadasin-2026-short`");

    std::fs::create_dir(bench.path("dir")).expect("made");
    bench.run(&["run", "dir"]).assert_code(2);
}

#[test]
fn an_unknown_transport_is_answered_with_the_list() {
    let bench = Bench::new();
    let done = bench.run(&["run", "--transport", "tpc"]);
    done.assert_code(2);
    done.assert_says("there is no transport `tpc`");
    done.assert_says("did you mean `tcp`? the transports are: tcp, tcp-tls, mptcp, udp,");
    assert!(!bench.path("regatta-results").exists());
}

#[test]
fn a_directory_is_asked_for_with_words_that_can_be_typed() {
    let bench = Bench::new();
    // What an earlier run left is no run to go on with.
    std::fs::create_dir(bench.path("old")).expect("made");
    bench.write("old/report.html", "");
    let done = bench.run(&["run", "--transport", "tcp", "--out", "old"]);
    done.assert_code(2);
    done.assert_says("report.html");
    done.assert_says("--out");
    assert!(!done.stderr.contains("regatta resume"), "{done:#?}");

    for (name, typed) in [("j i", "'j i'"), ("-dash", "./-dash")] {
        std::fs::create_dir(bench.path(name)).expect("made");
        bench.write(&format!("{name}/results.sqlite"), "");
        let done = bench.run(&["run", "--transport", "tcp", "--out", name]);
        done.assert_code(2);
        done.assert_says(&format!("`regatta resume {typed}`"));
    }

    // The name was forgotten.
    let done = bench.run(&["run", "--out", "--json"]);
    done.assert_code(2);
    done.assert_says("`./--json`");
    assert!(!bench.path("--json").exists());
}

#[test]
fn arguments_are_checked_before_anything_starts() {
    let bench = Bench::new();
    for (args, says) in [
        (["--loss", "120%"], "not between 0 % and 100 %"),
        (["--rtt", "30"], "no unit of time"),
        (["--rate", "10MB"], "not a unit of rate"),
        (["--rate", "0Mbit/s"], "a rate of zero carries nothing"),
        (["--rounds", "0"], "0"),
        (["--size", "0B"], "size"),
        (["--bed", "moon"], "the beds are"),
        (["--transport", "tcp:cc"], "has no value"),
        (["--transport", "tcp,tcp"], "label `tcp`"),
        (["--jitter", "40ms"], "jitter"),
    ] {
        let done = bench.run(&["run", args[0], args[1]]);
        done.assert_code(2);
        done.assert_says(says);
    }
    bench.run(&["sail"]).assert_code(2);
    bench.run(&[]).assert_code(2);
    assert!(!bench.path("regatta-results").exists());
}
