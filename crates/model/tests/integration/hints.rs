//! Hints about keys of a study that are in the wrong place or have the wrong kind: they can be typed.

use std::collections::BTreeSet;

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
fn a_jitter_in_a_hint_is_at_most_the_delay() {
    for (line, wrong, expected) in [
        ("delay = \"40ms\"", "jitter = \"5\"", "`2ms`"),
        ("delay = \"40ms\"", "jitter = 5", "`jitter = \"5ms\"`"),
        ("delay = \"4ms\"", "jitter = 5", "`jitter = \"2ms\"`"),
        ("delay = \"500us\"", "jitter = \"5\"", "`500us`"),
        ("rtt = \"1ms\"", "jitter = \"x\"", "`500us`"),
        ("rtt = \"1ms\"", "rtt_jitter = \"x\"", "`1000us`"),
        ("delay = \"100us\"", "rtt_jitter = \"x\"", "`200us`"),
        ("", "jitter = \"x\"", "`0ms`"),
    ] {
        let text = format!(
            "name = \"hints\"\n[[transport]]\ndriver = \"tcp\"\n[[condition]]\nname = \"path\"\n\
             {line}\n{wrong}\n[[workload]]\nkind = \"bulk\"\nsize = \"1MB\"\n"
        );
        let error = Study::parse(&text, "study.toml").expect_err("a mistake");
        let hint = error.hint.to_string();
        assert!(hint.ends_with(expected), "{line} {wrong}: {hint}");
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
        if quoted.starts_with(['"', '[', '{']) && !quoted.contains("\" = ") {
            if hint.starts_with(&format!("write it as `{quoted}` with"))
                || hint.starts_with(&format!("write each one as `{quoted}` with"))
            {
                all.push(quoted.to_owned());
            } else if !key.is_empty() && !quoted.starts_with("[[") {
                all.push(format!("{key} = {quoted}"));
            }
        } else if quoted.contains(" = ") {
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

/// Returns these lines with a setting, instead of the one with the same key, or with the header of a table.
fn with(lines: &str, setting: &str) -> String {
    let key = match setting.strip_prefix('[') {
        Some(header) => header.trim_end_matches(']').rsplit(['.', '[']).next(),
        None => Some(key_of(setting)),
    };
    let is_kept = |line: &&str| Some(key_of(line)) != key && *line != setting;
    let kept = lines.lines().filter(is_kept);
    kept.chain([setting]).collect::<Vec<_>>().join("\n")
}

/// Types settings of a hint about some lines of a study. Where a setting needs another one, the next hint says so; no hint may
/// be about a key that one has set.
fn accepted(
    study: &dyn Fn(&str) -> String,
    lines: &str,
    typed: &mut Vec<String>,
) -> Result<(), StudyError> {
    let lines = typed
        .iter()
        .fold(lines.to_owned(), |lines, setting| with(&lines, setting));
    let Err(error) = Study::parse(&study(&lines), "study.toml") else {
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
    accepted(study, &lines, typed)
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
                if let Err(again) = accepted(
                    &|lines| study(place, lines),
                    kept,
                    &mut vec![setting.clone()],
                ) {
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

/// Head of the studies in which tables are tried: no name in it is one of the model's own examples.
const STUDY: &str = r#"
[[transport]]
driver = "tcp"
label = "alpha"
[[transport]]
driver = "udp"
label = "beta"
[[condition]]
name = "path"
delay = "40ms"
rate = "10Mbit/s"
[[condition]]
name = "lan"
rate = "1Gbit/s"
[[workload]]
kind = "bulk"
name = "load"
size = "1MB"
[[sweep]]
key = "condition.loss"
of = ["path"]
values = ["0%", "1%", "5%"]
"#;

/// Tables of a study: the lines before the table with its header, its own lines, and those after it.
const TABLES: &[(&str, &str, &str)] = &[
    (
        "[source]",
        "citation = \"a paper\"\ndoi = \"10.1/2\"\nkernel = \"5.15\"",
        "",
    ),
    ("[host]", "tcp_rmem = \"4MiB\"", ""),
    (
        "[[sweep]]",
        "key = \"condition.duplicate\"\nof = [\"path\"]\nvalues = [\"0%\", \"1%\"]\nzip = \"a\"",
        "",
    ),
    (
        "[[sweep]]",
        "key = \"condition.duplicate\"\nof = [\"lan\"]\nfrom = \"0.1%\"\nto = \"10%\"\npoints = 3\nscale = \"log\"",
        "",
    ),
    (
        "[[sweep]]",
        "key = \"condition.jitter\"\nof = [\"path\"]\nvalues = [\"0ms\", \"5ms\"]",
        "",
    ),
    (
        "[[sweep]]",
        "key = \"workload.message\"\nof = [\"load\"]\nfrom = \"1kB\"\nto = \"2kB\"\npoints = 2",
        "",
    ),
    (
        "[[sweep]]",
        "key = \"transport.cc\"\nof = [\"alpha\"]\nvalues = [\"cubic\", \"bbr\"]",
        "",
    ),
    ("[[transport]]", "driver = \"tcp\"\nlabel = \"gamma\"", ""),
    (
        "[[condition]]\nname = \"changing\"\nrtt = \"80ms\"\nrate = \"10Mbit/s\"\n[[condition.step]]",
        "at = \"20s\"\nrate = \"20Mbit/s\"",
        "",
    ),
    (
        "[[condition]]\nname = \"changing\"\nrate = \"10Mbit/s\"\n[condition.steps]",
        "key = \"rtt\"\nfrom = \"30ms\"\nto = \"300ms\"\nby = \"30ms\"\nevery = \"20s\"",
        "",
    ),
    (
        "[[published]]",
        "transport = \"alpha\"\ncondition = \"lan\"\nworkload = \"load\"\nmetric = \"goodput_bps\"\nvalue = \"9Mbit/s\"",
        "",
    ),
    ("[[curve]]", "formula = \"mathis\"\nconstant = 1.2", ""),
    (
        "[[curve]]",
        "formula = \"round-trips\"\nround_trips = 2",
        "",
    ),
    ("[[curve]]", "formula = \"ware\"\nflows = 2", ""),
    ("[[competition]]", "between = [\"alpha\", \"beta\"]", ""),
    (
        "[[competition]]",
        "name = \"both\"\nworkload = \"load\"\nconditions = [\"lan\"]",
        "[[competition.flow]]\ntransport = \"alpha\"\ncount = 2",
    ),
    (
        "[[competition]]\n[[competition.flow]]\ntransport = \"alpha\"\n[[competition.flow]]",
        "transport = \"beta\"\ncount = 2\nstart = \"5s\"\nrtt = \"160ms\"\nworkload = \"load\"",
        "",
    ),
    (
        "[[claim]]\ntext = \"a\"",
        "order = [\"alpha\", \"beta\"]\ncondition = \"lan\"",
        "",
    ),
    (
        "[[claim]]\ntext = \"a\"",
        "order = [{ condition = \"path\" }, { condition = \"lan\" }]\ntransport = \"alpha\"",
        "",
    ),
    (
        "[[claim]]",
        "text = \"a\"\nfirst = \"alpha\"\nmetric = \"goodput_bps\"\nin_most = true",
        "",
    ),
    ("[[claim]]", "text = \"a\"\nnot_seen = \"a judgement\"", ""),
    (
        "[[claim]]\ntext = \"a\"\nfirst = \"alpha\"\n[claim.where]",
        "\"condition.loss\" = \"1%..\"",
        "",
    ),
    (
        "[[claim]]\ntext = \"a\"\n[claim.same]",
        "of = [\"alpha\", \"beta\"]\nwithin = \"10%\"",
        "",
    ),
    (
        "[[claim]]\ntext = \"a\"\n[claim.ratio]",
        "of = \"alpha\"\nto = \"beta\"\nat_least = 2",
        "",
    ),
    (
        "[[claim]]\ntext = \"a\"\n[claim.value]",
        "at_most = \"9Mbit/s\"",
        "",
    ),
    (
        "[[claim]]\ntext = \"a\"\ncondition = \"path\"\n[claim.trend]",
        "is = \"falls\"\nover = \"condition.loss\"\nof = \"alpha\"\nto = \"beta\"",
        "",
    ),
    (
        "[[claim]]\ntext = \"a\"\n[claim.trend]",
        "is = \"falls\"\nover = [\"lan\", \"path\"]",
        "",
    ),
    (
        "[[claim]]\ntext = \"a\"\n[claim.crossing]",
        "of = \"alpha\"\npast = \"beta\"\nover = \"condition.loss\"\nfrom = \"0%\"\nto = \"5%\"",
        "",
    ),
    (
        "[[workload]]\nkind = \"script\"",
        "name = \"page\"\nrank_by = \"transfer_time_ns\"",
        "[[workload.flow]]\nsteps = [{ send = \"1MB\" }]",
    ),
    (
        "[[workload]]\nkind = \"script\"\n[[workload.flow]]\nname = \"early\"\nsteps = [{ send = \"1MB\" }]\n[[workload.flow]]",
        "name = \"late\"\ncount = 2\nafter = \"early\"\ndelay = \"1s\"\nsteps = [{ send = \"1MB\" }]",
        "",
    ),
    (
        "[[workload]]\nkind = \"script\"\n[[workload.flow]]",
        "count = 2\nsteps = [{ send = \"1MB\" }]",
        "",
    ),
    (
        "[[workload]]\nkind = \"script\"\n[[workload.flow]]\n[[workload.flow.steps]]",
        "request = \"500B\"\nresponse = \"30kB\"\nmeasure = true\nname = \"ask\"",
        "",
    ),
    (
        "[[workload]]\nkind = \"script\"\n[[workload.flow]]\n[[workload.flow.steps]]",
        "send = \"1MB\"\nfrom = \"server\"",
        "",
    ),
    (
        "[[workload]]\nkind = \"script\"\n[[workload.flow]]\n[[workload.flow.steps]]",
        "wait = \"2s\"",
        "[[workload.flow.steps]]\nsend = \"1MB\"",
    ),
    (
        "[[workload]]\nkind = \"script\"\n[[workload.flow]]\n[[workload.flow.steps]]",
        "repeat = 5\nevery = \"2s\"\nspacing = \"exponential\"\nsteps = [{ send = \"1MB\" }]",
        "",
    ),
];

/// Returns the lines that a hint about one line of a table tells to write, and whether each is instead of that line.
fn proposals(wrong: &str, at_line: bool, message: &str, hint: &str) -> Vec<(String, bool)> {
    // A text of the user's own is asked for.
    if message.starts_with("this is not TOML") || hint.contains("visible characters") {
        return Vec::new();
    }
    let key = key_of(wrong);
    let (_, value) = wrong.split_once(" = ").unwrap_or_default();
    let is_unknown = message.starts_with("unknown key") || message == "this step does nothing";
    // A second setting belongs to the first one.
    let hint = hint.split("` with `").next().unwrap_or_default();
    // A name stands for the last one of a list or table.
    let is_single = value.starts_with('[') && !value.contains(',') && !value.contains('{');
    let named = |name: &str| {
        let texts: Vec<&str> = value.split('"').collect();
        match (value.starts_with(['[', '{']), &texts[..]) {
            (true, [before @ .., _, after]) if !before.is_empty() => {
                format!("{key} = {}\"{name}\"{after}", before.join("\""))
            }
            (true, _) => format!("{key} = [\"{name}\"]"),
            _ => format!("{key} = \"{name}\""),
        }
    };
    let near = hint.split_once("did you mean `");
    if let Some(near) = near.and_then(|(_, it)| it.split('`').next()) {
        return vec![match (is_unknown, value.rsplit_once('.')) {
            // The key is that of a sweep.
            (true, Some((part, _))) if key == "key" => (format!("key = {part}.{near}\""), false),
            (true, _) => (format!("{near} = {value}"), true),
            (false, _) => (named(near), false),
        }];
    }
    let mut all = settings(if is_unknown || !at_line { "" } else { key }, hint);
    for listed in ["write one of: ", "its values are: ", "the swept keys are: "] {
        let names = hint.strip_prefix(listed);
        // Names of cells that a sweep made have commas.
        let names = names.filter(|names| !names.contains(", 0"));
        let names = names.into_iter().flat_map(|it| it.split(", "));
        all.extend(names.map(named));
    }
    if at_line && (hint.starts_with("write `") || hint.starts_with("write one of `")) {
        let is_name = |it: &&str| {
            it.chars()
                .all(|c| c.is_ascii_lowercase() || "-_".contains(c))
        };
        let names = hint.split('`').skip(1).step_by(2).filter(is_name);
        all.extend(names.map(named));
    }
    // A list of one name asks for a second one, a text in a list is not the value of the key.
    let is_inside = is_single || value.contains('{');
    if key == "values" && value.starts_with('[') {
        // A hint about one of several values.
        for line in &mut all {
            let single = line.strip_prefix("values = \"");
            *line = match single.and_then(|it| it.strip_suffix('"')) {
                Some(single) => named(single),
                None => line.clone(),
            };
        }
    }
    all.retain(|line| !line.contains('…') && (!is_inside || line.contains(['[', '{'])));
    all.into_iter().map(|line| (line, is_unknown)).collect()
}

/// Whether an error is about a setting that stands in the lines of a study.
fn is_about(setting: &str, error: &StudyError, text: &str) -> bool {
    // The value is accepted, but the key does not belong here, or a table needs its own keys.
    let hint = error.hint.to_string();
    if hint.starts_with("leave ")
        || hint.starts_with("list several ")
        || setting.starts_with('[') && hint.starts_with("write one of ")
    {
        return false;
    }
    let line = text.lines().nth(error.line() - 1).unwrap_or_default();
    line == setting || error.message.names(key_of(setting))
}

/// Every key of every table, as the reader of the table names them, gets wrong values, is misspelt and is left out.
#[test]
fn settings_of_hints_about_tables_are_accepted() {
    let (mut typed, mut refused) = (0, BTreeSet::new());
    let is_long = std::env::var_os("REGATTA_LONG_TESTS").is_some_and(|set| set == "1");
    let step = if is_long { 1 } else { 4 };
    for (before, lines, after) in TABLES {
        let study = |lines: &str| format!("name = \"hints\"\n{STUDY}{before}\n{lines}\n{after}\n");
        let parse = |lines: &str| Study::parse(&study(lines), "study.toml");
        if let Err(error) = parse(lines) {
            refused.insert(format!("{before}\n{error}"));
            continue;
        }
        let written: Vec<&str> = lines.lines().collect();
        let unknown = parse(&with(lines, "zzzzzzzz = 1")).err();
        let knows = unknown
            .map(|error| error.hint.to_string())
            .unwrap_or_default();
        let known = knows.split_once("knows ").map_or("", |(_, known)| known);
        let known = known.split('`').skip(1).step_by(2);
        let keys: BTreeSet<&str> = known
            .chain(written.iter().map(|line| key_of(line)))
            .collect();
        // The lines that are kept, and the one that is wrong, which may be none.
        let mut mistakes = Vec::new();
        for key in keys {
            let values = VALUES.iter().chain(&["[\"x\"]", "1979-05-27"]);
            mistakes.extend(values.map(|value| ((*lines).to_owned(), format!("{key} = {value}"))));
        }
        for line in &written {
            let rest = written.iter().filter(|it| *it != line).copied();
            let rest = rest.collect::<Vec<_>>().join("\n");
            mistakes.push((rest.clone(), String::new()));
            let (key, value) = line.split_once(" = ").expect("a setting");
            if !key.starts_with('"') {
                mistakes.push((rest.clone(), format!("{key}q = {value}")));
            }
            // The last text in the value is misspelt.
            if let Some(end) = value.rfind('"') {
                let (text, close) = value.split_at(end);
                mistakes.push((rest, format!("{key} = {text}q{close}")));
            }
        }
        for (kept, wrong) in mistakes.into_iter().step_by(step) {
            let lines = match &*wrong {
                "" => kept.clone(),
                wrong => with(&kept, wrong),
            };
            let Err(error) = parse(&lines) else {
                continue;
            };
            let (message, hint) = (error.message.to_string(), error.hint.to_string());
            let text = study(&lines);
            let line = text.lines().nth(error.line() - 1).unwrap_or_default();
            for (setting, is_instead) in proposals(&wrong, line == wrong, &message, &hint) {
                typed += 1;
                let from = if is_instead { &kept } else { &lines };
                let mut all = vec![setting.clone()];
                let Err(again) = accepted(&study, from, &mut all) else {
                    continue;
                };
                let text = all.iter().fold(from.clone(), |lines, it| with(&lines, it));
                let text = study(&text);
                if again.message.to_string() == message
                    || all.iter().any(|it| is_about(it, &again, &text))
                {
                    refused.insert(format!(
                        "{before}: {wrong}\n    {message} | {hint}\n    {setting}: {} | {}",
                        again.message, again.hint
                    ));
                }
            }
        }
    }
    let refused = Vec::from_iter(refused).join("\n");
    assert!(typed > 1000 / step, "{typed}");
    assert!(refused.is_empty(), "of {typed}:\n{refused}");
}
