//! Table of the answer, on a terminal and on a page: the metric of the ranking, how far the first is ahead, and the
//! metrics in which transports differ.

use itertools::Itertools as _;
use regatta_model::{
    Better,
    metric::{self, id},
};

use crate::{
    analysis::{Cell, ConditionVerdict, Ranked},
    format::{Scale, ahead},
    language::tr,
};

/// Columns of the table after the metric of the ranking: the metric, and its heading on two lines, of which the second ends
/// with the unit.
const COLUMNS: [(&str, &str); 12] = [
    (id::GOODPUT_BPS, "goodput"),
    (id::REQUESTS_PER_SECOND, "requests"),
    (id::TIME_TO_FIRST_BYTE_P50_NS, "first byte"),
    (id::TIME_TO_COMPLETION_P50_NS, "completion"),
    (id::MESSAGE_DELAY_P95_NS, "message p95"),
    (id::ROUND_TRIP_DELAY_P50_NS, "loaded RTT"),
    (id::STREAM_ROUND_TRIP_DELAY_P50_NS, "stream RTT"),
    (id::CPU_PER_BYTE_NS, "CPU"),
    (id::RETRANSMIT_RATIO, "retransmits"),
    (id::SET_UP_TIME_MEAN_NS, "set-up"),
    (id::MESSAGE_LOSS_RATIO, "lost"),
    (id::PEAK_MEMORY_SENDER_BYTES, "memory"),
];

/// Ratio of two values of a column from which they differ to a reader.
const DIFFERENT: f64 = 1.05;

/// Column of the table.
pub struct Column {
    /// Name of the metric.
    pub metric: &'static str,
    /// Unit of its values.
    pub scale: Scale,
    /// Heading, in English.
    pub heading: &'static str,
}

impl Column {
    /// Returns the text of a cell; of the metric of the ranking, `primary`, that of one without figures says why.
    pub fn text(&self, cell: &Cell, primary: &str) -> String {
        match cell.shown(self.metric) {
            Some((value, _)) => cell.text(self.metric, value, self.scale),
            None if cell.n == 0 && self.metric == primary => cell.outcomes_text(),
            None => "–".to_owned(),
        }
    }
}

/// Returns the columns in which cells differ, that of the ranking first.
pub fn columns(cells: &[&Cell], primary: &str) -> Vec<Column> {
    let heading = |name: &str| COLUMNS.iter().find(|(metric, _)| *metric == name);
    let Some(definition) = metric::find(primary) else {
        return Vec::new();
    };
    let own = (
        definition.name,
        heading(primary).map_or(definition.title, |(_, heading)| heading),
    );
    let others = COLUMNS.into_iter().filter(|(name, _)| *name != primary);
    let column = |(metric, heading): (&'static str, &'static str)| {
        let values = cells.iter().filter_map(|cell| Some(cell.shown(metric)?.0));
        let (least, most) = values.minmax().into_option()?;
        let is_alone = cells.iter().map(|cell| &cell.transport).all_equal();
        let differs = is_alone || metric == definition.name || most > least * DIFFERENT;
        differs.then(|| {
            Some(Column {
                metric,
                scale: Scale::for_largest(metric::find(metric)?.unit, most),
                heading,
            })
        })?
    };
    [own].into_iter().chain(others).filter_map(column).collect()
}

/// Returns how far the first of a group is ahead of another transport: the ratio of the first to it, of a time the ratio of it
/// to the first; `None` of the first itself.
pub fn lead_over(verdict: &ConditionVerdict, other: &Ranked) -> Option<String> {
    let is_time = metric::find(&verdict.metric).is_some_and(|it| it.better == Better::Lower);
    let turn = |ratio: f64| if is_time { ratio } else { 1.0 / ratio };
    let interval = other.leader_interval.map(|ends| {
        let [a, b] = ends.map(turn);
        [a.min(b), a.max(b)]
    });
    Some(ahead(turn(other.ratio_to_leader?), interval))
}

/// Returns the entry of a cell about how far the first of its group is ahead.
pub fn lead_over_cell(verdict: Option<&ConditionVerdict>, cell: &Cell) -> String {
    let ranked = verdict.map(|verdict| {
        let mut ranking = verdict.ranking.iter();
        (verdict, ranking.find(|it| it.transport == cell.transport))
    });
    match ranked {
        Some((_, None)) if cell.n > 0 => tr!("not ranked"),
        Some((verdict, Some(ranked))) => {
            lead_over(verdict, ranked).unwrap_or_else(|| "–".to_owned())
        }
        _ => "–".to_owned(),
    }
}
