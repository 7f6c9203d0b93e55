//! `report.pdf`: the report as a paper, typeset by a program in Python with the package `typst`.
//!
//! That program gets a template and the values of the page as JSON, and returns the PDF ([`Typesetter`]). Typst is a
//! package beside Regatta because it is larger than all of Regatta, which is sent to hosts.

mod typesetter;

use regatta_model::shell::printable;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    ReportError, RunData, Summary,
    html::{self, figures},
    language,
};

pub use self::typesetter::{Typesetter, files};

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

/// Length of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// All figures, tables and terms.
    Full,
    /// Two pages: the answer, one figure and the main table; conditions, warnings and method.
    Brief,
}

/// Values of the page that the short form shows.
const OF_BRIEF: [&str; 19] = [
    "answer",
    "answer_note",
    "language",
    "study",
    "summary",
    "header",
    "started",
    "bed",
    "rounds",
    "sweep_sentences",
    "plain",
    "gates",
    "claims",
    "claims_line",
    "sweeps",
    "means",
    "warnings",
    "conditions",
    "method",
];

impl Form {
    /// Returns the name of the file in the directory of a run.
    #[must_use]
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::Full => "report.pdf",
            Self::Brief => "brief.pdf",
        }
    }

    /// Returns the template: the common parts, then those of the form.
    const fn template(self) -> &'static str {
        match self {
            Self::Full => concat!(include_str!("parts.typ"), include_str!("report.typ")),
            Self::Brief => concat!(include_str!("parts.typ"), include_str!("brief.typ")),
        }
    }
}

/// Returns the job of the typesetter for the report of a run, as JSON.
///
/// # Errors
/// [`ReportError::Json`] if the values of the page cannot be written as JSON: a fault of this crate.
pub fn job(
    data: &RunData,
    summary: &Summary,
    paper: Paper,
    form: Form,
) -> Result<String, ReportError> {
    let mut figures = figures::all(data, summary);
    figures.each_panel(html::with_literal_colours);
    // Metrics are defined in the list of terms at the end.
    figures.define_once(true);
    let template = form.template();
    let colours = html::colours().filter(|(name, _)| name.starts_with("--c"));
    let mut page = serde_json::to_value(html::contents(data, summary, &figures))?;
    if let (Form::Brief, Value::Object(values)) = (form, &mut page) {
        let figure = figures.all().next();
        let terms = serde_json::to_value(html::main_terms(data, summary))?;
        values.retain(|name, _| OF_BRIEF.contains(&name.as_str()));
        values.insert(
            "figures".to_owned(),
            json!({ "headline": Vec::from_iter(figure) }),
        );
        values.insert("terms".to_owned(), terms);
    }
    page["paper"] = serde_json::to_value(paper)?;
    // Colours of the transports.
    page["colours"] = colours.map(|(_, value)| value).collect();
    // Texts of the template by their English ones, in the language of the report.
    page["messages"] = serde_json::to_value(language::of_template(template))?;
    without_control_characters(&mut page);
    let document = document(template, &page, data, &["pdf"]);
    Ok(job_of(&[document]).to_string())
}

/// Resolution of PNG, in dots per inch.
const DOTS_PER_INCH: f64 = 600.0;

/// Returns a document of a job: a template, the content of its `page.json`, and the formats in which it is wanted. Its
/// time is the run's, so that the same results give the same bytes.
pub(crate) fn document(template: &str, page: &Value, data: &RunData, formats: &[&str]) -> Value {
    json!({
        "template": template,
        "page": page,
        "formats": formats,
        "unix_time_s": data.header.started_unix_ns / 1_000_000_000,
    })
}

/// Returns a job of the typesetter.
pub(crate) fn job_of(documents: &[Value]) -> Value {
    json!({ "documents": documents, "dots_per_inch": DOTS_PER_INCH })
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
