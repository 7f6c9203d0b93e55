//! Arguments of `regatta export`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

use super::directory;

/// `regatta export`.
#[derive(Debug, ClapArgs)]
pub struct ExportArgs {
    /// Directory of the run, or its results file
    pub dir: PathBuf,
    /// Directory for the files; those of an earlier export are replaced [default: `export` in the directory of the run]
    #[arg(long, value_name = "DIR", value_parser = directory(), allow_hyphen_values = true)]
    pub out: Option<PathBuf>,
    /// Format of the tables; `parquet,csv` writes both
    #[arg(
        long,
        value_name = "FORMAT",
        value_delimiter = ',',
        default_value = "parquet"
    )]
    pub format: Vec<ExportFormat>,
}

/// Format of exported tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// Apache Parquet.
    Parquet,
    /// Comma-separated values.
    Csv,
}
