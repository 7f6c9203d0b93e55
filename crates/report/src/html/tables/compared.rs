//! Tables of differences: between conditions, between transports, and from published figures.

use std::collections::BTreeSet;

use itertools::Itertools as _;
use regatta_model::{
    MetricDefinition,
    metric::{self, Place, names_in},
};

use super::{
    Entry, Row, Table, after_transport, definitions, figure, figure_over, interval, none, row,
    scale, transport_row,
};
use crate::{
    RunData, Summary,
    analysis::{Comparison, Difference, Failure, PublishedBeside, compared_metrics},
    format::{
        Scale, capital, grouped, is_narrow, is_of_equals, list, number, p_value, signed_percent,
        with_interval, without_zeros,
    },
    html::figures::Styles,
    language::{self, decimal, tr},
};

/// Returns the tables of each transport's differences under each further condition.
pub fn differences(data: &RunData, summary: &Summary) -> Vec<Table> {
    let study = &data.header.study;
    let styles = Styles::of(data);
    let mut tables = Vec::new();
    let first = study.conditions.first().map_or("", |first| &first.name);
    let groups = data.plain_groups();
    for group in groups.filter(|group| group.condition.name != first) {
        let differences = summary.differences.iter();
        let here: Vec<&Difference> = differences
            .filter(|it| group.is(&it.to, &it.workload))
            .collect();
        let of = |transport: &str, metric: &str| {
            let mut here = here.iter();
            here.find(|it| it.transport == transport && it.metric == metric)
        };
        let mut columns = definitions(&Vec::from_iter(names_in(Place::Differences)));
        columns.retain(|column| here.iter().any(|it| it.metric == column.name));
        if columns.is_empty() {
            continue;
        }
        let head = (columns.iter()).map(|column| language::text(column.title).to_owned());
        let caption = tr!(
            "Change of the geometric means from `{}` to {}, with its interval at the level of the run's correction",
            first,
            group.text()
        );
        let transports = study.transports.iter().map(|it| &it.label);
        let rows = transports
            .filter(|label| here.iter().any(|it| it.transport == **label))
            .map(|label| {
                let changes = columns.iter().map(|column| of(label, column.name));
                let changes = changes.map(|it| it.map_or_else(none, |it| change(it)));
                transport_row(&styles, label, changes)
            });
        tables.push(Table::new(caption, after_transport(head), rows).under(&group.condition.name));
    }
    tables
}

fn change(difference: &Difference) -> Entry {
    let percent = |ratio: f64| signed_percent(ratio - 1.0);
    let claim = &difference.claim;
    let ratio = claim.ratio.map_or_else(|| "–".to_owned(), percent);
    match claim.interval {
        Some(ends) if !is_narrow(ends) => figure_over("–", tr!("too few rounds")),
        Some(ends) if is_of_equals(ends) => figure_over(ratio, tr!("equal in all rounds")),
        ends => figure_over(ratio, interval(ends.map(|ends| ends.map(percent)))),
    }
}

/// Returns the tables of all pairs.
pub fn comparisons(data: &RunData, summary: &Summary) -> Vec<Table> {
    let mut tables = Vec::new();
    for definition in definitions(&compared_metrics(&data.header.study)) {
        let scale = scale(summary, definition);
        for group in data.plain_groups() {
            let of_metric = (summary.comparisons.iter()).filter(|c| c.metric == definition.name);
            let here = of_metric.filter(|c| group.is(&c.condition, &c.workload));
            let rows: Vec<Row> = here.map(|c| pair(summary, c, scale)).collect();
            if rows.is_empty() {
                continue;
            }
            let caption = tr!(
                "{}: every pair under {}",
                capital(language::text(definition.title)),
                group.text()
            );
            let head = [
                tr!("pair"),
                tr!("ratio"),
                scale.heading("first"),
                scale.heading("second"),
                tr!("p, adjusted"),
                tr!("rounds"),
                tr!("detectable"),
                tr!("the first is"),
            ];
            let is_primary = data.is_primary(definition.name, &group.workload.name);
            let table = Table::new(caption, head, rows).under(&group.condition.name);
            tables.push(table.folded(!is_primary));
        }
    }
    tables
}

/// Returns the row of a pair of transports.
fn pair(summary: &Summary, c: &Comparison, scale: Scale) -> Row {
    let claim = &c.claim;
    let lossy = |label: &str| {
        let cell = summary.cell(label, &c.condition, &c.workload)?;
        let failures = list(cell.failures.iter().map(Failure::text));
        (!failures.is_empty()).then(|| format!("{label}: {failures}"))
    };
    let failures = [lossy(&c.a), lossy(&c.b)].into_iter().flatten().join("; ");
    let mean = |mean: Option<f64>| mean.map_or_else(none, |m| figure(scale.text(m)));
    let times = |ratio: Option<f64>, text: &dyn Fn(f64) -> String| {
        ratio.map_or_else(none, |ratio| figure(format!("{}×", text(ratio))))
    };
    let ratio = match (claim.ratio, claim.interval) {
        (_, Some(ends)) if !is_narrow(ends) => figure_over("–", tr!("too few rounds")),
        (Some(ratio), Some(ends)) if is_of_equals(ends) => {
            figure_over(format!("{}×", number(ratio)), tr!("equal in all rounds"))
        }
        (Some(ratio), Some(ends)) => {
            let [ratio, low, high] = with_interval(ratio, ends);
            let ends = interval(Some([low, high])) + &tr!(" at {} %", level(claim.confidence));
            figure_over(format!("{ratio}×"), ends)
        }
        (ratio, _) => times(ratio, &number),
    };
    let cells = [
        ratio,
        mean(c.mean_a),
        mean(c.mean_b),
        claim.p_adjusted.map_or_else(none, |p| figure(p_value(p))),
        figure(claim.n.to_string()),
        times(
            claim.detectable_ratio.filter(|ratio| *ratio <= 3.0),
            &number,
        ),
        Entry {
            words: true,
            ..figure_over(language::text(claim.conclusion.name()), failures)
        },
    ];
    row(tr!("{} against {}", c.a, c.b), cells)
}

/// Formats a confidence in per cent with as many digits as distinguish it from 100.
fn level(confidence: f64) -> String {
    let percent = format!("{:.4}", confidence * 100.0);
    decimal(without_zeros(&percent).to_owned())
}

/// Returns the notes on published figures, each once with the figures that it is about.
pub fn published_notes(summary: &Summary) -> Vec<String> {
    let noted = summary.published.iter();
    let noted = noted.filter_map(|it| Some(((&it.transport, it.note.as_ref()?), name_of(it))));
    let notes = grouped(noted).into_iter();
    let notes = notes.map(|((transport, note), figures)| {
        let all = summary.published.iter().map(|it| &it.transport);
        match figures.len() == all.filter(|it| *it == transport).count() {
            true => format!("`{transport}`: {note}"),
            false => format!("`{transport}`, {}: {note}", list(&figures)),
        }
    });
    notes.collect()
}

/// Names a published figure by its metric and its place in the study.
fn name_of(figure: &PublishedBeside) -> String {
    let workload = figure.workload.as_ref();
    let with = workload.map_or_else(String::new, |workload| tr!(" with `{}`", workload));
    tr!("`{}` under `{}`", figure.metric, figure.condition) + &with
}

/// Returns tables of published figures beside the measured ones, one for each condition and
/// workload.
pub fn published(data: &RunData, summary: &Summary) -> Vec<Table> {
    let study = &data.header.study;
    let mut tables = Vec::new();
    // Figures that name no workload stand before those that do.
    let workloads = study.workloads.iter().map(|workload| Some(&workload.name));
    let workloads = std::iter::once(None).chain(workloads);
    let conditions = study.conditions.iter().map(|condition| &condition.name);
    for (condition, workload) in conditions.cartesian_product(workloads) {
        let figures = summary.published.iter();
        let here: Vec<&PublishedBeside> = figures
            .filter(|p| p.condition == *condition && p.workload.as_ref() == workload)
            .collect();
        if here.is_empty() {
            continue;
        }
        let with = workload.map_or_else(String::new, |workload| tr!(" with `{}`", workload));
        let caption = tr!("Published beside measured, under `{}`{}", condition, with);
        tables.push(beside(data, &here, caption).under(condition));
        let changes = changes_beside(data, &here, &with);
        tables.extend(changes.map(|table| table.under(condition)));
    }
    tables
}

/// Returns the table of what some published figures, all of one condition, change from the first one, beside what the
/// measured ones do.
fn changes_beside(data: &RunData, figures: &[&PublishedBeside], with: &str) -> Option<Table> {
    let changed: Vec<&PublishedBeside> = (figures.iter().copied())
        .filter(|it| it.published_change.is_some())
        .collect();
    let (to, from) = (changed.first()?, data.header.study.conditions.first()?);
    let caption = tr!(
        "Published and measured change from `{}` to `{}`{}",
        from.name,
        to.condition,
        with
    );
    let change =
        |ratio: Option<f64>| ratio.map_or_else(none, |ratio| figure(signed_percent(ratio - 1.0)));
    Some(of_transports(
        data,
        &changed,
        caption,
        |column, _| language::text(column.title).to_owned(),
        |it, _| [change(it.published_change), change(it.measured_change)],
    ))
}

/// Returns the table of some published figures beside the measured ones.
fn beside(data: &RunData, figures: &[&PublishedBeside], caption: String) -> Table {
    let cells = |it: &PublishedBeside, scale: Scale| {
        let permits = permitted(it, scale);
        let measured = it.measured.map_or_else(none, |measured| {
            let ends = it.measured_ci95.filter(|ends| !is_of_equals(*ends));
            let ends = ends.map(|ends| scale.ends(measured, ends));
            figure_over(scale.text(measured), interval(ends))
        });
        [figure_over(scale.text(it.published), permits), measured]
    };
    let heading = |column: &MetricDefinition, scale: Scale| scale.heading(column.title);
    of_transports(data, figures, caption, heading, cells)
}

/// Says whether the path permits a published figure, and which limit it misses.
fn permitted(figure: &PublishedBeside, scale: Scale) -> String {
    let missed = |limit: Option<f64>, is_missed: fn(&f64, &f64) -> bool| {
        limit.filter(|limit| is_missed(&figure.published, limit))
    };
    let least = missed(figure.path_at_least, |value, limit| value < limit);
    let most = missed(figure.path_at_most, |value, limit| value > limit);
    match (figure.path_permits, least, most) {
        (None, ..) => String::new(),
        (Some(true), ..) => tr!("possible over the path"),
        (Some(false), Some(least), _) => {
            tr!("not possible over the path: at least {}", scale.text(least))
        }
        (Some(false), _, Some(most)) => {
            tr!("not possible over the path: at most {}", scale.text(most))
        }
        (Some(false), ..) => tr!("not possible over the path"),
    }
}

/// Returns the table with a row for each transport of some published figures, and two columns for each of their metrics:
/// published and measured, as `cells` makes them of a figure.
fn of_transports(
    data: &RunData,
    figures: &[&PublishedBeside],
    caption: String,
    heading: impl Fn(&MetricDefinition, Scale) -> String,
    cells: impl Fn(&PublishedBeside, Scale) -> [Entry; 2],
) -> Table {
    let names: BTreeSet<&str> = figures.iter().map(|p| p.metric.as_str()).collect();
    let columns: Vec<(&MetricDefinition, Scale)> = (metric::METRICS.iter())
        .filter(|m| names.contains(m.name))
        .map(|column| {
            let values = figures.iter().filter(|p| p.metric == column.name);
            let values = values.map(|p| p.published.max(p.measured.unwrap_or(0.0)));
            let largest = values.fold(0.0, f64::max);
            (column, Scale::for_largest(column.unit, largest))
        })
        .collect();
    let labels = figures.iter().map(|it| &it.transport).unique();
    let head = columns.iter().flat_map(|(column, scale)| {
        let published = tr!("{}: published", heading(column, *scale));
        [published, tr!("measured")]
    });
    let head = after_transport(head);
    let of_column = |label: &str, (column, scale): &(&MetricDefinition, Scale)| {
        let mut of_label = figures.iter().filter(|p| p.transport == label);
        let found = of_label.find(|p| p.metric == column.name);
        found.map_or_else(|| [none(), none()], |found| cells(found, *scale))
    };
    let styles = Styles::of(data);
    let rows = labels.map(|label| {
        let cells = columns.iter().flat_map(|column| of_column(label, column));
        transport_row(&styles, label, cells)
    });
    Table::new(caption, head, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figures of several workloads have the same note: their names tell them apart.
    #[test]
    fn the_name_of_a_published_figure_has_its_workload() {
        let mut figure = PublishedBeside {
            transport: "udp".to_owned(),
            condition: "unimpaired".to_owned(),
            workload: Some("stream-1".to_owned()),
            metric: "goodput_bps".to_owned(),
            unit: "bps".to_owned(),
            published: 1.0,
            measured: None,
            measured_ci95: None,
            ratio: None,
            published_change: None,
            measured_change: None,
            note: None,
            path_permits: None,
            path_at_least: None,
            path_at_most: None,
        };
        assert_eq!(
            name_of(&figure),
            "`goodput_bps` under `unimpaired` with `stream-1`"
        );
        figure.workload = None;
        assert_eq!(name_of(&figure), "`goodput_bps` under `unimpaired`");
    }
}
