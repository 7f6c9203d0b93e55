//! `regatta export`.

use regatta_results::{
    Reader,
    tables::{DICTIONARY_FILE_NAME, DICTIONARY_PAGE_NAME, TableFormat, export_tables},
};

use crate::{
    args::{ExportArgs, ExportFormat},
    directory,
    exit::{Code, Failure, OrFailure as _},
    output,
};

/// Runs `regatta export`.
///
/// # Errors
/// The results cannot be read, or a file cannot be written.
pub fn export(args: &ExportArgs) -> Result<Code, Failure> {
    let reader = Reader::open(&args.dir).bad()?;
    let default = || directory::of_run(&args.dir).join("export");
    let out = args.out.clone().unwrap_or_else(default);
    let mut formats: Vec<TableFormat> = Vec::new();
    for format in &args.format {
        let format = match format {
            ExportFormat::Parquet => TableFormat::Parquet,
            ExportFormat::Csv => TableFormat::Csv,
        };
        if !formats.contains(&format) {
            formats.push(format);
        }
    }
    let tables = export_tables(&reader, &out, &formats)?;
    let mut text = String::new();
    for table in tables {
        let path = out.join(&table.file);
        text.push_str(&format!("{} ({} rows)\n", path.display(), table.rows));
    }
    for dictionary in [DICTIONARY_FILE_NAME, DICTIONARY_PAGE_NAME] {
        text.push_str(&format!("{}\n", out.join(dictionary).display()));
    }
    output::show(&text)
}
