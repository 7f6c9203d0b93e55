//! `report.html`: one self-contained page that opens from disk with no network.
//!
//! The template has the page's structure, `tables` the content of the tables, [`figures`] the
//! drawings. Everything that comes from a user (labels, reasons, study text) is escaped by the
//! template engine or, inside figures, by [`figures::escape`].

pub mod figures;
pub mod monitor;
mod tables;

use std::fmt::Write as _;

use minijinja::{
    AutoEscape, Environment,
    value::{Serde, Value},
};
use regatta_model::{
    METRICS, MetricDefinition, RunHeader, Study, shell::printable, units::format_duration,
};
use serde::Serialize;

use crate::{ReportError, RunData, Summary, format};

/// Renders the page.
///
/// # Errors
/// [`ReportError::Page`] if the template does not fit its data: a fault of this crate, not of the run.
pub fn render(data: &RunData, summary: &Summary) -> Result<String, ReportError> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.add_filter("code", |text: &str| Value::from_safe_string(code(text)));
    environment.add_template("report.html", include_str!("report.html"))?;
    let study = &data.header.study;
    let page = Page {
        style: include_str!("style.css"),
        header: &data.header,
        study,
        summary,
        started: format::moment(data.header.started_unix_ns),
        deadline: format_duration(study.deadline),
        sample_interval: format_duration(study.sample_interval),
        trials: data.trials.len(),
        builds: (summary.builds.iter())
            .map(|build| BuildText {
                hosts: (build.hosts.iter())
                    .map(|host| data.header.host_label(host))
                    .collect(),
                text: build.in_words(),
            })
            .collect(),
        figures: figures::all(data, summary),
        means: tables::means(data, summary),
        descriptions: tables::descriptions(data, summary),
        loss: tables::loss(data, summary),
        differences: tables::differences(data, summary),
        comparisons: tables::comparisons(data, summary),
        published: tables::published(data, summary),
        published_notes: tables::published_notes(summary),
        every_metric: tables::every_metric(data, summary),
        outcomes: tables::outcomes(data, summary),
        path: tables::path(summary),
        path_left_out: tables::path_left_out(summary),
        conditions: tables::conditions(data),
        transports: tables::transports(data),
        stacks: tables::stacks(data, summary),
        facts: tables::facts(data),
        hosts: tables::hosts(data),
        terms: METRICS
            .iter()
            .filter(|metric| {
                let mut cells = summary.cells.iter();
                cells.any(|cell| cell.metrics.contains_key(metric.name))
            })
            .collect(),
    };
    let page = environment
        .get_template("report.html")?
        .render(Serde(&page))?;
    // Texts of programs and foreign files may be copied from the page into a terminal.
    Ok(printable(&page))
}

/// Data of the template.
#[derive(Serialize)]
struct Page<'a> {
    style: &'static str,
    header: &'a RunHeader,
    study: &'a Study,
    summary: &'a Summary,
    started: String,
    deadline: String,
    sample_interval: String,
    trials: usize,
    builds: Vec<BuildText>,
    figures: figures::Figures,
    means: Vec<tables::Table>,
    descriptions: Vec<tables::Table>,
    loss: Vec<tables::Table>,
    differences: Vec<tables::Table>,
    comparisons: Vec<tables::Table>,
    published: Vec<tables::Table>,
    published_notes: Vec<String>,
    every_metric: Vec<tables::Table>,
    outcomes: tables::Table,
    path: tables::Table,
    path_left_out: usize,
    conditions: tables::Table,
    transports: tables::Table,
    stacks: tables::Table,
    facts: tables::Table,
    hosts: tables::Table,
    terms: Vec<&'static MetricDefinition>,
}

/// Description of a build.
#[derive(Serialize)]
struct BuildText {
    hosts: Vec<String>,
    text: String,
}

/// Escapes a sentence and marks text between backticks as code.
fn code(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    let mut out = String::with_capacity(text.len() + 32);
    for (position, part) in parts.iter().enumerate() {
        let part = figures::escape(part);
        // An odd backtick at the end has no partner and stays what it is.
        match (position % 2, position + 1 == parts.len()) {
            (1, false) => {
                let _ = write!(out, "<code>{part}</code>");
            }
            (1, true) => {
                let _ = write!(out, "`{part}");
            }
            _ => out.push_str(&part),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::code;

    #[test]
    fn backticks_become_code_and_nothing_gets_through() {
        assert_eq!(code("`a<b>` & c"), "<code>a&lt;b&gt;</code> &amp; c");
        assert_eq!(code("5 ` left"), "5 ` left");
        assert_eq!(code("`<script>`"), "<code>&lt;script&gt;</code>");
    }
}
