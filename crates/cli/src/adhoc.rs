//! A study from options of the command line: written as a study file and read like one, so that
//! the run leaves behind what can be saved, edited and run again.

use std::time::Duration;

use regatta_model::{
    BedKind, BitRate, Bytes, Clock, Emulator, OptionValue, Placement, Ratio, Transport,
    study::StudyFile,
    units::{format_duration, parse_duration},
};
use toml::{Table, Value};

use crate::{
    args::{Limit, RunArgs},
    exit::Failure,
    registry,
};

/// Whether the options describe a path, a transport or a workload.
pub fn asked_for(args: &RunArgs) -> bool {
    !args.transport.is_empty()
        || args.rtt.is_some()
        || args.loss.is_some()
        || args.rate.is_some()
        || args.jitter.is_some()
        || args.queue.is_some()
        || args.mtu.is_some()
        || args.size.is_some()
        || args.message_size.is_some()
}

/// A transport as written on the command line: `tcp`, `tcp:cc=bbr`, `udp:rate=96Mbit/s:gso=false`.
///
/// # Errors
/// If an option has no value.
pub fn transport(text: &str) -> Result<Transport, Failure> {
    let mut parts = text.split(':');
    let driver = parts.next().unwrap_or_default().trim();
    let options = parts
        .map(|part| {
            let (name, value) = part.split_once('=').ok_or_else(|| {
                Failure::input(
                    format!("option `{part}` of transport `{text}` has no value"),
                    "write options as in `tcp:cc=bbr`",
                )
            })?;
            Ok((name.trim().to_owned(), value_of(value.trim())))
        })
        .collect::<Result<_, Failure>>()?;
    Ok(Transport {
        label: text.trim().to_owned(),
        driver: driver.to_owned(),
        options,
    })
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

/// Exactly this time, in the unit a reader would say where that loses nothing.
fn time(value: Duration) -> String {
    let short = format_duration(value);
    if parse_duration(&short) == Ok(value) {
        short
    } else {
        format!("{} ns", value.as_nanos())
    }
}

fn bytes(value: Bytes) -> String {
    let short = value.to_string();
    if short.parse() == Ok(value) {
        short
    } else {
        format!("{} B", value.0)
    }
}

fn bit_rate(value: BitRate) -> String {
    let short = value.to_string();
    if short.parse() == Ok(value) {
        short
    } else {
        format!("{} bit/s", value.0)
    }
}

fn ratio(value: Ratio) -> String {
    let short = value.to_string();
    if short.parse() == Ok(value) {
        short
    } else {
        value.0.to_string()
    }
}

/// How a study says a value.
fn word<T: PartialEq>(value: T, words: &[(&'static str, T)]) -> &'static str {
    let known = words.iter().find(|(_, known)| *known == value);
    known.map_or("", |(word, _)| word)
}

/// The study that the options ask for, and its text.
///
/// # Errors
/// Whatever is wrong with it.
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
    if let Some(emulator) = args.emulator {
        root.insert("emulator".into(), text(word(emulator, Emulator::WORDS)));
    }
    if let Some(placement) = args.placement {
        root.insert("placement".into(), text(word(placement, Placement::WORDS)));
    }
    if args.bed == Some(BedKind::Uml) {
        root.insert("bed".into(), text("uml"));
    }
    if args.clock == Some(Clock::Virtual) {
        root.insert("clock".into(), text("virtual"));
    }
    if let Some(kernel) = &args.kernel {
        root.insert("kernel".into(), text(&kernel.to_string_lossy()));
    }
    let deadline = args.deadline.unwrap_or(Duration::from_secs(30));
    root.insert("deadline".into(), text(&time(deadline)));

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
    root.insert("condition".into(), one(condition(args)));

    let mut workload = Table::new();
    let size = args.size.unwrap_or(Bytes(10_000_000));
    let message = args.message_size.unwrap_or(Bytes(10_000.min(size.0)));
    workload.insert("name".into(), text(&format!("bulk {}", bytes(size))));
    workload.insert("kind".into(), text("bulk"));
    workload.insert("size".into(), text(&bytes(size)));
    workload.insert("message".into(), text(&bytes(message)));
    root.insert("workload".into(), one(workload));

    let text = toml::to_string(&root).map_err(Failure::failed)?;
    let file = StudyFile::parse(&text, "command line").map_err(Failure::bad)?;
    Ok((file, text))
}

fn one(section: Table) -> Value {
    Value::Array(vec![Value::Table(section)])
}

fn condition(args: &RunArgs) -> Table {
    let text = |value: String| Value::String(value);
    let mut section = Table::new();
    let mut name = Vec::new();
    let rtt = args.rtt.unwrap_or(Duration::from_millis(30));
    name.push(time(rtt));
    section.insert("rtt".into(), text(time(rtt)));
    let rate = args.rate.unwrap_or(Limit(Some(BitRate(100_000_000))));
    if let Some(rate) = rate.0 {
        name.push(bit_rate(rate));
        section.insert("rate".into(), text(bit_rate(rate)));
    }
    if let Some(loss) = args.loss {
        name.push(format!("{loss} loss"));
        section.insert("loss".into(), text(ratio(loss)));
    }
    if let Some(jitter) = args.jitter {
        name.push(format!("± {}", time(jitter)));
        section.insert("jitter".into(), text(time(jitter)));
    }
    if let Some(queue) = args.queue {
        name.push(format!("queue {}", bytes(queue)));
        section.insert("queue".into(), text(bytes(queue)));
    }
    if let Some(mtu) = args.mtu {
        name.push(format!("MTU {} B", mtu.0));
        section.insert(
            "mtu".into(),
            Value::Integer(i64::try_from(mtu.0).unwrap_or(i64::MAX)),
        );
    }
    section.insert("name".into(), text(name.join(", ")));
    section
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_written_without_loss() {
        let odd = Duration::from_nanos(30_000_001);
        assert_eq!(parse_duration(&time(odd)), Ok(odd));
        assert_eq!(time(Duration::from_millis(30)), "30 ms");
        assert_eq!(bytes(Bytes(1_234_567)).parse(), Ok(Bytes(1_234_567)));
        assert_eq!(
            bit_rate(BitRate(99_999_999)).parse(),
            Ok(BitRate(99_999_999))
        );
        assert_eq!(ratio(Ratio(0.000_012_3)).parse(), Ok(Ratio(0.000_012_3)));
    }

    #[test]
    fn a_transport_has_options_with_their_kinds() {
        let transport = transport("udp:rate=96Mbit/s:gso=false").unwrap();
        assert_eq!(transport.driver, "udp");
        assert_eq!(
            transport.options["rate"],
            OptionValue::Text("96Mbit/s".into())
        );
        assert_eq!(transport.options["gso"], OptionValue::Flag(false));
        assert!(super::transport("tcp:cc").is_err());
    }
}
