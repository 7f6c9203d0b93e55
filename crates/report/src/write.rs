//! Files that a run writes beside its results file.

use std::{
    convert::identity,
    io::{self, Write},
    path::{Path, PathBuf},
};

use regatta_results::{Reader, ResultsError, exports, hosts_csv::HOSTS_FILE_NAME};

use crate::{
    HostTimeline, ReportError, RunData, Summary,
    compare::RunComparison,
    html,
    language::{self, Language},
    load,
    pdf::Form,
    summarise,
};

/// Written reports, and the data they were made from.
#[derive(Debug)]
pub struct Written {
    /// Data of the run.
    pub data: RunData,
    /// Summary of the run.
    pub summary: Summary,
    /// Paths of the files.
    pub files: Vec<PathBuf>,
}

/// Writes every report again from the results file of a directory: `trials.csv`, `series.csv`,
/// `summary.json`, `report.html`, and `hosts.csv` if the hosts were monitored. The page and the summary that is returned
/// are in the language of the thread ([`language::with`]).
///
/// Each file is written beside its place and then moved there, so that a reader sees the old one or
/// the new one.
///
/// # Errors
/// [`ReportError`] if the results cannot be read or a file cannot be written.
pub fn write_all(dir: &Path) -> Result<Written, ReportError> {
    let data = load(dir)?;
    let summary = summarise(&data);
    let files = write_files(&data, &summary, dir)?;
    Ok(Written {
        data,
        summary,
        files,
    })
}

/// Writes every report as [`write_all`] does, of a run that was read already. Returns the paths of the files.
///
/// # Errors
/// As [`write_all`].
pub fn write_files(
    data: &RunData,
    summary: &Summary,
    dir: &Path,
) -> Result<Vec<PathBuf>, ReportError> {
    // For machines: the same in every language.
    let english = (language::current() != Language::English)
        .then(|| language::with(Language::English, || summarise(data)));
    // The run was checked when it was read.
    Reader::unexamined(dir)
        .and_then(|reader| exports::write_exports(&reader, dir))
        .map_err(|error| match error {
            ResultsError::Export { path, source } => ReportError::Write { path, source },
            source => ReportError::of_results(dir, source),
        })?;
    let mut files = vec![
        dir.join(exports::TRIALS_FILE_NAME),
        dir.join(exports::SERIES_FILE_NAME),
        write_summary(english.as_ref().unwrap_or(summary), dir)?,
        write_html(data, summary, dir)?,
    ];
    if !data.hosts.is_empty() {
        files.push(dir.join(HOSTS_FILE_NAME));
    }
    Ok(files)
}

/// Writes `summary.json`.
///
/// # Errors
/// [`ReportError::Write`] if the file cannot be written.
pub fn write_summary(summary: &Summary, dir: &Path) -> Result<PathBuf, ReportError> {
    // Piece by piece: that of 20 000 cells has 100 MB.
    replace_by(&dir.join("summary.json"), |out| {
        serde_json::to_writer_pretty(&mut *out, summary)?;
        out.write_all(b"\n")
    })
}

/// Writes `report.html`.
///
/// # Errors
/// [`ReportError::Write`] if the file cannot be written; those of [`html::render`].
pub fn write_html(data: &RunData, summary: &Summary, dir: &Path) -> Result<PathBuf, ReportError> {
    replace(&dir.join("report.html"), &html::render(data, summary)?)
}

/// Writes the PDF of this form, which the typesetter has made.
///
/// # Errors
/// [`ReportError::Write`] if the file cannot be written.
pub fn write_pdf(pdf: &[u8], form: Form, dir: &Path) -> Result<PathBuf, ReportError> {
    replace(&dir.join(form.file_name()), pdf)
}

/// Writes a file of a figure into a directory.
///
/// # Errors
/// [`ReportError::Write`] if the file cannot be written.
pub fn write_figure_file(dir: &Path, name: &str, content: &[u8]) -> Result<PathBuf, ReportError> {
    replace(&dir.join(name), content)
}

/// Writes `monitor.html`, the figures of hosts without a run.
///
/// # Errors
/// [`ReportError::Write`] if the file cannot be written; those of [`html::monitor::render`].
pub fn write_monitor(hosts: &[HostTimeline], dir: &Path) -> Result<PathBuf, ReportError> {
    replace(&dir.join("monitor.html"), &html::monitor::render(hosts)?)
}

/// Writes the page of a comparison to this file.
///
/// # Errors
/// [`ReportError::Write`] if the file cannot be written; those of [`html::compare::render`].
pub fn write_comparison(comparison: &RunComparison, path: &Path) -> Result<PathBuf, ReportError> {
    replace(path, &html::compare::render(comparison)?)
}

fn replace(path: &Path, content: impl AsRef<[u8]>) -> Result<PathBuf, ReportError> {
    replace_by(path, |out| out.write_all(content.as_ref()))
}

/// Replaces a file by what `write` writes.
fn replace_by(
    path: &Path,
    write: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<()>,
) -> Result<PathBuf, ReportError> {
    regatta_results::replace(path, identity, write).map_err(|source| ReportError::Write {
        path: path.to_owned(),
        source,
    })?;
    Ok(path.to_owned())
}
