//! Arguments of `regatta export`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use regatta_results::tables::TableFormat;

use super::values::{Choices, choice, directory};

/// `regatta export`.
#[derive(Debug, ClapArgs)]
pub struct ExportArgs {
    /// Directory of the run, or its results file
    pub dir: PathBuf,
    /// Directory for the files; those of an earlier export are replaced [default: `export` in the directory of the run]
    #[arg(long, value_name = "DIR", value_parser = directory(), allow_hyphen_values = true)]
    pub out: Option<PathBuf>,
    /// Format of the tables; `parquet,csv` writes both
    #[arg(long, value_name = "FORMAT", value_delimiter = ',', default_value = "parquet", value_parser = choice(FORMATS))]
    pub format: Vec<TableFormat>,
}

/// Formats of exported tables.
const FORMATS: Choices<TableFormat> = &[
    ("parquet", "Apache Parquet", TableFormat::Parquet),
    ("csv", "Comma-separated values", TableFormat::Csv),
];
