//! `regatta report --figures`: figures as files, to take into a paper.

use std::{fs, path::Path};

use regatta_process::StopRequest;
use regatta_report::{
    RunData, Summary,
    figure_files::{
        FigureFiles, INDEX_FILE_NAME, TYPESET_FORMATS, figure_files, index, typeset_job,
    },
    write_figure_file,
};

use crate::{
    exit::{OrFailure as _, Result},
    typeset,
};

/// Writes each figure of a run into a directory, and a list of them: SVG, CSV and text first, then PDF and PNG by the
/// typesetter.
///
/// # Errors
/// A file cannot be written; the typesetter is not there or fails.
pub fn write(data: &RunData, summary: &Summary, out: &Path, stop: &StopRequest) -> Result<()> {
    fs::create_dir_all(out)
        .cannot("make the directory", out)
        .hint("name a directory that can be written")?;
    let write = |name: String, content: &[u8]| -> Result<()> {
        write_figure_file(out, &name, content)?;
        Ok(())
    };
    let figures = figure_files(data, summary);
    for FigureFiles {
        name,
        svg,
        csv,
        caption,
        ..
    } in &figures
    {
        for (kind, content) in [("svg", svg), ("csv", csv), ("txt", caption)] {
            write(format!("{name}.{kind}"), content.as_bytes())?;
        }
    }
    write(INDEX_FILE_NAME.to_owned(), index(&figures).as_bytes())?;
    typeset_figures(data, &figures, stop, write).context(format!(
        "SVG, values and captions are in `{}`, but not PDF and PNG of every figure",
        out.display()
    ))
}

/// Writes PDF and PNG of figures.
fn typeset_figures(
    data: &RunData,
    figures: &[FigureFiles],
    stop: &StopRequest,
    write: impl Fn(String, &[u8]) -> Result<()>,
) -> Result<()> {
    let job = typeset_job(figures, data);
    let output = typeset::run(&typeset::required()?, &job, "the figures' PDF", stop)?;
    let names = figures
        .iter()
        .flat_map(|figure| TYPESET_FORMATS.map(|extension| format!("{}.{extension}", figure.name)));
    names
        .zip(typeset::files(&output)?)
        .try_for_each(|(name, content)| write(name, content))
}
