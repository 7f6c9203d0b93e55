//! `regatta list`.

use std::fmt::Write;

use regatta_model::{
    METRICS, Study,
    study::{BUILTIN, DEFAULT},
};
use regatta_transport::Carries;

use crate::{
    args::{ListArgs, ListWhat},
    exit::{Code, Failure},
    output, registry,
};

/// Runs `regatta list`.
///
/// # Errors
/// Standard output cannot be written.
pub fn list(args: &ListArgs) -> Result<Code, Failure> {
    let text = match args.what {
        Some(ListWhat::Transports) => transports(),
        Some(ListWhat::Studies) => studies()?,
        Some(ListWhat::Metrics) => metrics(),
        None => format!(
            "TRANSPORTS\n{}\nSTUDIES\n{}\nMETRICS\n{}",
            transports(),
            studies()?,
            metrics()
        ),
    };
    output::out(&text).map_err(Failure::failed)?;
    Ok(Code::Measured)
}

fn transports() -> String {
    let mut text = String::new();
    for driver in registry::drivers() {
        let it = driver.descriptor();
        let carries = match it.carries {
            Carries::Streams => "streams",
            Carries::Messages => "messages",
            Carries::Files => "files",
        };
        let mut can = vec![carries];
        can.push(if it.reliable {
            "reliable"
        } else {
            "unreliable"
        });
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
            let default = if option.default.is_empty() {
                "not set".to_owned()
            } else {
                format!("`{}`", option.default)
            };
            let _ = writeln!(
                text,
                "    {}: {}; {}, default {default}",
                option.name,
                option.help,
                option.kind.description()
            );
        }
    }
    text
}

fn studies() -> Result<String, Failure> {
    let mut text = String::new();
    for builtin in BUILTIN {
        let study = Study::parse(builtin.text, builtin.name).map_err(Failure::failed)?;
        let mark = if builtin.name == DEFAULT {
            " (default)"
        } else {
            ""
        };
        let _ = writeln!(text, "{}{mark}: {}", builtin.name, study.title);
    }
    Ok(text)
}

fn metrics() -> String {
    let mut text = String::new();
    for metric in METRICS {
        let _ = writeln!(
            text,
            "{} [{}]: {}",
            metric.name,
            metric.unit.name(),
            metric.definition
        );
    }
    text
}
