//! Reading of study files: a whole study, or its first mistake with file, line, caret and hint.

use std::time::Duration;

use proptest::prelude::*;
use regatta_model::{
    BedKind, BitRate, Bytes, Curve, Emulator, Formula, LossBy, Offloads, OptionValue, PathSetup,
    Placement, Ratio, Study, Tuning, WorkloadKind,
    study::{BUILTIN, StudyFile},
};

const SMALL: &str = r#"
[[transport]]
driver = "tcp"

[[condition]]
name = "lossy"
rtt = "30ms"
loss = "1%"
rate = "50Mbit/s"
[condition.reverse]
loss = "0%"

[[workload]]
kind = "bulk"
size = "20MB"
"#;

fn message(text: &str) -> String {
    match Study::parse(text, "my-study.toml") {
        Ok(study) => panic!("was read: {study:?}"),
        Err(error) => error.to_string(),
    }
}

/// Replaces one line of the small study.
fn with(from: &str, to: &str) -> String {
    assert!(SMALL.contains(from));
    SMALL.replacen(from, to, 1)
}

#[test]
fn a_small_study_gets_its_defaults() {
    let study = Study::parse(SMALL, "my-study.toml").expect("a sound study");
    assert_eq!(study.rounds, 5);
    assert_eq!(study.deadline, Duration::from_secs(60));
    assert_eq!(study.transports[0].label, "tcp");
    let condition = &study.conditions[0];
    assert_eq!(condition.forward.delay, Duration::from_millis(15));
    assert_eq!(condition.forward.loss, Ratio(0.01));
    assert_eq!(condition.reverse.loss, Ratio(0.0));
    assert_eq!(condition.reverse.rate, Some(BitRate(50_000_000)));
    let WorkloadKind::Bulk {
        amount, message, ..
    } = &study.workloads[0].kind
    else {
        panic!("{:?}", study.workloads[0]);
    };
    assert_eq!(
        (amount.bytes(), *message),
        (Bytes(20_000_000), Bytes(10_000))
    );
}

#[test]
fn the_tuning_of_a_study_is_that_of_its_conditions_unless_they_name_another() {
    let head = "tuning = \"defaults\"\n[host]\ntcp_wmem = \"4MiB\"\ntcp_sack = 0\n";
    let read = |text: &str| {
        let study = Study::parse(&format!("{head}{text}"), "my-study.toml").expect("sound");
        study.conditions[0].tuning.clone()
    };
    assert_eq!(read(SMALL).text(), "defaults, tcp_sack 0, tcp_wmem 4194304");
    let own = with("rtt = \"30ms\"", "rtt = \"30ms\"\ntuning = \"bench\"");
    assert_eq!(read(&own).base, Tuning::Bench);
    for (head, expected) in [
        ("tuning = \"default\"\n", "defaults"),
        (
            "[host]\ntcp_fin_timeout = 60\n",
            "unknown key `tcp_fin_timeout` in [host]",
        ),
        ("[host]\ntcp_sack = 2\n", "`tcp_sack` cannot be 2"),
    ] {
        let shown = message(&format!("{head}{SMALL}"));
        assert!(shown.contains(expected), "{shown}");
    }
}

#[test]
fn formulas_have_defaults_and_survive_storage() {
    let curves = "[[curve]]\nformula = \"mathis\"\n\
                  [[curve]]\nformula = \"round-trips\"\nround_trips = 2\nlabel = \"two\"\n";
    let study = Study::parse(&format!("{SMALL}{curves}"), "my-study.toml").expect("a sound study");
    let expected = [
        ("Mathis et al.", Formula::Mathis { constant: 1.22 }),
        ("two", Formula::RoundTrips { round_trips: 2.0 }),
    ];
    let expected = expected.map(|(label, formula)| Curve {
        label: label.to_owned(),
        formula,
    });
    assert_eq!(study.curves, expected);
    let stored = serde_json::to_string(&study).expect("JSON");
    assert!(
        stored.contains("{\"label\":\"two\",\"formula\":\"round-trips\",\"round_trips\":2.0}"),
        "{stored}"
    );
    let read: Study = serde_json::from_str(&stored).expect("a study");
    assert_eq!(read, study);
}

#[test]
fn mistakes_in_formulas_have_hints() {
    let with = |keys: &str| format!("{SMALL}[[curve]]\n{keys}\n");
    assert_hints(&[
        (with("constant = 1.2"), "[[curve]] has no `formula`"),
        (
            with("formula = \"padhye\""),
            "`padhye` is not a value of `formula`",
        ),
        (
            with("formula = \"mathis\"\nconstant = 0"),
            "`constant` is not above zero",
        ),
        (
            with("formula = \"mathis\"\nround_trips = 2"),
            "unknown key `round_trips` in [[curve]]",
        ),
    ]);
}

#[test]
fn numeric_zero_needs_no_unit() {
    let text = with("rtt = \"30ms\"", "rtt = 0").replace("loss = \"0%\"", "loss = 0");
    let study = Study::parse(&text, "my-study.toml").expect("a sound study");
    assert_eq!(study.conditions[0].forward.delay, Duration::ZERO);
    assert_eq!(study.conditions[0].reverse.loss, Ratio(0.0));
    let refused = message(&with("rate = \"50Mbit/s\"", "rate = 0"));
    assert!(refused.contains("rate"), "{refused}");
}

#[test]
fn path_setup_is_read() {
    let path = |keys: &str| {
        Study::parse(&format!("{keys}\n{SMALL}"), "my-study.toml")
            .expect("a sound study")
            .path
    };
    assert_eq!(path(""), PathSetup::default());
    assert_eq!(path("emulator = \"userspace\""), PathSetup::USERSPACE);
    let ends = PathSetup {
        emulator: Emulator::Netem,
        placement: Placement::Ends,
        loss_by: LossBy::Iptables,
        offloads: Offloads::On,
    };
    let keys =
        "emulator = \"netem\"\nplacement = \"ends\"\nloss_by = \"iptables\"\noffloads = \"on\"";
    assert_eq!(path(keys), ends);
}

#[test]
fn the_names_of_two_hosts_are_a_bed() {
    let study = Study::parse(
        &format!("hosts = [\"lab1\", \"local\"]\n{SMALL}"),
        "my-study.toml",
    );
    let study = study.expect("a sound study");
    assert_eq!(study.bed, BedKind::Hosts);
    assert_eq!(study.hosts, ["lab1", "local"]);
    for (keys, expected) in [
        ("hosts = [\"lab1\"]", "two different hosts"),
        ("hosts = [\"lab1\", \"lab1\"]", "two different hosts"),
        ("hosts = [\"lab1\", \"a b\"]", "two different hosts"),
        ("bed = \"hosts\"", "go together"),
        (
            "bed = \"netns\"\nhosts = [\"lab1\", \"local\"]",
            "go together",
        ),
    ] {
        let message = message(&format!("{keys}\n{SMALL}"));
        assert!(message.contains(expected), "{keys}: {message}");
    }
}

#[test]
fn options_keep_their_kind() {
    let text = with(
        "driver = \"tcp\"",
        "driver = \"udp\"\nrate = \"96Mbit/s\"\ngso = true\nn = 3",
    );
    let study = Study::parse(&text, "s").expect("a sound study");
    let options = &study.transports[0].options;
    assert_eq!(options["rate"], OptionValue::Text("96Mbit/s".into()));
    assert_eq!(options["gso"], OptionValue::Flag(true));
    assert_eq!(options["n"], OptionValue::Number(3));
}

#[test]
fn every_built_in_study_is_sound() {
    for builtin in BUILTIN {
        let study = Study::parse(builtin.text, builtin.name).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(study.name, builtin.name);
        let json = serde_json::to_string(&study).expect("a study is JSON");
        assert_eq!(
            serde_json::from_str::<Study>(&json).expect("and back"),
            study
        );
    }
}

#[test]
fn an_unknown_key_names_the_nearest_known_one() {
    let shown = message(&with("loss = \"1%\"", "los = \"1%\""));
    assert_eq!(
        shown,
        "\
error: unknown key `los` in [[condition]]
 --> my-study.toml:8:1
  |
8 | los = \"1%\"
  | ^^^
  |
hint: did you mean `loss`? [[condition]] knows `name`, `mtu`, `tuning`, `cpus`, `rtt`, `rtt_jitter`, `delay`, \
`jitter`, `jitter_distribution`, `jitter_reorders`, `jitter_correlation`, `loss`, `loss_bursts`, `loss_list`, `reorder`, \
`duplicate`, `corrupt`, `rate`, `trace`, `rate_of`, `burst`, `queue`, `discipline`, `aqm_target`, \
`aqm_interval`, `any_ect`, `ecn`, `ecn_bleach`, `ecn_remark`, `ect_loss`, `forward`, `reverse`, `steps`, `step`"
    );
}

#[test]
fn a_ratio_above_one_is_shown_with_its_line() {
    let shown = message(&with("loss = \"1%\"", "loss = \"120%\""));
    assert!(
        shown.contains("`120%` is not between 0 % and 100 %"),
        "{shown}"
    );
    assert!(shown.contains("my-study.toml:8:8"), "{shown}");
    assert!(shown.contains("^^^^^^"), "{shown}");
    assert!(shown.contains("hint: "), "{shown}");
}

/// Checks that each mistake is shown with its span and a hint.
fn assert_hints(cases: &[(String, &str)]) {
    for (text, expected) in cases {
        let shown = message(text);
        assert!(
            shown.contains(expected),
            "expected {expected:?} in:\n{shown}"
        );
        assert!(shown.contains("hint: "), "no hint in:\n{shown}");
        assert!(shown.contains("my-study.toml:"), "no place in:\n{shown}");
    }
}

#[test]
fn mistakes_in_conditions_have_hints() {
    assert_hints(&[
        (
            with("rtt = \"30ms\"", "rtt = \"30MB\""),
            "`MB` is not a unit of time",
        ),
        (
            with("rtt = \"30ms\"", "rtt = 30"),
            "`rtt` in [[condition]] is a text with a unit",
        ),
        (
            with("rtt = \"30ms\"", "rtt = \"-1ms\""),
            "a time cannot be negative",
        ),
        (
            with("rate = \"50Mbit/s\"", "rate = \"50MB\""),
            "`MB` is not a unit of rate",
        ),
        (
            with("rate = \"50Mbit/s\"", "rate = \"0bit/s\""),
            "a rate of zero carries nothing",
        ),
        (
            with("rate = \"50Mbit/s\"", "queue = \"100B\""),
            "a queue smaller than one packet",
        ),
        (
            with("loss = \"1%\"", "jitter = \"20ms\""),
            "`jitter` is larger than",
        ),
    ]);
}

#[test]
fn mistakes_in_studies_have_hints() {
    assert_hints(&[
        (format!("rounds = 0\n{SMALL}"), "`rounds` cannot be 0"),
        (format!("rounds = -3\n{SMALL}"), "`rounds` cannot be -3"),
        (
            format!("rounds = 99999999999999999999999\n{SMALL}"),
            "`rounds` cannot be",
        ),
        (
            format!("bed = \"moon\"\n{SMALL}"),
            "`moon` is not a value of `bed`",
        ),
        (
            format!("emulator = \"wanem\"\n{SMALL}"),
            "`wanem` is not a value of `emulator`",
        ),
        (
            format!("emulator = \"userspace\"\nplacement = \"ends\"\n{SMALL}"),
            "`placement = \"ends\"` is netem's",
        ),
        (
            format!("emulator = \"none\"\nplacement = \"ends\"\n{SMALL}"),
            "`emulator = \"none\"` is not netem",
        ),
        (
            format!("emulator = \"none\"\n{SMALL}"),
            "without an emulator the path is a direct link",
        ),
        (
            format!("emulator = \"loopback\"\n{SMALL}"),
            "nothing shapes the packets of the loopback",
        ),
        (
            format!("bed = \"hosts\"\nhosts = [\"a\", \"b\"]\nemulator = \"loopback\"\n{SMALL}"),
            "the loopback joins two ends on one host",
        ),
        (
            format!("name = \"../x\"\n{SMALL}"),
            "`../x` cannot be the name of a study",
        ),
        (
            format!("{SMALL}\n[[transport]]\ndriver = \"tcp\"\n"),
            "the label `tcp` is in this study twice",
        ),
        (
            format!("{SMALL}\n[[condition]]\nname = \"lossy\"\n"),
            "the name `lossy` is in this study twice",
        ),
    ]);
}

#[test]
fn a_mistake_about_the_emulator_is_at_its_line() {
    let shown = message(&format!("rounds = 2\nemulator = \"loopback\"\n{SMALL}"));
    assert!(shown.contains("my-study.toml:2:12"), "{shown}");
}

#[test]
fn mistakes_in_workloads_and_transports_have_hints() {
    assert_hints(&[
        (
            with("size = \"20MB\"", "size = \"0B\""),
            "must be from 1 B to",
        ),
        (
            with("kind = \"bulk\"", "kind = \"bulky\""),
            "`bulky` is not a value of `kind`",
        ),
        (
            with("driver = \"tcp\"", "label = \"x\""),
            "[[transport]] has no `driver`",
        ),
        (
            with("driver = \"tcp\"", "driver = 3"),
            "`driver` in [[transport]] is a text",
        ),
        (
            with("driver = \"tcp\"", "driver = \"tcp\"\ncc = 1.5"),
            "cannot have this value",
        ),
        (
            SMALL.replace("[[transport]]\ndriver = \"tcp\"", ""),
            "this study has no transport",
        ),
        (
            SMALL.replace("[[transport]]", "[transport]"),
            "`transport` is a list of tables",
        ),
        (with("[[transport]]", "[[transport]"), "this is not TOML"),
        (String::new(), "this study has no transport"),
    ]);
}

/// Checks that a mistake has this hint.
fn assert_hint(text: &str, hint: &str) {
    let shown = message(text);
    assert!(shown.ends_with(&format!("hint: {hint}")), "{shown}");
}

#[test]
fn a_number_in_quotation_marks_is_repeated_without_them() {
    assert_hint(&format!("rounds = \"3\"\n{SMALL}"), "write `rounds = 3`");
    assert_hint(&format!("rounds = \"many\"\n{SMALL}"), "write `rounds = 1`");
    let text = with("kind = \"bulk\"", "kind = \"bulk\"\nflows = \"4\"");
    assert_hint(&text, "write `flows = 4`");
}

#[test]
fn a_flag_in_quotation_marks_is_repeated_without_them() {
    let text = with("rtt = \"30ms\"", "jitter_reorders = \"false\"");
    assert_hint(&text, "write `jitter_reorders = false`");
}

#[test]
fn a_number_without_quotation_marks_is_repeated_with_them() {
    let text = with("driver = \"tcp\"", "driver = 3");
    assert_hint(&text, "write `driver = \"3\"`");
    let text = with("rtt = \"30ms\"", "rtt = 40");
    assert_hint(&text, "write `rtt = \"40ms\"`");
}

#[test]
fn a_name_that_is_no_directory_has_one_that_is() {
    let shown = message(&format!("name = \"my lab\"\n{SMALL}"));
    assert!(
        shown.contains("which is also that of a directory: it has a space"),
        "{shown}"
    );
    assert!(
        shown.ends_with("hint: write `name = \"my-lab\"`, and `title = \"my lab\"` for readers"),
        "{shown}"
    );
    let shown = message(&format!("name = \"a/b\"\ntitle = \"t\"\n{SMALL}"));
    assert!(shown.contains("it has `/`"), "{shown}");
    assert!(shown.ends_with("hint: write `name = \"a-b\"`"), "{shown}");
    assert_hint(
        &format!("name = \"…\"\n{SMALL}"),
        "write letters, digits and hyphens, at most 64",
    );
}

#[test]
fn errors_of_the_registry_point_into_the_file() {
    let text = with(
        "driver = \"tcp\"",
        "driver = \"tcp\"\ncongestion = \"cubic\"",
    );
    let file = StudyFile::parse(&text, "my-study.toml").expect("a sound study");
    let shown = file
        .transport_error(0, Some("congestion"), "unknown option", "write `cc`")
        .to_string();
    assert!(shown.contains("my-study.toml:4:1"), "{shown}");
    assert!(shown.contains("^^^^^^^^^^"), "{shown}");
    let error = file.transport_error(0, None, "unknown transport", "write `tcp`");
    assert_eq!(error.line(), 3);
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC*") {
        if let Err(error) = Study::parse(&text, "s") {
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn no_edit_makes_the_reader_panic(at in 0usize..200, with in "\\PC{0,3}") {
        let mut text: Vec<char> = SMALL.chars().collect();
        let at = at.min(text.len() - 1);
        text.splice(at..=at, with.chars());
        let text: String = text.into_iter().collect();
        if let Err(error) = Study::parse(&text, "s") {
            prop_assert!(!error.to_string().is_empty());
        }
    }
}

fn workload(keys: &str) -> Result<WorkloadKind, String> {
    let text = format!(
        "name = \"s\"\n[[transport]]\ndriver = \"tcp\"\n[[condition]]\nname = \"c\"\n[[workload]]\n{keys}\n"
    );
    Study::parse(&text, "s")
        .map(|study| study.workloads[0].kind.clone())
        .map_err(|error| error.to_string())
}

#[test]
fn workload_kinds_have_defaults_and_descriptions() {
    for (keys, description) in [
        ("", "10 MB in messages of 10 kB"),
        (
            "direction = \"both\"\nflows = 4\nduration = \"10s\"\nwarm_up = \"1s\"",
            "10 s of messages of 10 kB, each way, over 4 flows, without the first 1 s",
        ),
        (
            "finish = \"abandon\"",
            "10 MB in messages of 10 kB, closed without waiting for delivery",
        ),
        (
            "kind = \"stop-and-wait\"\nmessage = \"1kB\"",
            "10 MB in messages of 1 kB, each acknowledged before the next",
        ),
        (
            "kind = \"request-response\"",
            "1000 requests of 100 B, answers of 1 kB, one after another",
        ),
        (
            "kind = \"request-response\"\nrequests_per_second = 50",
            "1000 requests of 100 B, answers of 1 kB, 50 a second",
        ),
        (
            "kind = \"short-connections\"\nhandshake = \"0-rtt\"",
            "20 connections, 0-RTT, 100 B for 1 kB",
        ),
        (
            "kind = \"multi-stream\"\nspread = \"connections\"",
            "500 messages of 10 kB, 100 a second, over 8 connections",
        ),
    ] {
        let kind = workload(keys).expect(keys);
        assert_eq!(kind.description(), description);
        let stored = serde_json::to_string(&kind).expect("JSON");
        assert_eq!(
            serde_json::from_str::<WorkloadKind>(&stored).expect("read"),
            kind
        );
    }
}

#[test]
fn impossible_workloads_are_refused() {
    for keys in [
        "kind = \"bulb\"",
        "flows = 0",
        "finish = \"abandon\"\ndirection = \"reverse\"",
        "warm_up = \"2s\"\nduration = \"1s\"",
        "kind = \"request-response\"\noutstanding = 2\nrequests_per_second = 5",
        "kind = \"short-connections\"\nhandshake = \"1-rtt\"",
        "kind = \"multi-stream\"\nstreams = 100000",
        "kind = \"stop-and-wait\"\nflows = 2",
    ] {
        assert!(workload(keys).is_err(), "{keys}");
    }
}

#[test]
fn durations_beyond_the_deadline_are_refused() {
    let read = |deadline: &str, keys: &str| {
        let text = format!(
            "name = \"s\"\n{deadline}\n[[transport]]\ndriver = \"tcp\"\n[[condition]]\n\
             name = \"c\"\n[[workload]]\n{keys}\n"
        );
        Study::parse(&text, "my-study.toml").map_err(|error| error.to_string())
    };
    for (deadline, keys, key, column) in [
        ("deadline = \"10s\"", "duration = \"10s\"", "duration", 12),
        ("deadline = \"10s\"", "duration = \"1m\"", "duration", 12),
        ("deadline = \"10s\"", "warm_up = \"10s\"", "warm_up", 11),
        // The default.
        ("", "duration = \"60s\"", "duration", 12),
    ] {
        let shown = read(deadline, keys).expect_err(keys);
        assert!(
            shown.contains(&format!(
                "`{key}` is not shorter than the study's `deadline`"
            )),
            "{shown}"
        );
        assert!(
            shown.contains(&format!("my-study.toml:8:{column}")),
            "{shown}"
        );
        assert!(
            shown.contains("^^^^") && shown.contains("hint: write"),
            "{shown}"
        );
    }
    for (deadline, keys) in [
        (
            "deadline = \"10s\"",
            "duration = \"9999ms\"\nwarm_up = \"1s\"",
        ),
        ("", "duration = \"59s\""),
    ] {
        read(deadline, keys).expect(keys);
    }
}
