//! `regatta list`.

use std::{fmt::Write, time::Duration};

use regatta_model::{
    METRICS, MetricDefinition, SHIPPED_TRACES, Study,
    study::{BUILTIN, Builtin, DEFAULT, WORKLOAD_KEYS, workload_kinds},
    units::format_duration,
};
use regatta_transport::{Carries, OptionDefinition};
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
    if is_requested(ListWhat::Transports) {
        add("transports", transports_json());
    }
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

fn transports_json() -> Value {
    let transports = regatta_agent::registry().into_iter().map(|driver| {
        let it = driver.descriptor();
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

fn transports() -> String {
    let mut text = String::new();
    for driver in regatta_agent::registry() {
        let it = driver.descriptor();
        let reliability = match it.reliable {
            true => "reliable",
            false => "unreliable",
        };
        let mut can = vec![carries(it.carries), reliability];
        if it.encrypted {
            can.push("encrypted");
        }
        if it.multiplexes {
            can.push("multiplexes");
        }
        can.extend(it.capabilities);
        let stack = format!("{} {}", it.stack, it.stack_version);
        let _ = writeln!(text, "{}: {}", it.name, it.summary);
        let _ = writeln!(text, "    {}; {}", can.join(", "), stack.trim());
        for option in it.options {
            let (name, help, values) = (option.name, option.help, option.kind.description());
            let default = default_text(option);
            let _ = writeln!(text, "    {name}: {help}; {values}, default {default}");
        }
    }
    text
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
