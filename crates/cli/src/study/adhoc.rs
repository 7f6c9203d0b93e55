//! Study made from options of the command line: written as a study file and parsed like one, so
//! that the run leaves behind a study that can be saved, edited and run again.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::Duration,
};

use regatta_model::{
    Condition, Named as _, OptionValue, Transport, Tuning,
    study::{LONGEST_NAME, StudyFile},
    units::{format_duration, parse_duration},
};
use toml::{Table, Value};

use super::{head_options, path_options, registry, tunings, work_options};
use crate::{
    args::{PathArgs, RunArgs, TwoHosts, exact},
    exit::{Failure, Result, refuse},
};

/// Time within which everything has to arrive after the sending for a duration.
const ARRIVING: Duration = Duration::from_secs(30);

/// Time for which the flows of `--compete` send.
const COMPETING: Duration = Duration::from_secs(60);

/// Warm-up of these flows, which is part of that time: BBR probes the round-trip time every 10 s.
const COMPETING_WARM_UP: Duration = Duration::from_secs(10);

/// Whether the options describe a path, a transport or a workload.
pub fn is_requested(args: &RunArgs) -> bool {
    !args.transport.is_empty()
        || !args.compete.is_empty()
        || args.path.describes_a_condition()
        || (args.hosts.is_some() && args.study.is_none())
        || args.work.describes_a_workload()
}

/// Parses a transport of the command line ([`RunArgs::transports`]): `tcp`, `tcp:cc=bbr`,
/// `udp:rate=96Mbit/s:gso=false`. The option `label` is the transport's name in the results, which is
/// else the text as it stands.
///
/// # Errors
/// If an option has no value.
pub fn transport(text: &str) -> Result<Transport> {
    let mut parts = text.split(':');
    let driver = parts.next().unwrap_or_default().trim();
    let mut options = BTreeMap::new();
    let mut named = None;
    for part in parts {
        let (name, value) = part.split_once('=').ok_or_else(|| {
            Failure::input(
                format!("option `{part}` of transport `{text}` has no value"),
                "write options as in `tcp:cc=bbr`",
            )
        })?;
        let (name, value) = (name.trim(), value.trim());
        let is_again = match name {
            "label" => named.replace(value).is_some(),
            _ => options.insert(name.to_owned(), value_of(value)).is_some(),
        };
        refuse! {
            is_again => "option `{name}` of transport `{text}` is said twice";
                "leave one of them out: `{name}={value}`";
        }
    }
    Ok(Transport {
        label: named.map_or_else(|| label(text.trim()), str::to_owned),
        driver: driver.to_owned(),
        options,
    })
}

/// The label of a transport that is written on the command line. Of a long one the middle is left out: driver and last
/// options are at its ends.
fn label(text: &str) -> String {
    let length = text.chars().count();
    if length <= LONGEST_NAME {
        return text.to_owned();
    }
    let tail = (LONGEST_NAME - 1) / 2;
    let beginning = text.chars().take(LONGEST_NAME - 1 - tail);
    let end = text.chars().skip(length - tail);
    beginning.chain(['…']).chain(end).collect()
}

fn value_of(text: &str) -> OptionValue {
    let number = || text.parse().map(OptionValue::Number);
    let flag = text.parse().map(OptionValue::Flag);
    flag.or_else(|_| number())
        .unwrap_or_else(|_| OptionValue::Text(text.to_owned()))
}

/// Returns the study that the options ask for, and its text.
///
/// # Errors
/// Mistakes in the options.
pub fn study(args: &RunArgs) -> Result<(StudyFile, String)> {
    let duration = duration(args).unwrap_or_default();
    refuse! {
        args.deadline.is_none() && duration >= Condition::LONGEST_TIME.saturating_sub(ARRIVING) =>
            "`--duration` is {}, and a trial, which ends {} later, is 30 days long at most",
            format_duration(duration), format_duration(ARRIVING);
            "write a shorter time, such as `--duration 10s`";
    }
    let competing = args.competing();
    let named = match args.transport.is_empty() {
        _ if !competing.is_empty() => {
            // Each once: a flow of a transport that has one already is a copy.
            let mut known = BTreeSet::new();
            let all = competing.iter().cloned();
            all.filter(|text| known.insert(text.clone())).collect()
        }
        // `external` stands for a program that only the user can name.
        true => (regatta_agent::registry().iter())
            .map(|driver| driver.descriptor().name.to_owned())
            .filter(|name| name != "external")
            .collect(),
        false => args.transports(),
    };
    let option = if competing.is_empty() {
        "--transport"
    } else {
        "--compete"
    };
    refuse! {
        named.iter().any(String::is_empty) => "`{}` has an empty name", option;
            "write names between the commas, as in `{} tcp,quic-quinn`", option;
        competing.len() == 1 => "a competition has two flows or more";
            "name another one, which may be the same: `--compete {},{}`", competing[0], competing[0];
    }
    let transports = (named.iter())
        .map(|text| transport(text))
        .collect::<Result<Vec<_>, _>>()?;
    registry::check_all(&transports)?;
    let flows = (competing.iter())
        .map(|text| Ok(transport(text)?.label))
        .collect::<Result<Vec<String>>>()?;

    let (mut root, _) = head_options::keys(args, None)?;
    root.insert("name".into(), "command-line".into());
    root.entry("deadline")
        .or_insert_with(|| exact::time(deadline_after(duration, ARRIVING)).into());
    let condition = if args.hosts.is_some() && !args.path.describes_a_condition() {
        table([("name", Some(AS_IT_IS.into()))])
    } else {
        path_options::condition(&args.path)?
    };
    let title = title_of(&transports, &condition, args.hosts.as_ref());
    root.entry("title").or_insert(title.into());
    let sections = transports.into_iter().map(section);
    root.insert("transport".into(), Value::Array(sections.collect()));
    root.insert("condition".into(), under_tunings(condition, &args.path));
    let mut workloads = work_options::sections(&args.work)?;
    if !flows.is_empty() {
        compete(args, &flows, &mut workloads, &mut root);
    }
    root.insert("workload".into(), Value::Array(workloads));

    parse(&root)
}

/// Returns a name for a competition: its flows, several of one transport as their number.
fn name_of_competition(flows: &[String]) -> String {
    let all = flows.join(" against ");
    if all.chars().count() <= LONGEST_NAME {
        return all;
    }
    let mut counts: Vec<(&String, usize)> = Vec::new();
    for flow in flows {
        match counts.iter_mut().find(|(counted, _)| *counted == flow) {
            Some((_, count)) => *count += 1,
            None => counts.push((flow, 1)),
        }
    }
    let counted = counts.iter().map(|(flow, count)| match count {
        1 => (*flow).clone(),
        count => format!("{count} of {flow}"),
    });
    let counted = counted.collect::<Vec<_>>().join(" against ");
    match counted.chars().count() <= LONGEST_NAME {
        true => counted,
        false => format!("{} flows of {} transports", flows.len(), counts.len()),
    }
}

/// Adds a competition of these flows for each workload to the study, and durations to workloads without an end.
fn compete(args: &RunArgs, flows: &[String], workloads: &mut [Value], root: &mut Table) {
    let several = workloads.len() > 1;
    let mut competitions = Vec::new();
    for workload in workloads {
        let Value::Table(workload) = workload else {
            continue;
        };
        let is_bulk = workload.get("kind").and_then(Value::as_str) == Some("bulk");
        if let (Some(duration), true) = (duration(args), is_bulk) {
            if args.work.keys.get("duration").is_none() {
                workload.insert("duration".into(), exact::time(duration).into());
                let name = format!("bulk {}", format_duration(duration));
                workload.insert("name".into(), name.into());
            }
            if args.work.keys.get("warm_up").is_none() {
                let warm_up = COMPETING_WARM_UP.min(duration / 4);
                workload.insert("warm_up".into(), exact::time(warm_up).into());
            }
        }
        let name = workload.get("name").and_then(Value::as_str);
        let name = name.unwrap_or_default().to_owned();
        let flow =
            |label: &String| Value::Table(table([("transport", Some(label.clone().into()))]));
        let named = name_of_competition(flows);
        let mut shown: String = named.chars().take(LONGEST_NAME).collect();
        if several {
            let room = LONGEST_NAME.saturating_sub(name.chars().count() + 2);
            let beginning: String = named.chars().take(room).collect();
            shown = format!("{beginning}, {name}");
        }
        competitions.push(Value::Table(table([
            ("name", Some(shown.into())),
            ("workload", Some(name.into())),
            ("flow", Some(Value::Array(flows.iter().map(flow).collect()))),
        ])));
    }
    root.insert("competition".into(), Value::Array(competitions));
}

/// Returns the list of a condition, once for each of several tunings.
fn under_tunings(condition: Table, args: &PathArgs) -> Value {
    let tunings = tunings::several(args);
    if tunings.is_empty() {
        return one(condition);
    }
    let base = condition.get("name").and_then(Value::as_str);
    let base = base.unwrap_or_default().to_owned();
    let under = |tuning: Tuning| {
        let mut under = condition.clone();
        under.insert("name".into(), tunings::name(&base, tuning).into());
        under.insert("tuning".into(), tuning.as_str().into());
        Value::Table(under)
    };
    Value::Array(tunings.into_iter().map(under).collect())
}

/// Names transports, of many the first.
pub fn named(transports: &[Transport]) -> String {
    /// Maximum number of transports that are named.
    const NAMED: usize = 4;
    let labels: Vec<&str> = transports.iter().map(|it| it.label.as_str()).collect();
    match labels.len() {
        ..=NAMED => labels.join(", "),
        all => format!(
            "{} and {} others",
            labels[..NAMED - 1].join(", "),
            all - NAMED + 1
        ),
    }
}

/// Returns the title of a study of these transports over a path, or between two hosts whose network is as it is.
fn title_of(transports: &[Transport], condition: &Table, hosts: Option<&TwoHosts>) -> String {
    let list = named(transports);
    match (hosts, condition.get("name").and_then(Value::as_str)) {
        (Some(TwoHosts([a, b])), Some(AS_IT_IS)) => format!("{list} between {a} and {b}"),
        (_, path) => format!("{list} over {}", path.unwrap_or(AS_IT_IS)),
    }
}

/// Name of the condition that leaves a path as it is.
const AS_IT_IS: &str = "path as it is";

/// Returns the duration of a transfer, if it is given.
fn duration(args: &RunArgs) -> Option<Duration> {
    let keys = &args.work.keys;
    match keys.get("duration") {
        Some(duration) => parse_duration(duration).ok(),
        // Flows of one size would end one after another.
        None => (!args.compete.is_empty() && keys.sizes().next().is_none()).then_some(COMPETING),
    }
}

/// Returns a deadline this long after the end of sending, or the longest: a duration that is too long is refused itself,
/// and not the deadline, which nobody has given.
pub fn deadline_after(duration: Duration, rest: Duration) -> Duration {
    duration.saturating_add(rest).min(Condition::LONGEST_TIME)
}

/// Returns the section of a transport in a study file.
pub fn section(transport: Transport) -> Value {
    let mut section = table([
        ("label", Some(transport.label.into())),
        ("driver", Some(transport.driver.into())),
    ]);
    section.extend(transport.options.into_iter().map(|(name, value)| {
        let value = match value {
            OptionValue::Flag(flag) => flag.into(),
            OptionValue::Number(number) => number.into(),
            OptionValue::Text(text) => text.into(),
        };
        (name, value)
    }));
    Value::Table(section)
}

/// Parses a study that options describe, and returns it with its text.
pub fn parse(root: &Table) -> Result<(StudyFile, String)> {
    let text = toml::to_string(root)?;
    let files = path_options::files_in(Path::new(""));
    let file = StudyFile::parse_beside(&text, "command line", &files);
    Ok((file.map_err(Failure::of_options)?, text))
}

/// Returns a table of the keys that have a value.
pub fn table<const N: usize>(keys: [(&str, Option<Value>); N]) -> Table {
    let keys = keys.into_iter();
    keys.filter_map(|(key, value)| Some((key.to_owned(), value?)))
        .collect()
}

/// Returns a list of one section.
pub fn one(section: Table) -> Value {
    Value::Array(vec![Value::Table(section)])
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Args, Command};

    #[test]
    fn transport_options_are_parsed_by_kind() {
        let transport = transport("udp:rate=96Mbit/s:gso=false").unwrap();
        assert_eq!(transport.driver, "udp");
        assert_eq!(
            transport.options["rate"],
            OptionValue::Text("96Mbit/s".into())
        );
        assert_eq!(transport.options["gso"], OptionValue::Flag(false));
        let named = super::transport("tcp:cc=bbr:label=mine").unwrap();
        assert_eq!(named.label, "mine");
        assert_eq!(named.options.len(), 1);
        assert!(super::transport("tcp:cc").is_err());
        let twice = super::transport("tcp:cc=cubic:cc=bbr").expect_err("one too many");
        assert!(twice.render(false).contains("option `cc` of transport"));
    }

    /// The study of a command line.
    fn study_of(options: &[&str]) -> Result<regatta_model::Study> {
        let line = ["regatta", "run"]
            .into_iter()
            .chain(options.iter().copied());
        let args = Args::try_parse_from(line).expect("options");
        let Command::Run(run) = args.command else {
            panic!("another command")
        };
        Ok(study(&run)?.0.study)
    }

    #[test]
    fn a_study_is_called_by_what_it_compares() {
        let title = |options: &[&str]| study_of(options).expect("a study").title;
        let path = ["--rtt", "20ms", "--rate", "20M"];
        let three = [&path[..], &["--transport", "tcp,quic-quinn,udp"]].concat();
        assert_eq!(title(&three), "tcp, quic-quinn, udp over 20 ms, 20 Mbit/s");
        let many = [&path[..], &["--transport", "tcp,udp,mptcp,wdt,sctp"]].concat();
        assert_eq!(
            title(&many),
            "tcp, udp, mptcp and 2 others over 20 ms, 20 Mbit/s"
        );
        let hosts = ["--transport", "tcp", "--hosts", "lab1,local"];
        assert_eq!(title(&hosts), "tcp between lab1 and local");
        let own = [&three[..], &["--title", "What my link does"]].concat();
        assert_eq!(title(&own), "What my link does");
    }

    #[test]
    fn a_condition_runs_under_each_of_several_tunings() {
        let path = ["--rtt", "20ms", "--rate", "20M", "--tuning"];
        let names = |tunings: &str| -> Vec<(String, Tuning)> {
            let study = study_of(&[&path[..], &[tunings]].concat()).expect("a study");
            let conditions = study.conditions.into_iter();
            conditions.map(|it| (it.name, it.tuning.base)).collect()
        };
        let named = |tuning: &str| format!("20 ms, 20 Mbit/s, tuning {tuning}");
        for one in ["defaults", "defaults,defaults"] {
            assert_eq!(names(one), [(named("defaults"), Tuning::Defaults)]);
        }
        let both = [
            (named("bench"), Tuning::Bench),
            (named("defaults"), Tuning::Defaults),
        ];
        assert_eq!(names("bench,defaults"), both);
    }

    #[test]
    fn the_ranking_metric_is_chosen_by_an_option() {
        let study = study_of(&["--rank-by", "transfer_time_ns"]).expect("a study");
        assert_eq!(study.rank_by.as_deref(), Some("transfer_time_ns"));
        for (metric, expected) in [
            ("transfer_tiem_ns", "did you mean `transfer_time_ns`?"),
            ("bytes_sent", "neither better nor worse"),
        ] {
            let refused = Args::try_parse_from(["regatta", "run", "--rank-by", metric]);
            let error = refused.expect_err("refused").to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn flows_of_the_command_line_compete_and_run_alone() {
        let path = ["--rtt", "40ms", "--rate", "10M", "--compete"];
        let study = |rest: &[&str]| study_of(&[&path[..], rest].concat()).expect("a study");
        let two = study(&["tcp:cc=bbr,tcp:cc=cubic"]);
        let names: Vec<&str> = two.workloads.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["bulk 60 s", "tcp:cc=bbr against tcp:cc=cubic"]);
        let of = |study: &regatta_model::Study| {
            let regatta_model::WorkloadKind::Bulk {
                amount, options, ..
            } = &study.workloads[0].kind
            else {
                panic!("another kind")
            };
            (amount.time(), options.warm_up)
        };
        let seconds = Duration::from_secs;
        assert_eq!(of(&two), (Some(seconds(60)), seconds(10)));
        assert!(two.deadline > seconds(60));
        let short = study(&["tcp,tcp,tcp", "--duration", "20s"]);
        assert_eq!(of(&short), (Some(seconds(20)), seconds(5)));
        let labels: Vec<&str> = short
            .transports
            .iter()
            .map(|it| it.label.as_str())
            .collect();
        assert_eq!(labels, ["tcp", "tcp 2", "tcp 3"]);
        assert_eq!(short.cells(), 4);
        let ten = study(&["tcp,tcp,tcp,tcp,tcp:cc=reno,tcp:cc=reno,tcp:cc=reno,quic-quinn"]);
        let name = &ten.workloads[1].name;
        assert_eq!(name, "4 of tcp against 3 of tcp:cc=reno against quic-quinn");
        let by_size = study(&["tcp,udp:rate=5M", "--size", "5MB"]);
        assert_eq!(of(&by_size).0, None);
    }

    #[test]
    fn each_of_several_sizes_is_a_workload() {
        let names = |options: &[&str]| {
            let study = study_of(options).expect("a study");
            let names: Vec<String> = study.workloads.into_iter().map(|it| it.name).collect();
            names
        };
        assert_eq!(names(&["--size", "1MB,50MB"]), ["bulk 1 MB", "bulk 50 MB"]);
        assert_eq!(
            names(&["--size", "5kB,1MB", "--workload", "bulk,stop-and-wait"]),
            [
                "bulk 5 kB",
                "bulk 1 MB",
                "stop-and-wait 5 kB",
                "stop-and-wait 1 MB"
            ]
        );
        let twice = study_of(&["--size", "1MB,1MB"]).expect_err("one too many");
        assert!(twice.render(false).contains("`--size` has 1 MB twice"));
    }

    #[test]
    fn a_duration_that_is_too_long_is_refused_by_its_own_name() {
        for duration in ["30d", "2591975s", "400d"] {
            let error = study_of(&["--duration", duration]).expect_err("too long");
            let error = error.render(false);
            assert!(
                error.contains("`--duration` is") && !error.contains("--deadline"),
                "{error}"
            );
        }
        assert!(study_of(&["--duration", "2591969s"]).is_ok());
    }

    #[test]
    fn a_rate_is_taken_as_the_client_takes_it() {
        let study = study_of(&["--rate", "50M", "--transport", "udp:rate=10M"]).expect("a study");
        let rate = study.conditions[0].forward.rate;
        assert_eq!(rate, Some(regatta_model::BitRate(50_000_000)));
    }

    #[test]
    fn long_label_keeps_driver_and_last_option() {
        let program = format!("external:program=./{}:size=16", "x".repeat(100));
        let label = transport(&program).unwrap().label;
        assert_eq!(label.chars().count(), LONGEST_NAME);
        assert!(label.starts_with("external:program=./xx"), "{label}");
        assert!(
            label.contains("x…x") && label.ends_with("xx:size=16"),
            "{label}"
        );
    }
}
