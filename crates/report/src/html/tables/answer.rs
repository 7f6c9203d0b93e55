//! Tables of the answer: a row for each transport, the best first.

use super::{
    Entry, Row, Table, after_transport, cells_of, figure, figure_over, row, text_cell,
    transport_row,
};
use crate::{
    RunData, Summary,
    analysis::Cell,
    answer::{columns, lead_over_cell, most_telling, place_head},
    html::figures::Styles,
    language::{plural, tr},
};

/// Maximum number of rows of the tables on the first screen; of more, the most telling comparisons stand there.
const MAX_ROWS: usize = 24;

/// Returns a table for each condition and workload; none where there are too many for one screen, which has [`telling`].
pub fn answer(data: &RunData, summary: &Summary) -> Vec<Table> {
    let styles = Styles::of(data);
    let rows: usize = (data.plain_groups())
        .map(|group| cells_of(summary, group).count())
        .sum();
    if rows > MAX_ROWS || data.groups().any(|group| group.is_swept) {
        return Vec::new();
    }
    let of_group = |group: crate::data::CellGroup<'_>| {
        let verdict =
            (summary.verdict.conditions.iter()).find(|it| group.is(&it.condition, &it.workload))?;
        let of_work = |cell: &&Cell| cell.workload == group.workload.name;
        let all: Vec<&Cell> = summary.cells.iter().filter(of_work).collect();
        let columns = columns(&all, &verdict.metric);
        let mut cells: Vec<&Cell> = cells_of(summary, group).collect();
        cells.sort_by_key(|cell| verdict.rank(&cell.transport).unwrap_or(usize::MAX));
        let is_compared = verdict.ranking.len() > 1;
        let mut head = Vec::new();
        for column in &columns {
            head.push(column.scale.heading(column.heading));
            if column.metric == verdict.metric && is_compared {
                head.push(tr!("first ahead by"));
            }
        }
        head.push(tr!("trials"));
        let row = |cell: &Cell| -> Row {
            let mut entries = Vec::new();
            for column in &columns {
                entries.push(figure(column.text(cell, &verdict.metric)));
                if column.metric == verdict.metric && is_compared {
                    entries.push(lead(lead_over_cell(Some(verdict), cell)));
                }
            }
            entries.push(figure(tr!("{} of {}", cell.n, summary.trials_of(cell))));
            transport_row(&styles, &cell.transport, entries)
        };
        let path = match group.condition.name.contains(' ') {
            true => String::new(),
            false => format!(": {}", verdict.path),
        };
        let limits: String = verdict.limits.iter().map(|it| format!("; {it}")).collect();
        let caption = format!("{}{path}{limits}", group.heading());
        let table = Table::new(caption, after_transport(head), cells.into_iter().map(row));
        Some(table.under(&group.condition.name))
    };
    data.plain_groups().filter_map(of_group).collect()
}

/// Returns the entry of a lead, `RATIO [INTERVAL]`, with the interval below the ratio.
fn lead(text: String) -> Entry {
    match text.split_once(" [") {
        Some((ratio, interval)) => figure_over(ratio, format!("[{interval}")),
        None => figure(text),
    }
}

/// Returns the table of the most telling comparisons; none without comparisons.
pub fn telling(summary: &Summary) -> Option<Table> {
    let (places, further) = most_telling(summary);
    let caption = match further {
        0 => tr!("the most telling"),
        _ => plural!(
            further as u64,
            "the most telling; {} further place is among the results",
            "the most telling; {} further places are among the results"
        ),
    };
    let rows = places.iter().map(|place| {
        let [first, value, next, ratio] = place.texts();
        let cells = [
            text_cell(first),
            figure(value),
            text_cell(next),
            lead(ratio),
        ];
        row(&place.name, cells)
    });
    let rows: Vec<Row> = rows.collect();
    let head = [tr!("place")].into_iter().chain(place_head());
    (!rows.is_empty()).then(|| Table::new(caption, head, rows))
}
