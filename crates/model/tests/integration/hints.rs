//! Hints about keys of a study that are in the wrong place or have the wrong kind: they can be typed.

use regatta_model::{
    Study,
    study::{PATH_KEYS, PROBE_KEYS, StudyError, WORKLOAD_KEYS},
};

/// Returns the hint about a study with these lines at its head, and in one direction of its path.
fn hint(head: &str, forward: &str) -> String {
    let text = format!(
        "name = \"hints\"\n{head}\n[[transport]]\ndriver = \"tcp\"\n[[condition]]\nname = \"path\"\n\
         [condition.forward]\n{forward}\n[[workload]]\nkind = \"bulk\"\nsize = \"1MB\"\n"
    );
    let error = Study::parse(&text, "study.toml").expect_err("a mistake");
    error.hint.to_string()
}

#[test]
fn a_key_of_both_directions_is_not_one_of_a_single_direction() {
    assert_eq!(
        hint("", "rtt = \"30ms\""),
        "`rtt` is of both directions, a key of `[[condition]]`; one of them has `delay = \"15ms\"`"
    );
}

#[test]
fn a_key_at_the_head_of_a_study_is_one_of_its_section() {
    for (line, section) in [
        ("loss = \"1%\"", "[[condition]]"),
        ("size = \"1MB\"", "[[workload]]"),
    ] {
        let hint = hint(line, "");
        assert!(
            hint.ends_with(&format!("is a key of `{section}`")),
            "{hint}"
        );
    }
}

#[test]
fn a_name_of_another_kind_is_shown_as_one_that_is_known() {
    let of_path = |line: &str| {
        let text = study(Place::Condition, line);
        Study::parse(&text, "study.toml")
            .expect_err("a mistake")
            .hint
            .to_string()
    };
    assert_eq!(
        of_path("discipline = true"),
        "write `discipline = \"drop-tail\"`"
    );
    assert_eq!(of_path("trace = 5"), "write `trace = \"lte\"`");
    assert_eq!(hint("rank_by = 5", ""), "write `rank_by = \"goodput_bps\"`");
}

#[test]
fn a_capture_of_another_kind_is_shown_as_a_text() {
    assert_eq!(hint("capture = true", ""), "write `capture = \"headers\"`");
}

/// Keys at the head of a study.
const HEAD: &[&str] = &[
    "rounds",
    "every",
    "for",
    "rank_by",
    "equivalence",
    "seed",
    "deadline",
    "connect_deadline",
    "sample_interval",
    "capture",
    "emulator",
    "placement",
    "loss_by",
    "offloads",
    "bed",
    "clock",
    "guests",
    "memory",
    "title",
    "description",
    "doi",
    "order",
    "kernel_of",
    "path",
];

/// Values of every kind, of which most keys take a few.
const VALUES: &[&str] = &[
    "true",
    "5",
    "0",
    "-1",
    "1.5",
    "99999999999",
    "\"\"",
    "\"x\"",
    "\"5\"",
    "\"0\"",
    "\"-1ms\"",
    "\"1ns\"",
    "\"100d\"",
    "\"200%\"",
    "\"1PB\"",
    "\"1B\"",
    "\"1bit/s\"",
    "\"9999Tbit/s\"",
    "\"true\"",
    "\"1 ms\"",
    "[]",
    "[1]",
];

/// Place of a line in a study.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    Head,
    Condition,
    Forward,
    Workload(&'static str),
    Probe,
}

/// Returns a study with lines at a place, beside settings that most keys need.
fn study(place: Place, lines: &str) -> String {
    let at = |wanted: bool| if wanted { lines } else { "" };
    let kind = match place {
        Place::Workload(kind) => kind,
        _ => "bulk",
    };
    let has = |key: &str| {
        lines
            .lines()
            .any(|line| line.starts_with(&format!("{key} =")))
    };
    let path = match place {
        Place::Condition if has("rtt_jitter") => "rtt = \"80ms\"\nrate = \"10Mbit/s\"",
        Place::Condition => "delay = \"40ms\"\nrate = \"10Mbit/s\"\njitter = \"1ms\"",
        _ => "rtt = \"80ms\"\nrate = \"10Mbit/s\"\njitter = \"1ms\"",
    };
    let path = path.lines().filter(|line| {
        let key = line.split(' ').next().unwrap_or_default();
        let other = match key {
            "delay" => "rtt",
            "rate" => "trace",
            _ => key,
        };
        let replaced = has(key) || has(other);
        !(place == Place::Condition && replaced)
    });
    let path = path.map(|line| format!("{line}\n")).collect::<String>();
    format!(
        "name = \"hints\"\n{}\n[[transport]]\ndriver = \"tcp\"\n[[condition]]\nname = \"path\"\n{path}{}\n\
         [condition.forward]\n{}\n[[workload]]\nkind = \"{kind}\"\n{}\n[workload.probe]\n{}\n",
        at(place == Place::Head),
        at(place == Place::Condition),
        at(place == Place::Forward),
        at(matches!(place, Place::Workload(_))),
        at(place == Place::Probe),
    )
}

/// Returns the settings that a hint about a key tells to write, as lines of a study.
fn settings(key: &str, hint: &str) -> Vec<String> {
    let mut all = Vec::new();
    for quoted in hint.split('`').skip(1).step_by(2) {
        if quoted.contains(" = ") {
            all.push(quoted.to_owned());
        } else if quoted.starts_with(|c: char| c.is_ascii_digit()) && !key.is_empty() {
            all.push(format!("{key} = \"{quoted}\""));
        }
    }
    if key.is_empty() {
        return all;
    }
    // As in `write one of "a", "b"`, and `from "1" to "5"`.
    let plain = hint.split('`').step_by(2).collect::<String>();
    for quoted in plain.split('"').skip(1).step_by(2) {
        all.push(format!("{key} = \"{quoted}\""));
    }
    let words: Vec<&str> = plain.split(' ').collect();
    for pair in words.windows(2) {
        if ["from", "to"].contains(&pair[0]) && pair[1].parse::<u64>().is_ok() {
            all.push(format!("{key} = {}", pair[1]));
        }
    }
    all
}

fn key_of(line: &str) -> &str {
    line.split(" = ").next().unwrap_or_default()
}

/// Returns these lines with a setting, instead of the one with the same key.
fn with(lines: &str, setting: &str) -> String {
    let kept = lines.lines().filter(|line| key_of(line) != key_of(setting));
    kept.chain([setting]).collect::<Vec<_>>().join("\n")
}

/// Types settings of a hint about some lines of a study. Where a setting needs another one, the next hint says so; no hint may
/// be about a key that one has set.
fn accepted(place: Place, lines: &str, typed: &mut Vec<String>) -> Result<(), StudyError> {
    let lines = typed
        .iter()
        .fold(lines.to_owned(), |lines, setting| with(&lines, setting));
    let Err(error) = Study::parse(&study(place, &lines), "study.toml") else {
        return Ok(());
    };
    let hint = error.hint.to_string();
    let mut next = settings("", &hint);
    if !hint.contains("` and `") {
        next.truncate(1);
    }
    let is_typed = |setting: &String| typed.iter().any(|it| key_of(it) == key_of(setting));
    if next.is_empty() || next.iter().any(is_typed) {
        return Err(error);
    }
    typed.extend(next);
    accepted(place, &lines, typed)
}

#[test]
fn settings_of_hints_are_accepted() {
    let of_kind = |kind: &'static str| {
        WORKLOAD_KEYS
            .iter()
            .map(move |key| (Place::Workload(kind), key.name))
    };
    let kinds = [
        "bulk",
        "stop-and-wait",
        "request-response",
        "short-connections",
        "multi-stream",
    ];
    let keys = (HEAD.iter().map(|key| (Place::Head, *key)))
        .chain(PATH_KEYS.iter().map(|key| (Place::Condition, key.name)))
        .chain(PATH_KEYS.iter().map(|key| (Place::Forward, key.name)))
        .chain(kinds.into_iter().flat_map(of_kind))
        .chain(PROBE_KEYS.iter().map(|key| (Place::Probe, key.name)));
    let (mut typed, mut refused) = (0, Vec::new());
    for (place, key) in keys {
        for value in VALUES {
            // The number that is written gets a unit, and contradicts the target.
            if (key, *value) == ("aqm_interval", "5") {
                continue;
            }
            let line = format!("{key} = {value}");
            let Err(error) = Study::parse(&study(place, &line), "study.toml") else {
                continue;
            };
            let hint = error.hint.to_string();
            for setting in settings(key, &hint) {
                typed += 1;
                let kept = match error.message.to_string().starts_with("unknown key") {
                    true => "",
                    false => &line,
                };
                if let Err(again) = accepted(place, kept, &mut vec![setting.clone()]) {
                    refused.push(format!(
                        "{place:?}: {line}\n    {} | {hint}\n    {setting}: {} | {}",
                        error.message, again.message, again.hint
                    ));
                }
            }
        }
    }
    assert!(typed > 1000, "{typed}");
    assert!(refused.is_empty(), "of {typed}:\n{}", refused.join("\n"));
}
