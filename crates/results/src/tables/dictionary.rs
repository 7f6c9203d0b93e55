//! Data dictionary of an export: every file, column, unit and meaning.

use std::fmt::Write as _;

use regatta_model::{
    Better, METRICS, MetricDefinition, Named as _, RunHeader, Unit, metric, table::Column,
};
use serde::Serialize;

use super::definition::Table;

/// Version of the form of the dictionary.
const SCHEMA_VERSION: u32 = 2;

/// Data dictionary, as `dictionary.json` has it.
#[derive(Debug, Serialize)]
pub struct Dictionary {
    schema_version: u32,
    run_id: String,
    study: String,
    regatta_version: &'static str,
    pub(super) tables: Vec<TableEntry>,
    /// Columns of `trials.csv`.
    trials_csv: Vec<Column>,
    metrics: &'static [MetricDefinition],
    series: &'static [metric::SeriesDefinition],
}

/// One table in the dictionary.
#[derive(Debug, Clone, Serialize)]
pub struct TableEntry {
    /// Name of the table.
    pub name: &'static str,
    /// Names of its files.
    pub files: Vec<String>,
    /// Number of rows.
    pub rows: u64,
    meaning: &'static str,
    columns: Vec<Column>,
}

impl TableEntry {
    pub(super) fn new(table: &Table, columns: &[Column]) -> Self {
        Self {
            name: table.name,
            files: Vec::new(),
            rows: 0,
            meaning: table.meaning,
            columns: columns.to_vec(),
        }
    }
}

impl Dictionary {
    pub(super) fn new(
        header: &RunHeader,
        tables: Vec<TableEntry>,
        trials_csv: Vec<Column>,
    ) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            run_id: header.run_id.clone(),
            study: header.study.name.clone(),
            regatta_version: env!("CARGO_PKG_VERSION"),
            tables,
            trials_csv,
            metrics: METRICS,
            series: metric::SERIES,
        }
    }

    /// Formats the dictionary as a page in Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut page = format!(
            "# Data dictionary\n\n\
             Tables of the run `{}` of the study {}, exported by Regatta {}. `dictionary.json` has the same for \
             programs.\n\n\
             Units: `ns` nanoseconds, `ns/B` nanoseconds per byte, `B` bytes, `bit/s` bits per second, `1/s` events \
             per second, `1` a count, `ratio` part of a whole (1 is all), `cores` CPU time over elapsed time (1 is one \
             core). A value that was not measured is null in Parquet and empty in CSV; it is never zero.\n",
            self.run_id,
            code(&self.study),
            self.regatta_version,
        );
        for table in &self.tables {
            let files: Vec<String> = table.files.iter().map(|file| code(file)).collect();
            let _ = write!(
                page,
                "\n## {}\n\nOne row is {}. {} rows. Files: {}.\n\n\
                 | column | type | unit | null | meaning |\n|---|---|---|---|---|\n",
                table.name,
                table.meaning,
                table.rows,
                files.join(", ")
            );
            rows_of(&mut page, &table.columns);
        }
        page.push_str(
            "\n## trials.csv\n\nOne row is one attempt at a trial. The file is in the directory of the run.\n\n\
             | column | type | unit | null | meaning |\n|---|---|---|---|---|\n",
        );
        rows_of(&mut page, &self.trials_csv);
        page.push_str("\n## Metrics\n\nNames in `metric`.\n\n| name | unit | better | definition |\n|---|---|---|---|\n");
        for metric in self.metrics {
            let better = match metric.better {
                Better::Neither => "",
                better => better.as_str(),
            };
            let name = code(metric.name);
            let cells = [name.as_str(), metric.unit.name(), better, metric.definition];
            row(&mut page, &cells);
        }
        page.push_str(
            "\n## Series\n\nNames in `sample`.\n\n| name | unit | definition |\n|---|---|---|\n",
        );
        for series in self.series {
            let name = code(series.name);
            let cells = [name.as_str(), series.unit.name(), series.definition];
            row(&mut page, &cells);
        }
        page
    }
}

fn rows_of(page: &mut String, columns: &[Column]) {
    for column in columns {
        let name = code(&column.name);
        let cells = [
            name.as_str(),
            column.kind.as_str(),
            column.unit.map_or("", Unit::name),
            if column.nullable { "yes" } else { "" },
            &column.meaning,
        ];
        row(page, &cells);
    }
}

fn code(text: &str) -> String {
    // A name of the user's may hold what ends a span of code.
    format!("`{}`", text.replace('`', "'"))
}

fn row(page: &mut String, cells: &[&str]) {
    let cells = cells
        .iter()
        .map(|cell| cell.replace('|', "\\|").replace('\n', " "));
    let cells: Vec<String> = cells.collect();
    let _ = writeln!(page, "| {} |", cells.join(" | "));
}
