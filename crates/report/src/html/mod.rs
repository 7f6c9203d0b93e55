//! `report.html`: one self-contained page that opens from disk with no network.
//!
//! The template has the page's structure, `tables` the content of the tables, [`figures`] the
//! drawings. Everything that comes from a user (labels, reasons, study text) is escaped by the
//! template engine or, inside figures, by [`figures::escape`].

pub mod compare;
pub mod figures;
pub mod monitor;
mod tables;

use std::{collections::BTreeSet, fmt::Write as _};

use crate::{
    ReportError, RunData, Summary,
    analysis::{ConditionVerdict, SweepResult},
    format,
};
use figures::Figures;
use minijinja::{
    AutoEscape, Environment, context,
    value::{Serde, Value},
};
use regatta_model::{METRICS, MetricDefinition, shell::printable, units::format_duration};

/// Style of the pages.
const STYLE: &str = include_str!("style.css");

/// Renders the page.
///
/// # Errors
/// [`ReportError::Page`] if the template does not fit its data: a fault of this crate, not of the run.
pub fn render(data: &RunData, summary: &Summary) -> Result<String, ReportError> {
    let figures = figures::all(data, summary);
    fill(
        include_str!("report.html"),
        contents(data, summary, &figures),
    )
}

/// Returns the colours of the light page: names of CSS variables, and their values.
pub(crate) fn colours() -> impl Iterator<Item = (&'static str, &'static str)> {
    let light = STYLE.split('}').next().unwrap_or_default();
    (light.split([';', '{'])).filter_map(|declaration| {
        let (name, value) = declaration.trim().split_once(": ")?;
        value.starts_with('#').then_some((name, value))
    })
}

/// Returns what the templates of page and paper show.
pub(crate) fn contents(data: &RunData, summary: &Summary, figures: &Figures) -> Value {
    let study = &data.header.study;
    let occurs = |metric: &&MetricDefinition| {
        let mut cells = summary.cells.iter();
        cells.any(|cell| cell.metrics.contains_key(metric.name))
    };
    let terms: Vec<&MetricDefinition> = METRICS.iter().filter(occurs).collect();
    context! {
        style => STYLE,
        header => Serde(&data.header),
        study => Serde(study),
        summary => Serde(summary),
        started => format::moment(data.header.started_unix_ns),
        deadline => format_duration(study.deadline),
        sample_interval => format_duration(study.sample_interval),
        trials => data.trials.len(),
        builds => (summary.builds.iter())
            .map(|build| {
                let hosts = build.hosts.iter().map(|host| data.header.host_label(host));
                context! { hosts => Serde(hosts.collect::<Vec<String>>()), text => build.in_words() }
            })
            .collect::<Vec<Value>>(),
        figures => Serde(figures),
        sweeps => Serde(tables::sweeps(data, summary)),
        sweep_sentences => Serde(sentences(summary)),
        plain => Serde(plain_verdicts(data, summary)),
        means => Serde(tables::means(data, summary)),
        descriptions => Serde(tables::descriptions(data, summary)),
        loss => Serde(tables::loss(data, summary)),
        differences => Serde(tables::differences(data, summary)),
        comparisons => Serde(tables::comparisons(data, summary)),
        published => Serde(tables::published(data, summary)),
        published_notes => Serde(tables::published_notes(summary)),
        every_metric => Serde(tables::every_metric(data, summary)),
        outcomes => Serde(tables::outcomes(data, summary)),
        path => Serde(tables::path(data, summary)),
        path_left_out => Serde(tables::path_left_out(data, summary)),
        conditions => Serde(tables::conditions(data)),
        transports => Serde(tables::transports(data)),
        stacks => Serde(tables::stacks(data, summary)),
        facts => Serde(tables::facts(data)),
        hosts => Serde(tables::hosts(data)),
        terms => Serde(terms),
    }
}

/// Returns the sentences about the sweeps, each with the place that it is about if there are several.
fn sentences(summary: &Summary) -> Vec<String> {
    let primary = summary.sweeps.iter().filter(|sweep| sweep.is_primary);
    let is_single = primary.clone().count() == 1;
    let of_sweep = |sweep: &SweepResult| {
        let heading = sweep.heading(summary);
        let named = move |sentence: &String| match is_single {
            true => format!("{}.", format::capital(sentence)),
            false => format!("{}: {sentence}.", format::capital(&heading)),
        };
        sweep.sentences.iter().map(named).collect::<Vec<_>>()
    };
    primary.flat_map(of_sweep).collect()
}

/// Returns the verdicts of the places that belong to no sweep.
fn plain_verdicts<'a>(data: &RunData, summary: &'a Summary) -> Vec<&'a ConditionVerdict> {
    let swept: BTreeSet<(&str, &str)> = (data.groups())
        .filter(|group| group.is_swept)
        .map(|group| (&*group.condition.name, &*group.workload.name))
        .collect();
    let verdicts = summary.verdict.conditions.iter();
    verdicts
        .filter(|it| !swept.contains(&(&*it.condition, &*it.workload)))
        .collect()
}

/// Fills a template with the parts of a page.
fn fill(template: &str, page: Value) -> Result<String, ReportError> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.add_filter("code", |text: &str| Value::from_safe_string(code(text)));
    environment.add_template("page.html", template)?;
    let text = environment.get_template("page.html")?.render(page)?;
    // Texts of programs and foreign files may be copied from the page into a terminal.
    Ok(printable(&text))
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
