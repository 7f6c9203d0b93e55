//! Tests of bad input: file, line, caret, hint, exit code 2; nothing is started or written.

use std::os::unix::ffi::OsStrExt as _;

use crate::help::{Bench, Done, SMALL};

/// Runs a changed copy of the small study.
#[track_caller]
fn refused(old: &str, new: &str) -> Done {
    let bench = Bench::new();
    assert!(SMALL.contains(old), "{old}");
    bench.write("bad.toml", &SMALL.replacen(old, new, 1));
    let done = bench.run(&["run", "bad.toml", "--out", "out"]);
    done.assert_code(2);
    done.assert_stderr_contains("error: ");
    done.assert_stderr_contains("hint: ");
    assert!(done.stdout.is_empty());
    assert!(!bench.path("out").exists(), "nothing is begun");
    done
}

#[track_caller]
fn refused_at(old: &str, new: &str, line: usize, expected: &[&str]) {
    let done = refused(old, new);
    done.assert_stderr_contains(&format!("bad.toml:{line}:"));
    done.assert_stderr_contains("^");
    for text in expected {
        done.assert_stderr_contains(text);
    }
}

#[test]
fn unknown_key_is_reported_with_the_nearest_one() {
    refused_at("rounds = 2", "ronds = 2", 3, &["`ronds`", "`rounds`"]);
}

/// A check that would take days, or send a packet every few minutes, is refused before it begins.
#[track_caller]
fn unchecked_path(options: &[&str]) {
    let bench = Bench::new();
    let done = bench.run(&[&["run", "--transport", "tcp", "--out", "out"], options].concat());
    done.assert_code(2);
    done.assert_stderr_contains("cannot be checked in time");
    done.assert_stderr_contains("hint: write a shorter delay or a higher rate");
    assert!(!bench.path("out").exists(), "nothing is begun");
}

#[test]
fn a_path_of_days_is_refused() {
    unchecked_path(&["--rtt", "10d"]);
}

#[test]
fn a_path_of_one_bit_per_second_is_refused() {
    unchecked_path(&["--rate", "1bit/s"]);
}

#[test]
fn wrong_unit_is_reported_in_the_study() {
    refused_at("\"10ms\"", "\"10MB\"", 15, &["`MB` is not a unit of time"]);
}

#[test]
fn loss_above_100_percent_is_reported() {
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
fn invalid_toml_is_reported() {
    refused_at("rounds = 2", "rounds = = 2", 3, &["not TOML"]);
}

#[test]
fn unknown_driver_is_reported_with_the_list() {
    refused_at(
        "driver = \"udp\"",
        "driver = \"upd\"",
        10,
        &["no transport `upd`", "did you mean `udp`", "quic-quinn"],
    );
}

#[test]
fn unknown_option_of_a_driver_is_reported() {
    refused_at(
        "rate = \"40Mbit/s\"",
        "rat = \"40Mbit/s\"",
        11,
        &["`rat`", "`rate`"],
    );
}

#[test]
fn a_probe_on_a_stream_is_refused_where_a_transport_has_one_stream() {
    let bench = Bench::new();
    let study = |drivers: &str| {
        format!(
            "name = \"a\"\n{drivers}[[condition]]\nname = \"x\"\nrtt = \"10ms\"\n[[workload]]\nkind = \"bulk\"\n[workload.probe]\nplacement = \"stream\"\n"
        )
    };
    let quic = "[[transport]]\ndriver = \"quic-quinn\"\n";
    bench.write("quic.toml", &study(quic));
    bench.run(&["run", "quic.toml", "--dry-run"]).assert_code(0);
    let both = format!("{quic}[[transport]]\ndriver = \"tcp-tls\"\n");
    bench.write("both.toml", &study(&both));
    let done = bench.run(&["run", "both.toml", "--dry-run"]);
    done.assert_code(2);
    done.assert_stderr_contains("a connection of `tcp-tls` has no streams beside the transfer's");
    done.assert_stderr_contains("leave `placement` out");
}

#[test]
fn plain_tcp_beside_quic_is_warned_of_before_the_run() {
    let bench = Bench::new();
    let run = |transports: &str| {
        let path = ["--transport", transports, "--rtt", "10ms"];
        bench.run(&[&["run", "--dry-run"], path.as_slice()].concat())
    };
    let done = run("tcp,quic-quinn");
    done.assert_code(0);
    done.assert_stderr_contains("warning: `tcp` without encryption beside `quic-quinn` with it");
    done.assert_stderr_contains("hint: add the transport `tcp-tls`");
    let done = run("tcp,tcp-tls,quic-quinn");
    assert!(!done.stderr.contains("not encrypted"), "{}", done.stderr);
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
    done.assert_stderr_contains("no transport");
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let bench = Bench::new();
    let done = bench.run(&["run", "none.toml"]);
    done.assert_code(2);
    done.assert_stderr_contains("cannot read the study file `none.toml`");
    done.assert_stderr_contains("No such file");

    bench.write("binary.toml", "");
    std::fs::write(bench.path("binary.toml"), [0xff, 0xfe, 0x00]).expect("written");
    let done = bench.run(&["run", "binary.toml"]);
    done.assert_code(2);
    done.assert_stderr_contains("not UTF-8");

    let done = bench.run(&["run", "gadasin-2026-shrt"]);
    done.assert_code(2);
    done.assert_stderr_contains("did you mean `gadasin-2026-short`");

    std::fs::create_dir(bench.path("dir")).expect("made");
    bench.run(&["run", "dir"]).assert_code(2);
}

#[test]
fn unknown_transport_is_refused_with_the_list() {
    let bench = Bench::new();
    let done = bench.run(&["run", "--transport", "tpc"]);
    done.assert_code(2);
    done.assert_stderr_contains("there is no transport `tpc`");
    done.assert_stderr_contains(
        "did you mean `tcp`? the transports are: tcp, tcp-tls, mptcp, udp,",
    );
    assert!(!bench.path("regatta-results").exists());
}

#[test]
fn directory_errors_quote_a_usable_option() {
    let bench = Bench::new();
    // What an earlier run left is no run to go on with.
    std::fs::create_dir(bench.path("old")).expect("made");
    bench.write("old/report.html", "");
    let done = bench.run(&["run", "--transport", "tcp", "--out", "old"]);
    done.assert_code(2);
    done.assert_stderr_contains("report.html");
    done.assert_stderr_contains("--out");
    assert!(!done.stderr.contains("regatta resume"), "{done:#?}");

    for (name, typed) in [("j i", "'j i'"), ("-dash", "./-dash")] {
        std::fs::create_dir(bench.path(name)).expect("made");
        bench.write(&format!("{name}/results.sqlite"), "");
        let done = bench.run(&["run", "--transport", "tcp", "--out", name]);
        done.assert_code(2);
        done.assert_stderr_contains(&format!("`regatta resume {typed}`"));
    }

    // The name was forgotten.
    let done = bench.run(&["run", "--out", "--json"]);
    done.assert_code(2);
    done.assert_stderr_contains("`./--json`");
    assert!(!bench.path("--json").exists());
}

#[test]
fn arguments_are_checked_before_anything_starts() {
    let bench = Bench::new();
    for (args, expected) in [
        (["--loss", "120%"], "not between 0 % and 100 %"),
        (["--rtt", "30"], "no unit of time"),
        (["--rate", "10MB"], "not a unit of rate"),
        (["--rate", "0Mbit/s"], "a rate of zero carries nothing"),
        (["--rounds", "0"], "0"),
        (["--size", "0B"], "size"),
        (
            ["--duration", "0s"],
            "`--duration \"0 ms\"`: this time must be longer than zero",
        ),
        (["--duration", "0"], "write a time such as `10s`"),
        (
            ["--probe", "message=1B"],
            "`--probe message=1B`: this size must be from 16 B to 1.2 kB",
        ),
        (
            ["--forward", "delay=40d"],
            "`--forward delay=40d`: this time is longer than 30 days",
        ),
        (["--bed", "moon"], "it is one of `netns`, `uml`, `hosts`"),
        (["--transport", "tcp:cc"], "has no value"),
        (["--transport", "tcp,tcp"], "label `tcp`"),
        (["--jitter", "40ms"], "jitter"),
        (["--rtt", "-1ms"], "a time cannot be negative"),
        (["--jitter-distribution", "normal"], "but no `--jitter`"),
        (["--aqm-target", "5ms"], "add `--discipline codel`"),
        (["--reverse", "aqm_target=5ms"], "add `discipline=codel`"),
        (["--transport", "tcp,tcp"], "`label=tcp-2`"),
        (
            ["--out", "/proc/regatta"],
            "cannot make the result directory",
        ),
        (["--rtt", "0.0000001ms"], "is too small, and would be zero"),
        (["--jitter-distribution", "even"], "it is one of `uniform`"),
        (["--loss-bursts", "to_bad=1%"], "has no `to_good`"),
        (["--loss-bursts", "1%"], "no key with its value"),
        (["--loss-list", "17,3"], "do not rise from 1"),
        (
            ["--loss-list", "none.txt"],
            "cannot read `none.txt`: No such file",
        ),
        (
            ["--trace", "none.trace"],
            "cannot read `none.trace`: No such file",
        ),
        (["--trace", "."], "cannot read `.`: Is a directory"),
        (["--queue", "3 cows"], "100 packets"),
        (["--queue", "0 packets"], "a queue of no packet"),
        (["--burst", "1kB"], "lets none pass"),
        (["--aqm-target", "5ms"], "the queue's discipline has none"),
        (["--mtu", "60B"], "`--mtu` cannot be 60"),
        (["--reverse", "rate"], "no key with its value"),
        (["--reverse", "rat=1Mbit/s"], "did you mean `rate`"),
        (
            ["--reverse", "rate=0Mbit/s"],
            "a rate of zero carries nothing",
        ),
        (
            ["--forward", "loss_bursts=1%"],
            "write `to_bad=1%:to_good=30%`",
        ),
        (["--step", "rtt=50ms"], "says not when or not what"),
        (["--step", "0s:rtt=50ms"], "does not come after the start"),
        (["--step", "5s:rtt=50ms:rtt=40ms"], "`rtt` is said twice"),
        (
            ["--steps", "mtu:from=1:to=2:by=1:every=1s"],
            "not a value of `key`",
        ),
        (["--steps", "rtt:from=10ms"], "has no `to`"),
    ] {
        let done = bench.run(&["run", args[0], args[1]]);
        done.assert_code(2);
        done.assert_stderr_contains(expected);
    }
    bench.run(&["sail"]).assert_code(2);
    bench.run(&[]).assert_code(2);
    assert!(!bench.path("regatta-results").exists());
}

#[test]
fn arguments_are_checked_together_before_anything_starts() {
    let bench = Bench::new();
    for (args, expected) in [
        (
            &["--rate", "unlimited", "--discipline", "codel"][..],
            "a queue's discipline on a link without a rate",
        ),
        (
            &["--rate", "unlimited", "--queue", "2 BDP"],
            "the link has no rate",
        ),
        (
            &["--rate", "1Mbit/s", "--trace", "t"],
            "cannot be used with",
        ),
        (&["--rtt", "1ms", "--delay", "1ms"], "cannot be used with"),
        (
            &["--guests", "2"],
            "`--guests 2`: two guests are asked for, and the bed is not `uml`\nhint: write `--bed uml` too, or leave the guests out",
        ),
        (
            &["--step", "2s:loss=1%", "--step", "1s:loss=0%"],
            "does not come after the one before it, at 2 s",
        ),
        (
            &["--reverse", "rate=1Mbit/s", "--reverse", "rate=2Mbit/s"],
            "`rate` is said twice",
        ),
    ] {
        let done = bench.run(&[&["run", "--transport", "tcp"], args].concat());
        done.assert_code(2);
        done.assert_stderr_contains(expected);
    }
    assert!(!bench.path("regatta-results").exists());
}

/// Checks that options of a path replace the keys of a study, at each of its steps; the study's own
/// traces are found beside it, wherever that is.
#[test]
fn path_options_change_a_study_and_invalid_ones_are_refused() {
    let bench = Bench::new();
    let study = SMALL.replacen(
        "rtt = \"10ms\"",
        "rtt = \"10ms\"\njitter = \"3ms\"\ntrace = \"down.trace\"\n[[condition.step]]\nat = \"1s\"\nrtt = \"20ms\"\n[condition.step.reverse]",
        1,
    );
    std::fs::create_dir(bench.path("studies")).expect("made");
    bench.write("studies/traced.toml", &study);
    bench.write("studies/down.trace", "1\n2\n");
    let run =
        |args: &[&str]| bench.run(&[&["run", "studies/traced.toml", "--dry-run"], args].concat());
    run(&[]).assert_code(0);
    run(&["--loss", "1%", "--queue", "20 packets", "--rtt", "8ms"]).assert_code(0);
    let done = run(&["--rtt", "4ms"]);
    done.assert_code(2);
    done.assert_stderr_contains("`--jitter` is larger than the one-way delay");
    done.assert_stderr_contains("do not fit the condition `");
    std::fs::remove_file(bench.path("studies/down.trace")).expect("removed");
    let done = run(&[]);
    done.assert_code(2);
    done.assert_stderr_contains("cannot read `down.trace`");
    done.assert_stderr_contains("traced.toml:");
}

/// Checks that the commands of the page about conditions are accepted as they stand there.
#[test]
fn commands_of_the_page_about_conditions_are_accepted() {
    let bench = Bench::new();
    bench.write("lte-downlink.trace", "1\n5\n6\n");
    let page = include_str!("../../../../docs/conditions.md");
    let blocks = page
        .split("```sh\n")
        .skip(1)
        .map(|rest| rest.split("```").next());
    let text = blocks.flatten().collect::<String>().replace("\\\n", " ");
    let commands: Vec<&str> = text.lines().collect();
    assert_eq!(commands.len(), 5, "{commands:#?}");
    for command in commands {
        // Words are between spaces, or between quotation marks.
        let arguments: Vec<&str> = command
            .split('"')
            .enumerate()
            .flat_map(|(number, part)| match number % 2 {
                0 => part.split_whitespace().collect(),
                _ => vec![part],
            })
            .collect();
        assert_eq!(arguments[0], "regatta");
        let done = bench.run(&[&arguments[1..], &["--dry-run"]].concat());
        println!("{command}\n{}{}", done.stdout, done.stderr);
        done.assert_code(0);
    }
}

#[test]
fn ratio_without_unit_is_refused_with_a_hint() {
    let bench = Bench::new();
    let done = bench.run(&["run", "--transport", "tcp", "--loss", "0.5", "--dry-run"]);
    done.assert_code(2);
    done.assert_stderr_contains("write `0.5%` or `50%`");
    let near = "rate = \"50Mbit/s\"";
    let lossy = format!("{near}\nloss = \"1\"");
    refused_at(near, &lossy, 17, &["write `1%` or `100%`"]);
}

#[test]
fn control_characters_are_not_printed() {
    let bench = Bench::new();
    let hostile = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{202e}";
    let escaped = r"\u001b]0;owned\u0007\u001b[2J\u202e";
    bench.write("study.toml", &format!("title = \"{escaped}\"\n{SMALL}"));
    bench.write("bad.toml", &format!("name = \"{escaped}\"\n{SMALL}"));
    for args in [
        &["run", "study.toml", "--dry-run"][..],
        &["run", "bad.toml"],
        &["run", hostile],
        &["run", "--transport", hostile],
        &["run", "study.toml", "--rounds", hostile],
        &["report", hostile],
        &["resume", hostile],
        &["path", "--", hostile],
        &["list", hostile],
    ] {
        let done = bench.run(args);
        for text in [&done.stdout, &done.stderr] {
            let is_control = |c: char| c == '\u{202e}' || c.is_control() && c != '\n';
            assert!(!text.contains(is_control), "{args:?}: {text:?}");
        }
    }
}

#[test]
fn invalid_kernel_is_reported_in_the_study() {
    let name = "name = \"small\"\n";
    for (kernel, expected) in [
        ("/no/such/kernel", "No such file or directory"),
        ("/bin/true", "is not a User Mode Linux kernel"),
    ] {
        let named = format!("{name}bed = \"uml\"\nkernel = \"{kernel}\"\n");
        refused_at(name, &named, 4, &[expected, "linux.uml"]);
    }
}

#[test]
fn non_utf8_study_is_refused_with_its_line() {
    let bench = Bench::new();
    let with_trace = SMALL.replace("rate = \"50Mbit/s\"", "trace = \"bad.trace\"");
    std::fs::write(bench.path("bad.trace"), b"1\n2\n\xff\n").expect("written");
    std::fs::write(bench.path("bad.toml"), b"\n\nname = \"\xff\"\n").expect("written");
    bench.write("study.toml", &with_trace);
    for (study, expected) in [
        ("bad.toml", &["`bad.toml`", "line 3 is not UTF-8 text"][..]),
        (
            "study.toml",
            &["study.toml:", "`bad.trace`: line 3 is not UTF-8 text"],
        ),
    ] {
        let done = bench.run(&["run", study, "--dry-run"]);
        done.assert_code(2);
        expected
            .iter()
            .for_each(|expected| done.assert_stderr_contains(expected));
    }
}

#[test]
fn output_is_ascii_in_a_locale_without_utf_8() {
    let bench = Bench::new();
    bench.write("study.toml", &format!("title = \"Größe\"\n{SMALL}"));
    for args in [
        &["run", "study.toml", "--dry-run"][..],
        &["run", "--help"],
        &["run", "größe"],
        &["run", "--transport", "größe"],
        &["list"],
    ] {
        let done = bench.regatta(args).env("LC_ALL", "C").output();
        let done = Done::from(done.expect("the binary starts"));
        assert!(done.stdout.is_ascii(), "{args:?}: {}", done.stdout);
        assert!(done.stderr.is_ascii(), "{args:?}: {}", done.stderr);
        assert!(!(done.stdout + &done.stderr).is_empty(), "{args:?}");
    }
}

/// Checks that a directory name that is not text is refused: the processes of a run receive it as
/// text.
#[test]
fn a_directory_whose_name_is_not_text_is_refused() {
    let bench = Bench::new();
    bench.write("study.toml", SMALL);
    let name = std::ffi::OsStr::from_bytes(b"out-\xff");
    let mut command = bench.regatta(&["run", "study.toml", "--out"]);
    let done = Done::from(command.arg(name).output().expect("the binary starts"));
    done.assert_code(2);
    done.assert_stderr_contains("is not UTF-8");
    assert!(!bench.path("").join(name).exists());
}

#[test]
fn an_external_driver_without_its_program_is_refused() {
    let bench = Bench::new();
    for (transport, expected) in [
        ("external", "`external` needs the option `program`"),
        ("external:program=./gone", "`./gone` is no file"),
    ] {
        let done = bench.run(&["run", "--transport", transport, "--out", "out"]);
        done.assert_code(2);
        done.assert_stderr_contains(expected);
        assert!(!bench.path("out").exists());
    }
}

#[test]
fn mutually_exclusive_keys_are_refused() {
    refused_at(
        "rtt = \"10ms\"",
        "rtt = \"10ms\"\ndelay = \"5ms\"",
        16,
        &["leave out one"],
    );
    refused_at(
        "size = \"1MB\"",
        "size = \"1MB\"\nduration = \"1s\"",
        22,
        &["leave out one"],
    );
    refused_at("\"1MB\"", "\"0.5B\"", 21, &["not a whole number of bytes"]);
}

#[test]
fn negative_values_are_refused_with_their_reason() {
    let bench = Bench::new();
    for (args, expected) in [
        (["--size", "-5kB"], "a size cannot be negative: `-5kB`"),
        (["--message", "-5kB"], "a size cannot be negative"),
        (["--deadline", "-3s"], "a time cannot be negative: `-3s`"),
        (["--connect-deadline", "-3s"], "a time cannot be negative"),
        (
            ["--jitter-correlation", "-4ms"],
            "a time cannot be negative",
        ),
        (["--loss-list", "-3"], "`-3`"),
        (["--rounds", "-1"], "not a whole number from 1 to 1000000"),
        (["--seed", "-1"], "not a whole number from 0 to"),
    ] {
        let done = bench.run(&["run", "--transport", "tcp", args[0], args[1]]);
        done.assert_code(2);
        done.assert_stderr_contains(expected);
        assert!(!done.stderr.contains("tip:"), "{}", done.stderr);
    }
}

/// On the command line and in a study alike.
#[test]
fn a_size_without_a_unit_is_refused() {
    let bench = Bench::new();
    let done = bench.run(&["run", "--transport", "tcp", "--size", "5"]);
    done.assert_code(2);
    done.assert_stderr_contains("`5` has no unit of size");
    bench.write("bare.toml", &SMALL.replacen("\"1MB\"", "\"5\"", 1));
    let done = bench.run(&["run", "bare.toml"]);
    done.assert_code(2);
    done.assert_stderr_contains("`5` has no unit of size");
    // A condition's largest packet is a number in a study.
    let args = ["run", "--dry-run", "--transport", "tcp", "--mtu", "1400"];
    bench.run(&args).assert_code(0);
}

#[test]
fn rounds_are_an_integer_in_studies_and_options() {
    let bench = Bench::new();
    for rounds in ["0", "1.5", "1000001"] {
        let done = bench.run(&["run", "--transport", "tcp", "--rounds", rounds]);
        done.assert_code(2);
        done.assert_stderr_contains("it is not a whole number from 1 to 1000000");
    }
    bench.write(
        "half.toml",
        &SMALL.replacen("rounds = 2", "rounds = 1.5", 1),
    );
    let done = bench.run(&["run", "half.toml"]);
    done.assert_code(2);
    done.assert_stderr_contains("`rounds` in the study is a whole number, not a decimal number");
}

#[test]
fn repeated_transport_option_is_refused() {
    let bench = Bench::new();
    let done = bench.run(&["run", "--transport", "tcp:cc=cubic:cc=reno"]);
    done.assert_code(2);
    done.assert_stderr_contains("option `cc` of transport `tcp:cc=cubic:cc=reno` is said twice");
}

#[test]
fn too_long_label_is_refused_with_the_limit() {
    let bench = Bench::new();
    let driver = "driver = \"tcp\"\n";
    let label = format!("{driver}label = \"{}\"\n", "x".repeat(65));
    bench.write("long.toml", &SMALL.replacen(driver, &label, 1));
    let done = bench.run(&["run", "long.toml"]);
    done.assert_code(2);
    done.assert_stderr_contains("this label has 65 characters, and the longest label has 64");
}
