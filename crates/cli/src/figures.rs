//! `regatta report --figures`: figures as files, to take into a paper.

use std::{fs, path::Path};

use regatta_process::StopRequest;
use regatta_report::{
    RunData, Summary,
    figure_files::{FigureFiles, INDEX_FILE_NAME, figure_files, index},
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
    convert_svg(data, &figures, stop, write).context(format!(
        "SVG, values and captions are in `{}`, but not PDF and PNG of every figure",
        out.display()
    ))
}

/// Writes PDF and PNG of figures.
fn convert_svg(
    data: &RunData,
    figures: &[FigureFiles],
    stop: &StopRequest,
    write: impl Fn(String, &[u8]) -> Result<()>,
) -> Result<()> {
    let program = typeset::required_program()?;
    for figure in figures {
        let name = format!("{}.pdf", figure.name);
        let job = figure.pdf_job(&data.header.run_id)?;
        let pdf = typeset::run(&program, &[], &job, &name, stop)?;
        write(name, &pdf)?;
        let name = format!("{}.png", figure.name);
        let job = figure.png_job()?;
        let png = typeset::run(&program, &["--png"], &job, &name, stop)?;
        write(name, &png)?;
    }
    Ok(())
}
