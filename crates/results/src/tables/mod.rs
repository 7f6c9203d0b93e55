//! All tables of a results file as Parquet or CSV, for pandas, DuckDB, R and the like, with a data dictionary.
//!
//! Tables are read and written row by row: the samples of a run of days need not fit into memory.

mod csv_table;
mod definition;
mod dictionary;
mod parquet_table;
mod rows;
mod trials_csv;

use std::{convert::identity, fs, io, path::Path};

use regatta_model::table::Column;
use serde::Serialize;

pub(crate) use self::{
    csv_table::CsvTable,
    rows::{RowWriter, sample_rows},
    trials_csv::{TrialColumns, TrialTexts},
};
use self::{
    definition::TABLES,
    dictionary::{Dictionary, TableEntry},
    parquet_table::ParquetTable,
};
use crate::{Reader, ResultsError, explain::explain_io, replace::replace, run_file::RunFile};

/// Name of the data dictionary for programs.
pub const DICTIONARY_FILE_NAME: &str = "dictionary.json";

/// Name of the data dictionary for readers.
pub const DICTIONARY_PAGE_NAME: &str = "dictionary.md";

/// Format of exported tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableFormat {
    /// Apache Parquet, compressed with Snappy.
    Parquet,
    /// Comma-separated values in UTF-8 with a head.
    Csv,
}

impl TableFormat {
    /// Returns the ending of the names of files.
    #[must_use]
    pub const fn ending(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Csv => "csv",
        }
    }
}

/// File of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportedTable {
    /// Name in the directory.
    pub file: String,
    /// Number of rows.
    pub rows: u64,
}

/// Writes every table into a directory, which is made if need be, in each of these formats, and the data dictionary
/// as [`DICTIONARY_FILE_NAME`] and [`DICTIONARY_PAGE_NAME`]. Each file is replaced as a whole, or the old one stays.
///
/// # Errors
/// Errors of reading; [`ResultsError::Table`] for a file that cannot be written.
pub fn export_tables(
    reader: &Reader,
    dir: &Path,
    formats: &[TableFormat],
) -> Result<Vec<ExportedTable>, ResultsError> {
    fs::create_dir_all(dir).map_err(|error| explain_io(error, "create", dir))?;
    let header = reader.header()?;
    let mut entries = Vec::new();
    let mut exported = Vec::new();
    for table in TABLES {
        let columns = rows::columns(reader, table)?;
        let mut entry = TableEntry::new(table, &columns);
        for format in formats {
            let file = format!("{}.{}", table.name, format.ending());
            let metadata = [
                ("regatta.run_id", header.run_id.clone()),
                ("regatta.study", header.study.name.clone()),
                ("regatta.table", json(&entry)?),
            ];
            let path = dir.join(&file);
            entry.rows = write_table(reader, table, &columns, *format, &path, &metadata)?;
            entry.files.push(file.clone());
            exported.push(ExportedTable {
                file,
                rows: entry.rows,
            });
        }
        entries.push(entry);
    }
    let trials_csv = TrialColumns::of(reader)?.described();
    let dictionary = Dictionary::new(&header, entries, trials_csv);
    let mut text = json(&dictionary)?;
    text.push('\n');
    write_text(&dir.join(DICTIONARY_FILE_NAME), &text)?;
    write_text(&dir.join(DICTIONARY_PAGE_NAME), &dictionary.markdown())?;
    Ok(exported)
}

fn json(value: &impl Serialize) -> Result<String, ResultsError> {
    serde_json::to_string_pretty(value)
        .map_err(|error| explain_io(error.into(), "write", Path::new(DICTIONARY_FILE_NAME)))
}

fn write_text(path: &Path, text: &str) -> Result<(), ResultsError> {
    let written = replace(path, identity, |out| out.write_all(text.as_bytes()));
    written.map_err(|source| not_written(path, source))
}

fn not_written(path: &Path, source: io::Error) -> ResultsError {
    ResultsError::Table {
        path: path.to_owned(),
        source,
    }
}

/// Writes one table; returns the number of its rows.
fn write_table(
    file: &RunFile,
    table: &definition::Table,
    columns: &[Column],
    format: TableFormat,
    path: &Path,
    metadata: &[(&str, String)],
) -> Result<u64, ResultsError> {
    let failed = |source| not_written(path, source);
    let mut count = 0;
    replace(path, failed, |out| {
        let mut writer: Box<dyn RowWriter + '_> = match format {
            TableFormat::Csv => {
                let names = columns.iter().map(|column| column.name.as_bytes());
                Box::new(CsvTable::with_head(out, names).map_err(failed)?)
            }
            TableFormat::Parquet => {
                let parquet = ParquetTable::new(out, table.name, columns, metadata);
                Box::new(parquet.map_err(failed)?)
            }
        };
        rows::each(file, table, columns, &mut |row| {
            count += 1;
            writer.write(row).map_err(failed)
        })?;
        writer.finish().map_err(failed)
    })?;
    Ok(count)
}
