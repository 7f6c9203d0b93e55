//! `report.html`: one self-contained page that opens from disk with no network.
//!
//! The template has the page's structure, `tables` the content of the tables, [`figures`] the
//! drawings. Everything that comes from a user (labels, reasons, study text) is escaped by the
//! template engine or, inside figures, by [`figures::escape`].

pub mod compare;
pub mod figures;
mod hosts_tuning;
pub mod monitor;
mod published_kernel;
mod tables;

use std::collections::BTreeMap;

use crate::{
    ReportError, RunData, Summary,
    analysis::{CountedWarning, Gate, SweepResult, claims_line},
    format,
    language::{self, plural, quantity, tr},
};
use figures::{Figures, Styles};
use itertools::Itertools as _;
use minijinja::{
    AutoEscape, Environment, context,
    value::{Serde, Value},
};
use regatta_model::{
    METRICS, MetricDefinition, Study, Until, metric, shell::printable, units::format_duration,
};
use regatta_results::RunState;
use serde::Serialize;

/// Style of the pages.
const STYLE: &str = include_str!("style.css");

/// Script of the pages: values, filters, zoom, sorting. The pages are whole without.
const SCRIPT: &str = include_str!("page.js");

/// Parts that the pages share.
const PARTS: [(&str, &str); 5] = [
    ("marks.html", include_str!("marks.html")),
    ("drawings.html", include_str!("drawings.html")),
    ("head.html", include_str!("head.html")),
    ("controls.html", include_str!("controls.html")),
    ("foot.html", include_str!("foot.html")),
];

/// Renders the page.
///
/// # Errors
/// [`ReportError::Page`] if the template does not fit its data: a fault of this crate, not of the run.
pub fn render(data: &RunData, summary: &Summary) -> Result<String, ReportError> {
    let mut figures = figures::all(data, summary);
    figures.define_once(false);
    fill(
        include_str!("report.html"),
        contents(data, summary, &figures),
    )
}

/// Returns the colours of the light page: names of CSS variables, and their values.
pub(crate) fn colours() -> impl Iterator<Item = (&'static str, &'static str)> {
    let root = STYLE.split('}').next().unwrap_or_default();
    (root.split([';', '{'])).filter_map(|declaration| {
        let (name, value) = declaration.trim().split_once(": light-dark(")?;
        Some((name, value.split(',').next()?))
    })
}

/// Returns the variables `--c0` to `--c11`, the colours of transports in light and dark, as a rule of CSS.
#[must_use]
pub fn palette() -> String {
    let root = STYLE.split('}').next().unwrap_or_default();
    let declarations = root.split([';', '{']).map(str::trim);
    let colours = declarations.filter(|it| it.starts_with("--c"));
    format!(
        ":root {{ {} }}\n",
        colours.map(|it| format!("{it};")).join(" ")
    )
}

/// Returns the colour and the mark of each transport of a study in its report: the number of a variable of [`palette`],
/// and the position of the mark among `●■▲◆▼✚▬`.
#[must_use]
pub fn colours_and_marks(study: &Study) -> BTreeMap<&str, [usize; 2]> {
    let styles = Styles::of_study(study);
    let labels = study.transports.iter().map(|it| it.label.as_str());
    let styled = labels.map(|label| (label, figures::colour_and_mark(styles.get(label))));
    styled.collect()
}

/// Replaces the CSS variables of a drawing by the colours of the light page, and names its font: programs other than
/// browsers know neither.
pub(crate) fn with_literal_colours(panel: &mut String) {
    for (name, value) in colours() {
        *panel = panel.replace(&format!("\"var({name})\""), &format!("\"{value}\""));
    }
    *panel = panel.replacen(
        "<svg ",
        "<svg xmlns=\"http://www.w3.org/2000/svg\" font-family=\"Noto Sans, DejaVu Sans\" ",
        1,
    );
}

/// Thing that a reader can switch off.
#[derive(Debug, Serialize)]
struct Switch<'a> {
    name: &'a str,
    /// Style of a transport, for its mark; `-1` for other things.
    series: i64,
}

/// Transports and conditions that a reader can switch off.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    transports: Vec<Switch<'a>>,
    conditions: Vec<Switch<'a>>,
}

impl<'a> Shown<'a> {
    fn new(
        transports: impl IntoIterator<Item = (i64, &'a str)>,
        conditions: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let switch = |(series, name)| Switch { name, series };
        let transports = transports.into_iter().unique_by(|(_, name)| *name);
        let conditions = conditions.into_iter().unique().map(|name| (-1, name));
        Self {
            transports: transports.map(switch).collect(),
            conditions: conditions.map(switch).collect(),
        }
    }

    /// Returns the switches of a report: for transports and conditions outside of sweeps, and for the lines of sweeps.
    fn of_report(data: &'a RunData, summary: &'a Summary) -> Self {
        let study = &data.header.study;
        let styles = Styles::of(data);
        let transports = study.transports.iter().map(|it| it.label.as_str());
        let plain = transports.filter(|label| !data.has_swept_quantity(label));
        let lines = figures::sweep_lines(summary);
        let transports = plain.chain(lines);
        Self::new(
            transports.map(|label| (styles.get(label) as i64, label)),
            (data.plain_groups()).map(|group| group.condition.name.as_str()),
        )
    }
}

/// Returns the data of the templates, for page and paper.
pub(crate) fn contents(data: &RunData, summary: &Summary, figures: &Figures) -> Value {
    let study = &data.header.study;
    let occurs = |metric: &&MetricDefinition| {
        let mut cells = summary.cells.iter();
        cells.any(|cell| cell.metrics.contains_key(metric.name))
    };
    let styles = Styles::of(data);
    let marks = study.transports.iter().map(|transport| Switch {
        name: &transport.label,
        series: styles.get(&transport.label) as i64,
    });
    let marks: Vec<Switch<'_>> = marks.collect();
    context! {
        shown => Serde(Shown::of_report(data, summary)),
        marks => Serde(marks),
        // Of these the templates show no more; a sweep has thousands of cells, comparisons and conditions.
        header => context! {
            run_id => &*data.header.run_id,
            regatta_version => &*data.header.regatta_version,
            study_text => &*data.header.study_text,
        },
        study => context! {
            name => &*study.name,
            title => &*study.title,
            description => &*study.description,
            source => Serde(published_kernel::with_difference(data)),
            seed => study.seed,
        },
        summary => context! {
            statistics => context! { method => &summary.statistics.method },
            verdict => context! {
                headline => &summary.verdict.headline,
                overall => &*summary.verdict.overall,
                workloads => &summary.verdict.workloads,
            },
        },
        language => language::current().tag(),
        bed => language::shown(&data.header.bed),
        started => format::moment(data.header.started_unix_ns),
        rounds => plural!(u64::from(summary.rounds), "{} round", "{} rounds"),
        method => method(data, summary),
        tuning => hosts_tuning::sentences(data),
        zeros => figures.about_zeros(),
        resume => matches!(data.state, RunState::Interrupted { .. })
            .then(|| tr!("`regatta resume DIR` goes on with the run.")),
        again => tr!(
            "Save the text below as `study.toml` and type `regatta run study.toml --seed {}`. The same seed gives the same order of trials and the same path.",
            study.seed
        ),
        published_in => published_in(data),
        every_pair => tr!(
            "A ratio above 1 means that the first has more of the metric, over the rounds that both have. The conclusion says whether that is better. All tests of the run are corrected together ({} of them); each interval is at the level at which its claim was decided. Detectable is the smallest ratio that the rounds would show with a power of 80 %.",
            summary.statistics.tests
        ),
        builds => builds(data, summary),
        gates => summary.gates.iter().map(gate).collect::<Vec<Value>>(),
        warnings => summary.warnings.iter().map(warning).collect::<Vec<Value>>(),
        figures => Serde(figures),
        claims => Serde(tables::claims(data, summary)),
        claims_line => claims_line(&summary.claims).unwrap_or_default(),
        sweeps => Serde(tables::sweeps(data, summary)),
        sweep_sentences => Serde(sentences(summary)),
        plain => Serde(summary.verdict.outside_of_sweeps(data)),
        answer => Serde(tables::answer(data, summary)),
        telling => Serde(Vec::from_iter(tables::telling(summary))),
        answer_note => match summary.verdict.conditions.iter().any(|it| it.ranking.len() > 1) {
            true => tr!(
                "Means of the rounds, the best first, geometric of what transports are compared by (goodput, requests, delays, times to an answer), arithmetic of the rest. The first is ahead by the ratio over the rounds that both have; all these intervals hold together with a probability of 95 %."
            ),
            false => tr!("Means of the rounds, geometric of what transports are compared by (goodput, requests, delays, times to an answer), arithmetic of the rest."),
        },
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
        path_left_out => match tables::unlisted_path_checks(data, summary) {
            0 => String::new(),
            left_out => plural!(
                left_out as u64,
                "{} further check, within tolerance, is in `summary.json`.",
                "{} further checks, all within tolerance, are in `summary.json`."
            ),
        },
        conditions => Serde(tables::conditions(data)),
        transports => Serde(tables::transports(data)),
        stacks => Serde(tables::stacks(data, summary)),
        facts => Serde(tables::facts(data)),
        hosts => Serde(tables::hosts(data)),
        terms => METRICS.iter().filter(occurs).map(term).collect::<Vec<Value>>(),
    }
}

/// Returns the definitions of the metrics in the main table: those of the rankings, and of its other columns, each after
/// the mean to whose samples it refers.
pub(crate) fn main_terms(data: &RunData, summary: &Summary) -> Vec<Value> {
    let study = &data.header.study;
    let primary = study.workloads.iter().map(|it| study.primary_metric(it));
    let occurs = |name: &&str| {
        let mut cells = summary.cells.iter();
        cells.any(|cell| cell.metrics.contains_key(*name))
    };
    let metrics = primary.chain(tables::columns()).filter(occurs);
    let metrics = metrics.filter_map(metric::find);
    let with_mean = metrics.flat_map(|metric| figures::mean_of(metric).into_iter().chain([metric]));
    with_mean
        .unique_by(|metric| metric.name)
        .map(term)
        .collect()
}

/// Returns the definition of a metric as the templates show it.
fn term(metric: &MetricDefinition) -> Value {
    context! {
        title => language::text(metric.title),
        name => metric.name,
        unit => metric.unit.name(),
        definition => language::text(metric.definition),
    }
}

/// Describes the course of the run.
fn method(data: &RunData, summary: &Summary) -> String {
    let study = &data.header.study;
    let until = match study.until {
        Some(Until::Narrow(_)) => tr!(
            " (of at most {}: the run ended when every interval of the metric of the ranking was narrow enough, whoever led)",
            study.rounds
        ),
        Some(Until::Decided) => tr!(
            " (of at most {}: the run ends when the leader of each condition and workload is decided against every other transport; claims by the metric of the ranking hold at any end)",
            study.rounds
        ),
        None => String::new(),
    };
    tr!(
        "Every transport ran under every condition once in each of {} rounds{}, in an order drawn anew for each round from the seed {}, so that drift of the machine meets all of them alike. {} of {} planned trials were saved. A transfer may take {}; series were sampled every {}. The clock of a transfer starts with the first connect call and stops when the receiver's acknowledgement of the whole volume has arrived; the receiver counts what was delivered.",
        summary.rounds,
        until,
        study.seed,
        data.trials.len(),
        summary.state.trials_planned,
        quantity(format_duration(study.deadline)),
        quantity(format_duration(study.sample_interval))
    )
}

/// Names the publication of a study; empty if it has none.
fn published_in(data: &RunData) -> String {
    let Some(source) = &data.header.study.source else {
        return String::new();
    };
    let doi = source.doi.as_ref().map(|doi| format!(", doi:{doi}"));
    let doi = doi.unwrap_or_default();
    tr!("Published in: {}{}.", source.citation, doi)
}

/// Describes the builds of the program, and which host had which.
fn builds(data: &RunData, summary: &Summary) -> Vec<String> {
    let version = &data.header.regatta_version;
    let of_build = |build: &crate::analysis::Build| {
        let labels = build.hosts.iter().map(|host| data.header.host_label(host));
        let labels = labels.map(|label| language::text(&label).to_owned());
        let hosts = match summary.builds.len() {
            1 => String::new(),
            _ => tr!(" at the {}", format::list(labels)),
        };
        let build = build.text();
        tr!("Regatta {}{} was built of {}.", version, hosts, build)
    };
    summary.builds.iter().map(of_build).collect()
}

/// Returns a gate as the templates show it.
fn gate(gate: &Gate) -> Value {
    let name = gate.name.replace('_', " ");
    context! {
        name => language::text(&name),
        passed => gate.passed,
        not_judged => gate.not_judged,
        detail => &*gate.detail,
    }
}

/// Returns a warning as the templates show it.
fn warning(counted: &CountedWarning) -> Value {
    let code = counted.warning.code.replace('_', " ");
    context! {
        title => language::text(&code),
        trials => match counted.trials {
            0 => String::new(),
            trials => plural!(trials, " in {} trial", " in {} trials"),
        },
        message => &*counted.warning.message,
        further => match counted.trials {
            0 | 1 => String::new(),
            _ => tr!(" (the first of them)"),
        },
        hint => &*counted.warning.hint,
        cells => Serde(&counted.cells),
    }
}

/// Returns the sentences about the sweeps, each with the sweep that it is about if there are several.
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

/// Fills a template with the parts of a page.
fn fill(template: &str, page: Value) -> Result<String, ReportError> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.add_function("t", |text: &str| language::text(text).to_owned());
    environment.add_filter("code", |text: &str| Value::from_safe_string(code(text)));
    environment.add_global("style", STYLE);
    environment.add_global("script", SCRIPT);
    for (name, part) in PARTS {
        environment.add_template(name, part)?;
    }
    environment.add_template("page.html", template)?;
    let text = environment.get_template("page.html")?.render(page)?;
    // Texts of programs and foreign files may be copied from the page into a terminal.
    Ok(printable(&text))
}

/// Escapes a sentence and marks text between backticks as code.
fn code(text: &str) -> String {
    let last = text.matches('`').count();
    let parts = text.split('`').map(figures::escape).enumerate();
    let marked = parts.map(|(position, part)| match position % 2 {
        0 => part,
        // An odd backtick at the end has no partner and stays what it is.
        _ if position == last => format!("`{part}"),
        _ => format!("<code>{part}</code>"),
    });
    marked.collect()
}

#[cfg(test)]
mod tests {
    use super::code;

    #[test]
    fn backticks_become_code_and_markup_is_escaped() {
        assert_eq!(code("`a<b>` & c"), "<code>a&lt;b&gt;</code> &amp; c");
        assert_eq!(code("5 ` left"), "5 ` left");
        assert_eq!(code("`<script>`"), "<code>&lt;script&gt;</code>");
    }
}
