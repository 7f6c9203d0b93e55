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
    registry,
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
    Code::after(&text)
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

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, fs, mem, path::Path};

    use regatta_transport::{OptionDefinition, OptionKind};

    /// Row of the table of options on a driver's page: names, values, and the default of each name.
    type Row = (Vec<String>, String, Vec<String>);

    /// Returns the rows of the first table on the page whose first column is `option`.
    fn rows(page: &str) -> Vec<Row> {
        let cells = |line: &str| -> Vec<String> {
            let cells = line.trim_matches('|').split('|');
            cells.map(|cell| cell.trim().to_owned()).collect()
        };
        let split = |cell: &str| cell.split(", ").map(str::to_owned).collect();
        page.lines()
            .skip_while(|line| !line.starts_with("| option |"))
            .skip(2)
            .take_while(|line| line.starts_with('|'))
            .map(cells)
            .map(|cells| (split(&cells[0]), cells[1].clone(), split(&cells[2])))
            .collect()
    }

    /// Returns the values of an option, as a page writes them, without an example.
    fn values(kind: OptionKind) -> String {
        match kind {
            OptionKind::Flag => "`true`, `false`".to_owned(),
            OptionKind::Number { least, most } => format!("{least} to {most}"),
            OptionKind::Name => "a name".to_owned(),
            OptionKind::KernelCongestionControl => {
                "name of a congestion control of the kernel".to_owned()
            }
            OptionKind::OneOf(names) => format!("`\"{}\"`", names.join("\"`, `\"")),
            OptionKind::Rate => "a rate".to_owned(),
            OptionKind::Size => "a size".to_owned(),
            OptionKind::Time => "a time".to_owned(),
            OptionKind::Path => "a path".to_owned(),
            OptionKind::Text => "text".to_owned(),
        }
    }

    /// Whether a page's default is that of the definition; one that has none is in words.
    fn is_default(cell: &str, option: &OptionDefinition) -> bool {
        match (option.default, option.kind) {
            ("", _) => !cell.starts_with('`'),
            (default, OptionKind::Flag | OptionKind::Number { .. }) => {
                cell == format!("`{default}`")
            }
            (default, _) => cell == format!("`\"{default}\"`"),
        }
    }

    #[test]
    fn the_page_of_each_driver_has_its_options_with_values_and_defaults() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        for driver in regatta_agent::registry() {
            let it = driver.descriptor();
            let page = match it.name {
                "external" => "external-drivers.md".to_owned(),
                name => format!("transports/{name}.md"),
            };
            let text = fs::read_to_string(docs.join(&page)).expect(&page);
            let rows = rows(&text);
            let written: Vec<&String> = rows.iter().flat_map(|(names, ..)| names).collect();
            for option in it.options {
                let name = format!("`{}`", option.name);
                let row = rows.iter().find(|(names, ..)| names.contains(&name));
                let (names, said, defaults) = row.unwrap_or_else(|| panic!("{page}: no {name}"));
                let expected = values(option.kind);
                let example = said.strip_prefix(&expected);
                let example = example.unwrap_or_else(|| panic!("{page}: {name} takes {expected}"));
                assert!(
                    example.is_empty() || example.starts_with(", `"),
                    "{page}: {name}: {said}"
                );
                // One default for all names of a row, or one for each.
                let index = names.iter().position(|other| *other == name);
                let default = index.and_then(|index| defaults.get(index));
                let default = default.or(defaults.first()).expect("a column");
                assert!(is_default(default, option), "{page}: {name}: {default}");
            }
            assert_eq!(written.len(), it.options.len(), "{page}: {written:?}");
        }
    }

    #[test]
    fn an_option_of_one_name_takes_the_same_kind_of_value_in_every_driver() {
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
