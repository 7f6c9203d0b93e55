//! `regatta list`.

use std::{fmt::Write, time::Duration};

use regatta_model::{
    METRICS, MetricDefinition, SHIPPED_TRACES, Study,
    study::{BUILTIN, Builtin, DEFAULT, WORKLOAD_KEYS, workload_kinds},
    units::format_duration,
};
use regatta_transport::{Carries, DriverDescriptor, OptionDefinition, OptionKind};
use serde_json::{Map, Value, json};

use crate::{
    args::{ListArgs, ListWhat},
    exit::{Code, Result},
    output,
};

/// Runs `regatta list`.
///
/// # Errors
/// Standard output cannot be written.
pub fn list(args: &ListArgs) -> Result<Code> {
    if args.json {
        return output::json(&json(args.what)?);
    }
    let text = match args.what {
        Some(ListWhat::Transports) => transports(),
        Some(ListWhat::Transport(name)) => transport(name),
        Some(ListWhat::Workloads) => workloads(),
        Some(ListWhat::Traces) => traces(),
        Some(ListWhat::Studies) => studies()?,
        Some(ListWhat::Metrics) => metrics(),
        None => format!(
            "TRANSPORTS\n{}\nWORKLOADS\n{}\nTRACES\n{}\nSTUDIES\n{}\nMETRICS\n{}",
            transports(),
            workloads(),
            traces(),
            studies()?,
            metrics()
        ),
    };
    output::show(&text)
}

/// Returns the requested tables, each under its name.
fn json(what: Option<ListWhat>) -> Result<Value> {
    let is_requested = |of| what.is_none_or(|what| what == of);
    let mut tables = Map::new();
    let mut add = |name: &str, table: Value| tables.insert(name.to_owned(), table);
    match what {
        None | Some(ListWhat::Transports) => add("transports", transports_json(|_| true)),
        Some(ListWhat::Transport(name)) => add("transports", transports_json(|it| it == name)),
        Some(_) => None,
    };
    if is_requested(ListWhat::Workloads) {
        add("workloads", workloads_json());
    }
    if is_requested(ListWhat::Traces) {
        let traces = SHIPPED_TRACES.iter().map(|shipped| {
            let trace = shipped.trace();
            json!({
                "name": shipped.name,
                "summary": shipped.summary,
                "mean_rate_bps": trace.mean_rate(),
                "period_ns": u64::from(trace.period_ms()) * 1_000_000,
            })
        });
        add("traces", traces.collect());
    }
    if is_requested(ListWhat::Studies) {
        let studies = parsed_studies()?.into_iter().map(|(name, study)| {
            json!({
                "name": name,
                "title": study.title,
                "description": study.description,
                "is_default": name == DEFAULT,
            })
        });
        add("studies", studies.collect());
    }
    if is_requested(ListWhat::Metrics) {
        add("metrics", json!(METRICS));
    }
    Ok(Value::Object(tables))
}

/// Returns the transports whose names are chosen.
fn transports_json(is_chosen: impl Fn(&str) -> bool) -> Value {
    let all = regatta_agent::registry().into_iter();
    let descriptors = all.map(|driver| driver.descriptor());
    let transports = descriptors.filter(|it| is_chosen(it.name)).map(|it| {
        let options = it.options.iter().map(|option| {
            json!({
                "name": option.name,
                "values": option.kind.description(),
                "default": Some(option.default).filter(|default| !default.is_empty()),
                "help": option.help,
            })
        });
        json!({
            "name": it.name,
            "summary": it.summary,
            "carries": carries(it.carries),
            "reliable": it.reliable,
            "encrypted": it.encrypted,
            "multiplexes": it.multiplexes,
            "capabilities": it.capabilities,
            "stack": it.stack,
            "stack_version": it.stack_version,
            "options": options.collect::<Vec<_>>(),
            "metrics": it.metrics,
        })
    });
    transports.collect()
}

fn workloads_json() -> Value {
    let workloads = workload_kinds().map(|mut kind| {
        let keys: Vec<Value> = (WORKLOAD_KEYS.iter())
            .filter(|key| key.is_of(&mut kind))
            .map(|key| json!({"name": key.name, "help": key.help, "instead_of": key.instead_of}))
            .collect();
        json!({
            "name": kind.name(),
            "ranked_by": kind.primary_metric(),
            "keys": keys,
        })
    });
    workloads.collect()
}

/// Lists the workloads with the options that are their keys.
fn workloads() -> String {
    let mut text = String::new();
    for mut kind in workload_kinds() {
        let (name, description, metric) = (kind.name(), kind.description(), kind.primary_metric());
        let _ = writeln!(text, "{name}: {description}; ranked by `{metric}`");
        for key in WORKLOAD_KEYS {
            if key.is_of(&mut kind) {
                let _ = writeln!(text, "    {}: {}", key.name, key.help);
            }
        }
    }
    text
}

fn traces() -> String {
    let mut text = String::new();
    for shipped in SHIPPED_TRACES {
        let trace = shipped.trace();
        let period = format_duration(Duration::from_millis(trace.period_ms().into()));
        let (rate, summary) = (trace.mean_rate(), shipped.summary);
        let _ = writeln!(
            text,
            "{}: {summary}; {rate} on average, repeats after {period}",
            shipped.name
        );
    }
    text
}

const fn carries(carries: Carries) -> &'static str {
    match carries {
        Carries::Streams => "streams",
        Carries::Messages => "messages",
        Carries::Files => "files",
    }
}

/// Returns the default of an option, as it would be written.
pub fn default_text(option: &OptionDefinition) -> String {
    match option.default {
        "" => "not set".to_owned(),
        default => format!("`{default}`"),
    }
}

/// Returns what a transport carries, and its other features.
fn features(it: &DriverDescriptor) -> Vec<&'static str> {
    let reliability = match it.reliable {
        true => "reliable",
        false => "unreliable",
    };
    let mut features = vec![carries(it.carries), reliability];
    if it.encrypted {
        features.push("encrypted");
    }
    if it.multiplexes {
        features.push("multiplexes");
    }
    features.extend(it.capabilities);
    features
}

fn transports() -> String {
    let mut text = String::new();
    for driver in regatta_agent::registry() {
        let it = driver.descriptor();
        let stack = format!("{} {}", it.stack, it.stack_version);
        let _ = writeln!(text, "{}: {}", it.name, it.summary);
        let _ = writeln!(text, "    {}; {}", features(it).join(", "), stack.trim());
        for option in it.options {
            let (name, help, values) = (option.name, option.help, option.kind.description());
            let default = default_text(option);
            let _ = writeln!(text, "    {name}: {help}; {values}, default {default}");
        }
    }
    text
}

/// Describes one transport: features, options with their defaults, and the metrics that its stack reports.
fn transport(name: &str) -> String {
    let Some(driver) = regatta_agent::find_driver(name) else {
        return String::new();
    };
    let it = driver.descriptor();
    let stack = format!("{} {}", it.stack, it.stack_version);
    let mut text = format!("{name}: {}, {}\n", it.title, it.summary);
    let _ = writeln!(text, "stack: {}", stack.trim());
    let _ = writeln!(text, "features: {}", features(it).join(", "));
    let _ = writeln!(text, "\noptions, as in `--transport {}`", example_of(it));
    if it.options.is_empty() {
        text.push_str("  none\n");
    }
    for option in it.options {
        let (name, help, values) = (option.name, option.help, option.kind.description());
        let default = default_text(option);
        let _ = writeln!(text, "  {name}: {help}\n    {values}, default {default}");
    }
    text.push_str(
        "\nmetrics of its stack, beside those of every transport (`regatta list metrics`)\n",
    );
    if it.metrics.is_empty() {
        let none = match it.name == "external" || !it.stack.starts_with("Linux") {
            true => "what the program reports",
            false => "none",
        };
        let _ = writeln!(text, "  {none}");
    }
    for metric in METRICS
        .iter()
        .filter(|metric| it.metrics.contains(&metric.name))
    {
        let _ = writeln!(
            text,
            "  {} [{}]: {}",
            metric.name,
            metric.unit.name(),
            metric.title
        );
    }
    text
}

/// Returns an example of a transport with its first option, as it is written on the command line.
fn example_of(it: &DriverDescriptor) -> String {
    let example = |option: &OptionDefinition| match (option.default, option.kind) {
        ("", OptionKind::OneOf([first, ..])) => (*first).to_owned(),
        ("", _) => "…".to_owned(),
        (default, _) => default.to_owned(),
    };
    match it.options.first() {
        Some(option) => format!("{}:{}={}", it.name, option.name, example(option)),
        None => it.name.to_owned(),
    }
}

fn studies() -> Result<String> {
    let mut text = String::new();
    for (name, study) in parsed_studies()? {
        let mark = if name == DEFAULT { " (default)" } else { "" };
        let _ = writeln!(text, "{name}{mark}: {}", study.title);
    }
    Ok(text)
}

/// Returns the built-in studies by their names.
fn parsed_studies() -> Result<Vec<(&'static str, Study)>> {
    let parse = |it: &Builtin| Ok((it.name, Study::parse(it.text, it.name)?));
    BUILTIN.iter().map(parse).collect()
}

fn metrics() -> String {
    let line =
        |it: &MetricDefinition| format!("{} [{}]: {}\n", it.name, it.unit.name(), it.definition);
    METRICS.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, mem};

    use clap::Parser as _;

    use super::transport;
    use crate::args::Args;

    #[test]
    fn one_transport_has_its_options_features_and_metrics() {
        let text = transport("tcp");
        for expected in [
            "tcp: TCP, TCP of the running kernel, not encrypted\n",
            "features: streams, reliable\n",
            "options, as in `--transport tcp:cc=cubic`\n",
            "  cc: congestion control of the kernel",
            "default `cubic`",
            "  retransmission_timeouts [",
        ] {
            assert!(text.contains(expected), "{expected:?}: {text}");
        }
    }

    #[test]
    fn every_metric_of_a_stack_is_one() {
        for driver in regatta_agent::registry() {
            let it = driver.descriptor();
            for metric in it.metrics {
                assert!(
                    regatta_model::metric::find(metric).is_some(),
                    "{}: {metric}",
                    it.name
                );
            }
        }
    }

    #[test]
    fn a_name_that_cannot_be_listed_has_a_suggestion() {
        let error = Args::try_parse_from(["regatta", "list", "quinn"]).expect_err("refused");
        assert!(
            error.to_string().contains("did you mean `quic-quinn`?"),
            "{error}"
        );
    }

    #[test]
    fn options_of_one_name_have_the_same_kind_in_every_driver() {
        let mut kinds = BTreeMap::new();
        for driver in regatta_agent::registry() {
            let it = driver.descriptor();
            // A congestion control is named by the kernel, by a stack, or by a program.
            for option in it.options.iter().filter(|option| option.name != "cc") {
                let kind = mem::discriminant(&option.kind);
                let (first, of) = *kinds.entry(option.name).or_insert((kind, it.name));
                assert_eq!(kind, first, "`{}` of {} and {of}", option.name, it.name);
            }
        }
    }
}
