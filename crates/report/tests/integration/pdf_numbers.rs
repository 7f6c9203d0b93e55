//! Every number of `report.pdf` is in `summary.json`, formatted in the same way, or stated by the study and the
//! environment.
//!
//! The text of the PDF is cut into the cells of its tables, in their order, and the rest. The numbers of a cell must
//! be those that `summary.json` has of the cell's transport, condition and metric; those of the rest must be of the
//! verdict, or stated. Axes of figures are left out: they are no results.

use std::{collections::BTreeSet, fmt::Write as _};

use regatta_model::{METRICS, MetricDefinition, metric};
use regatta_report::{
    RunData, Summary,
    analysis::{Claim, MetricSummary},
    format::{
        Scale, difference, number, p_value, ratio_end, ratio_number, signed_percent, with_interval,
    },
    pdf::Paper,
    summarise,
};
use serde_json::Value;

use crate::{
    common,
    common::paper::{document, run, typeset_document},
};

/// Tables whose cells are looked up in `summary.json`.
const TABLES: [&str; 9] = [
    "means",
    "published",
    "differences",
    "loss",
    "outcomes",
    "path",
    "comparisons",
    "descriptions",
    "every_metric",
];

/// Tables of the study and the environment, without results.
const STATED: [&str; 5] = ["conditions", "transports", "stacks", "facts", "hosts"];

/// Scales of values in tables: divisors of the stored values.
const DIVISORS: [f64; 5] = [1.0, 1e3, 1e6, 1e9, 0.01];

/// Returns the numbers of a text: digits, with a decimal point and an exponent if there are any.
fn numbers(text: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let characters: Vec<char> = text.chars().chain([' ', ' ']).collect();
    for window in characters.windows(2) {
        let number = found.last_mut().expect("one");
        let (c, next) = (window[0], window[1]);
        let continues = match c {
            '0'..='9' => true,
            '.' => next.is_ascii_digit() && !number.contains('.'),
            'e' => next == '-' && number.contains('.'),
            '-' => number.ends_with('e'),
            _ => false,
        };
        if continues && (c.is_ascii_digit() || !number.is_empty()) {
            number.push(c);
        } else if !number.is_empty() {
            found.push(String::new());
        }
    }
    found.retain(|number| !number.is_empty());
    found
}

/// Numbers as they may be written.
#[derive(Default)]
struct Allowed(BTreeSet<String>);

impl Allowed {
    fn add(&mut self, text: impl AsRef<str>) {
        self.0.extend(numbers(text.as_ref()));
    }

    fn scaled(&mut self, values: impl IntoIterator<Item = f64>, divisors: &[f64]) {
        for value in values {
            for divisor in divisors {
                self.add(number(value / divisor));
            }
        }
    }

    /// Adds the values of a metric of one cell.
    fn metric(&mut self, of: &MetricSummary, divisors: &[f64]) {
        let pairs = [of.ci95, of.geometric_ci95].into_iter().flatten().flatten();
        let all = of.of_all.as_ref();
        let pairs = pairs.chain(all.and_then(|all| all.ci95).into_iter().flatten());
        let single = [of.sd, of.geometric_mean, all.map(|all| all.mean)]
            .into_iter()
            .flatten();
        let values = [of.mean, of.median, of.q1, of.q3, of.min, of.max];
        self.scaled(values.into_iter().chain(pairs).chain(single), divisors);
        self.scaled(of.cv, &[0.01]);
        self.add(of.n.to_string());
    }

    /// Adds a claim as tables and sentences write it.
    fn claim(&mut self, claim: &Claim) {
        let ends = claim.interval.into_iter().flatten();
        if let Some((ratio, [low, high])) = claim.ratio.zip(claim.interval) {
            let change = |ratio: f64| (ratio - 1.0) * 100.0;
            // Seen from either side, as a ratio and as a change.
            for (ratio, ends) in [(ratio, [low, high]), (1.0 / ratio, [1.0 / high, 1.0 / low])] {
                let [low, high] = ends.map(change);
                for (estimate, ends) in [
                    (ratio, ends),
                    (change(ratio), [low, high]),
                    (-change(ratio), [-high, -low]),
                ] {
                    with_interval(estimate, ends)
                        .iter()
                        .for_each(|text| self.add(text));
                }
            }
        }
        for ratio in claim.ratio.into_iter().chain(ends) {
            self.scaled([ratio, (ratio - 1.0) * 100.0], &[1.0]);
            // Ratios beyond a thousandfold are written as a bound.
            self.add(signed_percent(ratio - 1.0));
            self.add(ratio_end(ratio, number));
            // In a sentence the better one is first.
            for ratio in [ratio, 1.0 / ratio] {
                self.add(ratio_number(ratio));
                for decimals in 1..=4 {
                    self.add(format!("{ratio:.decimals$}"));
                }
            }
        }
        if let Some(ratio) = claim.detectable_ratio {
            self.add(ratio_end(ratio, number));
            self.add(ratio_end(ratio, ratio_number));
            self.add(difference(ratio));
        }
        self.add(claim.p_adjusted.map_or(String::new(), p_value));
        self.add(format!("{:.4}", claim.confidence * 100.0).trim_end_matches('0'));
        self.add(claim.n.to_string());
    }

    /// Adds all numbers of a value of JSON, those in its texts included.
    fn stated(&mut self, value: &Value) {
        match value {
            Value::Number(number) => self.add(number.to_string()),
            Value::String(text) => self.add(text),
            Value::Array(values) => values.iter().for_each(|value| self.stated(value)),
            Value::Object(fields) => {
                for (name, value) in fields {
                    self.add(name);
                    self.stated(value);
                }
            }
            _ => {}
        }
    }
}

/// Returns the metric whose title begins this text, with the divisor of the unit after it.
fn metric_of(text: &str) -> Option<(&'static MetricDefinition, f64)> {
    let text = text.to_lowercase();
    let titled = METRICS.iter().filter(|metric| {
        let rest = text.strip_prefix(&metric.title.to_lowercase());
        rest.is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
    });
    let metric = titled.max_by_key(|metric| metric.title.len())?;
    let unit = text[metric.title.len()..]
        .trim_start_matches(", ")
        .to_owned();
    let scales = [1.0, 1e4, 1e7, 1e10].map(|largest| Scale::for_largest(metric.unit, largest));
    let scale = scales
        .iter()
        .find(|scale| !scale.unit.is_empty() && unit.starts_with(&scale.unit.to_lowercase()));
    Some((
        metric,
        scale.map_or(scales[0].divisor, |scale| scale.divisor),
    ))
}

/// Returns the name between the first backticks.
fn quoted(text: &str) -> &str {
    text.split('`').nth(1).unwrap_or_default()
}

impl Allowed {
    /// Adds the values of the comparison of a pair under a condition, in the metric that the caption names.
    fn comparison(
        &mut self,
        summary: &Summary,
        condition: &str,
        [a, b]: [&str; 2],
        caption: &str,
        head: &str,
    ) {
        let (metric, _) = metric_of(caption).expect("a metric");
        let found = summary
            .comparisons
            .iter()
            .find(|it| {
                it.a == a && it.b == b && it.metric == metric.name && it.condition == condition
            })
            .expect("a comparison");
        self.claim(&found.claim);
        let means = [found.mean_a, found.mean_b];
        let unit = ["first", "second"]
            .iter()
            .find_map(|it| head.strip_prefix(it));
        let scale = unit.and_then(|unit| metric_of(&format!("{}{unit}", metric.title)));
        if let Some((_, divisor)) = scale {
            self.scaled(means.into_iter().flatten(), &[divisor]);
        }
    }

    /// Adds a published value of a transport and the measured one beside it, or the changes of both.
    fn published(&mut self, summary: &Summary, caption: &str, transport: &str, heads: &[&str]) {
        let metric = heads.iter().rev().find_map(|head| metric_of(head));
        let (metric, divisor) = metric.expect("a metric");
        let divisor = if metric.unit == regatta_model::Unit::Ratio {
            0.01
        } else {
            divisor
        };
        // A caption with two conditions is that of a change.
        let to = caption.split('`').nth(3);
        let condition = to.unwrap_or_else(|| quoted(caption));
        let found = summary.published.iter().find(|it| {
            it.transport == transport && it.condition == condition && it.metric == metric.name
        });
        if let (Some(found), Some(_)) = (found, to) {
            let changes = [found.published_change, found.measured_change];
            (changes.into_iter().flatten()).for_each(|ratio| self.add(signed_percent(ratio - 1.0)));
        } else if let Some(found) = found {
            let measured = found
                .measured
                .into_iter()
                .chain(found.measured_ci95.into_iter().flatten());
            let limits = [found.path_at_least, found.path_at_most];
            let limits = limits.into_iter().flatten();
            self.scaled(measured.chain([found.published]).chain(limits), &[divisor]);
        }
    }
}

/// Returns the numbers that one cell of a table may have.
fn allowed(summary: &Summary, table: &str, caption: &str, row: &str, heads: &[&str]) -> Allowed {
    let mut allowed = Allowed::default();
    let condition = quoted(caption);
    let head = heads[heads.len() - 1];
    let is_here = |c: &str| c == condition;
    let cell = |transport: &str| {
        (summary.cells.iter()).find(|cell| cell.transport == transport && is_here(&cell.condition))
    };
    let of_metric =
        |allowed: &mut Allowed, transport: &str, (metric, divisor): (&MetricDefinition, f64)| {
            if let Some(of) = cell(transport).and_then(|cell| cell.metrics.get(metric.name)) {
                allowed.metric(of, &[divisor]);
            }
        };
    match table {
        "means" | "loss" if head == "trials" => {
            let cell = cell(row).expect("a cell");
            for count in [
                cell.n,
                u64::from(summary.rounds),
                cell.deadline_reached,
                cell.path_doubted,
            ] {
                allowed.add(count.to_string());
            }
        }
        "means" | "loss" => {
            if let Some(metric) = metric_of(head) {
                of_metric(&mut allowed, row, metric);
            }
        }
        "descriptions" => of_metric(&mut allowed, row, metric_of(caption).expect("a metric")),
        "every_metric" => of_metric(&mut allowed, head, metric_of(row).expect("a metric")),
        "differences" => {
            let (metric, _) = metric_of(head).expect("a metric");
            let to = caption.split('`').nth(3).unwrap_or_default();
            let found = summary
                .differences
                .iter()
                .find(|it| it.transport == row && it.to == to && it.metric == metric.name);
            allowed.claim(&found.expect("a difference").claim);
        }
        "comparisons" => {
            let (a, b) = row.split_once(" against ").expect("a pair");
            allowed.comparison(summary, condition, [a, b], caption, head);
            let cells = [a, b].into_iter().filter_map(cell);
            for failure in cells.flat_map(|cell| &cell.failures) {
                allowed.add(format!("{} {}", failure.count, failure.of));
                allowed.scaled([failure.ratio()], &[0.01]);
            }
        }
        "published" => allowed.published(summary, caption, row, heads),
        "outcomes" => {
            for cell in summary.cells.iter().filter(|cell| cell.transport == row) {
                allowed.add(format!(
                    "{:?} 0 {}",
                    cell.outcomes.values(),
                    cell.deadline_reached
                ));
                cell.reasons
                    .iter()
                    .for_each(|reason| allowed.add(reason.reasons.concat() + &reason.hint));
                allowed.add(&cell.condition);
            }
        }
        "path" => {
            for check in &summary.path_checks {
                allowed.add(&check.condition);
                for it in check
                    .quantities
                    .iter()
                    .filter(|it| it.name.starts_with(&row.replace(' ', "_")))
                {
                    allowed.scaled([it.asked, it.achieved, it.lowest, it.highest], &DIVISORS);
                    allowed.add(it.n.to_string());
                }
            }
        }
        _ => unreachable!("{table}"),
    }
    allowed
}

/// Returns the numbers that the sentences of the verdict may have, and those that the study, the environment and the
/// method state.
fn in_sentences(data: &RunData, summary: &Summary, pages: usize) -> Allowed {
    let mut allowed = Allowed::default();
    for verdict in &summary.verdict.conditions {
        let unit = metric::find(&verdict.metric).expect("a metric").unit;
        let others = verdict.not_ranked.iter().filter_map(|it| it.value);
        for value in verdict.ranking.iter().map(|it| it.value).chain(others) {
            allowed.add(regatta_report::format::quantity(unit, value));
        }
        if let Some(ratio) = verdict.detectable_ratio {
            allowed.add(ratio_number(ratio));
        }
        let claims = (summary.comparisons.iter())
            .filter(|it| it.metric == verdict.metric && it.condition == verdict.condition);
        claims.for_each(|it| allowed.claim(&it.claim));
    }
    for cell in &summary.cells {
        allowed.add(format!("{} {}", cell.n, cell.deadline_reached));
        for failure in &cell.failures {
            allowed.add(format!("{} {}", failure.count, failure.of));
            allowed.scaled([failure.ratio()], &[0.01]);
        }
        for reason in &cell.reasons {
            allowed.add(format!("{} {}", reason.count, reason.reasons.concat()));
        }
    }
    let State {
        gates,
        method,
        warnings,
    } = State {
        gates: summary.gates.iter().map(|gate| &*gate.detail).collect(),
        method: &summary.statistics.method,
        warnings: summary
            .warnings
            .iter()
            .map(|it| format!("{} {} {}", it.trials, it.warning.message, it.warning.hint))
            .collect(),
    };
    allowed.add(gates.join(" ") + &method.join(" ") + &warnings.join(" "));
    allowed.add(format!(
        "{} {} {}",
        summary.statistics.tests, summary.state.trials_saved, summary.state.trials_planned
    ));
    // Of the captions: time of the run, levels and percentiles of the method, one core.
    allowed.add("2026-11-21 00:00:00 95 80 1 100 10 3");
    (0..=pages).for_each(|page| allowed.add(page.to_string()));
    allowed.stated(&serde_json::to_value(&data.header).expect("JSON"));
    allowed.stated(&serde_json::to_value(&summary.warnings).expect("JSON"));
    allowed
}

/// Parts of a summary that are texts.
struct State<'a> {
    gates: Vec<&'a str>,
    method: &'a [String],
    warnings: Vec<String>,
}

/// Leaves out what is no result: axes of figures, terms, and the study's own text.
fn without_figures(document: &mut Value) {
    let page = &mut document["page"];
    page["terms"] = Value::Array(Vec::new());
    page["header"]["study_text"] = "".into();
    for figures in page["figures"]
        .as_object_mut()
        .expect("figures")
        .values_mut()
    {
        for figure in figures.as_array_mut().expect("a list") {
            for panel in figure["panels"].as_array_mut().expect("panels") {
                *panel = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 9 1\"/>".into();
            }
        }
    }
    for table in STATED {
        page[table]["rows"] = Value::Array(Vec::new());
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns the tables of a page under one name.
fn tables<'a>(document: &'a Value, name: &str) -> Vec<&'a Value> {
    match &document["page"][name] {
        Value::Array(tables) => tables.iter().collect(),
        table => vec![table],
    }
}

/// Returns what is wrong with the numbers of a document's PDF; empty if nothing is.
fn problems(data: &RunData, summary: &Summary, document: &Value) -> Vec<String> {
    let pdf = typeset_document(document);
    let squeeze = |text: &str| -> String { text.split_whitespace().collect() };
    let text_of_pdf = run("pdftotext", &pdf, &["-raw", "-"]);
    let pages = text_of_pdf.matches('\u{c}').count();
    let mut paper = Cutter::new(squeeze(&text_of_pdf));
    let mut problems = Vec::new();
    for name in TABLES {
        for table in tables(document, name) {
            let caption = text(&table["caption"]);
            paper.pass(&squeeze(&caption.replace('`', "")));
            let heads: Vec<&str> = (table["head"].as_array().expect("a head").iter())
                .map(text)
                .collect();
            for row in table["rows"].as_array().expect("rows") {
                let heading = text(&row["heading"]);
                paper.pass(&squeeze(heading));
                for (position, cell) in row["cells"].as_array().expect("cells").iter().enumerate() {
                    let heads = &heads[..position + 2];
                    let allowed = allowed(summary, name, caption, heading, heads);
                    let cell_text = format!("{} {}", text(&cell["text"]), text(&cell["sub"]));
                    let wrong = numbers(&cell_text);
                    for number in wrong.iter().filter(|it| !allowed.0.contains(*it)) {
                        let head = heads[position + 1];
                        problems.push(format!(
                            "{name}: {number} of `{heading}`, {head}: {caption}"
                        ));
                    }
                    if cell["words"] != true {
                        paper.cut(&squeeze(&cell_text));
                    }
                }
            }
        }
    }
    problems.extend(paper.missing);
    let mut paper = paper.text;
    for name in names(data) {
        paper = paper.replace(&squeeze(&name), " ");
    }
    let allowed = in_sentences(data, summary, pages);
    for number in numbers(&paper) {
        if !allowed.0.contains(&number) {
            problems.push(format!("{number} in a sentence or caption"));
        }
    }
    problems
}

/// Text of the paper, out of which the cells of the tables are cut in their order.
struct Cutter {
    text: String,
    /// End of what was found last.
    at: usize,
    missing: Vec<String>,
}

impl Cutter {
    fn new(text: String) -> Self {
        Self {
            text,
            at: 0,
            missing: Vec::new(),
        }
    }

    fn find(&mut self, text: &str) -> Option<usize> {
        let found = self.text[self.at..].find(text);
        if found.is_none() {
            self.missing.push(format!("`{text}` is not on the paper"));
        }
        Some(self.at + found?)
    }

    /// Goes on after this text.
    fn pass(&mut self, text: &str) {
        if let Some(found) = self.find(text) {
            self.at = found + text.len();
        }
    }

    /// Removes the text of a cell, so that what remains is in no table.
    fn cut(&mut self, cell: &str) {
        if let Some(found) = self.find(cell) {
            self.text.replace_range(found..found + cell.len(), " ");
            self.at = found + 1;
        }
    }
}

/// Returns the names of a run, whose digits are no numbers, the longest first.
fn names(data: &RunData) -> Vec<String> {
    let study = &data.header.study;
    let mut names: Vec<String> = vec![
        study.name.clone(),
        data.header.run_id.clone(),
        study.title.clone(),
        study.description.clone(),
        regatta_report::format::moment(data.header.started_unix_ns),
        "SHA-256".to_owned(),
    ];
    names.extend(study.transports.iter().map(|it| it.label.clone()));
    names.extend(study.conditions.iter().map(|it| it.name.clone()));
    names.extend(study.workloads.iter().map(|it| it.name.clone()));
    names.extend(
        METRICS
            .iter()
            .flat_map(|it| [it.name, it.title, it.definition].map(str::to_owned)),
    );
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    names
}

fn report() -> (RunData, Summary, Value) {
    let data = common::full();
    let summary = summarise(&data);
    let json = serde_json::to_string(&summary).expect("JSON");
    let mut document = document(&data, &summary, Paper::A4);
    without_figures(&mut document);
    (
        data,
        serde_json::from_str(&json).expect("its own text"),
        document,
    )
}

#[test]
fn every_number_is_in_the_summary() {
    let (data, summary, document) = report();
    let problems = problems(&data, &summary, &document);
    assert!(problems.is_empty(), "{problems:#?}");
}

#[test]
fn a_number_in_a_sentence_that_is_not_in_the_summary_is_found() {
    let (data, summary, mut document) = report();
    let mut template = text(&document["template"]).to_owned();
    let _ = write!(template, "\nAfter 4711 packets.\n");
    document["template"] = template.into();
    assert_eq!(
        problems(&data, &summary, &document),
        ["4711 in a sentence or caption"]
    );
}

#[test]
fn a_changed_number_of_any_table_is_found() {
    let (data, summary, document) = report();
    for name in [
        "means",
        "published",
        "differences",
        "loss",
        "comparisons",
        "descriptions",
        "every_metric",
    ] {
        let mut document = document.clone();
        let table = match &mut document["page"][name] {
            Value::Array(tables) => &mut tables[0],
            table => table,
        };
        let cells = table["rows"][0]["cells"].as_array_mut().expect("cells");
        let is_number = |cell: &&mut Value| {
            text(&cell["text"]).starts_with(|c: char| c.is_ascii_digit() || "−+".contains(c))
        };
        let cell = cells.iter_mut().find(is_number).expect("a number");
        let changed = format!("{}7", text(&cell["text"]).trim_end_matches(['%', '×', ' ']));
        cell["text"] = changed.into();
        let problems = problems(&data, &summary, &document);
        assert!(
            problems.iter().any(|problem| problem.starts_with(name)),
            "{name}: {problems:?}"
        );
    }
}
