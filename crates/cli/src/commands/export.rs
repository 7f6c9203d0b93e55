//! `regatta export`.

use regatta_results::{
    Reader,
    tables::{DICTIONARY_FILE_NAME, DICTIONARY_PAGE_NAME, TableFormat, export_tables},
};

use crate::{
    args::ExportArgs,
    directory,
    exit::{Code, OrFailure as _, Result},
    output,
};

/// Runs `regatta export`.
///
/// # Errors
/// The results cannot be read, or a file cannot be written.
pub fn export(args: &ExportArgs) -> Result<Code> {
    let reader = Reader::open(&args.dir).bad()?;
    let default = || directory::of_run(&args.dir).join("export");
    let out = args.out.clone().unwrap_or_else(default);
    let mut formats: Vec<TableFormat> = Vec::new();
    for format in &args.format {
        if !formats.contains(format) {
            formats.push(*format);
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
