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
    exit::{Failure, OrFailure as _, Result, did_you_mean},
    output::typeset,
};

/// Writes each figure of a run, or the `named` ones, into a directory, and a list of them: SVG, CSV and text first, then
/// PDF and PNG by the typesetter.
///
/// # Errors
/// The report has no figure of a name; a file cannot be written; the typesetter is not there or fails.
pub fn write(
    data: &RunData,
    summary: &Summary,
    out: &Path,
    named: &[String],
    stop: &StopRequest,
) -> Result<()> {
    let figures = select(figure_files(data, summary), named)?;
    fs::create_dir_all(out)
        .cannot("make the directory", out)
        .hint("name a directory that can be written")?;
    let write = |name: String, content: &[u8]| -> Result<()> {
        write_figure_file(out, &name, content)?;
        Ok(())
    };
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

/// Returns the figures of these names; all if none is named.
fn select(mut figures: Vec<FigureFiles>, named: &[String]) -> Result<Vec<FigureFiles>> {
    let names: Vec<&str> = figures.iter().map(|figure| figure.name.as_str()).collect();
    if let Some(unknown) = named.iter().find(|name| !names.contains(&name.as_str())) {
        return Err(Failure::input(
            format!("the report of this run has no figure `{unknown}`"),
            format!(
                "{}it has {}",
                did_you_mean(unknown, &names),
                names.join(", ")
            ),
        ));
    }
    if !named.is_empty() {
        figures.retain(|figure| named.contains(&figure.name));
    }
    Ok(figures)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(named: &[&str]) -> Result<Vec<String>> {
        let figures =
            ["mean-goodput-bps", "time-goodput-bps", "box-goodput-bps"].map(|name| FigureFiles {
                name: name.to_owned(),
                title: String::new(),
                svg: String::new(),
                csv: String::new(),
                caption: String::new(),
                size_mm: [85.0, 50.0],
            });
        let named: Vec<String> = named.iter().map(|name| (*name).to_owned()).collect();
        let figures = select(figures.to_vec(), &named)?;
        Ok(figures.into_iter().map(|figure| figure.name).collect())
    }

    #[test]
    fn named_figures_are_written_and_no_others() {
        let names = |named: &[&str]| selected(named).map_err(|_| "refused");
        assert_eq!(names(&[]).map(|names| names.len()), Ok(3));
        let two = ["box-goodput-bps", "mean-goodput-bps"];
        // In the order of the report.
        assert_eq!(names(&two), Ok(vec![two[1].to_owned(), two[0].to_owned()]));
    }

    #[test]
    fn an_unknown_figure_is_refused_with_the_names_of_the_others() {
        let failure = selected(&["mean-goodput"]).expect_err("unknown");
        let (message, hint) = failure.message_and_hint();
        assert_eq!(
            message,
            "the report of this run has no figure `mean-goodput`"
        );
        assert!(
            hint.starts_with("did you mean `mean-goodput-bps`? it has mean-goodput-bps, time-"),
            "{hint}"
        );
    }
}
