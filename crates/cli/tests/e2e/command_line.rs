//! Tests of the command line: bare numbers, workloads, machine output, completions, man pages, configuration file.

use serde_json::Value;

use crate::{
    happy::{EVENTS_SCHEMA, assert_fits},
    help::{Bench, Done, SMALL},
};

const LIST_SCHEMA: &str = include_str!("../../../../schemas/list.schema.json");
const DOCTOR_SCHEMA: &str = include_str!("../../../../schemas/doctor.schema.json");
const HOSTS_SCHEMA: &str = include_str!("../../../../schemas/hosts.schema.json");
const PATH_SCHEMA: &str = include_str!("../../../../schemas/path.schema.json");

/// Plans a run of TCP with these options.
fn planned(bench: &Bench, options: &[&str]) -> Done {
    bench.run(&[&["run", "--dry-run", "--transport", "tcp"], options].concat())
}

#[track_caller]
fn refused(args: &[&str], expected: &[&str]) {
    let done = Bench::new().run(args);
    done.assert_code(2);
    expected
        .iter()
        .for_each(|expected| done.assert_stderr_contains(expected));
    assert!(done.stdout.is_empty(), "{}", done.stdout);
}

fn json(done: &Done) -> Value {
    done.assert_code(0);
    serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {}", done.stdout))
}

#[test]
fn ratio_without_unit_is_refused_in_every_option() {
    let run = ["run", "--dry-run", "--transport", "tcp"];
    for options in [
        ["--loss", "1"],
        ["--reorder", "1"],
        ["--forward", "loss=1"],
        ["--reverse", "duplicate=1"],
        ["--step", "2s:loss=1"],
        ["--loss-bursts", "to_bad=1:to_good=30%"],
        ["--scale", "1"],
    ] {
        let study: &[&str] = if options[0] == "--scale" {
            &["udpr"]
        } else {
            &[]
        };
        let args = [&run[..2], study, &options].concat();
        refused(
            &args,
            &["`1` could be 1 % or 100 %", "write `1%` or `100%`"],
        );
    }
    let path = ["path", "--loss", "1", "--", "true"];
    refused(&path, &["write `1%` or `100%`"]);
    refused(
        &["plan", "udpr", "--detect", "5"],
        &["`5` has no unit", "write `5%`"],
    );
}

#[test]
fn keys_of_a_workload_that_exclude_one_another_are_refused() {
    let run = ["run", "--dry-run", "--transport", "tcp"];
    for (options, expected) in [
        (["--size", "1MB", "--duration", "1s"], "cannot be used with"),
        (
            ["--outstanding", "2", "--requests-per-second", "5"],
            "cannot be used with",
        ),
        (
            ["--workload", "stop-and-wait", "--flows", "2"],
            "`--flows` is a key of `bulk`",
        ),
        (
            ["--finish", "abandon", "--direction", "reverse"],
            "leave out one of `--finish` and `--direction`",
        ),
        (
            ["--duration", "5s", "--warm-up", "5s"],
            "write a shorter `--warm-up`",
        ),
        (
            ["--duration", "5s", "--deadline", "4s"],
            "write a shorter `--duration`, or a longer `--deadline`",
        ),
    ] {
        refused(&[&run[..], &options[..]].concat(), &[expected]);
    }
}

#[test]
fn every_workload_can_be_run_with_its_keys() {
    let bench = Bench::new();
    for (options, expected) in [
        (
            &["--duration", "40s", "--flows", "4", "--direction", "both"][..],
            "bulk 40 s, direction both, flows 4: 40 s of messages of 10 kB, each way, over 4 flows, deadline 70 s",
        ),
        (
            &[
                "--workload",
                "request-response",
                "--requests-per-second",
                "50",
            ],
            "request-response, requests per second 50: 1000 requests of 100 B, answers of 1 kB, 50 a second",
        ),
        (
            &["--workload", "stop-and-wait", "--size", "5kB"],
            "stop-and-wait 5 kB: 5 kB in messages of 5 kB",
        ),
        (
            &["--workload", "short-connections,multi-stream"],
            "multi-stream: 500 messages of 10 kB",
        ),
    ] {
        let done = planned(&bench, options);
        done.assert_code(0);
        assert!(
            done.stdout.contains(expected),
            "{expected}: {}",
            done.stdout
        );
    }
}

#[test]
fn the_workload_of_a_study_is_selected_and_changed() {
    let bench = Bench::new();
    let second = "[[workload]]\nname = \"small\"\nkind = \"request-response\"\n";
    bench.write("study.toml", &format!("{SMALL}\n{second}"));
    let plan =
        |options: &[&str]| bench.run(&[&["run", "study.toml", "--dry-run"], options].concat());
    let done = plan(&["--workload", "request-response", "--requests", "7"]);
    done.assert_code(0);
    assert!(done.stdout.contains("small: 7 requests"), "{}", done.stdout);
    assert!(!done.stdout.contains("bulk: "), "{}", done.stdout);
    // A duration takes the place of the study's size, and is shorter than its deadline of 5 s.
    let done = plan(&["--workload", "bulk", "--duration", "2s"]);
    assert!(
        done.stdout.contains("bulk: 2 s of messages"),
        "{}",
        done.stdout
    );
    let done = plan(&["--workload", "bulk", "--duration", "6s"]);
    done.assert_code(2);
    done.assert_stderr_contains("these options do not fit the workload `bulk`");
    let done = plan(&["--size", "1MB"]);
    done.assert_code(2);
    done.assert_stderr_contains("`--size` is a key of `bulk`, `stop-and-wait`");
    let done = plan(&["--workload", "smal"]);
    done.assert_code(2);
    done.assert_stderr_contains("did you mean `small`?");
}

#[test]
fn similar_names_are_suggested() {
    for (options, expected) in [
        (["--workload", "blk"], "did you mean `bulk`?"),
        (["--transport", "quic"], "did you mean `quic-quinn`?"),
        (["--transport", "tcp:lable=x"], "did you mean `label`?"),
        (["--durration", "5s"], "'--duration'"),
    ] {
        refused(&[&["run", "--dry-run"], &options[..]].concat(), &[expected]);
    }
}

#[test]
fn a_label_may_follow_a_comma() {
    let bench = Bench::new();
    let args = [
        "run",
        "--dry-run",
        "--transport",
        "tcp:cc=reno,label=Reno,udp:rate=5Mbit/s",
    ];
    let done = bench.run(&args);
    done.assert_code(0);
    assert!(
        done.stdout.contains("Reno: driver tcp cc=reno"),
        "{}",
        done.stdout
    );
    assert!(
        done.stdout.contains("driver udp rate=5Mbit/s"),
        "{}",
        done.stdout
    );
}

#[test]
fn dry_run_has_unsupported_cells_and_json_output() {
    let bench = Bench::new();
    let options = ["--workload", "short-connections", "--rounds", "2"];
    let args = [
        &["run", "--dry-run", "--transport", "tcp,udp"],
        &options[..],
    ]
    .concat();
    let done = bench.run(&args);
    done.assert_code(0);
    assert!(
        done.stdout
            .contains("unsupported\n  udp with short-connections: "),
        "{}",
        done.stdout
    );
    let done = bench.run(&[&args[..], &["--json"]].concat());
    done.assert_code(0);
    let events = done.events();
    events
        .iter()
        .for_each(|event| assert_fits(EVENTS_SCHEMA, event));
    assert_eq!(events.len(), 5);
    assert_eq!(events[0]["event"], "plan");
    assert_eq!(events[0]["unsupported"][0]["transport"], "udp");
    assert_eq!(events[4]["round"], 1);
    // Nothing of it can be measured.
    let args = [&["run", "--dry-run", "--transport", "udp"], &options[..]].concat();
    bench.run(&args).assert_code(77);
}

#[test]
fn lists_have_json_output() {
    let bench = Bench::new();
    let all = json(&bench.run(&["list", "--json"]));
    assert_fits(LIST_SCHEMA, &all);
    for table in ["transports", "workloads", "traces", "studies", "metrics"] {
        let one = json(&bench.run(&["list", table, "--json"]));
        assert_fits(LIST_SCHEMA, &one);
        assert_eq!(one.as_object().map(|tables| tables.len()), Some(1));
        assert_eq!(one[table], all[table]);
    }
    assert_fits(DOCTOR_SCHEMA, &json(&bench.run(&["doctor", "--json"])));
    let file = "[one]\nssh = \"a@192.0.2.1\"\nports = \"5200-5299\"\n";
    let file = bench.write("hosts.toml", file).display().to_string();
    let hosts = json(&bench.run(&["hosts", "--hosts-file", &file, "list", "--json"]));
    assert_fits(HOSTS_SCHEMA, &hosts);
    assert_eq!(hosts["hosts"][0]["ports"], "5200-5299");
}

#[test]
fn path_writes_its_counters_as_json() {
    let bench = Bench::new();
    let path = [
        "path",
        "--rtt",
        "2ms",
        "--queue",
        "30kB",
        "--emulator",
        "userspace",
    ];
    let command = [
        "--json",
        "path.json",
        "--",
        "bash",
        "-c",
        "(exec 3<>/dev/tcp/$REGATTA_SERVER/9) || exit 3",
    ];
    let done = bench.run(&[&path[..], &command[..]].concat());
    done.assert_code(3);
    done.assert_stderr_contains("in the queue of 30 kB");
    let text = std::fs::read_to_string(bench.path("path.json")).expect("written");
    let summary: Value = serde_json::from_str(&text).expect("JSON");
    assert_fits(PATH_SCHEMA, &summary);
    assert_eq!(summary["exit_code"], 3);
    assert_eq!(summary["forward"]["queue_limit_bytes"], 30_000);
    // A connection that is refused: one packet each way.
    assert_eq!(summary["forward"]["offered"], 1);
    assert_eq!(summary["reverse"]["delivered"], 1);
}

#[test]
fn completions_and_man_pages_have_every_option_of_run() {
    let bench = Bench::new();
    let done = bench.run(&["man", "pages"]);
    done.assert_code(0);
    let page = std::fs::read_to_string(bench.path("pages/regatta-run.1")).expect("a page");
    let help = bench.run(&["run", "--help"]).stdout;
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let options: Vec<&str> = (help.split(|c: char| !is_of_name(c)))
        .filter(|word| word.starts_with("--") && word.len() > 2)
        .collect();
    assert!(options.contains(&"--loss-bursts") && options.contains(&"--handshake"));
    for shell in ["bash", "zsh", "fish"] {
        let script = bench.run(&["completions", shell]);
        script.assert_code(0);
        assert!(script.stdout.contains("loss-bursts"), "{shell}");
        assert!(script.stdout.contains("requests-per-second"), "{shell}");
        // Words of an option are offered.
        assert!(script.stdout.contains("0-rtt"), "{shell}");
        assert!(script.stdout.contains("drop-tail"), "{shell}");
        assert!(script.stdout.contains("complete-words"), "{shell}");
    }
    for option in options {
        let roff = option.replace('-', "\\-");
        assert!(page.contains(&roff), "{option}");
    }
}

#[test]
fn bash_completes_transports_after_a_comma() {
    let bench = Bench::new();
    bench.write("completions", &bench.run(&["completions", "bash"]).stdout);
    let script = "source ./completions; COMP_WORDS=(regatta run --transport tcp,mpt); COMP_CWORD=3; \
                  _regatta_words \"$1\" tcp,mpt --transport; echo \"${COMPREPLY[*]}\"";
    let mut bash = bench.command("bash");
    let bash = bash.args(["-c", script, "bash", env!("CARGO_BIN_EXE_regatta")]);
    let done = bash.output().expect("bash is there");
    assert_eq!(
        String::from_utf8_lossy(&done.stdout),
        "tcp,mptcp\n",
        "{done:?}"
    );
}

#[test]
fn defaults_of_the_configuration_file_are_applied_and_printed() {
    let bench = Bench::new();
    let directory = bench.path("regatta");
    std::fs::create_dir(&directory).expect("made");
    let write = |text: &str| std::fs::write(directory.join("config.toml"), text).expect("written");
    let run = |args: &[&str]| {
        let mut command = bench.regatta(args);
        command.env("XDG_CONFIG_HOME", bench.path(""));
        Done::from(command.output().expect("the binary starts"))
    };
    write("[run]\ntransport = \"tcp\"\nrtt = \"7ms\"\nrounds = 3\n");
    let done = run(&["run", "--dry-run", "--rounds", "2"]);
    done.assert_code(0);
    done.assert_stderr_contains("config.toml`: `--rtt=7ms`, `--transport=tcp`");
    assert!(done.stdout.contains("2 rounds"), "{}", done.stdout);
    assert!(
        done.stdout.contains("round-trip delay 7 ms"),
        "{}",
        done.stdout
    );
    write("[run]\nrond = 3\n");
    let done = run(&["run", "--dry-run"]);
    done.assert_code(2);
    done.assert_stderr_contains("`run` has no option `--rond`");
    done.assert_stderr_contains("did you mean `rounds`?");
}

#[test]
fn shipped_trace_is_selected_by_name() {
    let bench = Bench::new();
    let done = planned(&bench, &["--trace", "lte", "--emulator", "userspace"]);
    done.assert_code(0);
    assert!(
        done.stdout.contains("rate trace `lte`, "),
        "{}",
        done.stdout
    );
    let done = planned(&bench, &["--trace", "ltee", "--emulator", "userspace"]);
    done.assert_code(2);
    done.assert_stderr_contains("cannot read `ltee`");
}

#[test]
fn only_the_long_version_has_commit_and_date() {
    let bench = Bench::new();
    let short = bench.run(&["-V"]);
    short.assert_code(0);
    assert_eq!(
        short.stdout,
        concat!("regatta ", env!("CARGO_PKG_VERSION"), "\n")
    );
    let long = bench.run(&["--version"]);
    long.assert_code(0);
    let rest = long.stdout.strip_prefix(short.stdout.trim_end());
    let rest = rest.and_then(|rest| rest.strip_prefix(" (")?.strip_suffix(")\n"));
    let (commit, date) = rest
        .and_then(|rest| rest.split_once(' '))
        .expect("two facts");
    assert!(commit.len() >= 7, "{commit}");
    assert!(
        date.contains("unknown") || date.len() == "2026-01-01".len(),
        "{date}"
    );
}
