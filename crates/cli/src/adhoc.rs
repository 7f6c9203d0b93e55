//! Study made from options of the command line: written as a study file and parsed like one, so
//! that the run leaves behind a study that can be saved, edited and run again.

use std::{collections::BTreeMap, path::Path, time::Duration};

use regatta_model::{
    BedKind, Bytes, Clock, OptionValue, Transport,
    study::{LONGEST_NAME, StudyFile},
};
use toml::{Table, Value};

use crate::{args::RunArgs, exact, exit::Failure, path_options, registry};

/// Whether the options describe a path, a transport or a workload.
pub fn asked_for(args: &RunArgs) -> bool {
    !args.transport.is_empty()
        || args.path.describes_a_condition()
        || args.size.is_some()
        || args.message_size.is_some()
}

/// Parses a transport as written on the command line: `tcp`, `tcp:cc=bbr`,
/// `udp:rate=96Mbit/s:gso=false`. The option `label` is the transport's name in the results, which is
/// else the text as it stands.
///
/// # Errors
/// If an option has no value.
pub fn transport(text: &str) -> Result<Transport, Failure> {
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
        if is_again {
            return Err(Failure::input(
                format!("option `{name}` of transport `{text}` is said twice"),
                format!("leave one of them out: `{name}={value}`"),
            ));
        }
    }
    Ok(Transport {
        label: named.map_or_else(|| label(text.trim()), str::to_owned),
        driver: driver.to_owned(),
        options,
    })
}

/// The label of a transport that is written on the command line: what has no room is left out.
fn label(text: &str) -> String {
    if text.chars().count() <= LONGEST_NAME {
        return text.to_owned();
    }
    let beginning = text.chars().take(LONGEST_NAME - 1);
    beginning.chain(['…']).collect()
}

fn value_of(text: &str) -> OptionValue {
    if let Ok(flag) = text.parse() {
        OptionValue::Flag(flag)
    } else if let Ok(number) = text.parse() {
        OptionValue::Number(number)
    } else {
        OptionValue::Text(text.to_owned())
    }
}

/// Returns the study that the options ask for, and its text.
///
/// # Errors
/// Mistakes in the options.
pub fn study(args: &RunArgs) -> Result<(StudyFile, String), Failure> {
    let transports = if args.transport.is_empty() {
        registry::drivers()
            .iter()
            .map(|driver| driver.descriptor().name)
            // It stands for a program that only the user can name.
            .filter(|name| *name != "external")
            .map(transport)
            .collect::<Result<Vec<_>, _>>()?
    } else {
        args.transport
            .iter()
            .map(|text| transport(text))
            .collect::<Result<Vec<_>, _>>()?
    };
    registry::check_all(&transports)?;

    let mut root = Table::new();
    let text = |value: &str| Value::String(value.to_owned());
    root.insert("name".into(), text("command-line"));
    root.insert("title".into(), text("A study from the command line"));
    if let Some(rounds) = args.rounds {
        root.insert("rounds".into(), Value::Integer(rounds.into()));
    }
    if let Some(seed) = args.seed {
        // The argument's range is that of TOML's numbers.
        root.insert("seed".into(), Value::Integer(seed as i64));
    }
    path_options::emulation(&args.path, &mut root);
    if let Some(capture) = args.capture {
        root.insert("capture".into(), text(&path_options::snap(capture)));
    }
    if args.bed == Some(BedKind::Uml) {
        root.insert("bed".into(), text("uml"));
    }
    if let Some(guests) = args.guests {
        root.insert("guests".into(), Value::Integer(guests.into()));
    }
    if args.clock == Some(Clock::Virtual) {
        root.insert("clock".into(), text("virtual"));
    }
    if let Some(kernel) = &args.kernel {
        root.insert("kernel".into(), text(&kernel.to_string_lossy()));
    }
    let deadline = args.deadline.unwrap_or(Duration::from_secs(30));
    root.insert("deadline".into(), text(&exact::time(deadline)));
    if let Some(deadline) = args.connect_deadline {
        let deadline = text(&exact::time(deadline));
        root.insert("connect_deadline".into(), deadline);
    }

    let sections = transports
        .iter()
        .map(|transport| {
            let mut section = Table::new();
            section.insert("label".into(), text(&transport.label));
            section.insert("driver".into(), text(&transport.driver));
            for (name, value) in &transport.options {
                let value = match value {
                    OptionValue::Flag(flag) => Value::Boolean(*flag),
                    OptionValue::Number(number) => Value::Integer(*number),
                    OptionValue::Text(value) => text(value),
                };
                section.insert(name.clone(), value);
            }
            Value::Table(section)
        })
        .collect();
    root.insert("transport".into(), Value::Array(sections));
    root.insert(
        "condition".into(),
        one(path_options::condition(&args.path)?),
    );

    let mut workload = Table::new();
    let size = args.size.unwrap_or(Bytes(10_000_000));
    let message = args.message_size.unwrap_or(Bytes(10_000.min(size.0)));
    workload.insert("name".into(), text(&format!("bulk {}", exact::bytes(size))));
    workload.insert("kind".into(), text("bulk"));
    workload.insert("size".into(), text(&exact::bytes(size)));
    workload.insert("message".into(), text(&exact::bytes(message)));
    root.insert("workload".into(), one(workload));

    let text = toml::to_string(&root).map_err(Failure::failed)?;
    let file = StudyFile::parse_beside(
        &text,
        "command line",
        &path_options::files_in(Path::new("")),
    )
    .map_err(Failure::of_options)?;
    Ok((file, text))
}

fn one(section: Table) -> Value {
    Value::Array(vec![Value::Table(section)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transport_has_options_with_their_kinds() {
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

    #[test]
    fn the_label_of_a_long_transport_is_its_beginning() {
        let program = format!("external:program=./{}", "x".repeat(100));
        let transport = transport(&program).unwrap();
        assert_eq!(transport.label.chars().count(), LONGEST_NAME);
        assert!(transport.label.ends_with("xx…"), "{}", transport.label);
    }
}
