//! `report.pdf`: the report as a paper, typeset by the program `regatta-typeset`.
//!
//! That program gets a template and the values of the page as one JSON text, and returns the PDF. It is a program of
//! its own because the typesetter is as large as all of Regatta, which is sent to hosts.

use regatta_model::shell::printable;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    ReportError, RunData, Summary,
    html::{self, figures},
    language,
};

/// Size of the pages, as Typst names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Paper {
    /// ISO A4.
    #[serde(rename = "a4")]
    A4,
    /// US letter.
    #[serde(rename = "us-letter")]
    Letter,
}

/// Returns the input of `regatta-typeset` for the report of a run, as JSON.
///
/// # Errors
/// [`ReportError::Json`] if the values of the page cannot be written as JSON: a fault of this crate.
pub fn job(data: &RunData, summary: &Summary, paper: Paper) -> Result<String, ReportError> {
    let mut figures = figures::all(data, summary);
    figures.each_panel(html::with_literal_colours);
    let template = include_str!("report.typ");
    let colours = html::colours().filter(|(name, _)| name.starts_with("--c"));
    let mut page = serde_json::to_value(html::contents(data, summary, &figures))?;
    page["paper"] = serde_json::to_value(paper)?;
    // Colours of the transports.
    page["colours"] = colours.map(|(_, value)| value).collect();
    // Texts of the template by their English ones, in the language of the report.
    page["messages"] = serde_json::to_value(language::of_template(template))?;
    let mut job = json!({
        "template": template,
        "page": page,
        "identity": data.header.run_id,
    });
    without_control_characters(&mut job);
    Ok(job.to_string())
}

/// Replaces the characters that neither the drawings nor a font can have, in all texts of a value.
fn without_control_characters(value: &mut Value) {
    match value {
        Value::String(text) => *text = printable(text),
        Value::Array(values) => values.iter_mut().for_each(without_control_characters),
        Value::Object(fields) => {
            fields.values_mut().for_each(without_control_characters);
        }
        _ => {}
    }
}
