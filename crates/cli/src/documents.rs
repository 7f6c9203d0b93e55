//! Tables of the documents that are made from the source: `make docs` writes them, and a test compares them.

use std::{collections::BTreeMap, env, fmt::Display, fs, path::Path, time::Duration};

use regatta_model::{
    Ratio, SHIPPED_TRACES, STACK_FACTS,
    loss_response::{self, MeasuredResponse},
    study::{PATH_KEYS, PROBE_KEYS, PathKey, WORKLOAD_KEYS, workload_kinds},
    units::format_duration,
};
use regatta_transport::{OptionDefinition, OptionKind};

use crate::commands::list::default_text;

/// Beginning of the line before a table; the table's name and ` -->` follow.
const BEGIN: &str = "<!-- generated: ";

/// Line after a table.
const END: &str = "<!-- end -->";

/// Tables of each page of `docs`: name and text.
type Pages = BTreeMap<String, Vec<(String, String)>>;

/// Returns a table whose rows begin with a name. Bars separate the other cells of a row, and the `columns`.
fn table<'a, C: Display>(columns: &str, rows: impl Iterator<Item = (&'a str, C)>) -> String {
    let rule = "|---".repeat(columns.split('|').count());
    let rows = rows.map(|(name, cells)| format!("| `{name}` | {cells} |\n"));
    format!("| {columns} |\n{rule}|\n{}", rows.collect::<String>())
}

/// Returns the cells of one of a driver's options after its name: values and default as a study writes them, and meaning.
fn option_cells(option: &OptionDefinition) -> String {
    let quoted = |value: &str| format!("`\"{value}\"`");
    let values = match option.kind {
        OptionKind::OneOf([value]) => quoted(value),
        OptionKind::OneOf(values) => {
            let values: Vec<_> = values.iter().map(|it| quoted(it)).collect();
            format!("one of {}", values.join(", "))
        }
        kind => kind.description(),
    };
    let default = match (option.default, option.kind) {
        ("", _) | (_, OptionKind::Flag | OptionKind::Number { .. }) => default_text(option),
        (default, _) => quoted(default),
    };
    format!("{values} | {default} | {}", option.help)
}

/// Returns the table of measured responses to losses.
fn responses_to_losses() -> String {
    let rows = loss_response::measured();
    let source = |row: &MeasuredResponse| loss_response::source(row.control).unwrap_or_default();
    let ratios = |row: &MeasuredResponse, cell: fn(Duration, Ratio, f64) -> String| {
        let by_loss = row.responses.iter().flat_map(|(round_trip, response)| {
            let ratios = response.ratios().iter();
            ratios.map(|(loss, ratio)| cell(*round_trip, *loss, *ratio))
        });
        by_loss.collect::<Vec<_>>().join(" | ")
    };
    let columns = rows.first().map_or_else(String::new, |row| {
        ratios(row, |round_trip, loss, _| {
            format!("{}, {loss}", format_duration(round_trip))
        })
    });
    let columns = format!("driver | congestion control | function | stack | {columns}");
    let cells = rows.iter().map(|row| {
        let cells = format!(
            "`{}` | {} | {} | {}",
            row.control,
            source(row),
            row.stack,
            ratios(row, |_, _, ratio| format!("{ratio:.2}"))
        );
        (row.driver, cells)
    });
    table(&columns, cells)
}

fn pages() -> Pages {
    let mut pages = Pages::new();
    let mut add = |page: &str, name: &str, text: String| {
        let tables = pages.entry(page.to_owned()).or_default();
        tables.push((name.to_owned(), text));
    };

    let quantities = PATH_KEYS.iter().filter(|key| key.is_stepped());
    let quantities: Vec<_> = quantities.map(|key| format!("`{}`", key.name)).collect();
    let quantities = quantities.join(", ");
    let doc = |key: &PathKey| key.doc.replace(PathKey::QUANTITIES, &quantities);
    let keys = PATH_KEYS.iter().map(|key| (key.name, doc(key)));
    add(
        "conditions.md",
        "keys of a condition",
        table("key | meaning | default", keys),
    );
    let traces = SHIPPED_TRACES.iter().map(|it| (it.name, it.summary));
    add("conditions.md", "traces", table("trace | model", traces));

    let facts = STACK_FACTS.iter().map(|it| (it.name, it.definition));
    add("stacks.md", "facts", table("fact | meaning", facts));

    add(
        "conformance.md",
        "response to losses",
        responses_to_losses(),
    );

    let tables = regatta_results::schema::markdown();
    add("results-file.md", "tables", tables);

    let columns = "key | default | meaning";
    let keys = PROBE_KEYS.iter().map(|key| (key.name, key.doc));
    add("workloads.md", "keys of the probe", table(columns, keys));
    for mut kind in workload_kinds() {
        let name = format!("keys of {}", kind.name());
        let keys = WORKLOAD_KEYS.iter().filter(|key| key.is_of(&mut kind));
        let keys = keys.map(|key| (key.name, key.doc));
        add("workloads.md", &name, table(columns, keys));
    }

    for driver in regatta_agent::registry() {
        let it = driver.descriptor();
        let page = match it.name {
            "external" => "external-drivers.md".to_owned(),
            name => format!("transports/{name}.md"),
        };
        let options = match it.options {
            [] => "None.\n".to_owned(),
            options => {
                let rows = options.iter().map(|it| (it.name, option_cells(it)));
                table("option | values | default | meaning", rows)
            }
        };
        add(&page, &format!("options of {}", it.name), options);
    }
    pages
}

/// Replaces the table `name` of a page.
fn with_table(page: &str, name: &str, text: &str) -> Option<String> {
    let begin = format!("{BEGIN}{name} -->\n");
    let (before, rest) = page.split_once(&begin)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{begin}\n{text}\n{END}{after}"))
}

#[test]
fn tables_of_the_documents_match_the_source() {
    let writes = env::var_os("REGATTA_WRITE_DOCS").is_some();
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut differences = Vec::new();
    for (name, tables) in pages() {
        let path = docs.join(&name);
        let mut page = fs::read_to_string(&path).expect(&name);
        if page.matches(BEGIN).count() != tables.len() {
            let tables: Vec<_> = tables.iter().map(|(table, _)| table).collect();
            differences.push(format!("docs/{name}: its tables are {tables:?}"));
        }
        for (table, text) in tables {
            match with_table(&page, &table, &text) {
                Some(updated) if writes || page == updated => page = updated,
                Some(_) => differences.push(format!("docs/{name}, {table}:\n{text}")),
                None => differences.push(format!("docs/{name}: no `{BEGIN}{table} -->`")),
            }
        }
        if writes {
            fs::write(&path, page).expect(&name);
        }
    }
    let differences = differences.join("\n");
    assert!(differences.is_empty(), "run `make docs`:\n{differences}");
}
