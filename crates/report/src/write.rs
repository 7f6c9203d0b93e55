//! The files that a run leaves beside its results file.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use regatta_results::Reader;

use crate::{ReportError, RunData, Summary, html, load, summarise};

/// What was written, and what it said.
#[derive(Debug)]
pub struct Written {
    /// The run.
    pub data: RunData,
    /// Its summary.
    pub summary: Summary,
    /// The files.
    pub files: Vec<PathBuf>,
}

/// Makes every report again from the results file of a directory: `trials.csv`, `series.csv`,
/// `summary.json`, `report.html`.
///
/// Each file is written beside its place and then moved there, so that a reader sees the old one
/// or the new one.
///
/// # Errors
/// [`ReportError`] if the results cannot be read or a file cannot be written.
pub fn write_all(dir: &Path) -> Result<Written, ReportError> {
    let data = load(dir)?;
    let summary = summarise(&data);
    let results = |source| ReportError::Results {
        dir: dir.to_owned(),
        source: Box::new(source),
    };
    let reader = Reader::open(dir).map_err(results)?;
    regatta_results::exports::write_exports(&reader, dir).map_err(results)?;
    let files = vec![
        dir.join("trials.csv"),
        dir.join("series.csv"),
        write_summary(&summary, dir)?,
        write_html(&data, &summary, dir)?,
    ];
    Ok(Written {
        data,
        summary,
        files,
    })
}

/// Writes `summary.json`.
///
/// # Errors
/// [`ReportError::Write`] if the file cannot be written.
pub fn write_summary(summary: &Summary, dir: &Path) -> Result<PathBuf, ReportError> {
    let mut text = serde_json::to_string_pretty(summary)?;
    text.push('\n');
    replace(&dir.join("summary.json"), &text)
}

/// Writes `report.html`.
///
/// # Errors
/// [`ReportError::Write`] if the file cannot be written; those of [`html::render`].
pub fn write_html(data: &RunData, summary: &Summary, dir: &Path) -> Result<PathBuf, ReportError> {
    replace(&dir.join("report.html"), &html::render(data, summary)?)
}

fn replace(path: &Path, text: &str) -> Result<PathBuf, ReportError> {
    let attempt = || -> io::Result<()> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.tmp", std::process::id()));
        let beside = path.with_file_name(name);
        let written = fs::File::create(&beside)
            .and_then(|mut file| {
                file.write_all(text.as_bytes())?;
                file.sync_all()
            })
            .and_then(|()| fs::rename(&beside, path));
        if written.is_err() {
            // The first error is the one to tell; a leftover is no second one.
            let _ = fs::remove_file(&beside);
        }
        written
    };
    attempt().map_err(|source| ReportError::Write {
        path: path.to_owned(),
        source,
    })?;
    Ok(path.to_owned())
}
