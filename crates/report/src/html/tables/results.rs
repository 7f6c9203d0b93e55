//! Tables of the measured values.

use itertools::Itertools as _;
use regatta_model::{
    MetricDefinition,
    metric::{Place, id, shown_in},
};

use super::{
    Columns, Entry, Row, Table, after_transport, cells_of, definitions, figure, figure_over,
    mean_entry, none, row, scale, transport_row,
};
use crate::{
    RunData, Summary,
    analysis::{Cell, compared_metrics, other_means},
    data::CellGroup,
    format::{is_of_equals, number},
    html::figures::Styles,
    language::{self, tr},
};

/// Iterates over the metrics in the columns of the table of means.
pub fn columns<'a>() -> impl Iterator<Item = &'a str> {
    let listed =
        shown_in(|place| matches!(place, Place::Column(_) | Place::PageColumn).then_some(()));
    listed.map(|(metric, ())| metric.name)
}

/// Returns tables of means with their interval, one for each condition.
pub fn means(data: &RunData, summary: &Summary) -> Vec<Table> {
    let styles = Styles::of(data);
    let of_group = |group: CellGroup<'_>| {
        // The columns of this work, the same under every condition.
        let mut cells = cells_of(summary, group);
        let own = cells.find_map(|cell| cell.ranked_by.as_deref());
        let own = own.filter(|metric| columns().all(|column| column != *metric));
        let names: Vec<&str> = own.into_iter().chain(columns()).collect();
        let of_work = |cell: &Cell| cell.workload == group.workload.name;
        let columns = Columns::present(summary, &definitions(&names), of_work);
        let verdict = (summary.verdict.conditions.iter())
            .find(|verdict| group.is(&verdict.condition, &verdict.workload));
        let letters = |cell: &Cell| verdict.and_then(|verdict| verdict.letters(&cell.transport));
        let cells: Vec<&Cell> = cells_of(summary, group).collect();
        let grouped = cells.iter().any(|cell| letters(cell).is_some());
        let letter = grouped.then(|| tr!("group")).into_iter();
        let head = letter.chain(columns.headings()).chain([tr!("trials")]);
        let head = after_transport(head);
        let of_groups = grouped.then(|| tr!("; transports of a group cannot be told apart"));
        let of_groups = of_groups.unwrap_or_default();
        let errors = of_clocks(&cells);
        let caption = tr!(
            "Geometric means under {} (of loss the means), with the 95 % confidence interval of each alone, which is not for comparisons{}{}{}",
            group.text(),
            other_means(&cells).unwrap_or_default(),
            of_groups,
            errors
        );
        let row = |cell: &Cell| {
            let mut means: Vec<Entry> = columns.means(cell).collect();
            if cell.n == 0
                && let Some(first) = means.first_mut()
            {
                *first = figure(cell.outcomes_text());
            }
            let group = grouped.then(|| letters(cell).map_or_else(none, figure));
            let entries = group.into_iter().chain(means);
            let entries = entries.chain([trials(summary, cell)]);
            Row {
                anchor: cell_anchor(summary, cell),
                ..transport_row(&styles, &cell.transport, entries)
            }
        };
        Table::new(caption, head, cells.into_iter().map(row)).under(&group.condition.name)
    };
    data.plain_groups().map(of_group).collect()
}

/// Returns the name of the row of a cell, to which links lead.
pub fn cell_anchor(summary: &Summary, cell: &Cell) -> String {
    let position = summary.cells.iter().position(|it| std::ptr::eq(it, cell));
    position.map_or_else(String::new, |position| format!("cell-{position}"))
}

/// Returns the part of a caption about the errors behind delays from one host to the other, if these cells have any.
fn of_clocks(cells: &[&Cell]) -> String {
    match cells.iter().any(|cell| !cell.clock_errors_ns.is_empty()) {
        true => tr!("; ± largest error from the offset between the hosts' clocks"),
        false => String::new(),
    }
}

/// Returns the number of measured trials of a cell, with those at the deadline or over a doubtful path.
fn trials(summary: &Summary, cell: &Cell) -> Entry {
    let (late, doubted) = (cell.deadline_reached, cell.path_doubted);
    let late = (late > 0).then(|| tr!("{} at the deadline", late));
    let doubted = (doubted > 0).then(|| tr!("{} over a doubtful path", doubted));
    let number = tr!("{} of {}", cell.n, summary.trials_of(cell));
    figure_over(number, late.into_iter().chain(doubted).join(", "))
}

/// Returns the whole description of the headline metrics and of host CPU.
pub fn descriptions(data: &RunData, summary: &Summary) -> Vec<Table> {
    const HEAD: [&str; 11] = [
        "transport",
        "n",
        "mean",
        "standard deviation",
        "coefficient of variation",
        "95 % interval of the mean",
        "geometric mean",
        "95 % interval of the geometric mean",
        "median",
        "quartiles",
        "range",
    ];
    let styles = Styles::of(data);
    let mut tables = Vec::new();
    let mut names = compared_metrics(&data.header.study);
    names.insert(names.len() - 1, id::CPU_HOST_RATIO);
    for definition in definitions(&names) {
        let scale = scale(summary, definition);
        let value = |value: Option<f64>| value.map_or_else(none, |v| figure(scale.text(v)));
        let span = |[low, high]: [String; 2]| figure(tr!("{} to {}", low, high));
        let interval = |estimate: Option<f64>, ends: Option<[f64; 2]>| match estimate.zip(ends) {
            None => none(),
            Some((_, ends)) if is_of_equals(ends) => figure(tr!("equal in all trials")),
            Some((estimate, ends)) => span(scale.ends(estimate, ends)),
        };
        let values = |ends: [f64; 2]| span(ends.map(|end| scale.text(end)));
        for group in data.plain_groups() {
            let rows: Vec<Row> = cells_of(summary, group)
                .filter_map(|cell| {
                    let m = cell.metrics.get(definition.name)?;
                    let cv = m.cv.map(|cv| format!("{} %", number(cv * 100.0)));
                    let cells = [
                        figure(m.n.to_string()),
                        value(Some(m.mean)),
                        value(m.sd),
                        cv.map_or_else(none, figure),
                        interval(Some(m.mean), m.ci95),
                        value(m.geometric_mean),
                        interval(m.geometric_mean, m.geometric_ci95),
                        value(Some(m.median)),
                        values([m.q1, m.q3]),
                        values([m.min, m.max]),
                    ];
                    Some(transport_row(&styles, &cell.transport, cells))
                })
                .collect();
            if !rows.is_empty() {
                let caption = tr!("{} under {}", scale.heading(definition.title), group.text());
                let table = Table::new(caption, HEAD.map(language::text), rows);
                tables.push(table.under(&group.condition.name).folded(true));
            }
        }
    }
    tables
}

/// Returns the tables of losses, by the place where they occurred.
pub fn loss(data: &RunData, summary: &Summary) -> Vec<Table> {
    let metrics = shown_in(|place| match place {
        Place::Loss(position) => Some(position),
        _ => None,
    });
    let metrics = metrics.sorted_by_key(|(_, position)| *position);
    let metrics: Vec<&MetricDefinition> = metrics.map(|(metric, _)| metric).collect();
    let columns = Columns::present(summary, &metrics, |_| true);
    if columns.0.is_empty() {
        return Vec::new();
    }
    let styles = Styles::of(data);
    let of_group = |group: CellGroup<'_>| {
        let caption = tr!("Loss under {}", group.text());
        let head = after_transport(columns.headings());
        let cells = cells_of(summary, group).filter(|cell| cell.n > 0);
        let rows = cells.map(|it| transport_row(&styles, &it.transport, columns.means(it)));
        Table::new(caption, head, rows).under(&group.condition.name)
    };
    data.plain_groups().map(of_group).collect()
}

/// Returns tables of all measured metrics, by condition: metrics down, transports across.
pub fn every_metric(data: &RunData, summary: &Summary) -> Vec<Table> {
    let metrics = data.metrics_that_occur();
    let of_group = |group: CellGroup<'_>| {
        let cells: Vec<&Cell> = cells_of(summary, group).filter(|c| c.n > 0).collect();
        let head = cells.iter().map(|cell| cell.transport.as_str());
        let is_here = |name: &str| cells.iter().any(|cell| cell.metrics.contains_key(name));
        let here = metrics.iter().filter(|metric| is_here(metric.name));
        let rows = here.map(|m| {
            let scale = scale(summary, m);
            let means = cells.iter().map(|cell| mean_entry(cell, m.name, scale));
            row(scale.heading(m.title), means)
        });
        let errors = of_clocks(&cells);
        let caption = tr!(
            "Every metric under {}: means with their 95 % confidence interval{}",
            group.text(),
            errors
        );
        let first = tr!("metric");
        let head = [first.as_str()].into_iter().chain(head);
        let table = Table::new(caption, head, rows);
        (!cells.is_empty()).then(|| table.under(&group.condition.name).folded(true))
    };
    data.plain_groups().filter_map(of_group).collect()
}
